"""Exported graphs against the models they were made of, which are tested against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray
from oracle.cases import (
    TARGET_VOCAB,
    arrays_of,
    every_case,
    tiny_batch,
    tiny_config,
    tiny_model,
)

from seq2seq.config import ModelConfig
from seq2seq.device import has_vnni
from seq2seq.model.translation_model import TranslationModel
from seq2seq.onnx import Precision
from seq2seq.onnx.graphs import embedding_graph, encoder_graph, step_graph

Array = NDArray[Any]
STEPS = 3
LENGTHS = (4, 1, 60, 5)


def session(graph: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.add_session_config_entry("session.x64quantprecision", "0" if has_vnni() else "1")
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run(session: onnxruntime.InferenceSession, feeds: dict[str, Array]) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


class Exported:
    """A model's graphs, run over the same random targets as the model."""

    def __init__(self, trained: TranslationModel, precision: Precision) -> None:
        model = arrays_of(trained)
        self.encoder = session(encoder_graph(model, precision=precision))
        self.embedding = session(embedding_graph(model, precision=precision))
        self.step = session(step_graph(model, precision=precision))

    def steps(self, source_BS: Array, tokens_TBK: Array, parents_TBK: Array) -> dict[str, Array]:
        """Return all outputs of the steps [T, B, K, ...]; hypotheses are reordered between them."""
        memory = run(self.encoder, {"source": source_BS})
        state_BKZ = np.repeat(memory.pop("state")[:, None], tokens_TBK.shape[2], 1)
        found: list[dict[str, Array]] = []
        for tokens_BK, parents_BK in zip(tokens_TBK, parents_TBK, strict=True):
            inputs_NX = run(self.embedding, {"pieces": tokens_BK.ravel()})["inputs"]
            inputs_BKX = inputs_NX.reshape(*tokens_BK.shape, -1)
            outputs = run(self.step, {"inputs": inputs_BKX, "state": state_BKZ, **memory})
            state_BKZ = np.take_along_axis(outputs["next_state"], parents_BK[..., None], 1)
            found.append(outputs)
        return {name: np.stack([outputs[name] for outputs in found]) for name in found[0]}


@torch.no_grad()
def plain_steps(
    model: TranslationModel, source_BS: Array, tokens_TBK: Array, parents_TBK: Array
) -> dict[str, Array]:
    """Return what Exported.steps does."""
    source, (_, batch, count) = torch.from_numpy(source_BS), tokens_TBK.shape
    decoding = model.decoding(source, source != 0)
    state = decoding.start().select(torch.arange(batch).repeat_interleave(count))
    found: list[dict[str, Array]] = []
    for tokens_BK, parents_BK in zip(tokens_TBK, parents_TBK, strict=True):
        logits_RV, weights_RS, state = decoding.step(torch.from_numpy(tokens_BK).flatten(), state)
        fed = [] if state.attentional_RO is None else [state.attentional_RO]
        outputs = {
            "log_probs": logits_RV.log_softmax(-1),
            "next_state": torch.cat([*state.hidden, *fed], -1),
            **({} if weights_RS is None else {"weights": weights_RS}),
        }
        found.append({k: v.view(batch, count, -1).numpy() for k, v in outputs.items()})
        rows_BK = parents_BK + np.arange(batch)[:, None] * count
        state = state.select(torch.from_numpy(rows_BK).flatten())
    return {name: np.stack([outputs[name] for outputs in found]) for name in found[0]}


def drawn(batch: int, count: int, seed: int = 1) -> tuple[Array, Array]:
    """Return random target pieces and parents [T, B, K]."""
    generator = np.random.default_rng(seed)
    shape = (STEPS, batch, count)
    return generator.integers(4, TARGET_VOCAB, shape), generator.integers(0, count, shape)


def assert_close(found: dict[str, Array], expected: dict[str, Array], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(
            found[name], values[..., : found[name].shape[-1]], rtol=0, atol=tolerance, err_msg=name
        )


@pytest.mark.parametrize("count", [1, 3])
@every_case
def test_graphs_match_model(config: ModelConfig, count: int) -> None:
    model = tiny_model(config)
    source_BS = tiny_batch(LENGTHS).source_BS.numpy()
    targets = drawn(len(LENGTHS), count)
    expected = plain_steps(model, source_BS, *targets)
    found = Exported(model, "fp32").steps(source_BS, *targets)
    assert_close(found, expected, 1e-4)
    if "weights" in found:
        assert np.array_equal(found["weights"] == 0, expected["weights"] == 0)


@every_case
def test_graphs_of_large_batches_match_model(config: ModelConfig) -> None:
    model = tiny_model(config)
    lengths = tuple(np.random.default_rng(2).integers(1, 61, 64).tolist())
    source_BS, targets = tiny_batch(lengths).source_BS.numpy(), drawn(64, 1)
    found = Exported(model, "fp32").steps(source_BS, *targets)
    assert_close(found, plain_steps(model, source_BS, *targets), 1e-4)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@every_case
def test_graphs_are_valid(config: ModelConfig, precision: Precision) -> None:
    model = arrays_of(tiny_model(config))
    for make in (encoder_graph, embedding_graph, step_graph):
        onnx.checker.check_model(make(model, precision=precision), full_check=True)
    model.check_all_read()


@every_case
def test_step_reads_memory_of_encoder(config: ModelConfig) -> None:
    exported = Exported(tiny_model(config), "fp32")
    memory = {output.name: output.shape for output in exported.encoder.get_outputs()}
    inputs = {given.name: given.shape for given in exported.step.get_inputs()}
    assert memory.pop("state") == ["B", inputs["state"][2]]
    [embedded] = exported.embedding.get_outputs()
    assert inputs.pop("inputs") == ["B", "K", embedded.shape[1]]
    assert inputs.pop("state")[:2] == ["B", "K"]
    assert inputs == memory
    assert all(shape[0] == "B" for shape in memory.values())


def test_int8_weights_are_in_the_graph_of_their_product() -> None:
    """Where signed weights would overflow, ONNX Runtime makes only these unsigned."""

    def weights(graph: onnx.GraphProto) -> Iterator[bool]:
        held = {tensor.name for tensor in graph.initializer}
        for node in graph.node:
            if node.op_type == "MatMulIntegerToFloat":
                yield node.input[1] in held
            for attribute in node.attribute:
                yield from weights(attribute.g)

    model = arrays_of(tiny_model(tiny_config()))
    for make in (encoder_graph, embedding_graph, step_graph):
        found = [*weights(make(model, precision="int8").graph)]
        assert found
        assert all(found)


@every_case
def test_int8_is_close(config: ModelConfig) -> None:
    """Errors are relative to the spread; weights of 0.5 make states chaotic."""
    model = tiny_model(config)
    source_BS, targets = tiny_batch(LENGTHS).source_BS.numpy(), drawn(len(LENGTHS), 3)
    expected = plain_steps(model, source_BS, *targets)
    found = Exported(model, "int8").steps(source_BS, *targets)
    assert found.keys() == expected.keys()
    for name in ("log_probs", "next_state"):
        assert np.abs(found[name] - expected[name]).mean() < 0.08 * expected[name].std(), name
    if "weights" in found:
        assert np.array_equal(found["weights"] == 0, expected["weights"] == 0)
        np.testing.assert_allclose(found["weights"].sum(-1), 1, rtol=0, atol=1e-5)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@every_case
def test_sentence_does_not_depend_on_its_batch(config: ModelConfig, precision: Precision) -> None:
    exported = Exported(tiny_model(config), precision)
    batch, targets = tiny_batch(LENGTHS, padding=3), drawn(len(LENGTHS), 3)
    together = exported.steps(batch.source_BS.numpy(), *targets)
    for number, source in enumerate(batch.sources):
        alone = exported.steps(np.array([source]), *(x[:, [number]] for x in targets))
        expected = {name: values[:, [number]] for name, values in together.items()}
        assert_close(alone, expected, 1e-5)

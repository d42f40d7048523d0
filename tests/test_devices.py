"""The same numbers on every device: a GPU is tried where there is one, the CPU always."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ToyCorpus, toy_pairs
from oracle.cases import (
    NO_GPU,
    SOURCE_VOCAB,
    TARGET_VOCAB,
    every_case,
    on_each_device,
    tiny_config,
    tiny_model,
)
from same_runs import assert_same
from test_replay import SHORT
from test_replay import batch as mixed_batch
from test_replay import gradients as replayed

from seq2seq.config import ModelConfig, TrainingConfig
from seq2seq.data.batching import Batch, make_batch
from seq2seq.device import cpu_flags, multiplies_bf16, multiplies_int8
from seq2seq.inference.translator import Translator
from seq2seq.model.model import TranslationModel
from seq2seq.pipeline import train
from seq2seq.runs.directory import RunDirectory
from seq2seq.training.loss import teacher_forced_loss
from seq2seq.training.replay import CudaGraphs, Passes
from seq2seq.training.trainer import Trainer


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    """Keep a GPU from rounding the inputs of fp32 products."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


def batch() -> Batch:
    """Return sentences of several lengths."""
    generator = torch.Generator().manual_seed(3)
    sources, targets = [
        [torch.randint(4, size, (length,), generator=generator).tolist() for length in (4, 1, 6)]
        for size in (SOURCE_VOCAB, TARGET_VOCAB)
    ]
    return make_batch(sources, targets, range(3))


def gradients(model: TranslationModel, device: str, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return the loss and the gradient of each weight, on the CPU in double precision."""
    there = batch().to(torch.device(device))
    loss, plain = teacher_forced_loss(
        model.to(device).train(), there, label_smoothing=0.1, dtype=dtype
    )
    loss.backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    found |= {"loss": loss.detach(), "plain": plain}
    return {name: value.cpu().double() for name, value in found.items()}


@on_each_device
@every_case
def test_loss_and_gradients(config: ModelConfig, device: str) -> None:
    expected = gradients(tiny_model(config).double(), "cpu", torch.float32)
    found = gradients(tiny_model(config).float(), device, torch.float32)
    assert set(found) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=1e-4)


@on_each_device
@every_case
def test_loss_in_bf16(config: ModelConfig, device: str) -> None:
    expected = gradients(tiny_model(config).double(), "cpu", torch.float32)["loss"]
    found = gradients(tiny_model(config).float(), device, torch.bfloat16)["loss"]
    torch.testing.assert_close(found, expected, rtol=0.03, atol=0)


@on_each_device
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_own_predictions_leave_every_gradient(device: str, dtype: torch.dtype) -> None:
    """The pass that makes them has no graph, and autocast must not keep its weights."""
    model = tiny_model(tiny_config()).float().to(device)
    there = batch().to(torch.device(device))
    teacher_forced_loss(model, there, label_smoothing=0.1, dtype=dtype, scheduled_sampling=0.5)[
        0
    ].backward()
    assert [n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


@on_each_device
@pytest.mark.parametrize("beam", [1, 3])
def test_translations(trained: Path, device: str, beam: int) -> None:
    lines = [source for source, _ in toy_pairs(12, seed=5)]
    plain = Translator.load(trained, device="cpu", backend="torch")
    there = Translator.load(trained, device=device, backend="torch")
    expected, found = (
        [best for [best] in t.translate(lines, t.options(beam_size=beam, keep_weights=True))]
        for t in (plain, there)
    )
    assert [best.text for best in found] == [best.text for best in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-4)
        np.testing.assert_allclose(
            one.parts[0].weights, other.parts[0].weights, rtol=1e-3, atol=1e-4
        )


@on_each_device
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_goes_on_where_it_stopped(
    toy: ToyCorpus, tmp_path: Path, device: str, precision: str
) -> None:
    where = (f"training.device={device}", f"training.precision={precision}")
    assert train(toy.config(tmp_path, *where, "training.max_steps=6")) == "finished"
    assert train(toy.config(tmp_path, *where, "training.max_steps=12"), resume=True) == "finished"
    metrics = RunDirectory(tmp_path).metrics.read_text(encoding="utf-8")
    assert '"step": 12' in metrics


@pytest.fixture
def stream() -> Iterator[None]:
    """Leave the default stream, which cannot be recorded."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        yield


# Of three buckets, in turns.
MIXED = [mixed_batch(lengths) for lengths in [(4, 1, 6), (2, 9), (5, 5, 3, 12), (1, 6, 2), (9, 2)]]


@NO_GPU
@pytest.mark.usefixtures("stream")
@every_case
def test_graphs_equal_passes_without_them(config: ModelConfig) -> None:
    model = tiny_model(config).float().to("cuda")
    expected = replayed(model, *MIXED, static_shapes=True)
    found = replayed(model, *MIXED, static_shapes=True, record=CudaGraphs())
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6, msg=name)


@NO_GPU
@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("variational", [False, True])
def test_masks_of_graphs_follow_the_seed(variational: bool) -> None:
    config = tiny_config(dropout=0.2, variational_dropout=variational)
    model = tiny_model(config).float().to("cuda")
    first, second, other = (
        replayed(model, *MIXED, static_shapes=True, record=CudaGraphs(), seed=seed)["totals"]
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


@NO_GPU
@pytest.mark.usefixtures("stream")
def test_share_of_predictions_is_read_by_graphs() -> None:
    model = tiny_model(tiny_config()).float().to("cuda")
    config = TrainingConfig(scheduled_sampling=0.5)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    passes = Passes(model, config, torch.float32, record=CudaGraphs(), static_shapes=True)
    totals = []
    for share in (0.0, 1.0, 0.0, 1.0):
        passes.totals.zero_()
        passes(mixed_batch(), 7, share)
        totals.append(passes.totals.clone())
    torch.testing.assert_close(totals[0], totals[2])
    torch.testing.assert_close(totals[1], totals[3])
    assert not torch.equal(totals[0], totals[1])


@NO_GPU
@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("record", [False, True], ids=["computed", "replayed"])
@pytest.mark.parametrize("style", ["bahdanau", "conditional", "luong", "pre_attention"])
def test_batches_wait_for_nothing(style: str, record: bool) -> None:
    model = tiny_model(tiny_config(style=style, dropout=0.2)).float().to("cuda").train()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    graphs = CudaGraphs() if record else None
    passes = Passes(model, TrainingConfig(), torch.bfloat16, record=graphs, static_shapes=True)
    passes(mixed_batch(), 7, 0.0)
    torch.cuda.set_sync_debug_mode("error")
    try:
        passes(mixed_batch(), 7, 0.0)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@NO_GPU
def test_resume_with_graphs_is_bit_identical(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = (*SHORT, "training.device=cuda", "training.cuda_graphs=true")
    assert train(toy.config(tmp_path / "straight", *where)) == "finished"
    config, update, numbers = toy.config(tmp_path / "run", *where), Trainer.update, count()

    def crashing(self: Trainer, batches: list[Batch]) -> None:
        if next(numbers) == 8:
            raise KeyboardInterrupt
        update(self, batches)

    monkeypatch.setattr(Trainer, "update", crashing)
    with pytest.raises(KeyboardInterrupt):
        train(config)
    assert train(config, resume=True) == "finished"
    assert_same(tmp_path / "straight", tmp_path / "run")


@pytest.mark.parametrize(
    ("flags", "bf16", "int8"),
    [
        ("", False, False),
        ("fpu avx", False, False),
        ("fpu avx avx2", False, True),
        ("fpu avx avx2 avx512f avx512_bf16 avx512_vnni", True, True),
        ("fpu avx avx2 amx_bf16 amx_tile", True, True),
        ("fp asimd asimddp", False, True),
    ],
)
def test_what_a_processor_multiplies_natively(
    monkeypatch: pytest.MonkeyPatch, flags: str, bf16: bool, int8: bool
) -> None:
    monkeypatch.setattr("seq2seq.device.cpu_flags", lambda: frozenset(flags.split()))
    assert multiplies_bf16(torch.device("cpu")) is bf16
    assert multiplies_int8() is int8


def test_features_of_the_processor_can_be_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self: "fpu avx avx2 avx512_bf16")
    monkeypatch.setenv("SEQ2SEQ_HIDE_CPU_FLAGS", "avx2 amx_tile")
    assert cpu_flags.__wrapped__() == {"fpu", "avx", "avx512_bf16"}

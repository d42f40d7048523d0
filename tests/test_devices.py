"""The same numbers on every device: a GPU is tried where there is one, the CPU always."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

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
    tiny_batch,
    tiny_config,
    tiny_model,
)
from same_runs import assert_same
from test_replay import SHORT, recorded
from test_replay import batch as mixed_batch
from test_replay import gradients as replayed
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from seq2seq.config import ModelConfig, TrainingConfig
from seq2seq.data.batching import Batch, make_batch
from seq2seq.data.corpus import Pair
from seq2seq.device import cpu_flags, multiplies_bf16, multiplies_int8
from seq2seq.evaluation import evaluate as evaluation
from seq2seq.evaluation.validation import Validator
from seq2seq.inference import lines as reading
from seq2seq.inference.protocol import Decoding, Hypothesis, Ints, SearchOptions
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.search import search
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.model.translation_model import TranslationModel
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


# --- decoding as on a GPU: few candidates of each row reach NumPy, in large batches


class AsOnGPU(TorchBackend):
    """A model that is decoded as on a GPU, whatever its device is."""

    on_gpu = True


def as_on_gpu(translator: Translator, device: str = "cpu", **changes: int) -> Translator:
    """Return a translator with copies of its models, and changes of its inference section."""
    backends = [AsOnGPU(copy.deepcopy(model).to(device)) for model in translator.models]
    inference = translator.config.inference.model_copy(update=changes)
    config = translator.config.model_copy(update={"inference": inference})
    return Translator(backends, translator.source, translator.target, config)


def assert_alike(found: Sequence[Hypothesis], expected: Sequence[Hypothesis]) -> None:
    """Compare the hypotheses of a sentence."""
    for one, other in zip(found, expected, strict=True):
        assert (one.tokens, one.finished) == (other.tokens, other.finished)
        assert one.score == pytest.approx(other.score, abs=1e-5)
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5)
        assert (one.weights is None) == (other.weights is None)
        if one.weights is not None:
            np.testing.assert_allclose(one.weights, other.weights, rtol=0, atol=1e-5)
        paths, expected_paths = (
            [(node.parent, node.token, node.status) for node in each.tree or ()]
            for each in (one, other)
        )
        assert paths == expected_paths


@on_each_device
@every_case
def test_few_candidates_are_enough(config: ModelConfig, device: str) -> None:
    source, attends = tiny_batch().source_BS.numpy(), config.attention.score != "none"
    there = AsOnGPU(tiny_model(config).to(device))
    for options in (
        SearchOptions(beam_size=1, max_length_offset=4),
        SearchOptions(beam_size=2, nbest=2, no_repeat_ngram=1, keep_weights=True, keep_tree=True),
        SearchOptions(beam_size=2, allow_unk=True, coverage_penalty=0.5 * attends),
        SearchOptions(beam_size=7, nbest=3),  # the vocabulary has no more pieces
    ):
        expected = search(TorchBackend(tiny_model(config)).decoding(source), options)
        for one, other in zip(search(there.decoding(source), options), expected, strict=True):
            assert_alike(one, other)


@on_each_device
@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize(
    "how",
    [
        {"beam_size": 1},
        {"beam_size": 5},
        {"beam_size": 5, "nbest": 5, "no_repeat_ngram": 2},
        {"beam_size": 3, "coverage_penalty": 0.3, "keep_weights": True, "keep_tree": True},
    ],
    ids=lambda how: "-".join(how),
)
def test_texts_are_those_of_the_cpu(
    trained: Path, other: Path, device: str, runs: int, how: dict[str, float]
) -> None:
    lines = [source for source, _ in toy_pairs(12, seed=5)]
    plain = Translator.load(*(trained, other)[:runs], device="cpu", backend="torch")
    there, options = as_on_gpu(plain, device), plain.options(**how)
    begins = ["", *(target[: len(target) // 2] for _, target in toy_pairs(12, seed=5)[1:])]
    for prefixes in (None, begins):
        found, expected = (t.translate(lines, options, prefixes=prefixes) for t in (there, plain))
        for one, other_one in zip(found, expected, strict=True):
            assert [each.text for each in one] == [each.text for each in other_one]
            assert [each.score for each in one] == pytest.approx(
                [each.score for each in other_one], abs=1e-5
            )


@on_each_device
def test_samples_and_forced_translations_are_those_of_the_cpu(trained: Path, device: str) -> None:
    plain = Translator.load(trained, device="cpu", backend="torch")
    there = as_on_gpu(plain, device)
    sources, targets = zip(*toy_pairs(12, seed=5), strict=True)
    samples, expected = (
        [drawn.text for line in each.translate(sources, sampling=Sampling(3)) for drawn in line]
        for each in (there, plain)
    )
    # A draw may fall between two sums that differ by rounding.
    assert sum(one != other for one, other in zip(samples, expected, strict=True)) <= 1
    for one, other in zip(
        there.force_decode(sources, targets), plain.force_decode(sources, targets), strict=True
    ):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)


class Reads(TorchFunctionMode):
    """Counts what makes the host wait for numbers of a GPU."""

    number = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += getattr(func, "__name__", "") in (
            "numpy", "item", "tolist", "nonzero", "__bool__", "__int__", "__float__",
        )  # fmt: skip
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("score", ["additive", "none"])
def test_host_reads_once_a_step(score: str) -> None:
    backend, steps = AsOnGPU(tiny_model(tiny_config(**{"attention.score": score}))), []
    source, options = tiny_batch().source_BS.numpy(), SearchOptions(beam_size=2, keep_weights=True)
    with Reads() as reads:
        search(backend.decoding(source), options, on_step=lambda *_: steps.append(1))
    assert reads.number == len(steps) > 3


@NO_GPU
def test_gpu_waits_once_a_step() -> None:
    backend, steps = TorchBackend(tiny_model(tiny_config()).cuda()), []
    with warnings.catch_warnings(record=True) as waits:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            search(
                backend.decoding(tiny_batch().source_BS.numpy()), SearchOptions(beam_size=2),
                on_step=lambda *_: steps.append(1),
            )  # fmt: skip
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert sum("called a synchronizing" in str(wait.message) for wait in waits) == len(steps) > 3


class Casts(TorchDispatchMode):
    """Counts the casts to bf16 of tensors of one shape."""

    def __init__(self, shape: torch.Size) -> None:
        super().__init__()
        self.shape, self.number = shape, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten._to_copy.default and args[0].shape == self.shape:
            self.number += (kwargs or {}).get("dtype") == torch.bfloat16
        return func(*args, **(kwargs or {}))


@on_each_device
def test_weights_are_cast_once_for_all_batches(device: str) -> None:
    model = tiny_model(tiny_config(embedding_size=5)).float().to(device)
    backend, source = TorchBackend(model, dtype=torch.bfloat16), tiny_batch().source_BS.numpy()
    expected = search(backend.decoding(source), SearchOptions(beam_size=2))
    with Casts(model.output_weight.shape) as casts, backend.computing():
        for _ in range(2):
            assert search(backend.decoding(source), SearchOptions(beam_size=2)) == expected
    assert casts.number == 1


def batch_sizes(
    model: Translator | TorchBackend, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]
) -> tuple[list[int], Any]:
    """Return the number of source pieces of each batch of some work, and its result."""
    sizes: list[int] = []
    decoding = model.decoding

    def watched(source_BS: Ints) -> Decoding:
        sizes.append(source_BS.size)
        return decoding(source_BS)

    with monkeypatch.context() as patch:
        patch.setattr(model, "decoding", watched)
        return sizes, work()


def test_gpu_takes_larger_batches(
    trained: Path, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Translator.load(trained, device="cpu", backend="torch")
    lines = [source for source, _ in toy_pairs(200, seed=5)]
    options, there = loaded.options(beam_size=4), as_on_gpu(loaded, batch_tokens=128)
    sizes, _ = batch_sizes(there, monkeypatch, lambda: there.translate(lines, options))
    assert 128 < max(sizes) <= 16 * 128 // 4
    # Where all pieces of each row reach NumPy, its memory is the limit.
    pair = Translator.load(trained, other, device="cpu", backend="torch")
    both = as_on_gpu(pair, batch_tokens=128)
    for translator, work in (
        (there, lambda: there.translate(lines, options, sampling=Sampling(4))),
        (there, lambda: there.translate(lines, options, prefixes=["c", *[""] * 199])),
        (there, lambda: there.force_decode(lines, lines)),
        (both, lambda: both.translate(lines, options)),
    ):
        assert max(batch_sizes(translator, monkeypatch, work)[0]) <= 128


def test_gpu_takes_more_lines_together(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = as_on_gpu(Translator.load(trained, device="cpu", backend="torch"))
    monkeypatch.setattr(reading, "WINDOW", 2)
    monkeypatch.setattr(evaluation, "WINDOW", 1)
    windows: list[int] = []
    translate = translator.translate

    def watched(lines: Sequence[str], *args: Any, **how: Any) -> Any:
        windows.append(len(lines))
        return translate(lines, *args, **how)

    monkeypatch.setattr(translator, "translate", watched)
    path, pairs = tmp_path / "lines", toy_pairs(40, seed=5)
    path.write_text("".join(f"{source}\n" for source, _ in pairs), encoding="utf-8")
    request = reading.Request(translator.options(beam_size=1))
    reading.translate_files(translator, request, source=str(path), output=str(tmp_path / "out"))
    assert windows == [32, 8]
    windows.clear()
    evaluation.translate_all(translator, [Pair(*pair) for pair in pairs], translator.options())
    assert windows == [13, 13, 14]


def test_validation_on_a_gpu_searches_larger_batches(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = as_on_gpu(Translator.load(trained, device="cpu", backend="torch"), batch_tokens=32)
    training = loaded.config.training.model_copy(update={"validation_sentences": None})
    validator = Validator(
        [Pair(*pair) for pair in toy_pairs(60, seed=5)], loaded.source, loaded.target,
        loaded.config.model_copy(update={"training": training}),
        device=torch.device("cpu"), dtype=torch.float32,
    )  # fmt: skip
    [model] = loaded.models
    (many, expected), (few, texts) = (
        batch_sizes(backend, monkeypatch, partial(validator.translate, backend))
        for backend in (TorchBackend(model), AsOnGPU(model))
    )
    assert texts == expected
    assert len(few) <= len(many) / 8


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
def stream(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Leave the default stream, which cannot be recorded; fail if something else was not."""
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        yield
    assert "recording failed" not in caplog.text


# Of three buckets, in turns.
MIXED = [mixed_batch(lengths) for lengths in [(4, 1, 6), (2, 9), (5, 5, 3, 12), (1, 6, 2), (9, 2)]]


@NO_GPU
@pytest.mark.usefixtures("stream")
@every_case
def test_graphs_equal_passes_without_them(config: ModelConfig) -> None:
    model = tiny_model(config).float().to("cuda")
    expected = replayed(model, *MIXED, static_shapes=True, record=recorded)  # of the same shapes
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
def test_a_failed_recording_leaves_the_gpu_usable(caplog: pytest.LogCaptureFixture) -> None:
    calls = count()

    def waiting(run: Callable[[], None]) -> Callable[[], None]:
        def spoilt() -> None:
            run()
            if next(calls) == 1:  # within the capture
                torch.ones(1, device="cuda").item()

        return CudaGraphs()(spoilt)

    model = tiny_model(tiny_config(dropout=0.2)).float().to("cuda")
    with torch.cuda.stream(torch.cuda.Stream()):  # type: ignore[no-untyped-call]
        expected = replayed(model, *MIXED, static_shapes=True)
        found = replayed(model, *MIXED, static_shapes=True, record=waiting)
        assert caplog.text.count("recording failed") == 1
        torch.cuda.empty_cache()
        torch.testing.assert_close(found["totals"], expected["totals"])
        replayed(model, *MIXED, static_shapes=True, record=CudaGraphs())
    assert caplog.text.count("recording failed") == 1


@NO_GPU
@pytest.mark.usefixtures("stream")
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

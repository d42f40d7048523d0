"""Batches of static shapes, and recordings of them that are replayed.

On CPUs, a recording is a function that is called again on the memory that it was recorded with:
all but the GPU's own part of CUDA graphs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ToyCorpus
from oracle.cases import SOURCE_VOCAB, TARGET_VOCAB, every_case, tiny_config, tiny_model
from same_runs import assert_same, records
from test_resumption import train_with_crashes
from torch import Tensor

from seq2seq.config import ModelConfig, TrainingConfig
from seq2seq.data.batching import Batch, make_batch
from seq2seq.model.translation_model import TranslationModel
from seq2seq.pipeline import train
from seq2seq.training.replay import Passes, bucket_of
from seq2seq.training.trainer import Trainer

FLOAT64 = {"rtol": 1e-10, "atol": 1e-10}


def recorded(run: Callable[[], None]) -> Callable[[], None]:
    """Record a function as `CudaGraphs` does: it runs once before."""
    with torch.random.fork_rng([]):
        run()
    return run


def batch(lengths: tuple[int, ...] = (4, 1, 6), *, seed: int = 3) -> Batch:
    """Return sentences of several lengths."""
    generator = torch.Generator().manual_seed(seed)
    sources, targets = [
        [torch.randint(4, size, (length,), generator=generator).tolist() for length in lengths]
        for size in (SOURCE_VOCAB, TARGET_VOCAB)
    ]
    return make_batch(sources, targets[::-1], range(len(lengths)))


def gradients(
    model: TranslationModel,
    *batches: Batch,
    share: float = 0.0,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Tensor]:
    """Return the sums of losses and gradients of batches."""
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)  # fixed, as the optimizer's are
    passes = Passes(
        model.train(), TrainingConfig(**(settings or {"label_smoothing": 0.1})), torch.float32,
        **options,
    )  # fmt: skip
    torch.manual_seed(seed)
    for each in batches:
        passes(each, 7, share)
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return found | {"totals": passes.totals}


def assert_close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, **FLOAT64, msg=name)


@every_case
def test_padding_to_static_shapes_changes_nothing(config: ModelConfig) -> None:
    model, batches = tiny_model(config), (batch(), batch((2, 9)), batch((5, 5, 3), seed=4))
    expected = gradients(model, *batches)
    assert_close(gradients(model, *batches, static_shapes=True), expected)
    assert_close(gradients(model, *batches, static_shapes=True, record=recorded), expected)


def test_rank_without_rows_adds_nothing(caplog: pytest.LogCaptureFixture) -> None:
    model, shard = tiny_model(tiny_config()), batch((3,)).shard(1, 2)
    found = gradients(model, shard, static_shapes=True, record=recorded)
    assert not any(value.any() for value in found.values())
    assert not caplog.messages


def test_one_recording_serves_all_batches_of_a_bucket() -> None:
    calls: list[int] = []

    def counting(run: Callable[[], None]) -> Callable[[], None]:
        calls.append(0)
        return recorded(run)

    model = tiny_model(tiny_config())
    batches = [batch(lengths) for lengths in [(4, 1, 6), (9, 8), (5, 5, 7), (3, 9), (2, 2, 6)]]
    found = gradients(model, *batches, static_shapes=True, record=counting)
    assert len(calls) == 2
    assert_close(found, gradients(model, *batches))


def test_buckets_are_few_and_waste_little() -> None:
    lengths = [bucket_of(1, n, 1)[1] for n in range(1, 101)]
    assert sorted(set(lengths)) == [2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80,
                                    96, 112]  # fmt: skip
    assert all(n <= found < max(n + 2, 1.25 * n) for n, found in enumerate(lengths, 1))
    rows = [bucket_of(n, 1, 1)[0] for n in range(1, 2000)]
    assert rows[14:26] == [15, 16, 18, 18, 20, 20, 22, 22, 24, 24, 26, 26]
    assert all(n <= found < 1.125 * n for n, found in enumerate(rows, 1))
    assert bucket_of(3, 5, 17) == (3, 20, 20)


@pytest.mark.parametrize("record", [None, recorded], ids=["computed", "replayed"])
def test_share_of_predictions_is_read_at_each_replay(record: Any) -> None:
    model = tiny_model(tiny_config())
    sampling = {"settings": {"scheduled_sampling": 0.5}, "record": record, "static_shapes": True}
    never, always = (gradients(model, batch(), share=share, **sampling) for share in (0.0, 1.0))
    assert_close(never, gradients(model, batch(), settings={"label_smoothing": 0.0}))
    assert not torch.equal(never["totals"], always["totals"])
    both = gradients(model, batch(), share=1.0, **sampling)
    assert_close(both, always)
    passes = Passes(model, TrainingConfig(scheduled_sampling=0.5), torch.float32, record=record,
                    static_shapes=True)  # fmt: skip
    for share, expected in ((0.0, never), (1.0, always), (0.0, never)):
        passes.totals.zero_()
        passes(batch(), 7, share)
        torch.testing.assert_close(passes.totals, expected["totals"], **FLOAT64)


@pytest.mark.parametrize("variational", [False, True], ids=["ordinary", "variational"])
def test_masks_of_dropout_follow_the_seed(variational: bool) -> None:
    model = tiny_model(tiny_config(dropout=0.4, variational_dropout=variational))
    first, second, other = (
        gradients(model, batch(), seed=seed, static_shapes=True, record=recorded)
        for seed in (1, 1, 2)
    )
    assert_close(first, second)
    assert not torch.equal(first["totals"], other["totals"])


def test_what_cannot_be_recorded_is_computed_after_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def failing(run: Callable[[], None]) -> Callable[[], None]:
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    model, batches = tiny_model(tiny_config()), (batch(), batch((2, 9)))
    assert_close(gradients(model, *batches, record=failing), gradients(model, *batches))
    [message] = caplog.messages
    assert message == (
        "training.cuda_graphs: recording failed, so training is slower: operation not permitted "
        "when stream is capturing"
    )


def test_a_shape_that_does_not_fit_is_tried_once(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    def full_at_first(run: Callable[[], None]) -> Callable[[], None]:
        calls.append(0)
        if len(calls) == 1:
            raise torch.OutOfMemoryError
        return recorded(run)

    model, batches = tiny_model(tiny_config()), (batch(), batch(), batch((2, 9)), batch((2, 9)))
    found = gradients(model, *batches, static_shapes=True, record=full_at_first)
    assert_close(found, gradients(model, *batches))
    assert len(calls) == 2
    assert not caplog.messages


def test_an_error_of_a_batch_is_not_taken_for_one_of_recording() -> None:
    def broken(run: Callable[[], None]) -> Callable[[], None]:
        def replay() -> None:
            raise RuntimeError("out of memory")

        return replay

    with pytest.raises(RuntimeError, match="out of memory"):
        gradients(tiny_model(tiny_config()), batch(), record=broken)


@pytest.fixture
def as_on_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trainers replay batches and read their losses late, as on a GPU."""
    init = Trainer.__init__

    def patched(self: Trainer, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        self.passes = Passes(
            self.model, self.config, self.dtype, record=recorded, static_shapes=True
        )
        self._ahead = 1

    monkeypatch.setattr(Trainer, "__init__", patched)


SHORT = (
    "model.dropout=0.1",
    "training.max_steps=14",
    "training.log_every=5",
    "training.validate_every=9",
    "training.checkpoint_every=3",
    "training.accumulate=1",
    "training.scheduled_sampling=0",
)


@pytest.mark.usefixtures("as_on_gpu")
@pytest.mark.parametrize(
    "settings",
    [(), ("training.accumulate=2", "model.style=luong"), ("training.scheduled_sampling=0.3",)],
    ids=["plain", "accumulating", "sampling"],
)
def test_resume_is_bit_identical(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: tuple[str, ...]
) -> None:
    straight = toy.config(tmp_path / "straight", *SHORT, *settings)
    assert train(straight) == "finished"
    interrupted = toy.config(tmp_path / "run", *SHORT, *settings)
    assert train_with_crashes(interrupted, 9, monkeypatch) == "finished"
    assert_same(tmp_path / "straight", tmp_path / "run")


def test_losses_are_those_of_the_plain_trainer(
    toy: ToyCorpus, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    settings = (*SHORT, "model.dropout=0", "training.log_every=1", "training.precision=fp32")
    assert train(toy.config(tmp_path / "plain", *settings)) == "finished"
    request.getfixturevalue("as_on_gpu")
    assert train(toy.config(tmp_path / "replayed", *settings)) == "finished"
    plain, replayed = (records(tmp_path / name) for name in ("plain", "replayed"))
    assert [r["step"] for r in plain] == [r["step"] for r in replayed]
    for mine, other in zip(plain, replayed, strict=True):
        assert mine["loss"] == pytest.approx(other["loss"], rel=1e-3)
        if mine["kind"] == "train":
            assert mine["tokens"] == other["tokens"]


@pytest.mark.usefixtures("as_on_gpu")
def test_losses_are_read_one_update_late_and_all_before_a_record(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread: list[int] = []
    update = Trainer.update

    def watching(self: Trainer, batches: list[Batch]) -> None:
        update(self, batches)
        unread.append(len(self._unread))

    monkeypatch.setattr(Trainer, "update", watching)
    assert train(toy.config(tmp_path, *SHORT)) == "finished"
    assert set(unread) == {1}
    tokens = [r["tokens"] for r in records(tmp_path) if r["kind"] == "train"]
    expected = itertools.accumulate(
        sum(b.num_target_tokens for b in itertools.islice(stream_of(toy, tmp_path), n, n + 5))
        for n in (0, 5)
    )
    assert tokens == list(expected)


def stream_of(toy: ToyCorpus, tmp_path: Path) -> Any:
    """Return the batches that a trainer with these settings reads."""
    from test_trainer import make_trainer

    return iter(make_trainer(toy.config(tmp_path / "other", *SHORT), tmp_path / "other").stream)

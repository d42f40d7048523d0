"""Training speed: target tokens per second at the reference shape, and how the cost grows.

The reference shape: embeddings 256, BiGRU of 256 per direction, GRU of 512, attention 512, readout
512, vocabularies of 8,000, dropout 0.2, batches of 2,048 tokens; with tied weights, the readout
has the size of the embeddings. Speeds count target tokens without padding over full updates:
forward, backward, clipping, optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.measuring import Record, timed
from seq2seq.config import ModelConfig, TrainingConfig
from seq2seq.data.batching import Batch, make_batch
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.optimizer import Optimizer
from seq2seq.training.replay import CudaGraphs, HostCopy, Passes

FIRST_PIECE = 4  # after padding, unknown, begin and end of sentence


@dataclass(frozen=True)
class Shape:
    """What the cost of training depends on; the defaults are the reference shape."""

    style: str = "bahdanau"
    score: str = "additive"
    hidden: int = 512
    tied: bool = False
    vocabulary: int = 8000
    batch_tokens: int = 2048
    length: int = 12

    def model(self) -> ModelConfig:
        """Return the configuration of a model of this shape."""
        return ModelConfig.model_validate(
            {
                "style": self.style,
                "embedding_size": self.hidden // 2,
                "encoder_size": self.hidden // 2,
                "decoder_size": self.hidden,
                "attention": {"score": self.score, "size": self.hidden},
                "tie_target": self.tied,
                "dropout": 0.2,
            }
        )

    def batch(self) -> Batch:
        """Return a batch of random pieces, in sentences of the shape's length."""
        generator = np.random.default_rng(0)
        rows = max(1, self.batch_tokens // self.length)
        source, target = (
            generator.integers(FIRST_PIECE, self.vocabulary, (rows, self.length - 1)).tolist()
            for _ in ("source", "target")
        )
        return make_batch(source, target, range(rows))


class Update:
    """Full updates of a new model, one after the other."""

    def __init__(
        self, shape: Shape, device: torch.device, dtype: torch.dtype, *, graphs: bool = False
    ) -> None:
        torch.manual_seed(1)
        self.device = device
        model = TranslationModel(shape.model(), shape.vocabulary, shape.vocabulary)
        self.model = model.to(device).train()
        config = TrainingConfig(label_smoothing=0.1)
        self.passes = Passes(
            self.model, config, dtype,
            record=CudaGraphs() if graphs else None, static_shapes=device.type == "cuda",
        )  # fmt: skip
        self.optimizer = Optimizer(self.model, config)
        self._unread = HostCopy(torch.zeros(()))

    def __call__(self, batch: Batch) -> None:
        """Make one update."""
        self.optimizer.zero_grad()
        self.passes(batch, batch.num_target_tokens, 0.0)
        norm = self.optimizer.step(1, 1e-3, self.passes.totals[0])
        unread, self._unread = self._unread, HostCopy(norm)
        unread.wait()  # one update late, as the trainer waits

    def operations_per_token(self, batches: Sequence[Batch]) -> float:
        """Return the floating-point operations of matrix products per target token."""
        with FlopCounterMode(display=False) as counter:
            for batch in batches:
                self(batch)
        total: int = counter.get_total_flops()
        return total / sum(batch.num_target_tokens for batch in batches)


def training_speed(
    name: str,
    shape: Shape,
    device: torch.device,
    dtype: torch.dtype,
    *,
    batches: Sequence[Batch] | None = None,
    seconds: float = 12.0,
    ceiling: float | None = None,
    graphs: bool = False,
) -> Record:
    """Return target tokens per second, in several windows of full updates.

    With `ceiling`, the GFLOP/s of matrix products, the note compares them with the bound: the speed
    of an update that consists of its matrix products alone, at that rate.
    """
    chosen = list(batches or [shape.batch()])
    operations = Update(shape, device, dtype).operations_per_token(chosen[:2])
    update = Update(shape, device, dtype, graphs=graphs)
    for batch in chosen:  # a graph is recorded for each shape
        update(batch)
    if graphs and not update.passes.has_graphs:
        raise RuntimeError("no graph was recorded; see the warning above")
    values = windows(
        [lambda batch=batch: update(batch) for batch in chosen],  # type: ignore[misc]
        [batch.num_target_tokens for batch in chosen],
        device,
        seconds=seconds,
    )
    note = f"{operations / 1e6:.1f} MFLOP per token"
    record = Record(name, "tokens/s", values, note)
    if ceiling is None:
        return record
    bound = ceiling * 1e9 / operations
    note += f"; {record.median / bound:.0%} of the bound of {bound:,.0f}"
    return Record(name, "tokens/s", values, note)


def windows(
    calls: Sequence[Callable[[], None]],
    amounts: Sequence[int],
    device: torch.device,
    *,
    seconds: float,
    count: int = 5,
) -> tuple[float, ...]:
    """Return amounts per second in up to `count` windows that take about `seconds` in all.

    Each window makes all calls equally often, so that all windows do the same work. Where that
    takes long, there are fewer windows, but at least two.
    """

    def one_round() -> None:
        for call in calls:
            call()

    once = timed(one_round, device)
    rounds = max(1, round(seconds / count / once))

    def window() -> None:
        for _ in range(rounds):
            one_round()

    total = rounds * sum(amounts)
    fitting = round(seconds / (rounds * once))
    return tuple(total / timed(window, device) for _ in range(min(count, max(2, fitting))))


def growth(device: torch.device, dtype: torch.dtype, *, seconds: float = 3.0) -> Iterator[Record]:
    """Yield microseconds per target token by sentence length, vocabulary, batch and hidden size."""
    axes: dict[str, list[Shape]] = {
        "length": [Shape(length=n) for n in (5, 10, 20, 50, 100)],
        "vocabulary": [Shape(vocabulary=n) for n in (2000, 8000, 32000)],
        "batch_tokens": [Shape(batch_tokens=n) for n in (512, 2048, 8192)],
        "hidden": [Shape(hidden=n) for n in (128, 256, 512, 1024)],
    }
    for axis, shapes in axes.items():
        for shape in shapes:
            name = f"training, {axis.replace('_', ' ')} {getattr(shape, axis)}"
            speed = training_speed(name, shape, device, dtype, seconds=seconds)
            times = tuple(1e6 / value for value in speed.values)
            yield Record(name, "us/token", times, speed.note)

"""Forward and backward pass of a batch: as Python runs them or, on a GPU, as CUDA graphs.

Python and autograd launch some 2,000 small kernels for one batch, one after the other. That takes
several times as long as the GPU needs to run them. A CUDA graph launches all of them at once. It is
recorded from the same model and loss, and works for batches of one shape only. To limit the number
of shapes, batches are padded to buckets of rows and lengths.

Legend: B rows, S and T lengths of source and target
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from seq2seq.config import TrainingConfig
from seq2seq.data.batching import Batch
from seq2seq.model.translation_model import TranslationModel
from seq2seq.training.loss import teacher_forced_loss

log = logging.getLogger(__name__)

Shape = tuple[int, int, int]  # B, S, T
# Records the work that a function launches on a GPU; returns a function that launches it again.
Record = Callable[[Callable[[], None]], Callable[[], None]]


class Passes:
    """Computes batches: adds to the model's gradients, and to `totals`.

    `totals` are the sums of the smoothed and of the plain loss (seq2seq.training.loss). With
    `record`, the functions that it returns compute all batches, even the one just recorded: so a
    resumed run, which records again, equals one that was never stopped.
    """

    def __init__(
        self,
        model: TranslationModel,
        config: TrainingConfig,
        dtype: torch.dtype,
        *,
        record: Record | None = None,
        static_shapes: bool = False,
    ) -> None:
        self.model, self.config, self.dtype = model, config, dtype
        self.device = model.output_bias.device
        self.totals = torch.zeros(2, dtype=torch.float64, device=self.device)
        self._record, self._static_shapes = record, static_shapes
        # None: there is no graph for this shape.
        self._recorded: dict[Shape, tuple[Tensor, Callable[[], None]] | None] = {}

    @property
    def has_graphs(self) -> bool:
        """Whether batches have been recorded."""
        return any(self._recorded.values())

    def __call__(self, batch: Batch, tokens: int, scheduled_sampling: float) -> None:
        """Compute a batch; its gradient is that of the loss divided by `tokens`."""
        numbers = 1 / tokens, scheduled_sampling
        shape: Shape = (*batch.source_BS.shape, batch.labels_BT.shape[1])
        bucket = bucket_of(*shape)
        found = self._recording(bucket)
        if found is not None:
            memory, replay = found
            memory.copy_(self._packed(batch, bucket, *numbers), non_blocking=True)
            replay()
        elif self.device.type == "cpu":
            self._compute(batch, *numbers)
        else:
            packed = self._packed(batch, shape, *numbers).to(self.device, non_blocking=True)
            self._compute(unpacked(packed, shape)[0], *numbers)

    def _compute(
        self, batch: Batch, scale: float | Tensor, scheduled_sampling: float | Tensor
    ) -> None:
        loss, plain = teacher_forced_loss(
            self.model,
            batch,
            label_smoothing=self.config.label_smoothing,
            dtype=self.dtype,
            scheduled_sampling=scheduled_sampling if self.config.scheduled_sampling else 0.0,
            static_shapes=self._static_shapes,
        )
        scales = (torch.ones_like(loss) * scale).to(loss.dtype)
        loss.backward(scales)  # type: ignore[no-untyped-call]
        self.totals += torch.stack((loss.detach(), plain))

    def _recording(self, shape: Shape) -> tuple[Tensor, Callable[[], None]] | None:
        """Return the memory that the graph of a shape reads its batch from, and its replay.

        None if graphs are not wanted, or, after a warning, if the model cannot be recorded.
        """
        if self._record is None or shape in self._recorded:
            return self._recorded.get(shape)
        memory = torch.zeros(sum(_sizes(shape)), dtype=torch.int64, device=self.device)
        batch, (scale, scheduled_sampling) = unpacked(memory, shape)
        # Until it is filled, no label counts. A source needs a piece to attend to.
        batch.source_lengths_B.fill_(1)
        try:
            replay = self._record(lambda: self._compute(batch, scale, scheduled_sampling))
        except torch.OutOfMemoryError:
            self._recorded[shape] = None  # other shapes may fit
            return None
        except RuntimeError as error:
            cause = error.__context__ or error  # the end of a failed recording raises another error
            if self.device.type == "cuda":
                torch.cuda.synchronize()  # before the memory of recorded graphs is freed
            self._record, self._recorded = None, {}
            reason = str(cause).partition("\n")[0]
            log.warning("training.cuda_graphs: recording failed, so training is slower: %s", reason)
            log.debug("recording failed", exc_info=cause)
            return None
        self._recorded[shape] = memory, replay
        return memory, replay

    def _packed(
        self, batch: Batch, shape: Shape, scale: float, scheduled_sampling: float
    ) -> Tensor:
        """Return a batch, filled up to a shape, and two numbers, as one piece of host memory."""
        pinned = self.device.type != "cpu"  # so that copying it does not wait
        memory = torch.zeros(sum(_sizes(shape)), dtype=torch.int64, pin_memory=pinned)
        filled, numbers = unpacked(memory, shape)
        filled.source_lengths_B.fill_(1)
        for name, tensor in vars(batch).items():
            if isinstance(tensor, Tensor):
                getattr(filled, name)[tuple(map(slice, tensor.shape))] = tensor
        numbers[0], numbers[1] = scale, scheduled_sampling
        return memory


def bucket_of(rows: int, source: int, target: int) -> Shape:
    """Return the shape that a batch of this shape is padded to.

    Both sides get the same length: an even one up to 16, then one of four in each octave. The
    number of rows is one of eight in each octave (see seq2seq.data.ragged.cut_batches).
    """
    length = _rounded(max(source, target), least=2, in_octave=4)
    return _rounded(rows, least=1, in_octave=8), length, length


def _rounded(number: int, *, least: int, in_octave: int) -> int:
    step = max(least, (1 << (number - 1).bit_length()) // (2 * in_octave))
    return -(-number // step) * step


def _sizes(shape: Shape) -> tuple[int, ...]:
    rows, source, target = shape
    return rows * source, rows, rows * target, rows * target, rows, 2


def unpacked(memory: Tensor, shape: Shape) -> tuple[Batch, Tensor]:
    """Return a batch of this shape and two numbers as views of memory."""
    rows, source, target = shape
    parts = memory.split(_sizes(shape))  # type: ignore[no-untyped-call]
    return Batch(
        parts[0].view(rows, source),
        parts[1],
        parts[2].view(rows, target),
        parts[3].view(rows, target),
        parts[4],
        (),
        0,
    ), parts[5].view(torch.float64)


class CudaGraphs:
    """Records CUDA graphs on the current stream; all share one pool of memory."""

    def __init__(self) -> None:
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, run: Callable[[], None]) -> Callable[[], None]:
        # At the first pass, cuBLAS and autograd allocate what cannot be allocated while recording.
        with torch.random.fork_rng([torch.cuda.current_device()]):
            run()
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile, such as NCCL's watchdog.
        with torch.cuda.graph(
            graph, self._pool, torch.cuda.current_stream(), capture_error_mode="thread_local"
        ):
            run()
        replay: Callable[[], None] = graph.replay
        return replay


class HostCopy:
    """Numbers that are being copied to the host; only `wait` waits for them."""

    def __init__(self, numbers: Tensor) -> None:
        self._event = None
        self._numbers = numbers
        if numbers.is_cuda:
            self._numbers = torch.empty_like(numbers, device="cpu", pin_memory=True)
            self._numbers.copy_(numbers, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()

    def wait(self) -> list[float]:
        """Return the numbers."""
        if self._event is not None:
            self._event.synchronize()
        found: list[float] = self._numbers.tolist()
        return found

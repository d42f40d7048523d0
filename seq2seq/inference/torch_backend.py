"""PyTorch behind the interface of search: the plain model, on any device.

See seq2seq.inference.protocol for what a Backend, a State and a Decoding do.

Legend: B sentences, R rows, S source length, V vocabulary, C candidates a row
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.device import choose_device, choose_dtype
from seq2seq.errors import ConfigError
from seq2seq.inference.protocol import Ints, Step
from seq2seq.model.decoder import DecoderState
from seq2seq.model.translation_model import TranslationDecoding, TranslationModel, meta_parameters
from seq2seq.runs.checkpoint import check_shapes, load_weights
from seq2seq.runs.directory import find_checkpoint, run_of

log = logging.getLogger(__name__)


class TorchBackend:
    """A `Backend`: a model in evaluation mode; products in `dtype`, everything else in its own."""

    def __init__(
        self, model: TranslationModel, *, dtype: torch.dtype = torch.float32, weights_sum: str = ""
    ) -> None:
        self.model = model.eval()
        self.dtype, self.weights_sum = dtype, weights_sum

    @property
    def on_gpu(self) -> bool:
        return self.device.type != "cpu"

    @property
    def batch_scale(self) -> int:
        # A GPU takes hardly longer for thousands of rows, and few candidates of each reach NumPy.
        return 16 if self.on_gpu else 1

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.model.output_bias.device

    def decoding(self, source_BS: Ints) -> TorchDecoding:
        with self.computing():
            source = self.send(source_BS)
            bound = self.model.decoding(source, source != PAD)
        return TorchDecoding(self, bound, (source_BS != PAD).sum(1))

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute without gradients, products in `dtype`; nested contexts share cast weights."""
        if self.dtype == torch.float32:
            with torch.inference_mode():
                yield
        else:  # in inference mode, autocast would cast every weight at every step
            with torch.no_grad(), torch.autocast(self.device.type, self.dtype):
                yield

    def send(self, array: Ints) -> Tensor:
        """Return an array on the device, without waiting for a GPU to finish its work."""
        return torch.from_numpy(array).to(self.device, non_blocking=True)


def load_model(
    path: Path,
    source_vocab_size: int,
    target_vocab_size: int,
    device: str,
    precision: str,
    threads: int | None,
) -> TorchBackend:
    """Return the best checkpoint of a run, or the checkpoint that the path names.

    Raises as Translator.load does.
    """
    if precision == "int8":
        raise ConfigError("precision int8 needs backend onnx, which computes on CPUs; or use bf16")
    if threads:
        torch.set_num_threads(threads)
    run, checkpoint = run_of(path), find_checkpoint(path)
    sizes = run.config().model, source_vocab_size, target_vocab_size
    # Before memory is allocated: a config can ask for more than there is.
    check_shapes(meta_parameters(*sizes), checkpoint.shapes(), origin=checkpoint.path)
    model = TranslationModel(*sizes)
    load_weights(model, checkpoint.weights(), origin=checkpoint.path)
    log.debug("translating with %s", checkpoint.path)
    where = choose_device(device)
    if precision == "auto" and where.type == "cpu":  # bf16 would change results
        precision = "fp32"
    dtype = choose_dtype(precision, where)
    return TorchBackend(model.to(where), dtype=dtype, weights_sum=checkpoint.weights_sum)


@dataclass(frozen=True)
class TorchDecoding:
    """A `Decoding`: a model and the memory of a batch; its `State` is the decoder's."""

    backend: TorchBackend
    bound: TranslationDecoding
    source_lengths_B: Ints

    def start(self) -> DecoderState:
        with self.backend.computing():
            return self.bound.start()

    def step(
        self,
        tokens_R: Ints,
        state: DecoderState,
        *,
        count: int | None = None,
        weights: bool = False,
    ) -> Step:
        """Return the predictions after one piece per row; a GPU sends `count` pieces of each."""
        with self.backend.computing():
            logits_RV, weights_RS, after = self.bound.step(self.backend.send(tokens_R), state)
            found_RV = log_softmax(logits_RV)
            asked_RS = weights_RS if weights else None
            if not self.backend.on_gpu or count is None or count + 1 >= found_RV.shape[1]:
                sent = None if asked_RS is None else asked_RS.cpu().numpy()
                return Step(found_RV.cpu().numpy(), after, sent)
            # The host waits here, once a step, for all that search reads. Ids below 2 ** 24 are
            # exact in fp32.
            columns = [*top_with_eos(found_RV, count), *([] if asked_RS is None else [asked_RS])]
            packed = torch.cat([each.to(found_RV.dtype) for each in columns], 1).cpu().numpy()
        found, pieces, sent = np.split(packed, [count + 1, 2 * count + 2], 1)
        return Step(found, after, None if asked_RS is None else sent, pieces.astype(np.int64))

    def select(self, sentences_B: Ints) -> TorchDecoding:
        with self.backend.computing():
            bound = self.bound.select(self.backend.send(sentences_B))
        return TorchDecoding(self.backend, bound, self.source_lengths_B[sentences_B])


def log_softmax(logits_RV: Tensor) -> Tensor:
    """Return log probabilities, in fp32 at least."""
    half = logits_RV.dtype == torch.bfloat16
    return logits_RV.log_softmax(-1, dtype=torch.float32 if half else None)


def top_with_eos(log_probs_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the log probabilities and the ids of EOS and of the `count` most likely others, by id.

    Which of several equally likely pieces are the last to be selected is not defined.
    """
    pieces_RC = log_probs_RV.topk(count + 1).indices  # most likely first
    lacks_end_R1 = (pieces_RC != EOS).all(1, keepdim=True)
    pieces_RC[:, -1:].masked_fill_(lacks_end_R1, EOS)
    pieces_RC = pieces_RC.sort().values
    return log_probs_RV.gather(1, pieces_RC), pieces_RC

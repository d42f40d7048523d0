"""PyTorch behind the interface of search: the plain model, on any device.

seq2seq.inference.protocol says what a Backend, a State and a Decoding do.

Legend: B sentences, R rows, S source length, V vocabulary, C candidates a row
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from seq2seq.data.tokenizer import EOS, PAD
from seq2seq.device import choose_device, choose_dtype
from seq2seq.errors import ConfigError
from seq2seq.inference.protocol import Ints, Step
from seq2seq.model.decoder import DecoderState
from seq2seq.model.model import TranslationDecoding, TranslationModel, meta_parameters
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
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.model.output_bias.device

    @torch.inference_mode()
    def decoding(self, source_BS: Ints) -> TorchDecoding:
        source = torch.from_numpy(source_BS).to(self.device)
        with self.autocast():
            return TorchDecoding(self, self.model.decoding(source, source != PAD))

    def autocast(self) -> torch.autocast:
        """Return the context in which the model computes."""
        return torch.autocast(self.device.type, self.dtype, enabled=self.dtype != torch.float32)


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
    """A `Decoding`: a model and the memory of a batch; its `State` is that of the decoder."""

    backend: TorchBackend
    bound: TranslationDecoding

    @property
    def source_lengths_B(self) -> Ints:
        lengths: Ints = self.bound.memory.mask_BS.sum(1).cpu().numpy()
        return lengths

    @torch.inference_mode()
    def start(self) -> DecoderState:
        with self.backend.autocast():
            return self.bound.start()

    @torch.inference_mode()
    def step(
        self,
        tokens_R: Ints,
        state: DecoderState,
        *,
        count: int | None = None,
        weights: bool = False,
    ) -> Step:
        """Return what follows one piece per row; a GPU sends only `count` pieces of each."""
        tokens = torch.from_numpy(tokens_R).to(self.backend.device)
        with self.backend.autocast():
            logits_RV, weights_RS, after = self.bound.step(tokens, state)
        found_RC, pieces = log_softmax(logits_RV), None
        if count is not None and found_RC.device.type != "cpu" and count + 1 < found_RC.shape[1]:
            found_RC, pieces_RC = likeliest(found_RC, count)
            pieces = pieces_RC.cpu().numpy()
        asked = weights_RS if weights else None
        return Step(
            found_RC.cpu().numpy(),
            after,
            None if asked is None else asked.cpu().numpy(),
            pieces,
        )

    @torch.inference_mode()
    def select(self, sentences_B: Ints) -> TorchDecoding:
        chosen = torch.from_numpy(sentences_B).to(self.backend.device)
        return TorchDecoding(self.backend, self.bound.select(chosen))


def log_softmax(logits_RV: Tensor) -> Tensor:
    """Return log probabilities, in fp32 at least."""
    half = logits_RV.dtype == torch.bfloat16
    return logits_RV.log_softmax(-1, dtype=torch.float32 if half else None)


def likeliest(log_probs_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the log probabilities and the ids of the likeliest pieces and of EOS, by id."""
    others = torch.cat((log_probs_RV[:, :EOS], log_probs_RV[:, EOS + 1 :]), 1).topk(count).indices
    pieces_RC = others + (others >= EOS)
    pieces_RC = torch.nn.functional.pad(pieces_RC, (0, 1), value=EOS).sort().values
    return log_probs_RV.gather(1, pieces_RC), pieces_RC

"""Attribution: the contribution of each source piece to the log probability of a target piece.

Legend: S source pieces with the end of sentence, T target pieces with it, W source words, K points
between the baseline and the sentence, B sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from seq2seq.analysis import Method
from seq2seq.data.batching import Batch, make_batch
from seq2seq.inference.torch_backend import log_softmax
from seq2seq.inference.words import membership
from seq2seq.model.translation_model import TranslationDecoding, TranslationModel

MEANINGS: dict[Method, str] = {
    "gradient": "the embedding of a source piece times the gradient of log p (Shrikumar et al. "
    "2016)",
    "integrated": "integrated gradients of log p, from embeddings of zero to those of the sentence "
    "(Sundararajan et al. 2017, eq. 1); they sum to the difference in log p",
    "occlusion": "log p minus log p without the word, in equal parts for its pieces, which are "
    "left out (Li et al. 2016); the end of sentence is never left out",
}
POINTS = 64  # of Gauss-Legendre quadrature


@torch.inference_mode(False)
@torch.enable_grad()
def attribute(
    model: TranslationModel, source: Sequence[int], target: Sequence[int], method: Method,
    words_of_pieces: Sequence[Sequence[int]],
) -> Tensor:  # fmt: skip
    """Return the contributions [T, S] of source pieces to log p of target pieces, in nats.

    Both are given without the end of sentence; the decoder reads exactly these target pieces.
    `words_of_pieces` has the words of each source piece; only occlusion needs them.
    """
    if method == "occlusion":
        return _occlusion(model, source, target, words_of_pieces)
    points_K, weights_K = np.ones(1), np.ones(1)
    if method == "integrated":
        roots_K, weights_K = np.polynomial.legendre.leggauss(POINTS)  # from -1 to 1
        points_K, weights_K = (roots_K + 1) / 2, weights_K / 2
    batch = forced_batch(model, [source] * len(points_K), target)
    new = model.output_bias.new_tensor
    # The derivative with respect to a factor of an embedding is the embedding times its gradient.
    factors_SK1 = new(points_K).repeat(batch.source_BS.shape[1], 1).unsqueeze(2).requires_grad_()
    with model.source_embedding.register_forward_hook(lambda *call: call[2] * factors_SK1):
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
    means = (log_probs_K @ new(weights_K) for log_probs_K in forced_log_probs(decoding, batch))
    rows = [torch.autograd.grad(mean, factors_SK1, retain_graph=True)[0] for mean in means]
    return torch.stack(rows).sum((2, 3))


@torch.no_grad()
def _occlusion(
    model: TranslationModel, source: Sequence[int], target: Sequence[int],
    words_of_pieces: Sequence[Sequence[int]],
) -> Tensor:  # fmt: skip
    parts_WS = membership(words_of_pieces[: len(source)])
    without = [[n for n, of in zip(source, part_S, strict=True) if not of] for part_S in parts_WS]
    batch = forced_batch(model, [source, *without], target)
    decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
    log_probs_TB = torch.stack([*forced_log_probs(decoding, batch)])
    effects_TW = log_probs_TB[:, :1] - log_probs_TB[:, 1:]
    shares_WS = parts_WS / np.maximum(parts_WS.sum(1, keepdims=True), 1)
    return pad(effects_TW @ effects_TW.new_tensor(shares_WS), (0, 1))


def forced_batch(
    model: TranslationModel, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> Batch:
    """Return these sources, each with the same target, on the device of the model."""
    batch = make_batch(sources, [target] * len(sources), range(len(sources)))
    return batch.to(model.output_bias.device)


def forced_log_probs(decoding: TranslationDecoding, batch: Batch) -> Iterator[Tensor]:
    """Yield log p [B] of each target piece; all rows have the same target."""
    for (logits_BV, _), piece in zip(
        decoding.steps(batch.inputs_BT), batch.labels_BT[0], strict=True
    ):
        yield log_softmax(logits_BV)[:, piece]

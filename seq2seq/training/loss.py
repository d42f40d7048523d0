"""The training loss: label-smoothed cross-entropy, fused with the output projection.

Legend: B batch, T target length, N target positions without padding, O features, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from seq2seq.data.batching import Batch
from seq2seq.model.model import TranslationModel

SLICE_ROWS = 512
EVEN_ROWS = 64  # the last slice is filled up to a multiple, so that few shapes of products occur


def teacher_forced_loss(
    model: TranslationModel,
    batch: Batch,
    *,
    label_smoothing: float = 0.0,
    dtype: torch.dtype = torch.float32,
    fed_back: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the loss, smoothed and plain, summed over the target pieces, in nats.

    Matrix products are computed in `dtype`. `fed_back` is the share of the model's own predictions
    among the inputs (scheduled sampling).
    """
    mask_BT, narrow = batch.label_mask_BT, dtype != torch.float32
    with torch.autocast(batch.labels_BT.device.type, dtype, enabled=narrow):
        inputs_BT = mix_predictions(model, batch, fed_back)
        features_BTO, _ = model(batch.source_BS, batch.source_mask_BS, inputs_BT)
        return projection_loss(
            features_BTO[mask_BT],
            model.output_weight,
            model.output_bias,
            batch.labels_BT[mask_BT],
            label_smoothing=label_smoothing,
        )


@torch.no_grad()
def mix_predictions(model: TranslationModel, batch: Batch, share: float) -> Tensor:
    """Return inputs [B, T] with a random share replaced by the model's own predictions.

    Scheduled sampling (Bengio et al. 2015) with the predictions of all positions from one
    teacher-forced pass (Mihaylova and Martins 2019, sec. 3). BOS and padding stay.
    """
    inputs_BT = batch.inputs_BT
    if share == 0 or inputs_BT.shape[1] < 2:
        return inputs_BT
    features_BTO, _ = model(batch.source_BS, batch.source_mask_BS, inputs_BT)
    predicted_BT = torch.stack([model.logits(row).argmax(-1) for row in features_BTO[:, :-1]])
    drawn_BT = torch.rand(predicted_BT.shape, device=predicted_BT.device) < share
    drawn_BT &= batch.label_mask_BT[:, 1:]
    mixed_BT = inputs_BT.clone()
    mixed_BT[:, 1:] = torch.where(drawn_BT, predicted_BT, inputs_BT[:, 1:])
    return mixed_BT


def projection_loss(
    features_NO: Tensor,
    weight_VO: Tensor,
    bias_V: Tensor,
    labels_N: Tensor,
    *,
    label_smoothing: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """Return the sums over N of the smoothed loss and of the plain one (no gradient), in nats.

    With eps = label_smoothing, loss = (1 - eps) * -log p(label) + eps * mean over V of -log p
    (Szegedy et al. 2016, eq. 7).

    Logits and their gradient are computed in slices of rows, in one pass, and not kept: N x V
    values would be most of a training step's memory and would not fit the cache.
    """
    loss: tuple[Tensor, Tensor] = _ProjectionLoss.apply(  # type: ignore[no-untyped-call]
        features_NO, weight_VO, bias_V, labels_N, label_smoothing, torch.is_grad_enabled()
    )
    return loss


class _ProjectionLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        features_NO: Tensor,
        weight_VO: Tensor,
        bias_V: Tensor,
        labels_N: Tensor,
        smoothing: float,
        needs_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        dtype = features_NO.dtype
        weight, bias = weight_VO.to(dtype), bias_V.to(dtype)
        wide = bias_V.dtype
        totals = torch.zeros(2, dtype=torch.float64, device=bias_V.device)
        count = len(labels_N)
        features_NO = nn.functional.pad(features_NO, (0, 0, 0, -count % EVEN_ROWS))
        if needs_grad:
            grad_features = torch.empty_like(features_NO)
            grad_weight = torch.zeros_like(weight_VO)
            grad_bias = torch.zeros_like(bias_V)
        for start in range(0, count, SLICE_ROWS):
            rows = slice(start, start + SLICE_ROWS)
            all_NV = torch.addmm(bias, features_NO[rows], weight.t()).to(wide)
            labels_N1 = labels_N[rows].unsqueeze(1)
            logits_NV = all_NV[: len(labels_N1)]
            plain, uniform = _softmax_(logits_NV, labels_N1)
            totals[0] += (1 - smoothing) * plain + smoothing * uniform
            totals[1] += plain
            if not needs_grad:
                continue
            logits_NV -= smoothing / len(bias_V)
            logits_NV.scatter_add_(1, labels_N1, logits_NV.new_full(labels_N1.shape, smoothing - 1))
            all_NV[len(labels_N1) :] = 0
            grad_logits = all_NV.to(dtype)
            torch.mm(grad_logits, weight, out=grad_features[rows])
            grad_weight += grad_logits.t() @ features_NO[rows]
            grad_bias += logits_NV.sum(0)
        if needs_grad:
            ctx.save_for_backward(grad_features[:count], grad_weight, grad_bias)
        plain_total = totals[1].to(wide)
        ctx.mark_non_differentiable(plain_total)
        return totals[0].to(wide), plain_total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_features, grad_weight, grad_bias = ctx.saved_tensors
        scale = grads[0]
        scaled_features = grad_features * scale.to(grad_features.dtype)
        return scaled_features, grad_weight * scale, grad_bias * scale, None, None, None


def _softmax_(logits_NV: Tensor, labels_N1: Tensor) -> tuple[Tensor, Tensor]:
    """Turn logits into probabilities in place; return the sums of -log p(label) and mean -log p."""
    logits_NV -= logits_NV.amax(1, keepdim=True)
    label_N1 = logits_NV.gather(1, labels_N1)
    mean_N1 = logits_NV.mean(1, keepdim=True)
    total_N1 = logits_NV.exp_().sum(1, keepdim=True)
    logits_NV /= total_N1
    log_N1 = total_N1.log()
    return (log_N1 - label_N1).sum(), (log_N1 - mean_N1).sum()

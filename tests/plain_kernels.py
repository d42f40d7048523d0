"""The plain twins of seq2seq.model.kernels: the formulas, with gradients by autograd."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def linear(inputs: Tensor, weight_OI: Tensor, bias_O: Tensor | None = None) -> Tensor:
    return nn.functional.linear(inputs, weight_OI, bias_O)


def inner_products(vectors_BKD: Tensor, others_BSD: Tensor) -> Tensor:
    return torch.einsum("bkd,bsd->bks", vectors_BKD, others_BSD)


def weighted_sums(weights_BKS: Tensor, values_BSM: Tensor) -> Tensor:
    return torch.einsum("bks,bsm->bkm", weights_BKS, values_BSM)


def gru_cell(gates_input_BG: Tensor, gates_hidden_BG: Tensor, hidden_BH: Tensor) -> Tensor:
    ours, theirs = gates_input_BG.chunk(3, -1), gates_hidden_BG.chunk(3, -1)
    reset, update = (torch.sigmoid(ours[n] + theirs[n]) for n in (0, 1))
    new = torch.tanh(ours[2] + reset * theirs[2])
    return (1 - update) * new + update * hidden_BH


def gru_step(
    gates_input_BG: Tensor, hidden_BH: Tensor, weight_GH: Tensor, bias_G: Tensor
) -> Tensor:
    return gru_cell(gates_input_BG, linear(hidden_BH, weight_GH, bias_G), hidden_BH)


def tanh_energies(query_BKA: Tensor, keys_BSA: Tensor, energy_A: Tensor) -> Tensor:
    return torch.tanh(query_BKA.unsqueeze(2) + keys_BSA.unsqueeze(1)) @ energy_A


def maxout(deep: Tensor) -> Tensor:
    return deep.unflatten(-1, (-1, 2)).amax(-1)


def projection_loss(
    readout_NO: Tensor,
    weight_VO: Tensor,
    bias_V: Tensor,
    labels_N: Tensor,
    *,
    label_smoothing: float = 0.0,
    counted_N: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    logits_NV = nn.functional.linear(readout_NO, weight_VO, bias_V)
    losses = (
        nn.functional.cross_entropy(logits_NV, labels_N, reduction="none", label_smoothing=eps)
        for eps in (label_smoothing, 0.0)
    )
    counted = torch.ones(len(labels_N)) if counted_N is None else counted_N
    smoothed, plain = (torch.where(counted > 0, loss_N, 0).sum() for loss_N in losses)
    return smoothed, plain.detach()

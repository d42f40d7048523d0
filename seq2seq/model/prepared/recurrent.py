"""GRU layers that advance by one step; see seq2seq.model.recurrent for the equations.

Legend: R rows, S source length, D hidden size, G = 3D gates in the order r, z, n.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq.model.prepared.product import product
from seq2seq.model.recurrent import GRU


class Cell:
    """One GRU layer; its inputs have been through the input product."""

    def __init__(self, gru: GRU, dtype: torch.dtype) -> None:
        self.size = gru.hidden_size
        self.multiply = product(gru.weight_hidden, gru.bias_hidden, dtype, bounded=True)
        self.norm_input, self.norm_hidden = gru.norm_input, gru.norm_hidden

    def step(self, gates_RG: Tensor, hidden_RD: Tensor) -> Tensor:
        """Return the next state from projected inputs and the present state."""
        share_RG = self.multiply(hidden_RD)
        if self.norm_input is not None and self.norm_hidden is not None:
            gates_RG, share_RG = self.norm_input(gates_RG), self.norm_hidden(share_RG)
        first = 2 * self.size
        opened = torch.add(gates_RG[:, :first], share_RG[:, :first]).sigmoid_()
        reset_RD, update_RD = opened.chunk(2, -1)
        new_RD = tanh_(torch.addcmul(gates_RG[:, first:], reset_RD, share_RG[:, first:]))
        return torch.lerp(new_RD, hidden_RD, update_RD)

    def run(self, gates_SRG: Tensor, mask_SR1: Tensor, *, reverse: bool) -> Tensor:
        """Return the states [S, R, D] of a sequence from zero on; masked states are zero."""
        steps = range(len(gates_SRG))
        hidden_RD = gates_SRG.new_zeros(gates_SRG.shape[1], self.size)
        states_SRD = gates_SRG.new_empty(*gates_SRG.shape[:2], self.size)
        for s in reversed(steps) if reverse else steps:
            hidden_RD = self.step(gates_SRG[s], hidden_RD).mul_(mask_SR1[s])
            states_SRD[s] = hidden_RD
        return states_SRD


def tanh_(values: Tensor) -> Tensor:
    """Overwrite values by their tanh; the sigmoid kernel is several times faster on CPUs."""
    return values.mul_(2).sigmoid_().mul_(2).sub_(1)


def bias_of(gru: GRU) -> Tensor:
    """Return the bias of a layer's inputs; there is none where a norm follows."""
    if gru.bias_input is None:
        return gru.weight_input.new_zeros(len(gru.weight_input))
    return gru.bias_input

"""Products with trained weights, which are cast and laid out once, and tables of such products.

oneDNN keeps a matrix in blocks of its own: that is faster, most of all for few rows, and gives a
row the same bits whatever rows stand beside it. Everything but the products is computed in fp32. A
piece enters a layer by way of the embedding: its product is looked up in a table.

Legend: R rows, I inputs, O outputs, V vocabulary, E embedding size, S length, D size of a layer,
G = 3D gates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from seq2seq.model.gru import GRU

Product = Callable[[Tensor], Tensor]


def product(
    weight_OI: Tensor,
    bias_O: Tensor | None,
    dtype: torch.dtype,
    *,
    bounded: bool = False,
    widen: bool = True,
) -> Product:
    """Return the function x -> W x + b of the last axis, which is computed in `dtype`.

    Inputs and outputs are fp32 (or fp64, where dtype is); outputs that `widen` does not ask to be
    are as the product leaves them, perhaps bf16. `bounded` inputs are within [-1, 1], as the
    states of a GRU are: torch.int8 can then do with one scale for all.
    """
    weight_OI = weight_OI.detach()
    bias_O = None if bias_O is None else bias_O.detach()
    if dtype == torch.int8:
        return Quantized(weight_OI, bias_O, bounded=bounded)
    kind = Packed if packs(weight_OI.device, dtype) else Plain
    return kind(weight_OI.to(dtype), None if bias_O is None else bias_O.to(dtype), widen=widen)


class Plain:
    """A product as torch does it, where oneDNN cannot: on a GPU, or in double precision."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None, *, widen: bool) -> None:
        self.weight_OI, self.bias_O, self.widen = weight_OI, bias_O, widen

    def __call__(self, inputs: Tensor) -> Tensor:
        outputs = torch.nn.functional.linear(
            inputs.to(self.weight_OI.dtype), self.weight_OI, self.bias_O
        )
        return outputs.to(inputs.dtype) if self.widen else outputs


class Packed:
    """A product by oneDNN in fp32 or bf16, which sums in fp32."""

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None, *, widen: bool) -> None:
        self.dtype, self.bias_O, self.widen = weight_OI.dtype, bias_O, widen
        self.weight: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight_OI.contiguous(), None)

    def __call__(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.ops.mkldnn._linear_pointwise(
            inputs.to(self.dtype), self.weight, self.bias_O, "none", [], ""
        )
        return outputs.to(inputs.dtype) if self.widen else outputs


class Quantized:
    """A product of 8-bit integers: a scale for each output, and one for all bounded inputs.

    Inputs that are not bounded are scaled by the largest of their own row, never of the batch: a
    sentence is translated in the same way whatever its neighbors are.
    """

    def __init__(self, weight_OI: Tensor, bias_O: Tensor | None, *, bounded: bool) -> None:
        self.bounded, self.bias_O = bounded, None if bias_O is None else bias_O.float()
        weight_OI = weight_OI.float()
        self.scale_O = weight_OI.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / 127
        rounded_OI = (weight_OI / self.scale_O[:, None]).round().to(torch.int8)
        self.weight: Tensor = torch.ops.onednn.qlinear_prepack(rounded_OI, None)
        self.zeros_O = torch.zeros(len(weight_OI), dtype=torch.int32)

    def __call__(self, inputs: Tensor) -> Tensor:
        if self.bounded:
            return self._multiply(inputs, self.bias_O)
        largest_R1 = inputs.abs().amax(-1, keepdim=True).clamp_min(1e-30)
        outputs = self._multiply(inputs / largest_R1, None)
        if self.bias_O is None:
            return outputs.mul_(largest_R1)
        return torch.addcmul(self.bias_O, outputs, largest_R1, out=outputs)

    def _multiply(self, inputs: Tensor, bias_O: Tensor | None) -> Tensor:
        # Unsigned, with 128 for 0: oneDNN has no fast kernel for signed inputs on every CPU.
        integers = torch.add(128.5, inputs, alpha=127).to(torch.uint8)
        outputs: Tensor = torch.ops.onednn.qlinear_pointwise(
            integers, 1 / 127, 128, self.weight, self.scale_O, self.zeros_O, bias_O,
            1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return outputs


def packs(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether this torch can lay out weights for oneDNN there."""
    if device.type != "cpu" or dtype not in (torch.float32, torch.bfloat16):
        return False
    return _has(torch.ops.mkldnn, "_reorder_linear_weight", "_linear_pointwise")


def multiplies_int8(device: torch.device) -> bool:
    """Return whether this torch and this CPU multiply 8-bit integers natively."""
    supported = getattr(torch.cpu, "_is_vnni_supported", None)
    return (
        device.type == "cpu"
        and supported is not None
        and bool(supported())
        and _has(torch.ops.onednn, "qlinear_prepack", "qlinear_pointwise")
    )


def _has(operators: Any, *names: str) -> bool:
    return all(hasattr(operators, name) for name in names)


_MOST = 2**25  # numbers in a table; larger ones cost more memory than they are worth


class Lookup:
    """The product W e + b of each piece's embedding e."""

    def __init__(
        self, embedding_VE: Tensor, weight_OE: Tensor, bias_O: Tensor, dtype: torch.dtype
    ) -> None:
        # Embeddings are not bounded, and a table is made only once: int8 would gain nothing.
        exact = torch.float32 if dtype == torch.int8 else dtype
        self.rows = embedding_VE.detach()
        self.multiply = product(weight_OE, bias_O, exact)
        self.is_table = len(embedding_VE) * len(weight_OE) <= _MOST
        if self.is_table:
            self.rows = self.multiply(self.rows)

    def __call__(self, tokens: Tensor) -> Tensor:
        """Return [..., O] for tokens [...]; a new tensor."""
        rows = torch.nn.functional.embedding(tokens, self.rows)
        return rows if self.is_table else self.multiply(rows)


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

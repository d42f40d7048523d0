"""The encoder: source pieces to states.

Legend: S source length, B batch, D state of one direction, H both, G = 3D gates.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from seq2seq.model.encoder import Encoder
from seq2seq.model.memory import Encoded
from seq2seq.model.prepared.lookup import Lookup
from seq2seq.model.prepared.product import product
from seq2seq.model.prepared.recurrent import Cell, bias_of


class PreparedEncoder:
    """The layers of an encoder, each with one input product for both directions."""

    def __init__(self, encoder: Encoder, embedding_VE: Tensor, dtype: torch.dtype) -> None:
        self.layers: list[tuple[Callable[[Tensor], Tensor], Cell, Cell]] = []
        for forwards, backwards in zip(encoder.forwards, encoder.backwards, strict=True):
            weight = torch.cat([forwards.weight_input, backwards.weight_input])
            bias = torch.cat([bias_of(forwards), bias_of(backwards)])
            enter = (
                product(weight, bias, dtype, bounded=True)
                if self.layers
                else Lookup(embedding_VE, weight, bias, dtype)
            )
            self.layers.append((enter, Cell(forwards, dtype), Cell(backwards, dtype)))

    def __call__(self, source_BS: Tensor, mask_BS: Tensor) -> Encoded:
        """Return what seq2seq.model.encoder.Encoder does."""
        layer_SBX = source_BS.t()
        for enter, forwards, backwards in self.layers:
            forth_SBG, back_SBG = enter(layer_SBX).chunk(2, -1)
            mask_SB1 = mask_BS.t().unsqueeze(-1).to(forth_SBG.dtype)
            forth_SBD = forwards.run(forth_SBG, mask_SB1, reverse=False)
            back_SBD = backwards.run(back_SBG, mask_SB1, reverse=True)
            layer_SBX = torch.cat([forth_SBD, back_SBD], -1)
        last_B = mask_BS.sum(1) - 1
        last_BD = forth_SBD[last_B, torch.arange(len(last_B), device=last_B.device)]
        states_BSH = layer_SBX.transpose(0, 1).contiguous()
        return Encoded(states_BSH, mask_BS, torch.cat([last_BD, back_SBD[0]], -1))

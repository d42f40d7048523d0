"""BiGRU encoder: embedded source to states.

Legend: S source length, B batch, E embedding size, H memory size (both directions).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.config import ModelConfig
from seq2seq.model.dropout import Dropout
from seq2seq.model.memory import Encoded
from seq2seq.model.recurrent import Layers


class Encoder(nn.Module):
    """A stack of bidirectional GRU layers; a state is both directions side by side."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.encoder_size
        sizes = [config.embedding_size] + [2 * size] * (config.encoder_layers - 1)
        self.forwards = Layers(sizes, size, layer_norm=config.layer_norm)
        self.backwards = Layers(sizes, size, layer_norm=config.layer_norm)
        self.dropout = Dropout(config.dropout, variational=config.variational_dropout)

    def forward(self, embedded_SBE: Tensor, mask_SB: Tensor) -> Encoded:
        """Return states [B, S, H]; those at padding are zero, and padding changes no other."""
        layer_SBX = embedded_SBE
        for number, (forwards, backwards) in enumerate(
            zip(self.forwards, self.backwards, strict=True)
        ):
            if number:
                layer_SBX = self.dropout(layer_SBX, time_axis=0)
            zeros = layer_SBX.new_zeros(
                layer_SBX.shape[1], forwards.hidden_size, dtype=forwards.weight_hidden.dtype
            )
            forth_SBh = forwards(forwards.project(layer_SBX), zeros, mask_SB)
            back_SBh = backwards(backwards.project(layer_SBX), zeros, mask_SB, reverse=True)
            layer_SBX = torch.cat([forth_SBh, back_SBh], -1)
        last_B = mask_SB.sum(0) - 1
        last_Bh = forth_SBh[last_B, torch.arange(len(last_B), device=last_B.device)]
        states_BSH = self.dropout(layer_SBX.transpose(0, 1), time_axis=1)
        return Encoded(states_BSH, mask_SB.t(), torch.cat([last_Bh, back_SBh[0]], -1))

"""What training minimises, as one module: so that its gradients can be shared between ranks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seq2seq.data.batching import Batch
from seq2seq.model.translation import TranslationModel
from seq2seq.training.loss import projection_loss
from seq2seq.training.sampling import mix_predictions


class Objective(nn.Module):
    """Cross-entropy of the target pieces under teacher forcing."""

    def __init__(
        self, model: TranslationModel, *, label_smoothing: float, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.model, self.label_smoothing, self.dtype = model, label_smoothing, dtype

    def forward(self, batch: Batch, fed_back: float = 0.0) -> tuple[Tensor, Tensor]:
        """Return sums over the batch's target pieces: the smoothed loss, the plain one.

        `fed_back` is the share of the model's own predictions among the inputs.
        """
        model, mask_BT = self.model, batch.label_mask_BT
        enabled = self.dtype != torch.float32
        with torch.autocast(batch.labels_BT.device.type, self.dtype, enabled=enabled):
            inputs_BT = mix_predictions(model, batch, fed_back)
            features_BTO, _ = model(batch.source_BS, batch.source_mask_BS, inputs_BT)
            return projection_loss(
                features_BTO[mask_BT],
                model.output_weight,
                model.output_bias,
                batch.labels_BT[mask_BT],
                label_smoothing=self.label_smoothing,
            )

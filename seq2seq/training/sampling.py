"""Scheduled sampling: feed the model some of its own predictions while it learns."""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq.data.batching import Batch
from seq2seq.model.translation import TranslationModel


@torch.no_grad()
def mix_predictions(model: TranslationModel, batch: Batch, share: float) -> Tensor:
    """Return inputs [B, T] of which a share is what the model predicts at the position before.

    Bengio et al. (2015), with the predictions of all positions made in one teacher-forced pass
    (Mihaylova and Martins 2019, sec. 3). BOS and padding stay.
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

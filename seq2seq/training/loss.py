"""The training loss under teacher forcing.

Legend: B batch, T target length, N target positions, O readout size.
"""

from __future__ import annotations

import torch
from torch import Tensor

from seq2seq.data.batching import Batch
from seq2seq.model.kernels import SLICE_ROWS, projection_loss
from seq2seq.model.translation_model import TranslationModel


def teacher_forced_loss(
    model: TranslationModel,
    batch: Batch,
    *,
    label_smoothing: float = 0.0,
    dtype: torch.dtype = torch.float32,
    scheduled_sampling: float | Tensor = 0.0,
    static_shapes: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the loss, smoothed and plain, summed over the target pieces, in nats.

    Matrix products are computed in `dtype`. `scheduled_sampling` is the share of the model's own
    predictions among the inputs. With `static_shapes`, positions of padding are computed and then
    left out of the sums: no shape depends on lengths, so that a GPU never waits for the host.
    """
    mask_BT, narrow = batch.label_mask_BT, dtype != torch.float32
    with torch.autocast(batch.labels_BT.device.type, dtype, enabled=narrow):
        inputs_BT = mix_predictions(model, batch, scheduled_sampling)
        readout_BTO, _ = model(batch.source_BS, batch.source_mask_BS, inputs_BT)
        return projection_loss(
            readout_BTO.flatten(0, 1) if static_shapes else readout_BTO[mask_BT],
            model.output_weight,
            model.output_bias,
            batch.labels_BT.flatten() if static_shapes else batch.labels_BT[mask_BT],
            label_smoothing=label_smoothing,
            counted_N=mask_BT.flatten() if static_shapes else None,
        )


@torch.no_grad()
def mix_predictions(model: TranslationModel, batch: Batch, share: float | Tensor) -> Tensor:
    """Return inputs [B, T] with a random share replaced by the model's own predictions.

    Scheduled sampling (Bengio et al. 2015) with the predictions of all positions from one
    teacher-forced pass (Mihaylova and Martins 2019, sec. 3). BOS and padding stay. A `share` that
    is a tensor is not read by the host.
    """
    inputs_BT = batch.inputs_BT
    if (not isinstance(share, Tensor) and share == 0) or inputs_BT.shape[1] < 2:
        return inputs_BT
    readout_BTO, _ = model(batch.source_BS, batch.source_mask_BS, inputs_BT)
    rows_NO = readout_BTO[:, :-1].flatten(0, 1).split(SLICE_ROWS)
    predicted_BT = torch.cat([model.logits(rows).argmax(-1) for rows in rows_NO])
    predicted_BT = predicted_BT.view(len(inputs_BT), -1)
    drawn_BT = torch.rand(predicted_BT.shape, device=predicted_BT.device) < share
    drawn_BT &= batch.label_mask_BT[:, 1:]
    mixed_BT = inputs_BT.clone()
    mixed_BT[:, 1:] = torch.where(drawn_BT, predicted_BT, inputs_BT[:, 1:])
    return mixed_BT

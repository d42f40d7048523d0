"""The largest of many scores, found faster than torch finds them on a CPU.

Legend: B sentences, K hypotheses a sentence, R = B * K rows, V vocabulary, C candidates,
N candidates a sentence, Z blocks of pieces, X places
"""

from __future__ import annotations

import torch
from torch import Tensor

# Pieces of a block. A maximum is fast over multiples of the vector width, and torch.topk, which
# looks at each number on its own, then sees the maxima and a few blocks only.
_BLOCK = 64


def argmax(scores_RV: Tensor) -> Tensor:
    """Return the place of the largest score of each row; of equal ones the first."""
    if scores_RV.device.type == "cpu":  # NumPy is ten times faster here
        return torch.from_numpy(scores_RV.numpy().argmax(1))
    return scores_RV.argmax(1)


def top(scores_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest scores of each row and their places, in the order of the places."""
    if count == 1:  # topk does not promise the first of equal ones
        places_R1 = argmax(scores_RV).unsqueeze(1)
        return scores_RV.gather(1, places_R1), places_R1
    scores_RC, places_RC = scores_RV.topk(min(count, scores_RV.size(1)), sorted=False)
    places_RC, order_RC = places_RC.sort()
    return scores_RC.gather(1, order_RC), places_RC


def top_extensions(
    log_probs_RV: Tensor, totals_R: Tensor, num_sentences: int, count: int
) -> tuple[Tensor, Tensor]:
    """Return the largest totals_R + log_probs_RV of each sentence [B, N], and where they are.

    Places are of [K * V], so row and piece together. Equal ones are in the order of their places.
    """
    vocab = log_probs_RV.size(1)
    log_probs_BX = log_probs_RV.view(num_sentences, -1)
    totals_BK = totals_R.view(num_sentences, -1)
    if vocab <= 4 * _BLOCK:
        totals_BX = (log_probs_RV + totals_R[:, None]).view(num_sentences, -1)
        totals_BN, places_BN = top(totals_BX, count)
    else:
        rows_BN1, pieces_BNX = _top_blocks(log_probs_RV, totals_BK, count)
        places_BX = (rows_BN1 * vocab + pieces_BNX.clamp(max=vocab - 1)).flatten(1)
        found_BNX = log_probs_BX.gather(1, places_BX).view(pieces_BNX.shape)
        totals_BNX = found_BNX + totals_BK.unsqueeze(2).gather(1, rows_BN1)
        totals_BNX.masked_fill_(pieces_BNX >= vocab, -torch.inf)  # behind the last block
        totals_BN, chosen_BN = top(totals_BNX.flatten(1), count)
        places_BN = places_BX.gather(1, chosen_BN)
    totals_BN, order_BN = totals_BN.sort(dim=1, descending=True, stable=True)
    return totals_BN, places_BN.gather(1, order_BN)


def _top_blocks(log_probs_RV: Tensor, totals_BK: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return rows [B, N, 1] and pieces [B, N, block] of the blocks with the largest maxima."""
    whole = log_probs_RV.size(1) // _BLOCK
    maxima_RZ = log_probs_RV[:, : whole * _BLOCK].view(-1, whole, _BLOCK).amax(2)
    if whole * _BLOCK < log_probs_RV.size(1):
        rest_R1 = log_probs_RV[:, whole * _BLOCK :].amax(1, keepdim=True)
        maxima_RZ = torch.cat((maxima_RZ, rest_R1), 1)
    blocks = maxima_RZ.size(1)
    maxima_BX = (maxima_RZ + totals_BK.view(-1, 1)).view(len(totals_BK), -1)
    _, places_BN = top(maxima_BX, count)
    rows_BN = places_BN.div(blocks, rounding_mode="floor")
    firsts_BN = (places_BN - rows_BN * blocks) * _BLOCK
    pieces_BNX = firsts_BN.unsqueeze(2) + torch.arange(_BLOCK, device=firsts_BN.device)
    return rows_BN.unsqueeze(2), pieces_BNX

"""Forced decoding over a `Decoding`: the pieces are given, the model says what it makes of them.

B sentences, R rows, V vocabulary
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from seq2seq.inference.frontier import Ints
from seq2seq.inference.protocol import Decoding, Hypothesis, SearchOptions, StateT
from seq2seq.inference.search import roll_out


@torch.inference_mode()
def force(
    decoding: Decoding[StateT], targets: Sequence[Sequence[int]], options: SearchOptions
) -> list[Hypothesis]:
    """Return for each sentence the hypothesis that has exactly the target's pieces.

    Targets are without the ends of sentence, and of any pieces but padding and the begin of
    sentence. Probabilities, score and weights are those of a search that happened to choose these
    pieces: each row of weights is what the model looked at to predict the piece of that row. Every
    hypothesis is finished. Raises FloatingPointError for logits that are not finite, ConfigError as
    `greedy` does, and for a target of more pieces than a search may produce.
    """
    steps = max(map(len, targets), default=0) + 1
    forced_BT: Ints = np.full((len(targets), steps), options.eos)
    for row, tokens in zip(forced_BT, targets, strict=True):
        row[: len(tokens)] = tokens
    free = replace(
        options, max_length_factor=0, max_length_offset=steps, no_repeat_ngram=0, allow_unk=True
    )

    def choose(log_probs_RV: Tensor, sentences_R: Ints, _: Ints, step: int) -> Tensor:
        return torch.from_numpy(forced_BT[sentences_R, step]).to(log_probs_RV.device)

    return [found for [found] in roll_out(decoding, free, choose)]

"""Several models that translate as one.

Legend: B sentences, R rows, S source length, V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seq2seq.inference.beam_state import log_softmax
from seq2seq.inference.protocol import Decoding, State


class EnsembleState(tuple[State, ...]):
    """The states of the members."""

    def select(self, rows_R: Tensor) -> EnsembleState:
        """Return the state of these rows."""
        return EnsembleState(state.select(rows_R) for state in self)


@dataclass(frozen=True)
class Ensemble:
    """A `Decoding` that averages the probabilities of its members.

    All members have the same source pieces and share the target vocabulary. Attention weights are
    averaged over the members that have attention.
    """

    members: Sequence[Decoding]

    @property
    def source_lengths_B(self) -> Tensor:
        """Return the number of source pieces of each sentence, EOS included."""
        return self.members[0].source_lengths_B

    def start(self) -> EnsembleState:
        """Return the states before the first piece."""
        return EnsembleState(member.start() for member in self.members)

    def step(
        self, tokens_R: Tensor, state: EnsembleState
    ) -> tuple[Tensor, Tensor | None, EnsembleState]:
        """Return the log of the mean probabilities, the mean weights, and the state."""
        steps = [
            member.step(tokens_R, of_member)
            for member, of_member in zip(self.members, state, strict=True)
        ]
        log_probs = [log_softmax(logits_RV) for logits_RV, _, _ in steps]
        mean_RV = torch.stack(log_probs).logsumexp(0) - math.log(len(steps))
        weights = [weights_RS for _, weights_RS, _ in steps if weights_RS is not None]
        mean_RS = torch.stack(weights).mean(0) if weights else None
        return mean_RV, mean_RS, EnsembleState(of_member for _, _, of_member in steps)

    def select(self, sentences_B: Tensor) -> Ensemble:
        """Return the ensemble for these sentences only."""
        return Ensemble([member.select(sentences_B) for member in self.members])

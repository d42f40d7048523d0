"""Several models that translate as one.

Legend: B sentences, R rows, S source length, V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seq2seq.inference.protocol import Decoding, Ints, State, Step

_TINY = float(np.finfo(np.float32).tiny)


class EnsembleState(tuple[State, ...]):
    """The states of the members."""

    def select(self, rows_R: Ints) -> EnsembleState:
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
    def source_lengths_B(self) -> Ints:
        """Return the number of source pieces of each sentence, EOS included."""
        return self.members[0].source_lengths_B

    def start(self) -> EnsembleState:
        """Return the states before the first piece."""
        return EnsembleState(member.start() for member in self.members)

    def step(
        self,
        tokens_R: Ints,
        state: EnsembleState,
        *,
        count: int | None = None,
        weights: bool = False,
    ) -> Step:
        """Return the log of the mean probabilities of all pieces, the mean weights, and states."""
        steps = [
            member.step(tokens_R, of_member, weights=weights)
            for member, of_member in zip(self.members, state, strict=True)
        ]
        # In single precision e^x and log are many times faster than logaddexp; what is less likely
        # than the smallest number counts as that.
        total_RV = sum(np.exp(step.log_probs_RC, out=step.log_probs_RC) for step in steps)
        log_probs_RV = np.log(np.maximum(total_RV, _TINY))
        known = [step.weights_RS for step in steps if step.weights_RS is not None]
        return Step(
            log_probs_RV - math.log(len(steps)),
            EnsembleState(step.state for step in steps),
            np.mean(known, axis=0) if known else None,
        )

    def select(self, sentences_B: Ints) -> Ensemble:
        """Return the ensemble for these sentences only."""
        return Ensemble([member.select(sentences_B) for member in self.members])

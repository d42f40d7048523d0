"""Several models that translate as one.

Legend: B sentences, R rows, S source length, V vocabulary
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seq2seq.errors import ConfigError
from seq2seq.inference.beam_state import log_softmax
from seq2seq.inference.protocol import Decoding, State


@dataclass(frozen=True)
class EnsembleState:
    """The states of the members."""

    members: tuple[State, ...]

    def select(self, rows_R: Tensor) -> EnsembleState:
        """Return the state of these rows."""
        return EnsembleState(tuple(state.select(rows_R) for state in self.members))


class Ensemble:
    """A `Decoding` that averages the probabilities of its members.

    All members have the same source pieces and share the target vocabulary. Attention weights are
    averaged over the members that have attention.
    """

    def __init__(self, members: Sequence[Decoding[Any]]) -> None:
        """Raise ConfigError if there are no members or their source lengths differ."""
        if not members:
            raise ConfigError("an ensemble needs at least one model")
        lengths_B = members[0].source_lengths_B
        for number, member in enumerate(members[1:], start=2):
            if not torch.equal(member.source_lengths_B, lengths_B):
                raise ConfigError(
                    f"model {number} of the ensemble splits the sources into other pieces than "
                    "model 1; ensemble models that share a tokenizer"
                )
        self.members = tuple(members)

    @property
    def num_sentences(self) -> int:
        """Return B."""
        return self.members[0].num_sentences

    @property
    def source_lengths_B(self) -> Tensor:
        """Return the number of source pieces of each sentence, EOS included."""
        return self.members[0].source_lengths_B

    def start(self) -> EnsembleState:
        """Return the states before the first piece."""
        return EnsembleState(tuple(member.start() for member in self.members))

    def step(
        self, tokens_R: Tensor, state: EnsembleState
    ) -> tuple[Tensor, Tensor | None, EnsembleState]:
        """Return the log of the mean probabilities, the mean weights, and the state.

        Raises ConfigError if the members' target vocabularies differ in size.
        """
        steps = [
            member.step(tokens_R, of_member)
            for member, of_member in zip(self.members, state.members, strict=True)
        ]
        sizes = [logits_RV.size(1) for logits_RV, _, _ in steps]
        if len(set(sizes)) > 1:
            raise ConfigError(f"the models of the ensemble have target vocabularies of {sizes}")
        log_probs = [log_softmax(logits_RV) for logits_RV, _, _ in steps]
        mean_RV = torch.stack(log_probs).logsumexp(0) - math.log(len(steps))
        weights = [weights_RS for _, weights_RS, _ in steps if weights_RS is not None]
        mean_RS = torch.stack(weights).mean(0) if weights else None
        return mean_RV, mean_RS, EnsembleState(tuple(of_member for _, _, of_member in steps))

    def select(self, sentences_B: Tensor) -> Ensemble:
        """Return the ensemble for these sentences only."""
        return Ensemble([member.select(sentences_B) for member in self.members])

"""A fake model for tests of search: every prefix of every sentence has its own random logits.

It checks that search keeps rows, sentences and states together, and logs its batch sizes.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

BOS = 2
EOS = 3
PIECES = 7  # pad, unk, bos, eos and three words


@dataclass(frozen=True)
class PrefixState:
    """The sentence of each row and all pieces that it has read, BOS included."""

    sentences_R: Tensor
    prefixes_RT: Tensor

    def select(self, rows_R: Tensor) -> PrefixState:
        return PrefixState(self.sentences_R[rows_R], self.prefixes_RT[rows_R])


@dataclass
class PrefixModel:
    """A Decoding whose logits and weights are functions of (seed, sentence, prefix).

    `eos_bias` is added to the logit of EOS; `sharpness` scales all logits.
    """

    seed: int
    source_lengths_B: Tensor
    sentences_B: Tensor
    sharpness: float = 1.0
    eos_bias: float = 0.0
    attends: bool = True
    dtype: torch.dtype = torch.float64
    log: list[tuple[int, int]] = field(default_factory=list)  # sentences and rows of each step

    def start(self) -> PrefixState:
        empty_R0 = torch.empty((len(self.sentences_B), 0), dtype=torch.long)
        return PrefixState(self.sentences_B, empty_R0)

    def step(
        self, tokens_R: Tensor, state: PrefixState
    ) -> tuple[Tensor, Tensor | None, PrefixState]:
        copies, rest = divmod(len(tokens_R), len(self.sentences_B))
        assert rest == 0
        assert torch.equal(state.sentences_R, self.sentences_B.repeat_interleave(copies))
        self.log.append((len(self.sentences_B), len(tokens_R)))
        state = PrefixState(
            state.sentences_R, torch.cat((state.prefixes_RT, tokens_R[:, None]), dim=1)
        )
        rows = list(
            zip(state.sentences_R.tolist(), map(tuple, state.prefixes_RT.tolist()), strict=True)
        )
        logits_RV = torch.tensor(np.array([self.logits(s, p) for s, p in rows]), dtype=self.dtype)
        if not self.attends:
            return logits_RV, None, state
        lengths_R = self.source_lengths_B.repeat_interleave(copies).tolist()
        weights_RS = torch.zeros(len(rows), max(lengths_R), dtype=torch.float64)
        for row, ((sentence, prefix), length) in enumerate(zip(rows, lengths_R, strict=True)):
            weights_RS[row, :length] = torch.tensor(self.weights(sentence, prefix, length))
        return logits_RV, weights_RS, state

    def select(self, sentences_B: Tensor) -> PrefixModel:
        values = {**vars(self), "source_lengths_B": self.source_lengths_B[sentences_B]}
        return PrefixModel(**{**values, "sentences_B": self.sentences_B[sentences_B]})

    def logits(self, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
        return random_logits(self.seed, sentence, prefix) * self.sharpness + self.eos_bias * (
            np.arange(PIECES) == EOS
        )

    def weights(self, sentence: int, prefix: tuple[int, ...], length: int) -> np.ndarray:
        generator = np.random.default_rng((self.seed, sentence, length, *prefix))
        return generator.dirichlet(np.full(length, 0.5))


@functools.lru_cache(maxsize=100_000)
def random_logits(seed: int, sentence: int, prefix: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng((seed, sentence, *prefix)).normal(size=PIECES)


def prefix_model(seed: int, source_lengths: list[int], **settings: object) -> PrefixModel:
    """Return the model for sentences 0, 1, ... of these lengths."""
    return PrefixModel(
        seed,
        torch.tensor(source_lengths),
        torch.arange(len(source_lengths)),
        **settings,  # type: ignore[arg-type]
    )

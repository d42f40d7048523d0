"""A translator whose model is random: any piece of the vocabulary may come next, bytes included."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from seq2seq.config import parse_config
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.inference.protocol import Ints, Step
from seq2seq.inference.translator import Translator


@dataclass(frozen=True)
class RandomState:
    prefixes: list[tuple[int, ...]]

    def select(self, rows_R: Ints) -> RandomState:
        return RandomState([self.prefixes[row] for row in rows_R.tolist()])


@dataclass(frozen=True)
class RandomBackend:
    """A backend and its decoding; logits depend on the seed and on what has been read."""

    seed: int
    vocab_size: int
    source_lengths_B: Ints = dataclasses.field(default_factory=lambda: np.empty(0, np.int64))
    on_gpu, batch_scale = False, 1
    computing = contextlib.nullcontext

    def decoding(self, source_BS: Ints) -> RandomBackend:
        return dataclasses.replace(self, source_lengths_B=(source_BS != 0).sum(1))

    def select(self, sentences_B: Ints) -> RandomBackend:
        lengths_B = self.source_lengths_B[sentences_B]
        return dataclasses.replace(self, source_lengths_B=lengths_B)

    def start(self) -> RandomState:
        return RandomState([()] * len(self.source_lengths_B))

    def step(self, tokens_R: Ints, state: RandomState, **_: Any) -> Step:
        prefixes = [(*p, t) for p, t in zip(state.prefixes, tokens_R.tolist(), strict=True)]
        logits = [
            np.random.default_rng((self.seed, *p)).normal(size=self.vocab_size) for p in prefixes
        ]
        logits_RV = np.array(logits, np.float32)
        return Step(
            logits_RV - np.log(np.exp(logits_RV).sum(1, keepdims=True)), RandomState(prefixes)
        )


def random_translator(seed: int, tokenizer: Tokenizer) -> Translator:
    recipe = "run_dir: r\ndata: {train: [{path: a.tsv}], valid: {path: b.tsv}}"
    languages = ["data.source_language=es", "data.target_language=en"]
    config = parse_config(recipe, ["inference.max_source_length=8", *languages])
    return Translator([RandomBackend(seed, tokenizer.vocab_size)], tokenizer, tokenizer, config)

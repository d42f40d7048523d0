"""The most likely next words after a prefix of a translation.

Legend: V vocabulary, C copies of the prefix, each of which begins another word
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from seq2seq.data.tokenizer import EOS
from seq2seq.inference.prefix import Prefix, Spelling
from seq2seq.inference.protocol import Decoding, Floats, Hypothesis, Ints, SearchOptions
from seq2seq.inference.search import StepCallback, decode, greedy
from seq2seq.inference.text import Translation

_TRIED = 2  # first pieces for each word that is asked for; some make the same word, or none


@dataclass(frozen=True)
class Alternative:
    """A word that could come next, and the best translation that continues with it.

    `log_prob` is that of the word, given what comes before it and that a word begins there, or the
    translation ends; see `next_words`. The word "" is the end of the translation.
    """

    word: str
    log_prob: float
    translation: Translation

    @property
    def probability(self) -> float:
        """The probability of the word."""
        return math.exp(self.log_prob)


def next_words(
    decoding: Decoding,
    prefix: Prefix,
    spelling: Spelling,
    options: SearchOptions,
    number: int,
    on_step: StepCallback | None = None,
) -> list[tuple[str, float, Hypothesis]]:
    """Return the most likely words after a prefix of whole words, best first.

    Each begins with one of the most likely first pieces; greedy search completes it. It comes with
    the log probability of its pieces, given that a word follows the prefix or the translation ends
    (the word ""), and with the hypothesis that ends after it. The decoding has one sentence. Raises
    as `search` does.
    """
    starts, copies = spelling.agreeing(b" "), _TRIED * number
    begins_V = np.isin(np.arange(spelling.tokenizer.vocab_size), starts)
    last_C: Ints = np.zeros(copies, np.int64)
    place, log_mass = -1, 0.0

    def choose(log_probs_RV: Floats, _: Ints, copies_R: Ints, step: int) -> Ints:
        nonlocal place, log_mass
        pieces_R = greedy(log_probs_RV)
        if place >= 0:
            pieces_R[begins_V[pieces_R] & ~np.isin(last_C[copies_R], spelling.marks)] = EOS
        elif log_probs_RV[0, EOS] > -np.inf:  # the prefix is spelled
            after = log_probs_RV[0, starts].astype(np.float64)
            place, log_mass = step, float(np.logaddexp.reduce(after))
            pieces_R = np.resize(starts[(-after).argsort(kind="stable")], copies)[copies_R]
        last_C[copies_R] = pieces_R
        return pieces_R

    [found] = decode(decoding, options, choose, copies=copies, prefixes=[prefix], on_step=on_step)
    words: dict[str, tuple[str, float, Hypothesis]] = {}
    for each in found:
        word = prefix.decode(each.tokens, spelling.tokenizer)[len(prefix.text) :].strip()
        log_prob = sum(each.log_probs[place : max(place + 1, len(each.tokens))]) - log_mass
        is_word = "\ufffd" not in word and (word or len(each.tokens) == place)
        if is_word and log_prob > words.get(word, ("", -math.inf))[1]:
            words[word] = (word, log_prob, each)
    return sorted(words.values(), key=lambda found: -found[1])[:number]

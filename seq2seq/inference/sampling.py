"""Sampling over a `Decoding`, and minimum Bayes risk among translations.

Legend: B sentences, R rows, V vocabulary, C candidates a row
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from seq2seq.errors import ConfigError
from seq2seq.inference.prefix import Prefix
from seq2seq.inference.protocol import Decoding, Floats, Hypothesis, Ints, SearchOptions
from seq2seq.inference.search import decode, length_limits, top
from seq2seq.languages import bleu_tokenizer

Metric = Literal["chrf", "bleu"]  # of sentences: the utility of minimum Bayes risk

_NUCLEUS = 128  # pieces that usually hold the probability mass of nucleus sampling


@dataclass(frozen=True)
class Sampling:
    """How to draw samples instead of searching for the best translation.

    Logits are divided by `temperature`; then only the `top_k` most likely pieces are kept (0: all),
    and of these the fewest whose probabilities sum to `top_p` (Holtzman et al. 2020). The rest is
    renormalized. Raises ConfigError for values out of range.
    """

    num_samples: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 1

    def __post_init__(self) -> None:
        for name, legal, expected in (
            ("temperature", 0.001 <= self.temperature <= 1000, "0.001 to 1000"),
            ("top_k", self.top_k >= 0, "0 (all pieces) or more"),
            ("top_p", 0 < self.top_p <= 1, "more than 0 and at most 1"),
            ("num_samples", self.num_samples >= 1, "1 or more"),
            ("seed", self.seed >= 0, "0 or more"),
        ):
            if not legal:
                raise ConfigError(f"{name}: expected {expected}, found {getattr(self, name)}")


def sample(
    decoding: Decoding,
    options: SearchOptions,
    sampling: Sampling,
    *,
    keys: Sequence[int] | None = None,
    prefixes: Sequence[Prefix] | None = None,
) -> list[list[Hypothesis]]:
    """Return for each sentence `num_samples` independent samples, in the order of drawing.

    `log_prob` and `score` are the model's own, as in search, whatever distribution the samples are
    drawn from. The beam of the options is ignored. With `prefixes`, one for each sentence, samples
    begin with them.

    `keys` are ids of the sentences, from 0; by default their index in the batch. The samples of a
    sentence depend on the seed, its key and the number of the sample, but not on the batch or on
    `num_samples`: give every sentence of a corpus a key of its own. Raises as `search` does.
    """
    limits = length_limits(decoding, options, prefixes)
    number = sampling.num_samples
    uniforms = np.zeros((len(limits), number, max(limits, default=0) + 1))
    chosen_keys = range(len(limits)) if keys is None else keys
    for row, key, limit in zip(uniforms, chosen_keys, limits, strict=True):
        generator = np.random.default_rng((sampling.seed, key))
        row[:, : limit + 1] = generator.random((number, limit + 1))

    def choose(log_probs_RV: Floats, sentences_R: Ints, copies_R: Ints, step: int) -> Ints:
        logits_RV = log_probs_RV / sampling.temperature
        uniforms_R = uniforms[sentences_R, copies_R, step]
        return draw(logits_RV, uniforms_R, top_k=sampling.top_k, top_p=sampling.top_p)

    return decode(decoding, options, choose, copies=number, prefixes=prefixes)


def draw(
    logits_RV: Floats, uniforms_R: npt.NDArray[np.float64], *, top_k: int = 0, top_p: float = 1.0
) -> Ints:
    """Return tokens_R by inverse transform sampling from numbers in [0, 1)."""
    weights_RV = np.exp(logits_RV - logits_RV.max(1, keepdims=True), dtype=np.float64)
    probs_RC, tokens_RC = weights_RV / weights_RV.sum(1, keepdims=True), None
    if top_k > 0 or top_p < 1:
        probs_RC, tokens_RC = _truncate(probs_RC, top_k, top_p)
    cumulated_RC = probs_RC.cumsum(1)
    # Strictly below the total mass even after rounding: no piece of probability 0 is ever drawn.
    mass_R = cumulated_RC[:, -1]
    drawn_R = np.minimum(uniforms_R * mass_R, np.nextafter(mass_R, 0))
    places_R: Ints = (cumulated_RC <= drawn_R[:, None]).sum(1)
    return places_R if tokens_RC is None else tokens_RC[np.arange(len(places_R)), places_R]


def _truncate(probs_RV: Floats, top_k: int, top_p: float) -> tuple[Floats, Ints]:
    """Return the pieces to draw from, most likely first; those cut off have probability 0."""
    size = probs_RV.shape[1]
    count = min(top_k or _NUCLEUS, size)
    while True:  # few pieces hold the mass, so this is cheaper than sorting all
        probs_RC, tokens_RC = top(probs_RV.copy(), count)
        if top_k or count == size or (probs_RC.sum(1) >= top_p).all():
            break
        count = min(8 * count, size)
    if top_p < 1:
        mass_R1 = top_p * (probs_RC.sum(1, keepdims=True) if top_k else 1.0)
        # A piece is kept if those before it do not yet hold the mass; the first always is.
        probs_RC[probs_RC.cumsum(1) - probs_RC >= mass_R1] = 0
    return probs_RC, tokens_RC


def minimum_bayes_risk(
    candidates: Sequence[str], metric: Metric, language: str, log_probs: Sequence[float] = ()
) -> int:
    """Return the index of the candidate with the highest expected utility; of equals the first."""
    expected = expected_utilities(candidates, metric, language, log_probs)
    # Utilities that differ by rounding only are equal.
    best = max(expected) - 1e-9 * max(1.0, abs(max(expected)))
    return next(index for index, value in enumerate(expected) if value >= best)


def expected_utilities(
    candidates: Sequence[str], metric: Metric, language: str, log_probs: Sequence[float] = ()
) -> list[float]:
    """Return for each candidate h the mean of utility(h, r) over all candidates r, itself included.

    The candidates stand for the model's distribution (Eikema and Aziz 2020): samples with equal
    weights; an n-best list, given its `log_probs`, with weights in proportion to its probabilities.
    The utility is sacreBLEU's sentence chrF or sentence BLEU in percent.
    """
    # sacreBLEU is slow to import, and most translations do not need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer: BLEU | CHRF = CHRF()
    if metric == "bleu":
        scorer = BLEU(effective_order=True, tokenize=bleu_tokenizer(language))
    log_probs = log_probs or [0.0] * len(candidates)
    highest = max(log_probs, default=0.0)
    weights: dict[str, float] = defaultdict(float)
    for candidate, log_prob in zip(candidates, log_probs, strict=True):
        weights[candidate] += math.exp(log_prob - highest)
    total = math.fsum(weights.values())
    expected = {
        hypothesis: math.fsum(
            weight * scorer.sentence_score(hypothesis, [reference]).score
            for reference, weight in weights.items()
        )
        / total
        for hypothesis in weights
    }
    return [expected[candidate] for candidate in candidates]

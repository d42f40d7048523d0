"""Greedy and beam search, forced decoding and sampling over a `Decoding`; minimum Bayes risk.

No model is known here.

Legend: B sentences, K hypotheses a sentence, R = B * K rows (sentence-major), S source length,
V vocabulary, C candidates a row, N candidates a sentence, T target length
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from seq2seq.data.tokenizer import EOS
from seq2seq.errors import ConfigError
from seq2seq.inference.beam import BeamState, BeamTrees, length_limits, top
from seq2seq.inference.prefix import Prefix
from seq2seq.inference.protocol import Decoding, Floats, Hypothesis, Ints, SearchOptions

Metric = Literal["chrf", "bleu"]  # the utility of minimum Bayes risk, of sentences

_NUCLEUS = 128  # pieces that usually hold the probability mass of nucleus sampling

# From log_probs_RC (-inf for illegal pieces), the sentence and the copy of each row, and the number
# of pieces so far, a choice makes the column of each row.
Choose = Callable[[Floats, Ints, Ints, int], Ints]


def search(
    decoding: Decoding, options: SearchOptions, prefixes: Sequence[Prefix] | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence up to `nbest` hypotheses, best score first.

    With `prefixes`, one for each sentence, hypotheses begin with them. A beam of 1 is searched
    greedily, which finds the same with less work, unless the tree is to be kept. Raises ConfigError
    for a coverage penalty without attention, FloatingPointError for logits that are not finite.
    """
    strategy = greedy if options.beam_size == 1 and not options.keep_tree else beam_search
    return strategy(decoding, options, prefixes)


def greedy(
    decoding: Decoding, options: SearchOptions, prefixes: Sequence[Prefix] | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence the hypothesis that takes the likeliest piece at each step.

    Of equally likely pieces the one with the smallest id wins. At the length limit EOS is the only
    choice, at its own probability. Raises as `search` does.
    """
    return decode(
        decoding, options, lambda log_probs_RC, *_: log_probs_RC.argmax(1), count=1,
        prefixes=prefixes,
    )  # fmt: skip


def beam_search(
    decoding: Decoding, options: SearchOptions, prefixes: Sequence[Prefix] | None = None
) -> list[list[Hypothesis]]:
    """Return for each sentence up to `nbest` hypotheses, best score first.

    Each step ranks all extensions of a sentence's hypotheses by log probability and takes the
    best. A hypothesis that takes EOS is finished and keeps its place in the beam: a sentence never
    has more than `beam_size` hypotheses, finished and unfinished.

    The search for a sentence ends when no hypothesis is unfinished, or when `nbest` are finished
    and the worst of the best `nbest` scores at least log p / length_norm(longest output), where p
    is the probability of the best unfinished one. Stopping there loses nothing: log probabilities
    only fall, the norm is largest at the largest length, and the coverage penalty is never
    positive, so no continuation scores more; of equal scores the first one finished wins.

    At the length limit EOS is the only extension, at its own probability. Equally likely
    candidates are ordered by the rank of the hypothesis that they extend, then by piece id. The
    result for a sentence does not depend on the rest of the batch. Raises as `search` does.
    """
    beams = BeamState(decoding, options, prefixes=prefixes)
    number, size = len(beams.sentences), options.beam_size
    found: list[list[Hypothesis]] = [[] for _ in range(number)]
    finished = np.zeros(number, dtype=np.int64)
    worst_kept = np.full(number, -np.inf)  # score of the last of the best `nbest`
    longest_norms = np.array([options.length_norm(limit + 1) for limit in beams.limits.tolist()])
    ranks_N = np.arange(size)
    trees = BeamTrees(number) if options.keep_tree else None
    while len(beams.sentences):
        ids_B = beams.sentences
        log_probs_BN, parents_BN, tokens_BN = _candidates(beams)
        taken_BN = np.isfinite(log_probs_BN)
        taken_BN &= ranks_N[: taken_BN.shape[1]] < size - finished[ids_B, None]
        ended_BN = taken_BN & (tokens_BN == EOS)
        if trees is not None:
            trees.grow(beams, log_probs_BN, parents_BN, tokens_BN, taken_BN, ended_BN)
        if ended_BN.any():
            finished[ids_B] += ended_BN.sum(1)
            scores_BN = beams.scores(log_probs_BN, parents_BN)
            for b, n in np.argwhere(ended_BN & (scores_BN > worst_kept[ids_B, None])).tolist():
                hypothesis = beams.close(b, parents_BN[b, n], log_probs_BN[b, n], scores_BN[b, n])
                sentence = ids_B[b]
                ranked = sorted([*found[sentence], hypothesis], key=lambda found: -found.score)
                found[sentence] = ranked[: options.nbest]
                if len(found[sentence]) == options.nbest:
                    worst_kept[sentence] = found[sentence][-1].score
        log_probs_BN[~taken_BN | ended_BN] = -np.inf
        bound_B = log_probs_BN.max(1) / longest_norms[ids_B]
        kept_B = bound_B > worst_kept[ids_B]
        chosen = beams.extend(kept_B, log_probs_BN, parents_BN, tokens_BN)
        if trees is not None:
            trees.extend(chosen)
    if trees is not None:
        pairs = zip(found, trees.trees, strict=True)
        found = [[replace(each, tree=tree) for each in hypotheses] for hypotheses, tree in pairs]
    return [_check(hypotheses) for hypotheses in found]


def decode(
    decoding: Decoding,
    options: SearchOptions,
    choose: Choose,
    *,
    copies: int = 1,
    count: int | None = None,
    prefixes: Sequence[Prefix] | None = None,
) -> list[list[Hypothesis]]:
    """Return `copies` hypotheses a sentence, each extended by the piece that `choose` picks.

    With a `count`, `choose` gets that many of the likeliest legal pieces at least, else all.
    """
    beams = BeamState(decoding, options, copies=copies, prefixes=prefixes)
    found: list[dict[int, Hypothesis]] = [{} for _ in beams.sentences]
    copies_BK: Ints = np.tile(np.arange(copies), (len(found), 1))
    while len(beams.sentences):
        log_probs_RC, pieces_RC = beams.step(count)
        sentences_R = beams.sentences.repeat(beams.width)
        columns_R = choose(log_probs_RC, sentences_R, copies_BK.ravel(), beams.length)
        rows_R = np.arange(len(columns_R))
        tokens_R = columns_R if pieces_RC is None else pieces_RC[rows_R, columns_R]
        log_probs_BK = beams.log_probs_R + log_probs_RC[rows_R, columns_R]
        log_probs_BK = log_probs_BK.reshape(copies_BK.shape)
        tokens_BK = tokens_R.reshape(copies_BK.shape)
        parents_BK = np.zeros_like(copies_BK) + np.arange(copies_BK.shape[1])
        finite_BK = np.isfinite(log_probs_BK)
        ended_BK = finite_BK & (tokens_BK == EOS)
        if ended_BK.any():
            scores_BK = beams.scores(log_probs_BK, parents_BK)
            for b, k in np.argwhere(ended_BK).tolist():
                hypothesis = beams.close(b, k, log_probs_BK[b, k], scores_BK[b, k])
                found[beams.sentences[b]][int(copies_BK[b, k])] = hypothesis
        log_probs_BK[~finite_BK | ended_BK] = -np.inf
        kept_B = log_probs_BK.max(1) > -np.inf
        copies_BK = copies_BK[beams.extend(kept_B, log_probs_BK, parents_BK, tokens_BK)]
    return [_check([copy for _, copy in sorted(by_copy.items())]) for by_copy in found]


def _candidates(beams: BeamState) -> tuple[Floats, Ints, Ints]:
    """Return log probabilities, parents and pieces of the best extensions after a step, sorted.

    Extensions are compared by hypothesis and column side by side, [B, K * C].
    """
    log_probs_RC, pieces_RC = beams.step(beams.options.beam_size)
    log_probs_RC += beams.log_probs_R[:, None]
    totals_BX = log_probs_RC.reshape(len(beams.sentences), -1)
    totals_BN, places_BN = top(totals_BX, beams.options.beam_size)
    parents_BN, tokens_BN = np.divmod(places_BN, log_probs_RC.shape[1])
    if pieces_RC is not None:
        tokens_BN = np.take_along_axis(pieces_RC.reshape(totals_BX.shape), places_BN, 1)
    return totals_BN, parents_BN, tokens_BN


def _check(hypotheses: list[Hypothesis]) -> list[Hypothesis]:
    if not hypotheses:
        raise FloatingPointError("the model's logits are not finite; no hypothesis has a score")
    return hypotheses


def force(
    decoding: Decoding, targets: Sequence[Sequence[int]], options: SearchOptions
) -> list[Hypothesis]:
    """Return for each sentence the hypothesis that has exactly the pieces of its target.

    Targets have no EOS, and any pieces but padding and BOS. Probabilities, score and weights are
    those of a search that chooses these pieces: row i of the weights is the attention that
    predicted piece i. Every hypothesis is finished. Raises as `search` does, and ConfigError for a
    target longer than a search may produce.
    """
    steps = max(map(len, targets), default=0) + 1
    forced_BT: Ints = np.full((len(targets), steps), EOS)
    for row, tokens in zip(forced_BT, targets, strict=True):
        row[: len(tokens)] = tokens
    free = replace(
        options, max_length_factor=0, max_length_offset=steps, no_repeat_ngram=0, allow_unk=True
    )
    chosen = decode(decoding, free, lambda _, sentences_R, __, step: forced_BT[sentences_R, step])
    return [found for [found] in chosen]


@dataclass(frozen=True)
class Sampling:
    """How to draw samples instead of searching for the best translation.

    Logits are divided by `temperature`; then only the `top_k` likeliest pieces are kept (0: all),
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
            ("temperature", self.temperature > 0, "more than 0"),
            ("top_k", self.top_k >= 0, "0 (all pieces) or more"),
            ("top_p", 0 < self.top_p <= 1, "more than 0 and at most 1"),
            ("num_samples", self.num_samples >= 1, "1 or more"),
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

    `log_prob` and `score` are those of the model itself, as in search, whatever distribution was
    drawn from. The beam of the options is ignored. With `prefixes`, one for each sentence, samples
    begin with them.

    `keys` are ids of the sentences, from 0; by default their index in the batch. What is drawn for
    a sentence depends on the seed, its key and the number of the sample, neither on the batch nor
    on `num_samples`: give every sentence of a corpus a key of its own. Raises as
    `search` does.
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
        probs_RC, tokens_RC = _likeliest(probs_RC, top_k, top_p)
    cumulated_RC = probs_RC.cumsum(1)
    # Strictly below the total mass even after rounding: no piece of probability 0 is ever drawn.
    mass_R = cumulated_RC[:, -1]
    drawn_R = np.minimum(uniforms_R * mass_R, np.nextafter(mass_R, 0))
    places_R: Ints = (cumulated_RC <= drawn_R[:, None]).sum(1)
    return places_R if tokens_RC is None else tokens_RC[np.arange(len(places_R)), places_R]


def _likeliest(probs_RV: Floats, top_k: int, top_p: float) -> tuple[Floats, Ints]:
    """Return the pieces to draw from, likeliest first; those cut off have probability 0."""
    size = probs_RV.shape[1]
    count = min(top_k or _NUCLEUS, size)
    while True:  # few pieces hold the mass, so that this is cheaper than sorting all
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
    candidates: Sequence[str], metric: Metric, log_probs: Sequence[float] | None = None
) -> int:
    """Return the index of the candidate with the highest expected utility; of equals the first."""
    expected = expected_utilities(candidates, metric, log_probs)
    # Utilities that differ by rounding only are equal.
    best = max(expected) - 1e-9 * max(1.0, abs(max(expected)))
    return next(index for index, value in enumerate(expected) if value >= best)


def expected_utilities(
    candidates: Sequence[str], metric: Metric, log_probs: Sequence[float] | None = None
) -> list[float]:
    """Return for each candidate h the mean of utility(h, r) over all candidates r, itself included.

    The candidates stand for the model's distribution (Eikema and Aziz 2020): samples with equal
    weights; an n-best list with weights in proportion to its probabilities, which are given by
    their logarithms. The utility is sacreBLEU's sentence chrF or sentence BLEU in percent.
    """
    # sacreBLEU is slow to import, and most translations do not need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer = BLEU(effective_order=True) if metric == "bleu" else CHRF()
    if log_probs is None:
        log_probs = [0.0] * len(candidates)
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

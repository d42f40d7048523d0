"""BLEU, chrF and TER with signatures, intervals and paired tests; sacreBLEU computes all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seq2seq.errors import DataError

Name = Literal["bleu", "chrf", "ter"]
References = Sequence[str | Sequence[str]]

NAMES: tuple[Name, ...] = ("bleu", "chrf", "ter")


@dataclass(frozen=True)
class Metric:
    """A corpus score in percent, with the signature that makes it reproducible.

    With bootstrap resamples, `mean` is their mean and `interval` half the width of their central
    95 percent.
    """

    name: str
    score: float
    signature: str
    mean: float | None = None
    interval: float | None = None


@dataclass(frozen=True)
class Comparison:
    """A system's metric beside the probability that chance alone makes it differ from the baseline.

    The baseline itself has no p-value. It is 1 where the two scores are equal (sacreBLEU itself
    counts only larger differences, and finds a system significantly different from itself).
    """

    metric: Metric
    p_value: float | None


def score(
    hypotheses: Sequence[str],
    references: References,
    *,
    metrics: Sequence[Name] = NAMES,
    resamples: int = 0,
) -> dict[str, Metric]:
    """Score hypotheses against one or several references each, whose numbers may differ.

    Hypotheses and references are plain (detokenised) text. With `resamples` (1000 is usual) each
    metric has a bootstrap interval (Koehn 2004); the seed is sacreBLEU's and in the signature.

    Raises DataError for no hypotheses, unequal counts, and a sentence without reference.
    """
    streams = _streams(hypotheses, references)
    return {name: _score(name, hypotheses, streams, resamples) for name in metrics}


def paired_bootstrap(
    systems: Mapping[str, Sequence[str]],
    references: References,
    *,
    metrics: Sequence[Name] = NAMES,
    resamples: int = 1000,
) -> dict[str, dict[str, Comparison]]:
    """Compare systems with the first of them by paired bootstrap resampling (Koehn 2004).

    Returns comparisons by system, then by metric. Raises DataError as `score` does, and for fewer
    than two systems.
    """
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        raise DataError(f"a comparison needs two systems or more, found {len(systems)}")
    for hypotheses in systems.values():
        streams = _streams(hypotheses, references)
    scorers: dict[str, Any] = {name: _scorer(name) for name in metrics}
    test: Any = PairedTest(list(systems.items()), scorers, streams, "bs", resamples)
    signatures, results = test()
    # The results are keyed by names of sacreBLEU's own, such as chrF2, in the order of the metrics.
    keys = dict(zip(metrics, signatures, strict=True))

    def comparison(name: Name, row: int) -> Comparison:
        result = results[keys[name]][row]
        signature = str(signatures[keys[name]])
        metric = Metric(name, float(result.score), signature, float(result.mean), float(result.ci))
        equal = row > 0 and result.score == results[keys[name]][0].score
        return Comparison(metric, 1.0 if equal else result.p_value)

    return {
        system: {name: comparison(name, row) for name in metrics}
        for row, system in enumerate(systems)
    }


def _score(name: Name, hypotheses: Sequence[str], streams: Any, resamples: int) -> Metric:
    scorer = _scorer(name)
    result = scorer.corpus_score(hypotheses, streams, n_bootstrap=resamples)
    signature = str(scorer.get_signature())
    if resamples < 2:
        return Metric(name, float(result.score), signature)
    # Mean and interval are public in this form only.
    fields = json.loads(result.format(width=6, signature=signature, is_json=True))
    mean, interval = fields.get("confidence_mean", 0.0), fields.get("confidence_var", 0.0)
    return Metric(name, float(result.score), signature, mean, interval)


def _scorer(name: Name) -> Any:
    # sacreBLEU is slow to import, and translating does without it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    scorers: dict[Name, Any] = {"bleu": BLEU, "chrf": CHRF, "ter": TER}
    return scorers[name]()


def _streams(hypotheses: Sequence[str], references: References) -> Any:
    """Return for each n a stream of the n-th references, None where a sentence has fewer."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses)} hypotheses for {len(references)} lines of references: "
            "their numbers must be equal"
        )
    if not hypotheses:
        raise DataError("0 hypotheses: an empty test set has no score")
    by_sentence = [[refs] if isinstance(refs, str) else list(refs) for refs in references]
    for number, refs in enumerate(by_sentence, start=1):
        if not refs:
            raise DataError(f"sentence {number} of {len(by_sentence)} has no reference")
    depth = max(map(len, by_sentence))
    return [[refs[n] if n < len(refs) else None for refs in by_sentence] for n in range(depth)]

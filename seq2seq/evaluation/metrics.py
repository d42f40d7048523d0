"""BLEU, chrF and TER with signatures, intervals and paired tests, all computed by sacreBLEU.

`language` is the code of the target language; BLEU and TER split texts as sacreBLEU recommends
for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from seq2seq import languages
from seq2seq.errors import DataError

Name = Literal["bleu", "chrf", "ter"]
Test = Literal["bootstrap", "randomization"]
References = Sequence[str | Sequence[str]]

NAMES: tuple[Name, ...] = ("bleu", "chrf", "ter")
LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
SEED = 12345  # sacreBLEU's, for resampling
RESAMPLES = 1000  # of a bootstrap


@dataclass(frozen=True)
class Metric:
    """A corpus score in percent, with sacreBLEU's signature.

    With bootstrap resamples, `mean` is their mean and `interval` half the width of their central
    95 percent.

    `p_value` belongs to the difference from a baseline; the baseline has none. It is 1 if the two
    scores are equal, and at least 2 ** (1 - k) if k sentences differ: with that probability, k
    random swaps give the observed difference again. (sacreBLEU counts larger differences only, and
    would find two systems that differ in one sentence significantly different.)
    """

    score: float
    signature: str
    mean: float | None = None
    interval: float | None = None
    p_value: float | None = None

    @property
    def shown(self) -> str:
        """The score, with its interval and its p-value if there are any."""
        text = f"{self.score:.1f}" + ("" if self.interval is None else f" ± {self.interval:.1f}")
        if self.p_value is None:
            return text
        return f"{text} (p {'< 0.001' if self.p_value < 0.0005 else f'= {self.p_value:.3f}'})"

    def as_dict(self) -> dict[str, Any]:
        """Return the values that are known, in types that JSON has."""
        return {key: value for key, value in vars(self).items() if value is not None}


def score(
    hypotheses: Sequence[str],
    references: References,
    language: str,
    *,
    metrics: Sequence[Name] = NAMES,
    resamples: int = 0,
) -> dict[str, Metric]:
    """Score hypotheses against references; each hypothesis has one reference or several.

    Hypotheses and references are detokenized text. With `resamples` (1000 is usual) each metric
    has a bootstrap interval (Koehn 2004); the seed is sacreBLEU's and in the signature.

    Raises DataError for no hypotheses, unequal counts, a sentence without reference, and too few
    sentences for an interval.
    """
    streams = _streams(hypotheses, references)
    return {name: _score(name, language, hypotheses, streams, resamples) for name in metrics}


def scorer_of(
    references: References, language: str, metrics: Sequence[Name] = ("bleu", "chrf")
) -> Callable[[Sequence[str]], dict[str, float]]:
    """Return a function that scores hypotheses; it keeps the n-grams of the references."""
    streams = _streams([""] * len(references), references)
    kept = [(name, _scorer(name, language, streams)) for name in metrics]
    return lambda texts: {name: float(each.corpus_score(texts, None).score) for name, each in kept}


def sentence_chrf(hypotheses: Sequence[str], references: References) -> list[float]:
    """Return the chrF of each sentence, in percent, on its best reference (Popovic 2015)."""
    scorer = _scorer("chrf", "")
    by_sentence = zip(hypotheses, _by_sentence(hypotheses, references), strict=True)
    return [float(scorer.sentence_score(text, refs).score) for text, refs in by_sentence]


def lengths(hypotheses: Sequence[str], references: References, language: str) -> dict[str, float]:
    """Return the tokens of the hypotheses, of the references closest in length, and their ratio.

    Below 1, BLEU has a brevity penalty (Papineni et al. 2002, section 2.2.2).
    """
    found = _scorer("bleu", language).corpus_score(hypotheses, _streams(hypotheses, references))
    ratio = found.sys_len / max(1, found.ref_len)
    return {"hypotheses": found.sys_len, "references": found.ref_len, "ratio": ratio}


def paired_test(
    systems: Mapping[str, Sequence[str]],
    references: References,
    language: str,
    *,
    metrics: Sequence[Name] = NAMES,
    test: Test = "bootstrap",
    resamples: int = 1000,
) -> dict[str, dict[str, Metric]]:
    """Test the difference of each system from the first for significance.

    bootstrap: paired bootstrap resampling (Koehn 2004). randomization: approximate randomization,
    which swaps outputs of two systems at random (Riezler & Maxwell 2005); it has no intervals, and
    10,000 resamples are usual.

    Returns metrics by system, then by name. Raises DataError as `score` does, and for fewer
    than two systems.
    """
    from sacrebleu.significance import PairedTest

    if len(systems) < 2:
        raise DataError(f"a comparison needs two or more systems, found {len(systems)}")
    for hypotheses in systems.values():
        streams = _streams(hypotheses, references)
    scorers: dict[str, Any] = {name: _scorer(name, language) for name in metrics}
    kind = {"bootstrap": "bs", "randomization": "ar"}[test]
    paired: Any = PairedTest(list(systems.items()), scorers, streams, kind, resamples)
    signatures, results = paired()
    # The results have sacreBLEU's names as keys, such as chrF2, in the order of the metrics.
    keys = dict(zip(metrics, signatures, strict=True))
    texts = list(systems.values())

    def metric(name: Name, row: int) -> Metric:
        result = results[keys[name]][row]
        mean, interval = (None if v is None else float(v) for v in (result.mean, result.ci))
        p_value = None
        if row > 0:
            differing = sum(one != other for one, other in zip(texts[0], texts[row], strict=True))
            equal = result.score == results[keys[name]][0].score
            p_value = max(float(result.p_value), 1.0 if equal else 2.0 ** (1 - differing))
        signature = str(signatures[keys[name]])
        return Metric(float(result.score), signature, mean, interval, p_value)

    return {
        system: {name: metric(name, row) for name in metrics} for row, system in enumerate(systems)
    }


def _score(name: Name, language: str, texts: Sequence[str], streams: Any, resamples: int) -> Metric:
    scorer = _scorer(name, language)
    try:
        result = scorer.corpus_score(texts, streams, n_bootstrap=resamples)
    except TypeError:  # sacreBLEU cannot average scores if some of them are exactly 0
        raise DataError(
            f"{len(texts)} sentences are too few for an interval of {name}, which is 0 in "
            "some resamples; leave out --confidence and --report, or give more sentences"
        ) from None
    signature = str(scorer.get_signature())
    if resamples < 2:
        return Metric(float(result.score), signature)
    # sacreBLEU's only public form of mean and interval.
    fields = json.loads(result.format(width=6, signature=signature, is_json=True))
    mean, interval = fields.get("confidence_mean", 0.0), fields.get("confidence_var", 0.0)
    return Metric(float(result.score), signature, mean, interval)


def _scorer(name: Name, language: str, references: Any = None) -> Any:
    # sacreBLEU is slow to import, and translation does not need it.
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if name == "chrf":
        return CHRF(references=references)
    if name == "bleu":  # without `force` it warns about tokenized text at each call; see `evaluate`
        return BLEU(tokenize=languages.bleu_tokenizer(language), force=True, references=references)
    is_asian = not languages.language(language).is_spaced
    return TER(normalized=is_asian, asian_support=is_asian, references=references)


def _streams(hypotheses: Sequence[str], references: References) -> Any:
    """Return for each n a stream of the n-th references, None if a sentence has fewer."""
    by_sentence = _by_sentence(hypotheses, references)
    depth = max(map(len, by_sentence))
    return [[refs[n] if n < len(refs) else None for refs in by_sentence] for n in range(depth)]


def _by_sentence(hypotheses: Sequence[str], references: References) -> list[list[str]]:
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
    return by_sentence

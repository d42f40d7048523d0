"""Find out which probabilities of a model show that a translation, or a word of it, is wrong.

    python scripts/release/calibrate.py es-en story=data/general/dev-story.tsv --limit 500

Translates the sets, and the first two again as people type them (a typo, as in chats, a capital on
each word). For each feature of a translation it prints the threshold that marks half of the bad
ones (chrF below 40), and the shares of the bad, the middling and the good ones (above 70) that it
marks; likewise for the words that are in no reference. seq2seq.inference.text.UNLIKELY and
UNCERTAIN are such thresholds; the last lines say what these mark.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF

from seq2seq import Translator, cli
from seq2seq.commands.options import Parser, positive
from seq2seq.config import CorpusConfig
from seq2seq.data.cleaning import fold
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.tokenizer import EOS_PIECE, SPACE_PIECE, bytes_of_piece
from seq2seq.errors import DataError
from seq2seq.evaluation.robustness import lines_of
from seq2seq.inference.text import UNCERTAIN, UNLIKELY, Part
from seq2seq.languages import language

BAD, GOOD = 40, 70  # chrF
KINDS = ("one typo", "as in chats", "Title Case")
Line = tuple[str, Sequence[str]]  # source, references


class Word(NamedTuple):
    """A word of a translation with the sum of its pieces' log probabilities."""

    pieces: list[str]
    log_prob: float


def words_of(part: Part) -> list[Word]:
    """Return the words between spaces, of which the end of the sentence is the last."""
    found: list[Word] = []
    for piece, log_prob in zip(part.target_pieces, part.log_probs, strict=True):
        if not found or piece.startswith(SPACE_PIECE) or piece == EOS_PIECE:
            found.append(Word([piece], log_prob))
        else:
            found[-1] = Word([*found[-1].pieces, piece], found[-1].log_prob + log_prob)
    return found


def _per_word(parts: Sequence[Part]) -> float:
    words = list(chain.from_iterable(map(words_of, parts)))
    return sum(word.log_prob for word in words) / len(words)


def _attention(parts: Sequence[Part]) -> npt.NDArray[np.float64]:
    """Return the largest weight at each target piece."""
    return np.concatenate([np.asarray(part.weights, np.float64).max(1) for part in parts])


FEATURES: dict[str, Callable[[Sequence[Part]], float]] = {  # lower where less certain
    "log probability per piece": lambda parts: float(np.mean(_log_probs(parts))),
    "log probability per word": _per_word,
    "least likely piece": lambda parts: min(_log_probs(parts)),
    "least likely word": lambda parts: min(
        word.log_prob for part in parts for word in words_of(part)
    ),
    "least certain sentence, per piece": lambda parts: min(
        part.log_prob / len(part.target_pieces) for part in parts
    ),
    "largest attention weight": lambda parts: float(_attention(parts).mean()),
    "length ratio": lambda parts: -abs(
        float(
            np.log(sum(len(part.target_pieces) for part in parts))
            - np.log(sum(len(part.source_pieces) for part in parts))
        )
    ),
}  # fmt: skip


def _log_probs(parts: Sequence[Part]) -> list[float]:
    return [log_prob for part in parts for log_prob in part.log_probs]


def calibrate(translator: Translator, sets: dict[str, list[Line]]) -> list[str]:
    """Return tables of what each feature marks, over all lines and over the words."""
    metric = CHRF()
    lines = list(chain.from_iterable(sets.values()))
    options = translator.options(keep_weights=True)
    found = [best.parts for best, *_ in translator.translate([text for text, _ in lines], options)]
    texts = [" ".join(part.text for part in parts) for parts in found]
    scored = zip(texts, lines, strict=True)
    chrf = np.array([metric.sentence_score(text, list(refs)).score for text, (_, refs) in scored])
    groups = chrf < BAD, (chrf >= BAD) & (chrf <= GOOD), chrf > GOOD
    if not groups[0].any() or not groups[2].any():
        raise DataError("no translation is bad, or none is good; give more lines, or other ones")
    numbers = ", ".join(f"{name} {len(rows)}" for name, rows in sets.items())
    shares = "bad {:.1f} %, middling {:.1f} %, good {:.1f} %".format(
        *(100 * g.mean() for g in groups)
    )
    table = [f"{len(lines)} lines ({numbers}): {shares}", _HEAD.format("feature")]
    for name, feature in FEATURES.items():
        table.append(_row(name, np.array([feature(parts) for parts in found]), groups))
    marked = np.array([any(part.unlikely for part in parts) for parts in found])
    log_probs, wrong = [], []
    for parts, (_, references) in zip(found, lines, strict=True):
        known = set(chain.from_iterable(fold(text).split() for text in references))
        for word in chain.from_iterable(map(words_of, parts)):
            spelled = b"".join(map(bytes_of_piece, word.pieces)).decode(errors="replace")
            if text := fold(translator.target.restore(spelled)):
                log_probs.append(word.log_prob)
                wrong.append(not set(text.split()) <= known)
    mask = np.array(wrong)
    rows = (mask, np.zeros_like(mask), ~mask)
    table += [
        f"{len(mask)} words: {100 * mask.mean():.1f} % in no reference",
        _HEAD.format("words"),
    ]
    table.append(_row("log probability", np.array(log_probs), rows))
    each = iter(marked)
    return [
        *table,
        "unlikely (below {}): bad {:.1f} %, middling {:.1f} %, good {:.1f} %".format(
            UNLIKELY, *(100 * marked[group].mean() if group.any() else 0.0 for group in groups)
        ),
        "".join(
            f"  {name}: {100 * np.mean(list(islice(each, len(rows)))):.1f} %\n"
            for name, rows in sets.items()
        ).rstrip(),
        _marked_words(np.array(log_probs) < UNCERTAIN, mask),
    ]


def _marked_words(marked: npt.NDArray[np.bool_], wrong: npt.NDArray[np.bool_]) -> str:
    shares = [100 * wrong[of].mean() if of.any() else 0.0 for of in (marked, ~marked)]
    return (
        f"uncertain (below {UNCERTAIN}): {100 * marked.mean():.1f} % of the words; in no reference "
        "{:.1f} % of these, {:.1f} % of the others".format(*shares)
    )


_HEAD = "{:<36}  half of bad below: middling, good | 5 % of good below: bad | AUC"


def _row(
    name: str, values: npt.NDArray[np.float64], groups: Sequence[npt.NDArray[np.bool_]]
) -> str:
    bad, middling, good = (np.sort(values[group]) for group in groups)
    half, twentieth = np.quantile(bad, 0.5), np.quantile(good, 0.05)

    def below(values: npt.NDArray[np.float64], threshold: float) -> float:
        return float(100 * (values < threshold).mean()) if len(values) else 0.0

    area = np.searchsorted(bad, good).mean() / len(bad)
    return (
        f"{name:<36}  {half:6.2f}: {below(middling, half):5.1f} {below(good, half):5.1f} % | "
        f"{twentieth:6.2f}: {below(bad, twentieth):5.1f} % | {area:.3f}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, as seq2seq.cli.main does."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("sets", nargs="+", metavar="NAME=FILE", help="TSV: source, references")
    parser.add_argument("--swap", action="store_true", help="the files are target, source")
    parser.add_argument("--limit", type=positive, metavar="N", default=500, help="lines of a set")
    parser.set_defaults(action=_run, parser=parser)
    return cli.main(argv, parser)


def _run(options: argparse.Namespace) -> int:
    translator = Translator.load(options.run, precision="int8")
    data = translator.config.data
    languages = language(data.source_language), language(data.target_language)
    sets: dict[str, list[Line]] = {}
    for number, each in enumerate(options.sets):
        name, _, path = each.partition("=")
        columns = {"source": 1, "target": 0} if options.swap else {"references": True}
        layout = CorpusConfig(path=path, **columns)
        pairs: list[Pair] = list(islice(read_corpus(layout), options.limit))
        sets[name] = [(pair.source, (pair.target, *pair.references)) for pair in pairs]
        for kind in KINDS if number < 2 else ():
            made = lines_of(kind, pairs, languages)[: options.limit // len(KINDS)]
            sets[f"{name}, {kind}"] = [(sides[0], sides[1:]) for sides, *_ in made]
    print("\n".join(calibrate(translator, sets)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Measure how often terms of a glossary and tokens arrive in translations, and what that costs.

    python scripts/arrival.py tokens                  (data/tokens.tsv, both directions)
    python scripts/arrival.py terms data/tatoeba/valid.tsv
    python scripts/arrival.py synonyms data/tatoeba/valid.tsv

For `terms`, a glossary has for each of 500 sentences a word, or two, of its reference, and the
source words that the attention of the models of both directions links with it. The sentences are
translated one by one. For `synonyms`, one word of each sentence becomes a rare synonym of what the
reference has, as in a glossary of perro and hound.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from seq2seq.config.data import CorpusConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.evaluation.metrics import score
from seq2seq.inference.required import Glossary
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import links_of, words

TOKENS = Path(__file__).parents[1] / "data/tokens.tsv"
SENTENCES, SEED = 500, 1
SYNONYMS = (  # Spanish, the usual word, and one that the model would not choose
    "perro dog hound, coche car motorcar, casa house dwelling, niño boy lad, mujer woman lady, "
    "médico doctor physician, amigo friend companion, dinero money cash, libro book volume, "
    "trabajo job occupation, gente people folk, calle street avenue, padre father dad, "
    "madre mother mum, problema problem difficulty, ciudad city metropolis, lluvia rain rainfall, "
    "tienda shop boutique, carta letter missive, jefe boss superior, hija daughter girl, "
    "habitación room chamber, barco ship vessel, bosque forest woodland, comida food nourishment"
)


class Line(NamedTuple):
    """A line of data/tokens.tsv in one direction."""

    kind: str
    source: str
    target: str
    tokens: list[str]  # in the source
    expected: list[str]  # in the target


def read_tokens(*, reverse: bool) -> list[Line]:
    """Return the lines of data/tokens.tsv, from Spanish or, in reverse, from English."""
    found = []
    for line in TOKENS.read_text(encoding="utf-8").splitlines():
        kind, source, target, tokens, expected = line.split("\t")
        if reverse:
            source, target, tokens, expected = target, source, expected, tokens
        found.append(Line(kind, source, target, tokens.split(" | "), expected.split(" | ")))
    return found


def arrives(text: str, line: Line) -> bool:
    """Return whether all tokens of a line are in a translation, in the notation of either side.

    The parts of a date with the name of its month may come in any order.
    """

    def has(part: str) -> bool:
        return re.search(rf"(?!\B\w){re.escape(part)}(?<!\w\B)", text) is not None

    return all(
        has(ours)
        or has(theirs)
        or (line.kind == "date" and all(map(has, ours.replace(" de ", " ").split())))
        for theirs, ours in zip(line.tokens, line.expected, strict=True)
    )


def beside(text: str, line: Line) -> str:
    """Return a text with one word in place of each token."""
    for token in sorted({*line.tokens, *line.expected}, key=len, reverse=True):
        text = text.replace(token, " ∎ ")
    return " ".join(text.split())


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Return the BLEU of Spanish or English texts with one reference each."""
    return score(texts, [[text] for text in references], "en", metrics=("bleu",))["bleu"].score


def measure_tokens() -> Iterator[str]:
    """Yield a table for each direction: kinds, with the model alone and as it translates now."""
    for name, reverse in (("es-en", False), ("en-es", True)):
        translator, lines = Translator.load(name, precision="int8"), read_tokens(reverse=reverse)
        options = translator.options()
        sources = [line.source for line in lines]
        whole = [translator.split(text, options, protect=False) for text in sources]
        alone = [
            " ".join(
                part[0].text for part in translator.translate_sentences([*chain(*each)], options)
            )
            for each in whole
        ]
        now = [best.text for [best] in translator.translate(sources, options)]
        yield f"{name:16} lines  arrive alone  arrive  BLEU beside alone  BLEU beside"
        for kind in [*dict.fromkeys(line.kind for line in lines), ""]:
            of = [n for n, line in enumerate(lines) if line.kind == kind or not kind]
            row = f"{kind or 'all':16}{len(of):6}"
            for texts in (alone, now):
                row += f"{100 * sum(arrives(texts[n], lines[n]) for n in of) / len(of):12.1f}"
            for texts in (alone, now):
                row += "{:17.1f}".format(
                    bleu(
                        [beside(texts[n], lines[n]) for n in of],
                        [beside(lines[n].target, lines[n]) for n in of],
                    )
                )
            yield row


def choose_terms(pairs: Sequence[Pair], one: Translator, other: Translator) -> list[str | None]:
    """Return a term, a tab and its translation for each pair that has one."""
    rng, found = random.Random(SEED), list[str | None]()
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    both = zip(
        one.force_decode(sources, targets), other.force_decode(targets, sources), strict=True
    )
    for forth, back in both:
        ours, theirs = words(forth.source), words(forth.text)
        links = links_of(forth, split=words) & {(s, t) for t, s in links_of(back, split=words)}
        single = sorted(
            (s, t)
            for s, t in links
            if sum(s == other for other, _ in links) == sum(t == other for _, other in links) == 1
            and ours[s].isalpha()
            and theirs[t].isalpha()
        )
        able = [
            (s, t)
            for s, t in single
            if min(len(ours[s]), len(theirs[t])) > 3 and ours[s].lower() != theirs[t].lower()
        ]
        if not able:
            found.append(None)
            continue
        s, t = rng.choice(able)
        size = 1 + ((s + 1, t + 1) in single and rng.random() < 0.5)
        sides = [" ".join(ours[s : s + size]), " ".join(theirs[t : t + size])]
        # The first word of a sentence may have its capital from there.
        found.append(
            "\t".join(
                x[0].lower() + x[1:] if n == 0 else x for x, n in zip(sides, (s, t), strict=True)
            )
        )
    return found


def measure_terms(path: str) -> Iterator[str]:
    """Yield arrival, BLEU and time of sentences with terms, and whether others stay the same."""
    one, other = (Translator.load(name, precision="int8") for name in ("es-en", "en-es"))
    pairs = random.Random(SEED).sample(list(read_corpus(CorpusConfig(path=path))), 2 * SENTENCES)
    terms = choose_terms(pairs, one, other)
    chosen = [n for n, term in enumerate(terms) if term][:SENTENCES]
    options = one.options()
    texts: dict[str, list[str]] = {"without": [], "with": []}
    seconds = dict.fromkeys(texts, 0.0)
    for n in chosen:
        source, target = str(terms[n]).split("\t")
        glossary = Glossary({source: target})
        for name, search in (("without", options), ("with", replace(options, glossary=glossary))):
            begun = time.perf_counter()
            [[best]] = one.translate([pairs[n].source], search)
            seconds[name] += time.perf_counter() - begun
            texts[name].append(best.text)
    for name, found in texts.items():
        arrived = [
            re.search(rf"(?!\B\w){re.escape(str(terms[n]).split(chr(9))[1])}(?<!\w\B)", text, re.I)
            for n, text in zip(chosen, found, strict=True)
        ]
        share = 100 * sum(map(bool, arrived)) / len(chosen)
        of_references = bleu(found, [pairs[n].target for n in chosen])
        milliseconds = 1000 * seconds[name] / len(chosen)
        yield (
            f"{name:8}{len(chosen)} sentences: {share:.1f} % of terms arrive, "
            f"BLEU {of_references:.1f}, {milliseconds:.1f} ms a sentence"
        )
    yield f"time with / without: {seconds['with'] / seconds['without']:.2f}"
    every = Glossary(dict(str(terms[n]).split("\t") for n in chosen[:50]))
    free = [n for n, pair in enumerate(pairs) if not [*every.find(pair.source, spaced=True)]]
    sources = [pairs[n].source for n in free]
    same = [
        a.text == b.text
        for [a], [b] in zip(
            one.translate(sources), one.translate(sources, glossary=every), strict=True
        )
    ]
    yield f"without a term: {len(free)} sentences, {sum(same)} have the same translation"


def measure_synonyms(path: str) -> Iterator[str]:
    """Yield arrival, and BLEU of the words beside, for terms that the model would not choose."""
    translator = Translator.load("es-en", precision="int8")
    chosen = list[tuple[Pair, str, str, str]]()
    for pair in read_corpus(CorpusConfig(path=path)):
        for spanish, usual, rare in map(str.split, SYNONYMS.split(", ")):
            if re.search(rf"(?i)\b{spanish}\b", pair.source) and (
                len(re.findall(rf"(?i)\b{usual}\b", pair.target)) == 1
            ):
                chosen.append((pair, spanish, usual, rare))
                break
    for name in ("without", "with"):
        arrived, found, references = 0, list[str](), list[str]()
        for pair, spanish, usual, rare in chosen:
            glossary = Glossary({spanish: rare} if name == "with" else {})
            [[best]] = translator.translate([pair.source], glossary=glossary)
            arrived += re.search(rf"(?i)\b{rare}\b", best.text) is not None
            for text, texts in ((best.text, found), (pair.target, references)):
                texts.append(re.sub(rf"(?i)\b({usual}|{rare})\b", "∎", text))
        yield (
            f"{name:8}{len(chosen)} sentences: {100 * arrived / len(chosen):.1f} % of synonyms "
            f"arrive, BLEU of the words beside them {bleu(found, references):.1f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("tokens", "terms", "synonyms"))
    parser.add_argument("pairs", nargs="?", metavar="PAIRS", help="TSV of Spanish and English")
    arguments = parser.parse_args()
    if arguments.what != "tokens" and not arguments.pairs:
        parser.error(f"{arguments.what} needs PAIRS")
    measures = {"terms": measure_terms, "synonyms": measure_synonyms}
    kind = arguments.what
    for row in measure_tokens() if kind == "tokens" else measures[kind](arguments.pairs):
        print(row, flush=True)


if __name__ == "__main__":
    main()

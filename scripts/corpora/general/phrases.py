"""Words and short phrases of a corpus as training pairs, found by its word links.

A phrase is consecutive words without punctuation marks. Two phrases are a pair if no link joins a
word inside with a word outside (Koehn, Och & Marcu 2003); here the first and the last word of
each must have a link, so that no unlinked words are added at the edges.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from seq2seq.analysis.alignment import parse_gold
from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import read_corpus, read_lines
from seq2seq.data.tokenizer import normalize_line
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import write_lines
from seq2seq.inference.words import Links, words

Words = Sequence[str]
Span = tuple[int, int]  # first word, word after the last

DICE = 0.25  # minimum of 2 n(source, target) / (n(source) + n(target))
CLAUSE_END = 0.02  # minimum share of a pair's occurrences at which both phrases end a clause
SENTENCE = 3  # maximum length of a sentence that is a pair as a whole
_QUESTION_MARKS = frozenset("?？؟")


def write_phrases(corpus: str, links: str, output: Path, *, longest: int, fewest: int) -> str:
    """Write the phrase pairs of a TSV to another one; return a line about them.

    The file of links has a line for each pair, as `seq2seq align --words marks -o` writes it.
    Raises DataError for files that cannot be read or written, and for another number of lines.
    """
    pairs = list(read_corpus(CorpusConfig(path=corpus)))
    found = [parse_gold(line.text, line.where).possible for line in read_lines(links)]
    if len(found) != len(pairs):
        raise DataError(
            f"{links}: {len(found)} lines of links for {len(pairs)} sentence pairs of {corpus}; "
            "write it with seq2seq align --words marks -o"
        )
    sources = [words(normalize_line(pair.source)) for pair in pairs]
    targets = [words(normalize_line(pair.target)) for pair in pairs]
    phrases = phrase_pairs(sources, targets, found, longest=longest, fewest=fewest)
    write_lines(output, ["\t".join(pair) for pair in phrases])
    return f"{output}: {len(phrases)} pairs"


def phrase_pairs(
    sources: Sequence[Words], targets: Sequence[Words], alignments: Iterable[Links],
    *, longest: int = 4, fewest: int = 3,
) -> list[tuple[str, str]]:  # fmt: skip
    """Return the reliable phrase pairs of a corpus, most frequent first, then short sentences.

    Sentences are lists of words, with punctuation marks as words (`inference.words.words`). A pair
    of at most `longest` words a side is reliable if it occurs at least `fewest` times (a pair of
    single words: once less), its Dice coefficient is at least DICE, and it ends a clause in at
    least CLAUSE_END of its occurrences, unlike 'the house of'. It has its most frequent casing
    within clauses. Sentences of at most SENTENCE words, except questions, are added without marks.
    """
    counts: Counter[tuple[str, str]] = Counter()
    ends: Counter[tuple[str, str]] = Counter()
    casings: defaultdict[tuple[int, str], Counter[str]] = defaultdict(Counter)  # by side, phrase
    for source, target, links in zip(truecase(sources), truecase(targets), alignments, strict=True):
        for (start, end), (first, last) in phrase_spans(links, longest):
            phrases = source[start:end], target[first:last]
            # Unknown characters can make links count more words than the text has.
            if not all(phrases) or any(map(_is_mark, phrases[0] + phrases[1])):
                continue
            texts = " ".join(phrases[0]), " ".join(phrases[1])
            pair = texts[0].lower(), texts[1].lower()
            counts[pair] += 1
            ends[pair] += all(map(_is_mark, source[end : end + 1] + target[last : last + 1]))
            for side in (0, 1):
                casings[side, pair[side]][texts[side]] += 1
    found: dict[tuple[str, str], None] = {}
    for pair, count in counts.most_common():
        seen = casings[0, pair[0]], casings[1, pair[1]]
        frequent = count >= fewest - (" " not in pair[0] + pair[1])
        dice = 2 * count / (seen[0].total() + seen[1].total())
        if frequent and dice >= DICE and ends[pair] >= CLAUSE_END * count:
            found[seen[0].most_common(1)[0][0], seen[1].most_common(1)[0][0]] = None
    for sides in zip(sources, targets, strict=True):
        bare = _without_marks(sides[0]), _without_marks(sides[1])
        if all(bare):
            found[bare] = None
    return list(found)


def phrase_spans(links: Links, longest: int) -> Iterator[tuple[Span, Span]]:
    """Yield the source and target words of each phrase pair of at most `longest` words a side."""
    linked = {source for source, _ in links}
    for start in sorted(linked):
        for end in sorted(linked & set(range(start, start + longest))):
            targets = [target for source, target in links if start <= source <= end]
            first, last = min(targets), max(targets)
            back = [source for source, target in links if first <= target <= last]
            if last - first < longest and start <= min(back) and max(back) <= end:
                yield (start, end + 1), (first, last + 1)


def truecase(sentences: Sequence[Words]) -> Iterator[list[str]]:
    """Yield the sentences; first words of clauses get their most frequent casing elsewhere."""
    seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for before, word in (pair for sentence in sentences for pair in pairwise(sentence)):
        if not _is_mark(before):
            seen[word.lower()][word] += 1
    usual = {folded: casings.most_common(1)[0][0] for folded, casings in seen.items()}
    for sentence in sentences:
        yield [
            usual.get(word.lower(), word) if n == 0 or _is_mark(sentence[n - 1]) else word
            for n, word in enumerate(sentence)
        ]


def _without_marks(sentence: Words) -> str:
    """Return a short sentence without the marks around it, '' if it is long or has others.

    A question is not one without its mark: 'Están ocupados' means 'They are busy'.
    """
    inner = [n for n, word in enumerate(sentence) if not _is_mark(word)]
    is_question = not _QUESTION_MARKS.isdisjoint(sentence)
    is_short = 0 < len(inner) <= SENTENCE and inner[-1] - inner[0] < len(inner)
    return " ".join(sentence[n] for n in inner) if is_short and not is_question else ""


def _is_mark(word: str) -> bool:
    return not (word[0].isalnum() or word[0] == "_")

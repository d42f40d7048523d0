"""Word alignments: from attention weights, from two directions, and their error.

A link (i, j) joins source word i and target word j, both from 0. Gold alignments and output are in
the Pharaoh format, a line for each sentence pair with links separated by white space: `i-j` is a
sure link, `i?j` and `ipj` are possible ones. Some gold alignments count words from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from tqdm import tqdm

from seq2seq.data.corpus import Pair, read_lines
from seq2seq.data.tokenizer import normalize_line
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import check_direction
from seq2seq.inference.sentences import split_sentences
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import LINK, WORDS, Link, Links, Split, links_of

WINDOW = 5000  # sentences whose attention is in memory at a time


def align(
    translator: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    threshold: float | None = None,
) -> list[Links]:
    """Return the links of each pair, by forced decoding (see links_of).

    A pair whose sides have equally many sentences is aligned sentence by sentence. Raises DataError
    for a model without attention.
    """
    is_split = translator.config.inference.split_sentences
    languages = translator.config.data.languages if is_split else (None, None)
    units: list[list[tuple[str, str]]] = []
    for pair in pairs:
        sides = list(map(split_sentences, (pair.source, pair.target), languages))
        # If nothing separates two sentences, a word could be in both.
        apart = all(sum(map(len, map(split, side))) == len(split("".join(side))) for side in sides)
        same = apart and len(sides[0]) == len(sides[1]) > 0
        units.append(list(zip(*sides, strict=True)) if same else [(pair.source, pair.target)])
    sources, targets = zip(*chain(*units), strict=True) if pairs else ((), ())
    starts = range(0, len(sources), WINDOW)
    shown = tqdm(starts, unit=f" x {WINDOW} sentences", disable=None, leave=False)
    windows = (slice(start, start + WINDOW) for start in shown)
    parts = chain.from_iterable(translator.force_decode(sources[w], targets[w]) for w in windows)
    found: list[Links] = []
    for unit in units:
        links: set[Link] = set()
        s = t = 0  # words before the sentence
        for source_text, target_text in unit:
            own = links_of(next(parts), split=split, threshold=threshold)
            links |= {(s + source, t + target) for source, target in own}
            s += len(split(normalize_line(source_text)))
            t += len(split(normalize_line(target_text)))
        found.append(frozenset(links))
    return found


# --- Symmetrization: one alignment from two alignments of opposite directions


_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Return the intersection, grown with links of the union (Koehn et al. 2005).

    Grow: a link of the union that is next or diagonal to a present link is added if its source or
    its target word has no link yet, until there is none. Final-and: links of the forward, then of
    the backward alignment are added if neither of their words has a link. Links are visited by
    target word, then source word; an added link counts at once.
    """
    links = set(forward & backward)
    sources, targets = {source for source, _ in links}, {target for _, target in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    by_target = itemgetter(1, 0)
    candidates = forward | backward
    ordered = sorted(candidates, key=by_target)
    size = -1
    while size < len(links):
        size = len(links)
        for source, target in ordered:
            if (source, target) not in links:
                continue
            for rows, columns in _NEIGHBOURS:
                link = (source + columns, target + rows)
                aligned = link[0] in sources and link[1] in targets
                if link in candidates and not aligned:
                    add(link)
    for direction in (forward, backward):
        for link in sorted(direction, key=by_target):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return frozenset(links)


# Intersection and union: Och & Ney 2003, section 4; few precise links, and many with a high recall.
SYMMETRIZATIONS: dict[str, Callable[[Links, Links], Links]] = {
    "intersection": frozenset.intersection,
    "union": frozenset.union,
    "grow-diag-final-and": grow_diag_final_and,
}


def align_both(
    translator: Translator,
    reverse: Translator,
    pairs: Sequence[Pair],
    *,
    split: Split = str.split,
    threshold: float | None = None,
) -> dict[str, list[Links]]:
    """Return the alignments of a model, of a model of the opposite direction, and of both.

    The keys are forward, reverse and the names in SYMMETRIZATIONS; all links are (source, target)
    words of the pairs. Raises DataError for a reverse model of the same direction.
    """
    swapped = [Pair(pair.target, pair.source) for pair in pairs]
    check_direction(reverse, swapped, "--reverse", "name a run of the opposite direction")
    forward = align(translator, pairs, split=split, threshold=threshold)
    reversed_ = align(reverse, swapped, split=split, threshold=threshold)
    backward = [frozenset((source, target) for target, source in links) for links in reversed_]
    both = list(zip(forward, backward, strict=True))
    joined = {name: [join(*pair) for pair in both] for name, join in SYMMETRIZATIONS.items()}
    return {"forward": forward, "reverse": backward, **joined}


# --- Gold alignments


@dataclass(frozen=True)
class Gold:
    """The gold links of a sentence pair; every sure link is also possible (Och & Ney 2003)."""

    sure: Links
    possible: Links
    where: str = "gold"


def parse_gold(text: str, where: str, *, first: int = 0) -> Gold:
    """Parse a line of links whose words count from `first`; errors begin with `where`.

    Raises DataError for anything that is not a link.
    """
    sure, possible = set(), set()
    for token in text.split():
        match = LINK.fullmatch(token)
        if not match:
            raise DataError(
                f"{where}: '{token}' is not a link; expected i-j (sure), i?j or ipj (possible)"
            )
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise DataError(f"{where}: link '{token}' counts words from 0; drop --one-based")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible), where)


def gold_of(
    pairs: Sequence[Pair], path: str | None = None, *, split: Split, first: int = 0
) -> list[Gold] | None:
    """Return the gold links of each pair: from a file, else from the corpus, else None.

    The file has a line for each pair, a blank one for a pair without links. Raises DataError for a
    file that cannot be read, for links that cannot be parsed or lie outside the sentences, if there
    are not as many lines as pairs, and if there is no link at all.
    """
    if path is not None:
        gold = [parse_gold(line.text, line.where, first=first) for line in read_lines(path)]
        if len(gold) != len(pairs):
            raise DataError(
                f"{path}: {len(gold)} lines of links for {len(pairs)} sentence pairs; give one "
                "line for each pair"
            )
    elif all(pair.alignment is not None for pair in pairs):
        gold = [
            parse_gold(str(pair.alignment), f"pair {number}", first=first)
            for number, pair in enumerate(pairs, start=1)
        ]
    else:
        return None
    if not any(line.possible for line in gold):
        raise DataError(f"{path or 'the test set'}: no gold links at all; leave out the gold file")
    for pair, line in zip(pairs, gold, strict=True):
        source, target = (len(split(normalize_line(side))) for side in (pair.source, pair.target))
        for i, j in sorted(line.possible):
            if i >= source or j >= target:
                raise DataError(
                    f"{line.where}: link {i}-{j} (from 0) is outside the sentences: the source has "
                    f"{source} and the target {target} words; try the other --words, or --one-based"
                )
    return gold


# --- Alignment error rate


@dataclass(frozen=True)
class AlignmentError:
    """Rates from 0 to 1 over a corpus (Och & Ney 2003, section 5); None if there are no links.

    A is the set of links found, S the sure and P the possible gold links (S within P).
    """

    aer: float | None  # 1 - (|A & S| + |A & P|) / (|A| + |S|)
    precision: float | None  # |A & P| / |A|
    recall: float | None  # |A & S| / |S|
    links: int  # |A|
    sure: int  # |S|


def alignment_error(links: Sequence[Links], gold: Sequence[Gold]) -> AlignmentError:
    """Compare the links of each sentence pair with its gold links; count over all pairs."""
    pairs = list(zip(links, gold, strict=True))
    size, sure = sum(map(len, links)), sum(len(true.sure) for true in gold)
    found_sure = sum(len(found & true.sure) for found, true in pairs)
    found_possible = sum(len(found & true.possible) for found, true in pairs)
    return AlignmentError(
        aer=1 - (found_sure + found_possible) / (size + sure) if size + sure else None,
        precision=found_possible / size if size else None,
        recall=found_sure / sure if sure else None,
        links=size,
        sure=sure,
    )


def forced_alignment_error(translator: Translator, pairs: Sequence[Pair]) -> AlignmentError | None:
    """Return the error of forced decoding against the corpus's own gold links, if it has them.

    Punctuation marks are words. Raises DataError for unusable gold links and for a model without
    attention.
    """
    split = WORDS["marks"]
    gold = gold_of(pairs, split=split)
    return None if gold is None else alignment_error(align(translator, pairs, split=split), gold)

"""Random segmentations of texts into subwords, reproducible in every process.

SentencePiece samples too, but its seed does not determine what a new process draws. Here each word
is a small graph: a node is a partial decision about the word, an edge a choice. The graphs of all
words so far are kept, and all words of a chunk of texts walk through theirs together, step by
step, in NumPy. Pieces do not cross white space.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

SPACE_PIECE = "\u2581"  # SentencePiece's symbol for a space


class Pieces:
    """The pieces of a SentencePiece model."""

    def __init__(self, processor: Any) -> None:
        """Read the pieces, scores and bytes of a sentencepiece.SentencePieceProcessor."""
        special = (
            processor.IsControl, processor.IsUnknown, processor.IsUnused, processor.IsByte
        )  # fmt: skip
        ids = range(processor.GetPieceSize())
        usual = [i for i in ids if not any(is_special(i) for is_special in special)]
        self.ids: dict[str, int] = {processor.IdToPiece(i): i for i in usual}
        self.scores: dict[str, float] = {
            processor.IdToPiece(i): processor.GetScore(i) for i in usual
        }
        self.longest = max(map(len, self.ids), default=1)
        self._bytes = [i for i in ids if processor.IsByte(i)]  # in the order of their values
        self._unknown: int = processor.unk_id()
        self._processor = processor

    @property
    def are_merges(self) -> bool:
        """Whether the model is BPE: its scores are 0, -1, -2 ..., the order of the merges."""
        return all(score == int(score) for score in self.scores.values())

    def spell(self, symbols: Iterable[str]) -> list[int]:
        """Return the ids of symbols; unknown ones become bytes, or one <unk> a run."""
        found: list[int] = []
        for symbol in symbols:
            known = self.ids.get(symbol)
            if known is not None:
                found.append(known)
            elif self._bytes:
                found += [self._bytes[value] for value in symbol.encode()]
            elif found[-1:] != [self._unknown]:
                found.append(self._unknown)
        return found

    def best(self, word: str) -> list[int]:
        """Return the ids of the best segmentation of a word."""
        ids: list[int] = self._processor.Encode(word, out_type=int, num_threads=1)
        return ids


Ints = npt.NDArray[np.int64]

_CHUNK = 2000  # texts that walk together
_UNIT = 2**32  # draws are integers below it: exact, wherever in the graph a word is
_END, _UNSEEN = -1, -2  # targets of edges that are not nodes; see MergeSampler for the latter
_UNKNOWN_PENALTY = 10.0  # SentencePiece's: how far an unknown character scores below any piece


class SubwordSampler(ABC):
    """Draw segmentations, which depend on the texts and the generator only."""

    longest_word: ClassVar[int]  # in characters; longer ones get their best segmentation
    most_edges: ClassVar[int]  # beyond it, all graphs are discarded

    def __init__(self, pieces: Pieces, alpha: float) -> None:
        self.alpha = alpha
        self._pieces = pieces
        self._lock = threading.Lock()  # sampling adds to the graph
        self._clear()

    def sample(self, texts: Sequence[str], generator: np.random.Generator) -> list[list[int]]:
        """Return a random segmentation of each normalized text as ids."""
        rows: list[list[int]] = []
        with self._lock:
            for start in range(0, len(texts), _CHUNK):
                rows += self._sample_chunk(texts[start : start + _CHUNK], generator)
                if len(self._targets) > self.most_edges:
                    self._clear()
        return rows

    @abstractmethod
    def _add_word(self, word: str) -> int:
        """Add the graph of a word; return its first node."""

    def _clear(self) -> None:
        self._starts: dict[str, int] = {}  # the first node of each word
        self._num_nodes = 0
        # For each edge: its node in the upper bits and the draw below which it is taken in the
        # lower ones; the node that it leads to; and where its ids end.
        self._keys = array("q")
        self._targets = array("q")
        self._bounds = array("q", [0])
        self._ids = array("i")

    def _add_node(self, edges: Iterable[tuple[float, int, Sequence[int]]]) -> int:
        """Add a node with edges (cumulative probability, target, ids); return the node."""
        node = self._num_nodes
        for share, target, ids in edges:
            self._keys.append(node * _UNIT + min(int(share * _UNIT), _UNIT))
            self._targets.append(target)
            self._ids.extend(ids)
            self._bounds.append(len(self._ids))
        self._keys[-1] = (node + 1) * _UNIT
        self._num_nodes += 1
        return node

    def _sample_chunk(
        self, texts: Sequence[str], generator: np.random.Generator
    ) -> list[list[int]]:
        split = [text.split() for text in texts]
        words = list(itertools.chain.from_iterable(split))
        for word in set(words).difference(self._starts):
            self._starts[word] = (
                self._add_word(SPACE_PIECE + word)
                if len(word) <= self.longest_word
                else self._add_node([(1.0, _END, self._pieces.best(word))])
            )
        nodes = np.fromiter(map(self._starts.__getitem__, words), np.int64, len(words))
        ids, lengths = self._walk(nodes, generator)
        ends = np.concatenate(([0], np.cumsum(lengths)))
        bounds = ends[np.cumsum([0, *map(len, split)])].tolist()
        flat = ids.tolist()
        return [flat[start:end] for start, end in itertools.pairwise(bounds)]

    def _walk(
        self, nodes: Ints, generator: np.random.Generator
    ) -> tuple[npt.NDArray[np.int32], Ints]:
        """Return the ids of random walks from nodes to the end, and the length of each."""
        walkers = np.arange(len(nodes))
        lengths = np.zeros_like(nodes)
        steps: list[tuple[Ints, Ints, Ints]] = []
        while len(nodes):
            draws = generator.integers(_UNIT, size=len(nodes))
            edges = np.asarray(self._keys).searchsorted(nodes * _UNIT + draws, side="right")
            bounds = np.asarray(self._bounds)
            starts, sizes = bounds[edges], bounds[edges + 1] - bounds[edges]
            del bounds  # an array with a NumPy view cannot grow
            lengths[walkers] += sizes
            steps.append((walkers, starts, sizes))
            nodes = self._follow(nodes, edges)
            going = nodes != _END
            walkers, nodes = walkers[going], nodes[going]
        found = np.empty(lengths.sum(), np.int32)
        places = np.cumsum(lengths) - lengths
        for walkers, starts, sizes in steps:
            found[_ranges(places[walkers], sizes)] = np.asarray(self._ids)[_ranges(starts, sizes)]
            places[walkers] += sizes
        return found, lengths

    def _follow(self, nodes: Ints, edges: Ints) -> Ints:
        """Return the targets of these edges of these nodes."""
        return np.asarray(self._targets)[edges]


class UnigramSampler(SubwordSampler):
    """Draw from all segmentations by their probability to the power of alpha (Kudo 2018).

    A node is a position in a word, an edge a piece that begins there. The probability of an edge
    is the share of the segmentations of the rest of the word that begin with it (forward filtering,
    backward sampling, with the directions exchanged); unlike sampling from the l best, this is
    exact.
    """

    longest_word = 1000
    most_edges = 2_000_000  # some 60 MB

    def __init__(self, pieces: Pieces, alpha: float) -> None:
        super().__init__(pieces, alpha)
        self._unknown_score = min(pieces.scores.values(), default=0.0) - _UNKNOWN_PENALTY

    def _add_word(self, word: str) -> int:
        rest = [0.0] * (len(word) + 1)  # log of the sum over all segmentations from here
        nodes = [_END] * (len(word) + 1)
        for begin in reversed(range(len(word))):
            edges = self._edges(word, begin)
            weights = [self.alpha * score + rest[end] for end, score, _ in edges]
            top = max(weights)
            shares = list(itertools.accumulate(math.exp(weight - top) for weight in weights))
            rest[begin] = top + math.log(shares[-1])
            nodes[begin] = self._add_node(
                (share / shares[-1], nodes[end], ids)
                for share, (end, _, ids) in zip(shares, edges, strict=True)
            )
        return nodes[0]

    def _edges(self, word: str, begin: int) -> list[tuple[int, float, Sequence[int]]]:
        """Return the end, score and ids of each piece that begins at a position of a word."""
        pieces = self._pieces
        found: list[tuple[int, float, Sequence[int]]] = []
        for end in range(begin + 1, min(begin + pieces.longest, len(word)) + 1):
            piece = word[begin:end]
            if piece in pieces.ids:
                found.append((end, pieces.scores[piece], [pieces.ids[piece]]))
        if word[begin] not in pieces.ids:
            end = begin + 1
            while end < len(word) and word[end] not in pieces.ids:
                end += 1
            found.append((end, self._unknown_score, pieces.spell(word[begin:end])))
        return found


class MergeSampler(SubwordSampler):
    """Merge symbols as BPE does, dropping each merge with probability alpha.

    BPE-dropout (Provilkov et al. 2020, algorithm 1): at each step each possible merge is dropped
    with probability alpha and the best of the others is applied, until there is none. A node is a
    segmentation; its edges are the merges, the best first, and an end, which gives the ids. A merge
    is drawn if it is kept and all better ones are dropped. Until a merge is drawn for the first
    time, its target is _UNSEEN minus the position of its left symbol.
    """

    longest_word = 64
    most_edges = 1_000_000  # some 100 MB, most of it nodes

    def _clear(self) -> None:
        super()._clear()
        self._nodes: dict[tuple[str, ...], int] = {}
        self._symbols: dict[int, tuple[str, ...]] = {}  # of each node

    def _add_word(self, word: str) -> int:
        return self._node(tuple(word))

    def _node(self, symbols: tuple[str, ...]) -> int:
        if symbols in self._nodes:
            return self._nodes[symbols]
        scores = self._pieces.scores
        merges = sorted(
            (-scores[left + right], place)
            for place, (left, right) in enumerate(itertools.pairwise(symbols))
            if left + right in scores
        )
        kept = (
            (1 - self.alpha**number, _UNSEEN - place, ())
            for number, (_, place) in enumerate(merges, 1)
        )
        node = self._add_node([*kept, (1.0, _END, self._pieces.spell(symbols))])
        self._nodes[symbols], self._symbols[node] = node, symbols
        return node

    def _follow(self, nodes: Ints, edges: Ints) -> Ints:
        targets = super()._follow(nodes, edges)
        unseen = targets <= _UNSEEN
        if unseen.any():
            ways = zip(edges[unseen].tolist(), nodes[unseen].tolist(), strict=True)
            for edge, node in set(ways):
                symbols, left = self._symbols[node], _UNSEEN - self._targets[edge]
                merged = sys.intern(symbols[left] + symbols[left + 1])
                self._targets[edge] = self._node((*symbols[:left], merged, *symbols[left + 2 :]))
            targets = super()._follow(nodes, edges)
        return targets


def _ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return the concatenation of start, start + 1, ... of each range."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(sizes.sum())


def make_sampler(pieces: Pieces, alpha: float) -> SubwordSampler:
    """Return the sampler for the type of the model."""
    return (MergeSampler if pieces.are_merges else UnigramSampler)(pieces, alpha)

"""Greedy search, beam search and forced decoding over a `Decoding`, whatever its model is.

Legend: B sentences, K hypotheses a sentence, R = B * K rows (sentence-major), S source length,
V vocabulary, C candidates a row, N candidates a sentence, T pieces so far or target length
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.errors import ConfigError
from seq2seq.inference.prefix import NO_PREFIX, Prefix
from seq2seq.inference.protocol import (
    TINY,
    BeamNode,
    Decoding,
    Floats,
    Hypothesis,
    Ints,
    SearchOptions,
    Status,
)

Bools = npt.NDArray[np.bool_]
# Called with log_probs_RC (-inf for illegal pieces), the sentence and the copy of each row, and the
# number of pieces so far; returns the column of the next piece of each row.
Strategy = Callable[[Floats, Ints, Ints, int], Ints]
# Called before each step with the indices of the unfinished sentences in the batch, and the pieces
# of the most likely hypothesis of each.
StepCallback = Callable[[Ints, Ints], None]


def search(
    decoding: Decoding,
    options: SearchOptions,
    prefixes: Sequence[Prefix] | None = None,
    on_step: StepCallback | None = None,
) -> list[list[Hypothesis]]:
    """Return for each sentence up to `nbest` hypotheses, best score first.

    With `prefixes`, one for each sentence, hypotheses begin with them. `on_step` is called before
    each step with the unfinished hypotheses; an error in it ends the search. Unless the tree is to
    be kept, a beam of 1 is searched greedily: that finds the same with less work. Raises
    ConfigError for a coverage penalty without attention, FloatingPointError for logits that are not
    finite.
    """
    if options.beam_size > 1 or options.keep_tree:
        return beam_search(decoding, options, prefixes, on_step)
    return decode(decoding, options, greedy, count=1, prefixes=prefixes, on_step=on_step)


def greedy(log_probs_RC: Floats, *_: object) -> Ints:
    """Choose the most likely piece of each row; of equally likely ones, the first."""
    columns_R: Ints = log_probs_RC.argmax(1)
    return columns_R


def beam_search(
    decoding: Decoding,
    options: SearchOptions,
    prefixes: Sequence[Prefix] | None = None,
    on_step: StepCallback | None = None,
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
    beams = BeamState(decoding, options, prefixes=prefixes, on_step=on_step)
    number, size = len(beams.sentences), options.beam_size
    found: list[list[Hypothesis]] = [[] for _ in range(number)]
    finished = np.zeros(number, dtype=np.int64)
    worst_kept = np.full(number, -np.inf)  # score of the last of the best `nbest`
    longest_norms = np.array([options.length_norm(limit + 1) for limit in beams.limits.tolist()])
    ranks_N = np.arange(size)
    trees = BeamTrees(number) if options.keep_tree else None
    while len(beams.sentences):
        ids_B = beams.sentences
        log_probs_BN, parents_BN, tokens_BN = _candidates(beams, *beams.step(size))
        taken_BN = np.isfinite(log_probs_BN)
        taken_BN &= ranks_N[: taken_BN.shape[1]] < size - finished[ids_B, None]
        ended_BN = taken_BN & (tokens_BN == EOS)
        if trees is not None:
            trees.grow(beams, log_probs_BN, parents_BN, tokens_BN, taken_BN, ended_BN)
        if ended_BN.any():
            finished[ids_B] += ended_BN.sum(1)
            scores_BN = beams.scores(log_probs_BN, parents_BN)
            better_H = (ended_BN & (scores_BN > worst_kept[ids_B, None])).nonzero()
            closed = beams.close(better_H, log_probs_BN, parents_BN, scores_BN)
            for sentence, hypothesis in zip(ids_B[better_H[0]].tolist(), closed, strict=True):
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
    strategy: Strategy,
    *,
    copies: int = 1,
    count: int | None = None,
    prefixes: Sequence[Prefix] | None = None,
    on_step: StepCallback | None = None,
) -> list[list[Hypothesis]]:
    """Return `copies` hypotheses a sentence, each extended by the piece that `strategy` picks.

    With a `count`, `strategy` gets at least that many of the most likely legal pieces, else all.
    """
    beams = BeamState(decoding, options, copies=copies, prefixes=prefixes, on_step=on_step)
    found: list[dict[int, Hypothesis]] = [{} for _ in beams.sentences]
    copies_BK: Ints = np.tile(np.arange(copies), (len(found), 1))
    while len(beams.sentences):
        log_probs_RC, pieces_RC = beams.step(count)
        sentences_R = beams.sentences.repeat(beams.width)
        columns_R = strategy(log_probs_RC, sentences_R, copies_BK.ravel(), beams.length)
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
            ended_H = ended_BK.nonzero()
            closed = beams.close(ended_H, log_probs_BK, parents_BK, scores_BK)
            of = zip(beams.sentences[ended_H[0]].tolist(), copies_BK[ended_H].tolist(), strict=True)
            for (sentence, copy), hypothesis in zip(of, closed, strict=True):
                found[sentence][copy] = hypothesis
        log_probs_BK[~finite_BK | ended_BK] = -np.inf
        kept_B = log_probs_BK.max(1) > -np.inf
        copies_BK = copies_BK[beams.extend(kept_B, log_probs_BK, parents_BK, tokens_BK)]
    return [_check([copy for _, copy in sorted(by_copy.items())]) for by_copy in found]


def _candidates(
    beams: BeamState, log_probs_RC: Floats, pieces_RC: Ints | None
) -> tuple[Floats, Ints, Ints]:
    """Return log probabilities, parents and pieces of the best extensions after a step, sorted.

    Extensions are compared by hypothesis and column side by side, [B, K * C].
    """
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


def force_decode(
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
    free = replace(options, max_length_offset=steps, no_repeat_ngram=0, allow_unk=True)
    chosen = decode(decoding, free, lambda _, sentences_R, __, step: forced_BT[sentences_R, step])
    return [found for [found] in chosen]


class BeamState:
    """Rows of unfinished hypotheses, and everything that is reordered with them.

    A sentence leaves the batch when its search ends.
    """

    def __init__(
        self,
        decoding: Decoding,
        options: SearchOptions,
        *,
        copies: int = 1,
        prefixes: Sequence[Prefix] | None = None,
        on_step: StepCallback | None = None,
    ) -> None:
        """Start with this many copies of the empty hypothesis for each sentence."""
        self.options, self.on_step = options, on_step
        self.decoding = decoding
        self.state = decoding.start()
        self.source_lengths = decoding.source_lengths_B.copy()
        num_sentences = len(self.source_lengths)
        num_rows = num_sentences * copies
        if copies > 1:
            self.state = self.state.select(np.arange(num_sentences).repeat(copies))
        limits = length_limits(decoding, options, prefixes)
        self.limits: Ints = np.array(limits, dtype=np.int64)
        # The sentences that are left, by their index in the batch that was given to search.
        self.sentences: Ints = np.arange(num_sentences)
        self.tokens_R: Ints = np.full(num_rows, BOS)
        self.log_probs_R: Floats = np.zeros(num_rows, dtype=np.float32)
        self.tokens_RT: Ints = np.empty((num_rows, 0), dtype=np.int64)
        # Of each step: the row that each row came from, and the log probabilities so far.
        self._parents: list[Ints] = []
        self._totals: list[Floats] = [self.log_probs_R]
        self._weights: list[Floats] = []
        self._coverage_RS: Floats | None = None
        self._penalty_R: Floats | None = None
        self._cut_R: Bools | None = None  # ended by the limit, not by the model
        self._shortest = min(limits, default=0)
        self._forbidden = options.forbidden
        self._prefixes = list(prefixes or [])  # until all rows have spelled theirs

    @property
    def length(self) -> int:
        """Return T."""
        return int(self.tokens_RT.shape[1])

    @property
    def width(self) -> int:
        """Return K."""
        return len(self.tokens_RT) // len(self.sentences)

    def step(self, count: int | None) -> tuple[Floats, Ints | None]:
        """Return log_probs_RC after the last pieces, -inf for illegal ones, and pieces_RC.

        If pieces_RC is None, all pieces are candidates; otherwise each row has at least `count`
        legal ones. Raises ConfigError for a coverage penalty if the model has no attention weights.
        """
        options = self.options
        if self.on_step is not None:
            self.on_step(self.sentences, self.tokens_RT[:: self.width])
        blocked, legal = None, self._legal_pieces()
        if legal:
            count = None  # the most likely pieces may all be illegal
        if options.no_repeat_ngram > 0:
            blocked = repeated(self.tokens_RT, options.no_repeat_ngram)
        if count is not None:
            count += len(self._forbidden)
            count += np.bincount(blocked[0]).max(initial=0) if blocked else 0
        covers = options.coverage_penalty > 0
        log_probs_RC, self.state, weights_RS, pieces_RC = self.decoding.step(
            self.tokens_R, self.state, count=count, weights=options.keep_weights or covers
        )
        if options.keep_weights and weights_RS is not None:
            self._weights.append(weights_RS)
        if covers:
            self._cover(weights_RS)
        given_RC = log_probs_RC.copy() if legal else log_probs_RC
        self._forbid(log_probs_RC, pieces_RC, blocked)
        for row, pieces in enumerate(legal):
            if pieces is not None:
                # Pieces that spell a prefix are legal, whatever the options say.
                values = (log_probs_RC if EOS in pieces else given_RC)[row, pieces]
                log_probs_RC[row] = -np.inf
                log_probs_RC[row, pieces] = values
        return log_probs_RC, pieces_RC

    def scores(self, log_probs_BN: Floats, parents_BN: Ints) -> npt.NDArray[np.float64]:
        """Return the scores of the hypotheses that would result if these rows ended here."""
        scores_BN = log_probs_BN.astype(np.float64) / self.options.length_norm(self.length + 1)
        if self._penalty_R is not None:
            penalty_BK = self._penalty_R.reshape(len(self.sentences), -1)
            scores_BN += np.take_along_axis(penalty_BK, parents_BN, 1)
        return scores_BN

    def close(
        self, places_H: tuple[Ints, Ints], log_probs_BN: Floats, parents_BN: Ints, scores_BN: Floats
    ) -> list[Hypothesis]:
        """Return the hypotheses that result if these candidates end after this step."""
        sentences_H, log_probs_H = self.sentences[places_H[0]], log_probs_BN[places_H]
        rows_TH = [places_H[0] * self.width + parents_BN[places_H]]
        for parents_R in reversed(self._parents):  # from the last step to the first
            rows_TH.append(parents_R[rows_TH[-1]])
        totals = [total_R[r] for total_R, r in zip(self._totals, reversed(rows_TH), strict=True)]
        weights: list[Floats | None] = [None] * len(sentences_H)
        if self._weights:
            sizes = self.source_lengths[sentences_H].tolist()
            rows_HT = np.array(rows_TH[::-1]).T.tolist()
            weights = [
                np.stack([of_RS[r, :size] for of_RS, r in zip(self._weights, rows_T, strict=True)])
                for rows_T, size in zip(rows_HT, sizes, strict=True)
            ]
        cut_R = np.zeros(len(self.tokens_RT), np.bool_) if self._cut_R is None else self._cut_R
        log_probs_TH = np.diff(np.array([*totals, log_probs_H], np.float64), axis=0)
        found = self.tokens_RT[rows_TH[0]], scores_BN[places_H], log_probs_H, ~cut_R[rows_TH[0]]
        fields = (values.tolist() for values in (*found, log_probs_TH.T))
        return list(map(Hypothesis, *fields, weights))

    def extend(
        self, kept_B: Bools, log_probs_BN: Floats, parents_BN: Ints, tokens_BN: Ints
    ) -> tuple[Ints, Ints]:
        """Keep some sentences, and extend the rows `parents` of each by pieces.

        Only candidates with a finite log probability are used. Every sentence gets as many rows as
        the largest number that one needs. Returns the index of each row's candidate.
        """
        order_B = _compact_order(kept_B)
        used_BN = log_probs_BN[order_B] > -np.inf
        if used_BN.all():
            chosen = order_B[:, None], np.arange(used_BN.shape[1])
        else:
            width = int(used_BN.sum(1).max(initial=0))
            chosen = order_B[:, None], (~used_BN).argsort(1, kind="stable")[:, :width]
        tokens: Ints = tokens_BN[chosen].ravel()
        rows: Ints = (chosen[0] * self.width + parents_BN[chosen]).ravel()
        if len(order_B) < len(kept_B):
            self.sentences = self.sentences[order_B]
            if len(order_B) == 0:
                return chosen
            self.decoding = self.decoding.select(order_B)
        if len(rows) != len(self.tokens_RT) or (rows != np.arange(len(rows))).any():
            self.state = self.state.select(rows)
            self.tokens_RT = self.tokens_RT[rows]
            if self._coverage_RS is not None:
                self._coverage_RS = self._coverage_RS[rows]
        self._parents.append(rows)
        self.tokens_RT = np.concatenate((self.tokens_RT, tokens[:, None]), 1)
        self.tokens_R = tokens
        self.log_probs_R = log_probs_BN[chosen].ravel()
        self._totals.append(self.log_probs_R)
        return chosen

    def _cover(self, weights_RS: Floats | None) -> None:
        """Add weights to the coverage; compute the penalty of hypotheses that would end here."""
        if weights_RS is None:
            raise ConfigError(
                "coverage_penalty: this model has no attention weights; set coverage_penalty=0"
            )
        size = weights_RS.shape[1]
        covered_RS = weights_RS
        if self._coverage_RS is not None:
            covered_RS = covered_RS + self._coverage_RS[:, :size]
        lengths_R1 = self.source_lengths[self.sentences].repeat(self.width)[:, None]
        logs_RS = np.log(covered_RS.clip(TINY, 1))
        logs_RS[np.arange(size) >= lengths_R1] = 0
        self._coverage_RS = covered_RS
        self._penalty_R = logs_RS.sum(1) * self.options.coverage_penalty

    def _legal_pieces(self) -> list[Ints | None]:
        """Return for each row the pieces that its prefix allows; None if that is any piece.

        EOS is one of them once the prefix has been spelled. The list is empty if no row has a
        prefix left to spell.
        """
        if not self._prefixes:
            return []
        rows = zip(self.sentences.repeat(self.width), self.tokens_RT.tolist(), strict=True)
        legal = [self._prefixes[b].legal(tokens) for b, tokens in rows]
        if all(pieces is None for pieces in legal):
            self._prefixes = []
            return []
        return legal

    def _forbid(
        self, log_probs_RC: Floats, pieces_RC: Ints | None, blocked: tuple[Ints, Ints] | None
    ) -> None:
        """Write -inf for illegal pieces; at the length limit only EOS is legal."""
        if pieces_RC is None:
            for piece in self._forbidden:
                log_probs_RC[:, piece] = -np.inf
            if blocked is not None:
                log_probs_RC[blocked] = -np.inf
        else:
            log_probs_RC[np.isin(pieces_RC, self._forbidden)] = -np.inf
            if blocked is not None:
                rows, pieces = blocked
                numbers, columns = (pieces_RC[rows] == pieces[:, None]).nonzero()
                log_probs_RC[rows[numbers], columns] = -np.inf
        self._cut_R = None
        if self.length < self._shortest:
            return
        at_limit_R = (self.limits[self.sentences] == self.length).repeat(self.width)
        pieces = np.arange(log_probs_RC.shape[1]) if pieces_RC is None else pieces_RC
        is_end_RC = np.broadcast_to(pieces == EOS, log_probs_RC.shape)
        self._cut_R = at_limit_R & (log_probs_RC.max(1) > log_probs_RC[is_end_RC])
        log_probs_RC[at_limit_R[:, None] & ~is_end_RC] = -np.inf


class BeamTrees:
    """One tree for each sentence; it grows by a level at each step of the search."""

    def __init__(self, number: int) -> None:
        """Start with the root of this many trees, the empty hypothesis."""
        self.trees = [[BeamNode(None, BOS, 0.0, 0.0, "unfinished")] for _ in range(number)]
        self._nodes_R: Ints = np.zeros(number, np.int64)
        self._nodes_BN: Ints = np.zeros((number, 1), np.int64)

    def grow(
        self,
        beams: BeamState,
        log_probs_BN: Floats,
        parents_BN: Ints,
        tokens_BN: Ints,
        taken_BN: Bools,
        ended_BN: Bools,
    ) -> None:
        """Add the candidates of a step; those that are not taken are pruned at once."""
        scores_BN = beams.scores(log_probs_BN, parents_BN)
        nodes_BK = self._nodes_R.reshape(len(beams.sentences), -1)
        for sentence, nodes in zip(beams.sentences.tolist(), nodes_BK.tolist(), strict=True):
            tree = self.trees[sentence]
            for node in nodes:
                if tree[node].status == "unfinished":  # unless a candidate extends it, below
                    tree[node] = replace(tree[node], status="pruned")
        self._nodes_BN = np.zeros(log_probs_BN.shape, np.int64)  # 0, the root, if not a candidate
        for b, n in np.argwhere(np.isfinite(log_probs_BN)).tolist():
            tree, parent = self.trees[beams.sentences[b]], int(nodes_BK[b, parents_BN[b, n]])
            self._nodes_BN[b, n] = len(tree)
            status: Status = "pruned"
            if taken_BN[b, n]:
                tree[parent] = replace(tree[parent], status="extended")
                status = "finished" if ended_BN[b, n] else "unfinished"
            log_prob, score = float(log_probs_BN[b, n]), float(scores_BN[b, n])
            tree.append(BeamNode(parent, int(tokens_BN[b, n]), log_prob, score, status))

    def extend(self, chosen: tuple[Ints, Ints]) -> None:
        """Reorder the nodes like the rows of the search, as `BeamState.extend` returned."""
        self._nodes_R = self._nodes_BN[chosen].ravel()


def length_limits(
    decoding: Decoding, options: SearchOptions, prefixes: Sequence[Prefix] | None
) -> list[int]:
    """Return the largest number of pieces before EOS for each sentence; a prefix always fits."""
    limits = [options.max_length(length) for length in decoding.source_lengths_B.tolist()]
    prefixes = prefixes or [NO_PREFIX] * len(limits)
    return [max(limit, p.longest) for limit, p in zip(limits, prefixes, strict=True)]


def _compact_order(kept_B: Bools) -> Ints:
    """Return the kept positions, in an order that moves as few of them as possible.

    Those beyond the new length fill the gaps.
    """
    size = np.count_nonzero(kept_B)
    order_B = np.arange(size)
    if size < len(kept_B):
        order_B[~kept_B[:size]] = size + kept_B[size:].nonzero()[0]
    return order_B


def repeated(tokens_RT: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the rows and pieces that would repeat an n-gram of this size."""
    if tokens_RT.shape[1] < size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    ngrams = np.lib.stride_tricks.sliding_window_view(tokens_RT, size, axis=1)  # by row and place
    last = tokens_RT[:, None, tokens_RT.shape[1] - size + 1 :]
    rows, places = (ngrams[:, :, :-1] == last).all(2).nonzero()
    pieces = ngrams[rows, places, -1]
    possible = pieces != EOS  # repeated by rows that have ended
    return rows[possible], pieces[possible]


_FEW = 16  # up to here, taking one maximum after the other is faster than a partial sort


def top(scores_RC: Floats, count: int) -> tuple[Floats, Ints]:
    """Return the largest scores of each row, in descending order, and their columns [R, count].

    Equal scores are in the order of columns; for a count of up to 16, the first of them are taken.
    The scores may be overwritten.
    """
    count = min(count, scores_RC.shape[1])
    rows_R = np.arange(len(scores_RC))
    if count > _FEW:
        columns_RC = scores_RC.argpartition(-count, axis=1)[:, -count:]
        found_RC = np.take_along_axis(scores_RC, columns_RC, 1)
        order_RC = np.lexsort((columns_RC, -found_RC), axis=1)
        return found_RC[rows_R[:, None], order_RC], columns_RC[rows_R[:, None], order_RC]
    columns_RC = np.empty((len(scores_RC), count), dtype=np.int64)
    found_RC = np.empty((len(scores_RC), count), dtype=scores_RC.dtype)
    for place in range(count):
        columns_R = scores_RC.argmax(1)
        columns_RC[:, place], found_RC[:, place] = columns_R, scores_RC[rows_R, columns_R]
        scores_RC[rows_R, columns_R] = -np.inf
    return found_RC, columns_RC

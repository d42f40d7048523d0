"""A split into train, valid and test that shares no sentence between its sides."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from seq2seq.data.cleaning import fold
from seq2seq.data.corpus import Pair
from seq2seq.errors import DataError

# A whole group leaves the training data for its one row of valid or test. Frequent short sentences
# chain together into groups of dozens of pairs: one row is not worth that, so they stay in train.
# Of the Tatoeba list, 99 % of the pairs are in groups of at most ten.
MAX_GROUP = 10


@dataclass(frozen=True)
class Split:
    """The three sides, and the groups that they were made of."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    groups: int
    largest_group: int
    held_out_pairs: int  # pairs of the groups of valid and test; only their rows are used


def split_pairs(pairs: Sequence[Pair], *, valid: int, test: int, seed: int) -> Split:
    """Return a split by groups of pairs that share a source or a target, compared folded.

    Every group is on one side only. Train holds all pairs of its groups in their order; valid and
    test hold one row a group, drawn from groups of at most MAX_GROUP pairs: a source, its target,
    and its other targets as references. Raises DataError where there are too few such groups.
    """
    groups = group_pairs(pairs)
    eligible = [group for group in groups if len(group) <= MAX_GROUP]
    needed = valid + test
    if needed > len(eligible) or needed == len(groups):
        raise DataError(
            f"{len(pairs)} pairs form {len(groups)} groups that share no sentence, {len(eligible)} "
            f"of them of at most {MAX_GROUP} pairs: too few for {valid} valid and {test} test rows "
            "and a training side; ask for fewer rows or give more pairs"
        )
    generator = random.Random(seed)
    drawn = generator.sample(eligible, needed)
    rows = [_draw_row([pairs[index] for index in group], generator) for group in drawn]
    held_out = {index for group in drawn for index in group}
    return Split(
        train=[pair for index, pair in enumerate(pairs) if index not in held_out],
        valid=rows[:valid],
        test=rows[valid:],
        groups=len(groups),
        largest_group=max(map(len, groups)),
        held_out_pairs=len(held_out),
    )


def group_pairs(pairs: Sequence[Pair]) -> list[list[int]]:
    """Return the indices of pairs that are linked by equal sides, folded, in order of the first."""
    parents = list(range(len(pairs)))

    def root(index: int) -> int:
        while parents[index] != index:
            parents[index] = parents[parents[index]]
            index = parents[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, pair in enumerate(pairs):
        for key in (("source", fold(pair.source)), ("target", fold(pair.target))):
            one, other = root(first.setdefault(key, index)), root(index)
            parents[max(one, other)] = min(one, other)
    groups: dict[int, list[int]] = {}
    for index in range(len(pairs)):
        groups.setdefault(root(index), []).append(index)
    return list(groups.values())


def _draw_row(group: Sequence[Pair], generator: random.Random) -> Pair:
    """Return one source of a group with all of its targets."""
    source = generator.choice(list(dict.fromkeys(pair.source for pair in group)))
    target, *further = dict.fromkeys(pair.target for pair in group if pair.source == source)
    return Pair(source, target, tuple(further))

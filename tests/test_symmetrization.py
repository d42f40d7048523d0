from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.evaluation.alignment import (
    SYMMETRIZATIONS,
    Links,
    grow_diag_final_and,
    parse_gold,
)

SIZE = 6
LINKS = st.frozensets(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=14)


def links(text: str) -> Links:
    return parse_gold(text, "test").sure


def plain_grow_diag_final_and(forward: Links, backward: Links) -> Links:
    """Follow the algorithm cell by cell, on matrices [target, source]."""
    first, second = np.zeros((2, SIZE, SIZE), dtype=bool)
    for matrix, found in ((first, forward), (second, backward)):
        for source, target in found:
            matrix[target, source] = True
    either, alignment = first | second, first & second
    steps = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    cells = list(itertools.product(range(SIZE), range(SIZE)))
    while True:
        before = alignment.copy()
        for e, f in cells:
            if not alignment[e, f]:
                continue
            for de, df in steps:
                new_e, new_f = e + de, f + df
                if not (0 <= new_e < SIZE and 0 <= new_f < SIZE):
                    continue
                free = not alignment[new_e].any() or not alignment[:, new_f].any()
                if free and either[new_e, new_f]:
                    alignment[new_e, new_f] = True
        if (before == alignment).all():
            break
    for matrix in (first, second):
        for e, f in cells:
            if matrix[e, f] and not alignment[e].any() and not alignment[:, f].any():
                alignment[e, f] = True
    return frozenset((int(f), int(e)) for e, f in np.argwhere(alignment))


@settings(max_examples=500, deadline=None)
@given(LINKS, LINKS)
def test_grow_diag_final_and_equals_matrix_version(forward: Links, backward: Links) -> None:
    assert grow_diag_final_and(forward, backward) == plain_grow_diag_final_and(forward, backward)


@settings(max_examples=200, deadline=None)
@given(LINKS, LINKS)
def test_result_lies_between_intersection_and_union(forward: Links, backward: Links) -> None:
    grown = grow_diag_final_and(forward, backward)
    assert forward & backward <= grown <= forward | backward
    assert grow_diag_final_and(forward, forward) == forward
    assert SYMMETRIZATIONS["intersection"](forward, backward) == forward & backward
    assert SYMMETRIZATIONS["union"](forward, backward) == forward | backward


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        # 1-1 grows to its neighbour 2-1, whose source word 2 is free, and from there to 3-2.
        ("0-0 1-1 2-1 3-2", "0-0 1-1", "0-0 1-1 2-1 3-2"),
        # 0-1 is a neighbour of 0-0, but both 0 and 1 have a link already.
        ("0-0 1-1 0-1", "0-0 1-1", "0-0 1-1"),
        # 3-3 is beside nothing and both its words are free: final-and takes it.
        ("0-0 3-3", "0-0", "0-0 3-3"),
        # 3-0 is beside nothing and target word 0 is taken: final (without and) would take it.
        ("0-0 3-0", "0-0", "0-0"),
        # Final: the forward links come first, and leave no free word for 4-3.
        ("3-3", "4-3", "3-3"),
        ("", "", ""),
    ],
)
def test_examples_by_hand(forward: str, backward: str, expected: str) -> None:
    assert grow_diag_final_and(links(forward), links(backward)) == links(expected)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import Gold, alignment_error, format_links, parse_gold, read_gold

SIZE = 5
LINKS = st.frozensets(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=9)


def test_example_by_hand() -> None:
    # A = {0-0 1-1 2-1 3-2}, S = {0-0 1-1 2-2}, P = S and {2-1}: |A & S| = 2, |A & P| = 3.
    found = parse_gold("0-0 1-1 2-1 3-2", "found").sure
    error = alignment_error([found], [parse_gold("0-0 1-1 2-2 2?1", "gold")])
    assert error.precision == pytest.approx(3 / 4)
    assert error.recall == pytest.approx(2 / 3)
    assert error.rate == pytest.approx(1 - 5 / 7)
    assert error.as_dict()["links"] == 4
    # With a second pair, without links found, the counts are sums over both.
    gold = [parse_gold("0-0 1-1 2-2 2?1", "gold"), parse_gold("0-0 1-0 2-0", "gold")]
    both = alignment_error([found, frozenset()], gold)
    assert (both.precision, both.recall) == (pytest.approx(3 / 4), pytest.approx(2 / 6))
    assert both.rate == pytest.approx(1 - 5 / 10)


def matrix(links: frozenset[tuple[int, int]]) -> np.ndarray:
    found = np.zeros((SIZE, SIZE), dtype=int)
    for source, target in links:
        found[source, target] = 1
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_counts_equal_matrix_version(sets: list[tuple[frozenset[tuple[int, int]], ...]]) -> None:
    found = np.concatenate([matrix(a) for a, _, _ in sets])
    sure = np.concatenate([matrix(s) for _, s, _ in sets])
    possible = np.maximum(sure, np.concatenate([matrix(p) for _, _, p in sets]))
    error = alignment_error([a for a, _, _ in sets], [Gold(s, s | p) for _, s, p in sets])
    assert error.precision == (
        pytest.approx((found * possible).sum() / found.sum()) if found.any() else None
    )
    assert error.recall == (
        pytest.approx((found * sure).sum() / sure.sum()) if sure.any() else None
    )
    size = found.sum() + sure.sum()
    hits = (found * sure).sum() + (found * possible).sum()
    assert error.rate == (pytest.approx(1 - hits / size) if size else None)


@given(LINKS)
def test_all_sure_links_have_no_error(links: frozenset[tuple[int, int]]) -> None:
    error = alignment_error([links], [Gold(links, links | {(0, 0)})])
    assert error.rate in (0, None)


def test_read_gold(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("1-1 2?1 3p2\n\n2-1\n")
    first, empty, last = read_gold(str(path), first=1)
    assert (format_links(first.sure), format_links(first.possible)) == ("0-0", "0-0 1-0 2-1")
    assert (empty.sure, empty.possible) == (frozenset(), frozenset())
    assert (last.sure, last.where) == ({(1, 0)}, f"{path}:3")


@pytest.mark.parametrize("token", ["1:2", "-1-2", "1-2-3", "1-", "1-2:0.9", "a-b", "1-٣", "1S2"])
def test_invalid_link_raises(token: str) -> None:
    with pytest.raises(DataError, match=r"here:2: '.*' is not a link; expected i-j \(sure\)"):
        parse_gold(f"0-0 {token}", "here:2")


def test_link_outside_the_sentences_raises() -> None:
    with pytest.raises(DataError, match="drop --one-based"):
        parse_gold("0-1", "here", first=1)
    gold = parse_gold("0-0 2?1", "here:7")
    gold.check(3, 2)
    for words in ((2, 2), (3, 1)):
        with pytest.raises(DataError, match=r"here:7: link 2-1 .* has . and the target . words"):
            gold.check(*words)

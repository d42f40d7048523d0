from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from conftest import toy_pairs
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.analysis.alignment import (
    SYMMETRIZATIONS,
    Gold,
    alignment_error,
    gold_of,
    grow_diag_final_and,
    parse_gold,
)
from seq2seq.config import TokenizerConfig
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import Tokenizer, normalize_line, train_tokenizer
from seq2seq.errors import DataError
from seq2seq.inference.text import Part
from seq2seq.inference.words import (
    Links,
    display_words,
    format_links,
    links_of,
    source_words,
    word_attention,
    word_weights,
    words,
    words_of_pieces,
)

SIZE = 6
LINKS = st.frozensets(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=14)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "case_marks"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    texts = [source for source, _ in toy_pairs(200, 0)]
    config = TokenizerConfig(case_marks=request.param)
    return train_tokenizer(texts, config=config, vocab_size=330, name="source")


def part(source: list[str], target: list[str], weights: list[list[float]] | None) -> Part:
    def text(pieces: list[str]) -> str:
        return "".join(pieces[:-1]).replace("▁", " ").strip()

    found = None if weights is None else np.array(weights)
    return Part(text(source), source, target, text(target), 0.0, 0.0, True, found)


def word_of_piece(pieces: list[str]) -> list[int]:
    """Return the first word of each piece, -1 if it belongs to none."""
    return [held[0] if held else -1 for held in words_of_pieces(pieces)]


SPLIT = part(
    ["▁ga", "to", "▁ne", "gro", "</s>"],
    ["▁bl", "ack", "▁cat", "</s>"],
    [
        [0.1, 0.1, 0.3, 0.3, 0.2],
        [0.1, 0.1, 0.5, 0.3, 0.0],
        [0.2, 0.3, 0.1, 0.1, 0.3],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ],
)


def test_weights_are_merged_into_words() -> None:
    assert word_of_piece(SPLIT.source_pieces) == [0, 0, 1, 1, -1]
    np.testing.assert_allclose(word_weights(SPLIT), [[0.2, 0.7], [0.5, 0.2]], atol=1e-6)
    assert links_of(SPLIT) == {(1, 0), (0, 1)}
    assert format_links(links_of(SPLIT)) == "0-1 1-0"


def test_part_without_words_has_no_links() -> None:
    empty = part(["▁gato", "</s>"], ["</s>"], [[0.5, 0.5]])
    assert links_of(empty) == frozenset()


def test_model_without_attention_has_no_links() -> None:
    with pytest.raises(DataError, match="attention"):
        word_weights(part(["▁a", "</s>"], ["▁b", "</s>"], None))


@pytest.mark.parametrize(
    ("pieces", "numbers"),
    [
        (["▁", "a", "▁", "b", "</s>"], [0, 0, 1, 1, -1]),
        (["▁a", "▁", "</s>"], [0, -1, -1]),
        (["▁a", "<0x20>", "<0x62>"], [0, 1, 1]),
        (["▁", "<0xE2>", "<0x82>", "<0xAC>", "</s>"], [0, 0, 0, 0, -1]),
        (["▁a", "<0xE2>", "<0x80>", "<0xA8>", "b"], [0, 1, 1, 1, 1]),
        (["<0xFF>", "▁a", "<0xC3>"], [0, 1, 1]),
        (["▁a", "<0x0A>", "<0x0A>", "b"], [0, 1, 1, 1]),
        (["<unk>", "▁a"], [0, 1]),
        (["▁", "<unk>", "b", "▁a"], [0, 0, 0, 1]),
        (["▁Ↄ", "▁ee", ".", "▁ↄ", "ana", "ↄ", "b"], [0, 0, 0, 1, 1, 1, 1]),
        (["▁ↃↃ", "▁no", "▁va", "▁ↄↄ", "▁dice", "▁Ↄ", "</s>"], [0, 0, 1, 2, 2, -1, -1]),
        (["▁", "<0xE2>", "<0x86>", "<0x83>", "▁no"], [0, 0, 0, 0, 0]),
        (["</s>"], [-1]),
        ([], []),
    ],
)
def test_words_of_unusual_pieces(pieces: list[str], numbers: list[int]) -> None:
    assert word_of_piece(pieces) == numbers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("¿Dónde está?", ["¿", "Dónde", "está", "?"]),
        ("(He said: “I don't.”)", ["(", "He", "said", ":", "“", "I", "don't", ".", "”", ")"]),
        ("well-known l’été 3.5", ["well-known", "l’été", "3.5"]),
        ("a ... -", ["a", ".", ".", ".", "-"]),
        ("हिन्दी।", ["हिन्दी", "।"]),
        (" ", []),
        # A variation selector, a joiner, a skin tone; flags; a key cap; an accent upon a mark.
        ("¡\u2764\ufe0f!", ["¡", "\u2764\ufe0f", "!"]),
        ("ok\U0001f469\u200d\U0001f4bb.", ["ok", "\U0001f469\u200d\U0001f4bb", "."]),
        ("\U0001f642\u200d\u2194\ufe0f", ["\U0001f642\u200d\u2194\ufe0f"]),
        ("\U0001f44d\U0001f3fd\U0001f44d", ["\U0001f44d\U0001f3fd", "\U0001f44d"]),
        (
            "\U0001f1ea\U0001f1f8\U0001f1eb\U0001f1f7",
            ["\U0001f1ea\U0001f1f8", "\U0001f1eb\U0001f1f7"],
        ),
        ("1\ufe0f\u20e3?", ["1\ufe0f\u20e3", "?"]),
        ("=\u0338 -\u200d.", ["=\u0338", "-\u200d", "."]),
    ],
)
def test_marks_around_a_word_are_words_in_views(text: str, found: list[str]) -> None:
    assert display_words(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("彼はiPhone 5を買った。", "彼 は iPhone 5 を 買 っ た 。"),
        ("「コーヒー」、3.5", "「 コ ー ヒ ー 」 、 3 . 5"),
        ("ที่นี่ don't", "ที่ นี่ don't"),
        ("ပျော်", "ပျော်"),
        ("मैं नहीं जानता।", "मैं नहीं जानता ।"),
        ("می‌خواهم 한국어를", "می‌خواهم 한국어를"),
    ],
)
def test_each_character_of_a_script_without_spaces_is_a_word(text: str, found: str) -> None:
    assert words(text) == found.split()
    assert display_words(text) == found.replace("3 . 5", "3.5").split()


def test_views_join_the_characters_that_a_piece_spells() -> None:
    pieces = ["▁彼は", "i", "Phone", "を", "買った。", "</s>"]
    text = "彼はiPhoneを買った。"
    view = word_attention(Part(text, pieces, pieces, text, 0.0, 0.0, True, np.eye(6)))
    assert view.target == ["彼は", "iPhone", "を", "買った", "。"]
    assert view.source == [*view.target, "</s>"]
    assert view.weights[1].tolist() == [0, 1, 0, 0, 0, 0]
    assert view.weights[3].tolist() == [0, 0, 0, 0.5, 0.5, 0]
    assert np.allclose(view.weights.sum(1), 1)


def test_views_show_the_full_stop_and_the_end_of_sentence() -> None:
    found = part(
        ["▁ga", "to", ".", "</s>"],
        ["▁cat", ".", "</s>"],
        [[0.1, 0.3, 0.1, 0.5], [0.0, 0.1, 0.2, 0.7], [0.0, 0.0, 0.0, 1.0]],
    )
    view = word_attention(found)
    assert (view.source, view.target) == (["gato", ".", "</s>"], ["cat", "."])
    np.testing.assert_allclose(view.weights, [[0.4, 0.1, 0.5], [0.1, 0.2, 0.7]])
    assert source_words(found).of_pieces == [[0], [0], [1], [2]]
    assert links_of(found) == {(0, 0)}  # where white space separates words
    with pytest.raises(DataError, match="attention"):
        word_attention(part(["▁a", "</s>"], ["▁b", "</s>"], None))


def test_pieces_of_an_emoji_are_one_word_in_views(tokenizer: Tokenizer) -> None:
    text = "gato \u2764\ufe0f."
    pieces = [*tokenizer.pieces(tokenizer.encode(text)), "</s>"]
    weights = np.full((len(pieces), len(pieces)), 1 / len(pieces))
    view = word_attention(Part(text, pieces, pieces, text, 0.0, 0.0, True, weights))
    assert view.target == ["gato", "\u2764\ufe0f", "."]


@settings(max_examples=200, deadline=None)
@given(st.text(), st.booleans())
def test_rows_of_views_sum_to_1(tokenizer: Tokenizer, line: str, fallback: bool) -> None:
    text = normalize_line(line)
    pieces = [*tokenizer.pieces(tokenizer.encode(text)), "</s>"]
    if not fallback:  # as of a tokenizer that does not know these characters
        pieces = ["<unk>" if piece.startswith("<0x") else piece for piece in pieces]
    weights = np.full((len(pieces), len(pieces)), 1 / len(pieces))
    found = Part(text, pieces, pieces, text, 0.0, 0.0, True, weights)
    view = word_attention(found)
    assert view.weights.shape == (len(view.target), len(view.source))
    np.testing.assert_allclose(view.weights.sum(1), 1)
    assert [*view.target, "</s>"] == view.source
    assert "".join(view.target) == "".join(text.split())


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_word_count_matches_encoded_text(tokenizer: Tokenizer, line: str) -> None:
    text = normalize_line(line)
    pieces = [*tokenizer.pieces(tokenizer.encode(text)), "</s>"]
    assert max(word_of_piece(pieces)) + 1 == len(text.split())
    shape = len(words(text)), len(text.split())
    weights = np.full((len(pieces), len(pieces)), 1 / len(pieces))
    merged = word_weights(part(pieces, pieces, weights.tolist()), words)
    assert merged.shape == (shape[0], shape[0])


def test_piece_of_several_words_counts_for_each() -> None:
    found = part(
        ["▁a", "...", "</s>"], ["▁b", "?!", "</s>"], [[0.5, 0.3, 0.2], [0.1, 0.9, 0], [0] * 3]
    )
    expected = [[0.5, 0.1, 0.1, 0.1], [0.1, 0.3, 0.3, 0.3], [0.1, 0.3, 0.3, 0.3]]
    np.testing.assert_allclose(word_weights(found, words), expected, atol=1e-6)
    np.testing.assert_allclose(word_weights(found), [[0.9]], atol=1e-6)


def test_unknown_words_count() -> None:
    config = TokenizerConfig(byte_fallback=False)
    texts = [source for source, _ in toy_pairs(200, 0)]
    known = train_tokenizer(texts, config=config, vocab_size=100, name="source")
    for text in ("中 gato", "gato 中文 pan", "gato中 de", "中"):
        assert max(word_of_piece(known.pieces(known.encode(text)))) + 1 == len(text.split())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(4, 280), max_size=20))
def test_word_count_matches_decoded_text(tokenizer: Tokenizer, ids: list[int]) -> None:
    numbers = word_of_piece([*tokenizer.pieces(ids), "</s>"])
    assert max(numbers) + 1 == len(tokenizer.decode(ids).split())


def parse_links(text: str) -> Links:
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
def test_symmetrisation_lies_between_intersection_and_union(
    forward: Links, backward: Links
) -> None:
    grown = grow_diag_final_and(forward, backward)
    assert forward & backward <= grown <= forward | backward
    assert grow_diag_final_and(forward, forward) == forward
    assert SYMMETRIZATIONS["intersection"](forward, backward) == forward & backward
    assert SYMMETRIZATIONS["union"](forward, backward) == forward | backward


@pytest.mark.parametrize(
    ("forward", "backward", "expected"),
    [
        # 1-1 grows to its neighbor 2-1, whose source word 2 is free, and from there to 3-2.
        ("0-0 1-1 2-1 3-2", "0-0 1-1", "0-0 1-1 2-1 3-2"),
        # 0-1 is a neighbor of 0-0, but both 0 and 1 have a link already.
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
def test_grow_diag_final_and_by_hand(forward: str, backward: str, expected: str) -> None:
    assert grow_diag_final_and(parse_links(forward), parse_links(backward)) == parse_links(expected)


def test_alignment_error_by_hand() -> None:
    # A = {0-0 1-1 2-1 3-2}, S = {0-0 1-1 2-2}, P = S and {2-1}: |A & S| = 2, |A & P| = 3.
    found = parse_gold("0-0 1-1 2-1 3-2", "found").sure
    error = alignment_error([found], [parse_gold("0-0 1-1 2-2 2?1", "gold")])
    assert error.precision == pytest.approx(3 / 4)
    assert error.recall == pytest.approx(2 / 3)
    assert error.aer == pytest.approx(1 - 5 / 7)
    assert error.links == 4
    # With a second pair, without links found, the counts are sums over both.
    gold = [parse_gold("0-0 1-1 2-2 2?1", "gold"), parse_gold("0-0 1-0 2-0", "gold")]
    both = alignment_error([found, frozenset()], gold)
    assert (both.precision, both.recall) == (pytest.approx(3 / 4), pytest.approx(2 / 6))
    assert both.aer == pytest.approx(1 - 5 / 10)


def matrix(links: Links) -> np.ndarray:
    found = np.zeros((SIZE, SIZE), dtype=int)
    for source, target in links:
        found[source, target] = 1
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_alignment_error_equals_matrix_version(
    sets: list[tuple[Links, ...]],
) -> None:
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
    assert error.aer == (pytest.approx(1 - hits / size) if size else None)


@given(LINKS)
def test_all_sure_links_have_no_error(links: Links) -> None:
    error = alignment_error([links], [Gold(links, links | {(0, 0)})])
    assert error.aer in (0, None)


def test_read_gold(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("1-1 2?1 3p2\n\n2-1\n")
    found = gold_of([Pair("a b c", "d e")] * 3, str(path), split=str.split, first=1)
    assert found is not None
    first, empty, last = found
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
    for source, target in (("a b c", "d e"), ("a b", "d e"), ("a b c", "d")):
        pair = Pair(source, target, alignment="0-0 2?1")
        if (source, target) == ("a b c", "d e"):
            assert gold_of([pair], split=str.split) is not None
            continue
        with pytest.raises(DataError, match=r"pair 1: link 2-1 .* has . and the target . words"):
            gold_of([pair], split=str.split)

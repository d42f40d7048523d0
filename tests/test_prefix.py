"""Translations that begin with a given text, against enumeration."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import ClassVar

import pytest
from conftest import toy_pairs
from hypothesis import given
from hypothesis import strategies as st
from plain_search import enumerate_all, plain_beam
from prefix_model import TEXTS as PIECE_TEXTS
from prefix_model import prefix_model
from properties import examples
from random_model import random_translator

from seq2seq.cli import main
from seq2seq.config import TokenizerConfig
from seq2seq.data.tokenizer import EOS, UNK, Tokenizer, normalize_line, train_tokenizer
from seq2seq.errors import DataError
from seq2seq.inference.prefix import Beginning, Prefix, Spelling, forced_pieces
from seq2seq.inference.protocol import SearchOptions
from seq2seq.inference.sampling import Sampling, sample
from seq2seq.inference.search import search
from seq2seq.inference.translator import Translator

WIDE = 3000


class FakeTokenizer(Tokenizer):
    """The pieces of the fake model."""

    ids: ClassVar[dict[str, int]] = {}
    vocab_size = len(PIECE_TEXTS)

    def __init__(self) -> None:
        pass

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [PIECE_TEXTS[i].replace(" ", "▁") for i in ids]


FAKE = Spelling(FakeTokenizer())
PREFIXES = [
    Prefix(),
    forced_pieces([4, 4, 4]),
    forced_pieces([1, 5]),
    *(
        Prefix("x", [Beginning("", *way) for way in ways], FAKE)
        for ways in (
            [([4], b" ")],
            [([], b" ab")],
            [([6], b" a"), ([4, 5], b" a")],
            [([1, 4], b""), ([], b" abb")],
        )
    ),
]
any_options = st.builds(
    SearchOptions,
    length_penalty=st.sampled_from([0.0, 1.0]),
    coverage_penalty=st.sampled_from([0.0, 0.2]),
    max_length_factor=st.just(0.5),
    max_length_offset=st.integers(1, 2),
    no_repeat_ngram=st.integers(0, 2),
)


@examples(60)
@given(
    st.integers(0, 1000),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    any_options,
    st.booleans(),
    st.data(),
)
def test_search_with_prefixes_matches_enumeration(
    seed: int, lengths: list[int], options: SearchOptions, shortens: bool, data: st.DataObject
) -> None:
    model = prefix_model(seed, lengths, shortens=shortens)
    prefixes = [data.draw(st.sampled_from(PREFIXES)) for _ in lengths]
    for size in (WIDE, data.draw(st.integers(1, 5))):
        each = dataclasses.replace(options, beam_size=size, nbest=min(3, size))
        found = search(model, each, prefixes)
        for sentence, (length, prefix) in enumerate(zip(lengths, prefixes, strict=True)):
            plain = enumerate_all if size == WIDE else plain_beam
            expected = plain(model, sentence, length, each, prefix)[: each.nbest]
            assert [tuple(h.tokens) for h in found[sentence]] == [y for _, y in expected]
            assert [h.score for h in found[sentence]] == pytest.approx([s for s, _ in expected])


def test_no_prefix_changes_nothing() -> None:
    model = prefix_model(5, [3, 1, 4], shortens=True)
    options = SearchOptions(beam_size=3, nbest=3)
    assert search(model, options) == search(model, options, [Prefix()] * 3)
    drawn = Sampling(4, top_p=0.9)
    assert sample(model, options, drawn) == sample(model, options, drawn, prefixes=[Prefix()] * 3)


TEXTS = ["the house is old", "houses, housing and other things", "a horse's hat", "the other hat!"]


@cache
def tokenizer(kind: str, byte_fallback: bool, case_marks: bool = False) -> Tokenizer:
    config = TokenizerConfig.model_validate(
        {"type": kind, "byte_fallback": byte_fallback, "case_marks": case_marks}
    )
    size = 60 + 256 * byte_fallback
    texts = [*TEXTS, *map(str.title, TEXTS)] if case_marks else TEXTS
    return train_tokenizer(texts * 3, config=config, vocab_size=size, name="target")


any_tokenizer = st.builds(
    tokenizer, st.sampled_from(["unigram", "bpe"]), st.booleans(), st.booleans()
)
BEGINNINGS = [*TEXTS, *map(str.title, TEXTS), *map(str.upper, TEXTS), "a HORSE is OLD AND"]
any_text = (
    st.text(max_size=8)
    | st.text("aehinostu ,'!", max_size=12)
    | st.text("aehoAEHO3 !", max_size=12)
    | st.builds(lambda text, end: text[:end], st.sampled_from(BEGINNINGS), st.integers(0, 30))
    | st.sampled_from(["hoжus", "ж", "a ж the", "ho\u0301", "a\u200b ", "▁", "the hou\x00"])
)


@examples(100)
@given(any_tokenizer, any_text, st.randoms())
def test_legal_pieces_spell_the_text(tokenizer: Tokenizer, text: str, chance: Random) -> None:
    prefix, normal = Spelling(tokenizer).prefix(text), normalize_line(text)
    assert prefix.text == normal
    tokens: list[int] = []
    while (legal := prefix.legal(tokens)) is not None and tokens[-1:] != [EOS]:
        tokens.append(chance.choice(legal.tolist()))
    assert len([piece for piece in tokens if piece != EOS]) <= prefix.longest + 1
    found = prefix.decode(tokens, tokenizer)
    assert found.startswith(normal)
    # Where pieces mark capitals, what follows the text may spell nothing.
    if normalize_line(text + "x") != normal + "x" and not tokenizer.marks_case:
        assert found == normal or found.startswith(f"{normal} ") or tokens[-1] != EOS


@examples(200)
@given(any_tokenizer, st.text("ahoAHO3 !", max_size=15), st.text("ahoAHO3 !", max_size=15))
def test_usual_pieces_of_longer_texts_are_legal(tokenizer: Tokenizer, text: str, more: str) -> None:
    tokens = tokenizer.encode(text + more)
    if any(piece.startswith("<") for piece in tokenizer.pieces(tokens)):
        return
    prefix = Spelling(tokenizer).prefix(text)
    for place, piece in enumerate([*tokens, EOS]):
        legal = prefix.legal(tokens[:place])
        assert legal is None or piece in legal


def test_unfinished_word_has_any_pieces_that_agree() -> None:
    spelling = Spelling(tokenizer("bpe", byte_fallback=False))
    prefix = spelling.prefix("the hou")
    names = spelling.tokenizer.pieces
    usual = spelling.tokenizer.encode("the")
    assert prefix.legal([]).tolist() == usual[:1]  # type: ignore[union-attr]
    found = names(prefix.legal(usual))  # type: ignore[arg-type]
    assert found == [
        piece for piece in found if "▁hou".startswith(piece) or piece.startswith("▁hou")
    ]
    assert {"▁", "▁h", "▁hous"} & {*found}


def test_unknown_characters_and_accents_in_capitals() -> None:
    marked = tokenizer("unigram", byte_fallback=False, case_marks=True)
    spelling = Spelling(marked)
    [usual, (row, pieces, _)] = spelling.prefix("ЖЖ THE ").beginnings
    assert (usual.before, row) == (" Ↄ жж Ↄ the", " ↃↃ жж the")
    longer = [*pieces, *marked.encode_spelled("house ↄↄ is")]
    assert spelling.prefix("ЖЖ THE ").decode(longer, marked) == "ЖЖ THE HOUSE is"
    assert spelling.prefix("ЖЖ THE HO").decode(longer, marked) == "ЖЖ THE HOUSE is"
    spelled = tokenizer("unigram", byte_fallback=True, case_marks=True)
    prefix = Spelling(spelled).prefix("THE HO")
    accent = [i for i in spelled.encode("\u0301") if spelled.pieces([i])[0].startswith("<0x")]
    for _, pieces, rest in prefix.beginnings:
        last = spelled.encode_spelled(rest.decode().strip())
        found = prefix.decode([*pieces, *last, *accent, *spelled.encode("us")[1:]], spelled)
        assert found.startswith("THE HO\u0301")


@examples(60)
@given(
    st.integers(0, 100),
    any_tokenizer,
    st.lists(
        st.tuples(st.sampled_from(["", "the", "a hat", "the other " * 9]), any_text), max_size=3
    ),
    st.sampled_from(["greedy", "beam", "samples", "mbr", "no_repeat"]),
)
def test_every_text_begins_with_its_prefix(
    seed: int, tokenizer: Tokenizer, pairs: list[tuple[str, str]], how: str
) -> None:
    translator = random_translator(seed, tokenizer)
    size = 1 if how == "greedy" else 3
    changes = {"beam_size": size, "nbest": size, "no_repeat_ngram": int(how == "no_repeat")}
    found = translator.translate(
        [line for line, _ in pairs],
        translator.options(max_length_factor=0.1, max_length_offset=4, **changes),
        sampling=Sampling(4, temperature=2.0, seed=seed) if how == "samples" else None,
        mbr="chrf" if how == "mbr" else None,
        prefixes=[prefix for _, prefix in pairs],
    )
    for (_, prefix), translations in zip(pairs, found, strict=True):
        for translation in translations:
            assert translation.text.startswith(normalize_line(prefix))
            complete = normalize_line(prefix + "x") == normalize_line(prefix) + " x"
            if complete and translation.text != normalize_line(prefix):
                assert translation.text.startswith(normalize_line(prefix) + " ")


@pytest.fixture(scope="module", params=["onnx", "torch", "ensemble"])
def translator(request: pytest.FixtureRequest, trained: Path, other: Path) -> Translator:
    if request.param == "ensemble":
        return Translator.load(trained, other)
    return Translator.load(trained, backend=request.param)


def test_empty_prefixes_change_no_bit(translator: Translator) -> None:
    lines = ["gato come pan", "", "perro " * 40, "él ve"]
    options = translator.options(nbest=3, keep_weights=True)
    for sampling in (None, Sampling(2)):
        found, given_none = (
            translator.translate(lines, options, sampling=sampling, prefixes=prefixes)
            for prefixes in ([""] * 4, None)
        )
        for one, other in zip(found, given_none, strict=True):
            assert [t.as_json(attention=True) for t in one] == [
                t.as_json(attention=True) for t in other
            ]


def test_whole_reference_has_the_probability_of_forcing(translator: Translator) -> None:
    sources, targets = map(list, zip(*toy_pairs(12, 7), strict=True))
    forced = translator.force_decode(sources, targets)
    ended = 0
    for end in ("", " "):
        for beam_size in (1, 4):
            options = translator.options(beam_size=beam_size)
            given_all = [target + end for target in targets]
            found = translator.translate(sources, options, prefixes=given_all)
            for [best], part, target in zip(found, forced, targets, strict=True):
                assert best.text.startswith(target)
                if best.text == target:
                    ended += 1
                    assert best.parts[0].log_prob == pytest.approx(part.log_prob, abs=1e-4)
                    assert best.parts[0].target_pieces == part.target_pieces
    assert ended > 36


def test_prefixes_guide_the_translation(translator: Translator) -> None:
    lines = ["gato come pan"] * 4
    found = translator.translate(lines, prefixes=["", "c", "cat eat", "dog e"])
    assert [best.text for [best] in found] == ["cat eats bread"] * 3 + ["dog eats bread"]


def test_prefix_of_a_line_that_is_split(trained: Path) -> None:
    translator = Translator.load(trained)
    [[best]] = translator.translate(["perro. " * 20], prefixes=["house do"])
    assert best.text.startswith("house do")
    assert len(best.parts) > 1
    assert "house" not in best.parts[1].text


def test_unknown_characters_are_kept() -> None:
    plain = tokenizer("unigram", byte_fallback=False)
    prefix = Spelling(plain).prefix("a жж the hou")
    [(_, pieces, _)] = prefix.beginnings
    assert UNK in pieces
    [[best]] = random_translator(1, plain).translate(["the"], prefixes=["a жж the hou"])
    assert best.text.startswith("a жж the hou")
    whole = Spelling(plain).prefix("a жж the", is_all=True)
    assert whole.decode(plain.encode("a жж the"), plain) == "a жж the"
    assert whole.legal(plain.encode("a жж the")) == [EOS]
    [(_, last, rest)] = Spelling(plain).prefix("a жж").beginnings  # no other pieces spell it
    assert (UNK in last, rest) == (True, b"")


def test_accent_after_the_prefix_is_not_composed() -> None:
    spelled = tokenizer("unigram", byte_fallback=True)
    prefix = Spelling(spelled).prefix("the ho")
    accent = [i for i in spelled.encode("\u0301") if spelled.pieces([i])[0].startswith("<0x")]
    assert len(accent) == 2
    tokens = [*spelled.encode("the ho"), *accent]
    assert spelled.decode(tokens) == "the h\u00f3"
    assert prefix.decode(tokens, spelled) == "the ho\u0301"


def test_faults(trained: Path) -> None:
    translator = Translator.load(trained)
    with pytest.raises(DataError, match="1 prefixes for 2 lines"):
        translator.translate(["gato", "pan"], prefixes=["c"])
    with pytest.raises(DataError, match=r"prefix 5: \d+ pieces are too many"):
        translator.translate(["gato"], prefixes=["bread " * 10_000], first_number=5)
    with pytest.raises(DataError, match="list of lines"):
        translator.translate(["g", "a"], prefixes="ca")


def test_command(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").write_text("gato come pan\n\nperro\n", encoding="utf-8")
    (tmp_path / "begin").write_text("do\n\n\n", encoding="utf-8")
    rows = [{"text": "gato come pan", "prefix": "do"}, {"text": "", "id": 1}, {"text": "perro"}]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows").write_text(lines, encoding="utf-8-sig")
    run, files = str(trained), [str(tmp_path / name) for name in ("in", "begin", "rows")]
    assert main(["translate", run, "-i", files[0], "--prefix", files[1]]) == 0
    expected = "dog eats bread\n\ndog\n"
    assert capsys.readouterr().out == expected
    assert main(["translate", run, "-i", files[2], "--input-format", "jsonl"]) == 0
    assert capsys.readouterr().out == expected

    (tmp_path / "begin").write_text("do\n\n", encoding="utf-8")
    assert main(["translate", run, "-i", files[0], "--prefix", files[1]]) == 2
    assert "fewer lines than the input" in capsys.readouterr().err
    assert main(["translate", run, "-i", files[0], "--input-format", "jsonl"]) == 2
    assert "line 1: expected a JSON object" in capsys.readouterr().err
    both = ["--input-format", "jsonl", "--prefix", files[1]]
    assert main(["translate", run, "-i", files[2], *both]) == 2
    assert "remove --prefix" in capsys.readouterr().err

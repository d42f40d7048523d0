"""Terms of a glossary and tokens arrive in translations, whatever the model prefers."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Literal

import numpy as np
import pytest
from conftest import LEXICON
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from random_model import random_translator

from seq2seq import cli
from seq2seq.data.tokenizer import Tokenizer, normalize_line
from seq2seq.errors import DataError
from seq2seq.inference import arrival
from seq2seq.inference.required import (
    Glossary,
    Required,
    find_missing,
    mask,
    required_of,
    show_tokens,
)  # fmt: skip
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import source_words, target_words, uncertain_words, word_attention

EMPTY = Glossary()


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


@pytest.fixture
def unforced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nothing forced, so that terms can be missing."""
    monkeypatch.setattr(arrival, "_beginning", lambda *_: "")


def terms(text: str, glossary: Glossary) -> list[str]:
    return [each.text for each in glossary.find(text, spaced=True)]


def best(translator: Translator, text: str, glossary: Glossary | None = None) -> str:
    [[found, *_]] = translator.translate([text], glossary=glossary)
    return found.text


# --- Glossaries


def test_term_of_a_language_without_spaces() -> None:
    [found] = Glossary({"猫": "tomcat"}).find("私は猫が好き", spaced=False)
    assert (found.text, found.start, found.end) == ("tomcat", 2, 3)


def test_longest_term_matches_whole_words() -> None:
    glossary = Glossary({"coche": "car", "coche cama": "sleeper", "C++": "C++ (sic)"})
    assert terms("Un coche cama y un coche; coches.", glossary) == ["sleeper", "car"]
    assert terms("Uso C++.", glossary) == ["C++ (sic)"]


def test_term_in_lower_case_matches_any_case() -> None:
    glossary = Glossary({"sol": "sun", "Sol": "Sol Square", "OMS": "WHO"})
    assert terms("Sol, sol y SOL de la OMS, Oms", glossary) == ["Sol Square", "sun", "SUN", "WHO"]
    assert terms("ſol", glossary) == []


def test_glossary_is_read(tmp_path: Path) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("\ufeff# mine\n\ncoche\tautomobile \r\nel  sol\tthe sun\n", encoding="utf-8")
    assert Glossary.read(path).terms == {"coche": "automobile", "el sol": "the sun"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a\tb\nc d\n", "terms.tsv:2: expected a term, a tab and its translation, found"),
        (b"a\tb\tc\n", "terms.tsv:1: expected a term"),
        (b"a\t \n", "terms.tsv:1: expected a term"),
        (b"a\tb\na\tc\n", "terms.tsv:2: 'a' has another translation above; remove one"),
        (b"# a\n", "terms.tsv: no terms"),
        (b"\xff", "terms.tsv:1: not UTF-8"),
    ],
)  # fmt: skip
def test_unusable_glossary_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "terms.tsv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)):
        Glossary.read(path)


def test_terms_have_to_be_texts() -> None:
    with pytest.raises(DataError, match="glossary: 'a': ' '"):
        Glossary({"a": " "})
    with pytest.raises(DataError, match=r"glossary: expected a mapping of terms, found \[\]"):
        Glossary([])  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["translate", "evaluate", "serve"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.tsv", "gone.tsv: no such file; check the path"),
        (".", ".: a directory; name a file in it"),
    ],
)
def test_glossary_that_is_no_file(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch, command: str, name: str, message: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.tsv").write_text("gato\tcat\n", encoding="utf-8")
    test = ["test.tsv"] if command == "evaluate" else []
    assert cli.main([command, str(trained), *test, "--glossary", name]) == 2
    assert message in capsys.readouterr().err


# --- Stand-ins


@pytest.mark.parametrize(
    "text", ["Pulsa <b>aquí</b>, {name}.", "{a}b%s", "473 cosas de 644 en a@b.com", "x² + y²"]
)
def test_tokens_have_stand_ins_that_are_put_back(text: str) -> None:
    masked, by_form = mask(text, (EMPTY, "es", "en"))
    tokens = [*by_form.values()]
    assert len(tokens) == len({token.form for token in tokens}) > 0
    assert not any(token.source in masked or token.form in text for token in tokens)
    assert [masked[token.start : token.end] for token in tokens] == [t.form for t in tokens]
    assert show_tokens(masked, tokens) == text


FRAGMENTS = ("{a}", "_", "b", "a@b.com", " ", "<b>", ",", "1", "%s", "x²", "-", "#c", ".", "/d/e")


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join))
@examples(300)
def test_no_stand_in_stays(text: str) -> None:
    text = normalize_line(text)
    masked, tokens = mask(text, (EMPTY, "es", "es"))
    assert len(required_of(masked, tokens, (EMPTY, "es", "es"))) == len(tokens)
    assert show_tokens(masked, [*tokens.values()]) == text


@pytest.mark.parametrize("fragment", [*FRAGMENTS, "a.", "{a} ", "123 456 ", "www.", "<a ", "{{"])
def test_long_text_takes_no_time(fragment: str) -> None:
    """In linear time these take milliseconds, in quadratic time minutes."""
    text = normalize_line(fragment * 10_000)
    begun = time.process_time()
    masked, tokens = mask(text, (EMPTY, "es", "en"))
    assert len(required_of(masked, tokens, (EMPTY, "es", "en"))) == len(tokens)
    assert time.process_time() - begun < 2


def test_term_that_has_a_token_stays() -> None:
    glossary = Glossary({"a@b.com": "c@d.com"})
    assert mask("Escribe a a@b.com.", (glossary, "es", "en")) == ("Escribe a a@b.com.", {})


def test_token_that_has_a_term_stays() -> None:
    glossary = Glossary({"nombre": "name", "casa": "home"})
    text = "Hola {{nombre}}, mira https://casa.es/casa y #casa"
    masked, tokens = mask(text, (glossary, "es", "en"))
    assert [each.text for each in tokens.values()] == [
        "{{nombre}}", "https://casa.es/casa", "#casa",
    ]  # fmt: skip
    assert {each.form for each in required_of(masked, tokens, (glossary, "es", "en"))} == {*tokens}


def test_parts_require_what_they_have() -> None:
    masked, tokens = mask("El gato de {a} y {b}", (EMPTY, "es", "en"))
    first, second = masked[: masked.index(" y ")], masked[masked.index("y ") :]
    protection = Glossary({"gato": "cat"}), "es", "en"
    assert [each.text for each in required_of(first, tokens, protection)] == ["cat", "{a}"]
    [other] = required_of(second, tokens, protection)
    assert second[other.start : other.end] == other.form


def test_missing_texts_are_counted() -> None:
    required = [Required("car", "car", 0, 3), Required("sun", "sun", 4, 7)] * 2
    assert find_missing("Car, cars and car; sun", required, spaced=True) == [required[1]]
    assert find_missing("carsunsun", required, spaced=False) == [required[0]]


# --- Search


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [1, 3])
def test_random_model_translates_with_all_of_them(
    translator: Translator, seed: int, beam: int
) -> None:
    """Also without attention, where nothing says where they belong."""
    glossary = Glossary({"gato": "big lion", "pan": "bread", "perro": "öŋ"})
    guess = random_translator(seed, translator.target)
    options = guess.options(beam_size=beam, nbest=beam, max_length_offset=3, glossary=glossary)
    lines = ["gato {a} perro, pan a@b.com gato", "%s", "<b>pan</b> 3,5 kg"]
    wanted = [["{a}", "öŋ", "bread", "a@b.com"], ["%s"], ["<b>", "bread", "</b>", "3.5 kg"]]
    for found, texts in zip(guess.translate(lines, options), wanted, strict=True):
        assert found[0].parts
        for each in found:
            lower = each.text.lower()
            assert not [part.missing for part in each.parts if part.missing]
            assert all(text in lower for text in texts)


def test_sentence_is_searched_again_a_few_times(translator: Translator) -> None:
    """A list of a hundred tokens would take minutes otherwise."""
    [[found]] = translator.translate(["gato come pan"])
    required = [Required(str(n), str(n), 0, 1) for n in range(100)]
    calls = []

    def search_again(tried: Sequence[tuple[int, str]]) -> list[list[Part]]:
        calls.append(tried)
        return [found.parts]

    [[part]] = arrival.let_arrive([found.parts], [required], search_again, given=[0], spaced=True)
    assert len(calls) == 8
    assert len(part.missing) == 100


@pytest.mark.parametrize("backend", ["onnx", "torch"])
def test_term_replaces_the_words_of_the_model(
    trained: Path, backend: Literal["onnx", "torch"]
) -> None:
    translator = Translator.load(trained, backend=backend)
    assert best(translator, "niño quiere gato grande", Glossary({"gato": "dog"})) == " ".join(
        "dog" if word == "gato" else LEXICON[word] for word in ["niño", "quiere", "gato", "grande"]
    )


def test_terms_may_be_a_mapping(translator: Translator) -> None:
    terms = {"gato": "dog"}
    expected = best(translator, "gato come pan", Glossary(terms))
    [[found]] = translator.translate(["gato come pan"], glossary=terms)
    [[chosen]] = translator.translate(["gato come pan"], translator.options(glossary=terms))
    assert found.text == chosen.text == expected
    for wrong in ([], "terms.tsv"):
        with pytest.raises(DataError, match="glossary: expected a mapping of terms, found"):
            translator.translate(["gato"], glossary=wrong)  # type: ignore[arg-type]


def test_text_without_terms_is_translated_as_before(translator: Translator) -> None:
    lines = ["gato come pan", "perro", "niño quiere casa grande"]
    glossary = Glossary({"zapato": "shoe"})
    options = translator.options(nbest=2, keep_weights=True)
    before, after = (
        [[(t.text, t.score, t.parts[0].log_probs) for t in of] for of in found]
        for found in (
            translator.translate(lines, options),
            translator.translate(lines, options, glossary=glossary),
        )
    )
    assert before == after


def test_translations_do_not_depend_on_each_other(translator: Translator) -> None:
    lines = ["gato come pan", "perro {a} pan", "gato y gato", "niño a@b.com"]
    glossary = Glossary({"gato": "dog", "pan": "house"})
    alone = [best(translator, line, glossary) for line in lines]
    assert [found[0].text for found in translator.translate(lines, glossary=glossary)] == alone


def test_single_bytes_do_not_continue_a_forced_word(translator: Translator) -> None:
    spelling = translator.spelling
    assert b"\xc3" not in {spelling.spell([piece]) for piece in spelling.word_ends.tolist()}


def test_searches_of_a_sentence_do_not_depend_on_others(translator: Translator) -> None:
    """However many texts the others require."""
    [[found]] = translator.translate(["gato come pan"])
    one, two = ([Required(name, name, 0, 1) for name in names] for names in ("x", "xy"))
    counts = []
    for required in ([one], [one, two]):
        calls: list[int] = []

        def search_again(
            tried: Sequence[tuple[int, str]], calls: list[int] = calls
        ) -> list[list[Part]]:
            calls += [number for number, _ in tried]
            return [found.parts for _ in tried]

        arrival.let_arrive(
            [found.parts] * len(required),
            required,
            search_again,
            given=[0] * len(required),
            spaced=True,
        )
        counts.append(calls.count(0))
    assert counts[0] == counts[1]


def test_token_is_one_piece_with_the_weights_of_its_stand_in(translator: Translator) -> None:
    options = translator.options(keep_weights=True)
    [[found]] = translator.translate(["gato a@b.com come <i>pan</i>"], options)
    [part] = found.parts
    assert part.source == "gato a@b.com come <i>pan</i>"
    assert "▁a@b.com" in part.source_pieces or "a@b.com" in part.source_pieces
    for token in ("a@b.com", "<i>", "</i>"):
        assert sum(token in piece for piece in part.target_pieces) == 1
    assert part.weights is not None
    assert part.weights.shape == (len(part.target_pieces), len(part.source_pieces))
    np.testing.assert_allclose(part.weights.sum(1), 1, atol=1e-4)
    assert len(part.log_probs) == len(part.target_pieces)
    assert sum(part.log_probs) == pytest.approx(part.log_prob, abs=1e-3)
    assert "".join(part.target_pieces[:-1]).replace("▁", " ").strip() == part.text


GLUED = (
    "Haz clic en <b>Guardar</b> para continuar.", "<b>Hola</b>", "Hola</b> mundo", "a<b y c>d",
    "x{a}y casa", "pre{a}fijo {b}sufijo", "Pulsa <kbd>Ctrl</kbd>.", "una casa{a}{b}",
    "Click <b>Save</b> to continue.", "<i>CTRL</i> x", "LA CASA{a}",
)  # fmt: skip
SPOKEN = ("Ñu", "HOLA", "Guardar", "中", "\u2764\ufe0f", "¿", "é", "<B x>", "3 km", *FRAGMENTS)


def shown_words_spell_their_texts(part: Part) -> bool:
    """Return whether the views of a part have all words of its texts, and pieces of each."""
    sides = ((source_words(part), f"{part.source}</s>"), (target_words(part), part.text))
    return all(
        "".join(shown.words) == "".join(text.split())
        and {word for of in shown.of_pieces for word in of} == {*range(len(shown.words))}
        for shown, text in sides
    )


@pytest.mark.parametrize("name", ["es-en", "en-es"])
def test_tokens_next_to_letters_are_shown(name: str) -> None:
    model = Translator.load(name)
    for found in model.translate(GLUED, model.options(keep_weights=True, nbest=2)):
        for part in (part for each in found for part in each.parts):
            assert shown_words_spell_their_texts(part)
            view = word_attention(part)
            assert view.weights.shape == (len(view.target), len(view.source))


@cache
def cased_tokenizer() -> Tokenizer:
    return Translator.load("es-en").source


@given(st.lists(st.sampled_from(SPOKEN), max_size=9).map("".join), st.randoms(), st.booleans())
@examples(300)
def test_pieces_with_tokens_spell_their_text(text: str, random: Random, fallback: bool) -> None:
    """Whatever the order in which a model writes stand-ins, and what it writes next to them."""
    tokenizer = cased_tokenizer()
    text = normalize_line(text)
    masked, tokens = mask(text, (EMPTY, "es", "es"))
    written = masked.split()
    random.shuffle(written)
    target = "".join(word + random.choice(["", " "]) for word in written).strip()
    sides = [[*tokenizer.pieces(tokenizer.encode(of)), "</s>"] for of in (masked, target)]
    if not fallback:  # as of a tokenizer that does not know these characters
        sides = [["<unk>" if p.startswith("<0x") else p for p in side] for side in sides]
    part = Part(masked, *sides, target, 0.0, 0.0, True, np.ones((len(sides[1]), len(sides[0]))))
    part = replace(part, log_probs=[0.0] * len(sides[1]))
    part = arrival._restore(part, [*tokens.values()], True)
    assert part.source == text
    assert shown_words_spell_their_texts(part)
    word_attention(part)


def test_forced_words_do_not_make_a_translation_unlikely(translator: Translator) -> None:
    [[plain]] = translator.translate(["gato come pan"])
    [[forced]] = translator.translate(["gato come pan"], glossary=Glossary({"pan": "xyzzyx"}))
    assert forced.parts[0].log_prob < plain.parts[0].log_prob - 5
    assert not forced.parts[0].unlikely
    assert forced.text.split().index("xyzzyx") not in uncertain_words(forced.parts[0])


def test_samples_are_left_to_the_model(translator: Translator) -> None:
    options = translator.options(glossary=Glossary({"gato": "dog"}))
    [samples] = translator.translate(["gato come"], options, sampling=Sampling(2))
    assert not any(part.missing for sample in samples for part in sample.parts)


@pytest.mark.parametrize(
    ("prefix", "text", "missing"),
    [
        ("My ", "My automobile is in {lugar}.", []),
        ("My ca", "My car is in {lugar}.", ["automobile"]),  # which has been translated
        ("My car is in {lu", "My car is in {lugar}.", ["automobile"]),
        ("My car is in {lugar}. ", "My car is in {lugar}.", ["automobile"]),
    ],
)
def test_terms_and_tokens_arrive_after_a_prefix(prefix: str, text: str, missing: list[str]) -> None:
    """And in the sentences that have none, as if there were no prefix."""
    model = Translator.load("es-en")
    glossary = Glossary({"coche": "automobile"})
    line = "Mi coche está en {lugar}. Escribe a ana@example.org hoy. El coche es rojo."
    [[without]] = model.translate([line], glossary=glossary)
    [[found]] = model.translate([line], prefixes=[prefix], glossary=glossary)
    assert (found.parts[0].text, found.parts[0].missing) == (text, missing)
    assert found.parts[1:] == without.parts[1:]
    assert ("ana@example.org" in found.text, found.parts[2].missing) == (True, [])


@pytest.mark.parametrize("prefix", ["HO", "cat", "{a", "<", "Ñu {b} é", "中"])
def test_nothing_is_missing_silently_after_a_prefix(translator: Translator, prefix: str) -> None:
    for seed in range(2):
        model = random_translator(seed, translator.target)
        options = model.options(beam_size=2, nbest=2, glossary=Glossary({"coche": "car"}))
        for line, wanted in (("coche {a} <b>x", ["car", "{a}", "<b>"]), ("<i>Ñ</i>", ["<i>"])):
            [found] = model.translate([line], options, prefixes=[prefix])
            for each in found:
                assert each.text.startswith(prefix)
                missing = [text for part in each.parts for text in part.missing]
                assert all(text in each.text.lower() or text in missing for text in wanted)
                assert all(map(shown_words_spell_their_texts, each.parts))


def test_language_without_spaces(japanese: Path) -> None:
    translator = Translator.load(japanese)
    assert "獅子" in best(translator, "gato come pan", Glossary({"pan": "獅子"}))


# --- Commands


def test_glossary_of_the_command(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "terms.tsv").write_text("gato\tdog\n", encoding="utf-8")
    chosen = ["--glossary", str(tmp_path / "terms.tsv"), "--workers", "1"]
    (tmp_path / "in").write_text("gato come pan\n", encoding="utf-8")
    assert cli.main(["translate", str(trained), "-i", str(tmp_path / "in"), *chosen]) == 0
    assert capsys.readouterr().out.split()[0] == "dog"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.tsv").write_text("gato come pan\tdog eats bread\n", encoding="utf-8")
    assert cli.main(["evaluate", str(trained), "test.tsv", "-o", "out", *chosen]) == 0
    assert Path("out").read_text(encoding="utf-8").split()[0] == "dog"
    assert cli.main(["translate", str(trained), "--prefix", "p", *chosen]) == 2
    assert "--glossary requires beam search" in capsys.readouterr().err


def test_what_is_missing_is_said_once(
    unforced: None, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    (tmp_path / "terms.tsv").write_text("gato\tlion\n", encoding="utf-8")
    chosen = ["--glossary", str(tmp_path / "terms.tsv"), "--format", "jsonl"]
    text = "perro\ngato come\ngato\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert cli.main(["translate", str(trained), *chosen]) == 0
    written = capsys.readouterr()
    lines = list(map(json.loads, written.out.splitlines()))
    assert [line["parts"][0]["missing"] for line in lines] == [[], ["lion"], ["lion"]]
    lacking = "2 of 3 lines: the translation lacks a term or token (line 2: lion)"
    assert written.err.count(lacking) == 1

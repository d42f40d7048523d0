from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ToyCorpus

from seq2seq import cli
from seq2seq.data.corpus import Pair
from seq2seq.evaluation import robustness
from seq2seq.evaluation.robustness import (
    HELD_OUT,
    KINDS,
    Line,
    Robustness,
    has,
    measure_robustness,
)
from seq2seq.languages import language

TOM = Pair("¿Dónde está Tom?", "Where is Tom?", ("Where's Tom's place, Tom?",))
LOUD = Pair("Ya llegó Maite Ruiz.", "Maite Ruiz is here.", ("Maite Ruiz has arrived.",))
SONG = Pair("Él cantó 12 canciones.", "He sang 12 songs.")


def lines_of(
    kind: str, pairs: Sequence[Pair], source: str = "es", target: str = "en"
) -> list[Line]:
    return robustness.lines_of(kind, pairs, (language(source), language(target)))


def sources(kind: str, *pairs: Pair) -> list[str]:
    return [sides[0] for sides, *_ in lines_of(kind, pairs)]


def test_kinds_that_change_the_source_keep_references() -> None:
    changed = {
        "no final punctuation": "Él cantó 12 canciones",
        "no accents": "El canto 12 canciones.",
        "lower case": "él cantó 12 canciones.",
        "UPPER CASE": "ÉL CANTÓ 12 CANCIONES.",
        "Title Case": "Él Cantó 12 Canciones.",
    }
    assert {kind: lines_of(kind, [SONG]) for kind in changed} == {
        kind: [([source, SONG.target], "", [SONG])] for kind, source in changed.items()
    }
    assert sources("no accents", TOM) == ["Donde esta Tom?"]
    [typed] = sources("one typo", *[TOM] * 50)[:1]
    assert typed != TOM.source
    assert abs(len(typed) - len(TOM.source)) <= 1
    chat = set(sources("as in chats", *[Pair("¿Por qué, Tom?", "Why, Tom?")] * 200))
    assert {"por que, tom", "x q, tom", "por ke, tom", "por que, TOM"} <= chat


def test_sentences_that_a_kind_leaves_alone_are_not_its_lines() -> None:
    plain = [Pair("voy a casa", "I go home"), Pair("...", "...")]
    for kind in ("no final punctuation", "no accents", "lower case", "two sentences a line"):
        assert not lines_of(kind, plain)


def test_lines_of_several_sentences_have_the_references_that_all_have() -> None:
    [(sides, token, pairs)] = lines_of(
        "two sentences a line", [TOM, Pair("voy", "I go"), LOUD, SONG]
    )
    assert sides == [
        f"{TOM.source} {LOUD.source}",
        f"{TOM.target} {LOUD.target}",
        f"{TOM.references[0]} {LOUD.references[0]}",
    ]
    assert (token, pairs) == ("", [TOM, LOUD])
    assert not lines_of("four sentences a line", [TOM, LOUD, SONG])


def test_name_is_replaced_where_every_side_has_it_once() -> None:
    lines = lines_of("unusual name", [TOM, LOUD, SONG] * 40)
    assert len(lines) == 40
    for sides, name, _ in lines:
        assert sides == [
            text.replace("Maite", name) for text in (LOUD.source, LOUD.target, *LOUD.references)
        ]
    names = {name for _, name, _ in lines}
    assert 0 < len(names & set(HELD_OUT["name"].split())) < len(names)


def test_number_is_replaced_by_another_of_as_many_digits() -> None:
    lines = lines_of("another number", [SONG, TOM] * 20)
    assert 15 < len(lines) <= 20
    for sides, number, _ in lines:
        assert sides == [f"Él cantó {number} canciones.", f"He sang {number} songs."]
        assert len(number) == 2
        assert number != "12"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("added")])
def test_added_token_is_on_every_side_and_half_are_held_out(kind: str) -> None:
    lines = lines_of(kind, [TOM] * 60)
    listed = {token for tokens in HELD_OUT.values() for token in tokens.split()}
    assert 10 < sum(token in listed for _, token, _ in lines) < 50
    for sides, token, _ in lines:
        assert len(sides) == 3
        assert all(has(side, token) for side in sides)


def test_draws_do_not_change_and_kinds_have_their_own() -> None:
    for kind in KINDS:
        assert lines_of(kind, [TOM, LOUD, SONG]) == lines_of(kind, [TOM, LOUD, SONG])
        assert len(lines_of(kind, [SONG] * 1200)) <= 1000
    tokens = [[token for _, token, _ in lines_of(kind, [TOM] * 9)] for kind in KINDS[-4:]]
    assert len({tuple(some) for some in tokens}) == 4


def test_languages_get_what_applies_to_them() -> None:
    def unfit(code: str, source: str, target: str, into: str = "en") -> set[str]:
        pairs = [Pair(source.format(n), target.format(n)) for n in range(100)]
        found, _ = measured(pairs, lambda text: text, code, into)
        kinds = {kind.kind for kind in found.kinds}
        assert not kinds & set(found.unfit)
        assert {"no final punctuation", "two sentences a line"} <= kinds
        if found.unfit:
            listed = f"left out, not in these languages: {', '.join(found.unfit)}"
            assert listed in found.as_text().splitlines()
        return set(found.unfit)

    case = {"lower case", "UPPER CASE", "Title Case", "as in chats", "unusual name"}
    assert unfit("zh", "我不知道{}。", "I do not know {}.") == {*case, "no accents", "one typo"}
    assert unfit("hi", "मैं नहीं जानता {}।", "I do not know {}.") == {*case, "no accents", "one typo"}
    assert unfit("ar", "لا أعرف {}.", "I do not know {}.") == case
    assert unfit("el", "Τι είναι {};", "What is {}?") == set()
    hindi = unfit("en", "What is {}?", "{} क्या है?", "hi")
    assert hindi == {"UPPER CASE", "Title Case", "unusual name"}
    assert sources("no accents", Pair("Ещё чай, señor Ünal?", "")) == ["Ещё чай, señor Unal?"]


def test_lines_of_japanese_are_joined_as_japanese_is() -> None:
    pairs = [Pair("これは本です。", "This is a book."), Pair("あれは？", "And that?")]
    [(sides, *_)] = lines_of("two sentences a line", pairs, "ja")
    assert sides == ["これは本です。あれは？", "This is a book. And that?"]
    [(sides, token, _)] = lines_of("identifier or mention added", pairs[:1], "ja")
    assert sides == [f"これは本です：{token}。", f"This is a book: {token}."]


@pytest.mark.parametrize(
    ("text", "token", "expected"),
    [
        ("Call 123.", "123", True),
        ("Call 1234.", "123", False),
        ("Call 0123.", "123", False),
        ("Hi😀you", "😀", True),
        ("Annette is here", "Ann", False),
        ("Ann's here", "Ann", True),
        ("see user.name[3].", "user.name[3]", True),
        ("see xuser.name[3].", "user.name[3]", False),
    ],
)
def test_copied_means_the_whole_token(text: str, token: str, expected: bool) -> None:
    assert has(text, token) is expected


def measured(
    pairs: Sequence[Pair], translate: Callable[[str], str], source: str = "es", target: str = "en"
) -> tuple[Robustness, list[str]]:
    """Return the scores of a function that translates, and what it was asked."""
    asked: list[str] = []

    def translations(new: Sequence[Pair]) -> list[Any]:
        asked.extend(pair.source for pair in new)
        return [SimpleNamespace(line=translate(pair.source)) for pair in new]

    hypotheses = [translate(pair.source) for pair in pairs]
    evaluation: Any = SimpleNamespace(hypotheses=hypotheses, language=target)
    return measure_robustness(pairs, evaluation, translations, source), asked


ECHOED = [
    Pair(text, text)
    for number in range(100, 130)
    for text in (f"Ayer vio a Marta {number} veces.", "¿Cómo está Inés Paz?", "Estoy más cansado.")
]


def test_scores_of_a_system_that_copies() -> None:
    found, asked = measured(ECHOED, lambda text: text)
    kinds = {kind.kind: kind for kind in found.kinds}
    assert list(kinds) == list(KINDS)
    assert not found.left_out
    for name, kind in kinds.items():
        assert kind.unchanged == pytest.approx(100)
        assert kind.lost == kind.unchanged - kind.bleu
        assert (
            kind.lost > 1 if name in ("no accents", "one typo", "as in chats") else kind.lost < 1e-6
        )
        assert kind.copied == (None if name in KINDS[:9] else 100)
    assert kinds["two sentences a line"].lines == 45
    assert len(asked) == len(set(asked))
    assert not {pair.source for pair in ECHOED} & set(asked)


def test_joined_sentences_lose_nothing_if_translated_one_by_one() -> None:
    found, _ = measured(ECHOED, lambda text: text.replace("Marta", "Martha"))
    joined = [kind for kind in found.kinds if kind.kind.endswith("sentences a line")]
    assert [kind.lost for kind in joined] == [0, 0]
    assert all(50 < kind.bleu < 99 for kind in joined)


def test_scores_of_a_system_that_knows_only_the_test_set() -> None:
    known = {pair.source for pair in ECHOED}
    found, _ = measured(ECHOED, lambda text: text if text in known else "?")
    for kind in found.kinds:
        assert kind.lost == pytest.approx(100)
        assert kind.copied in (None, 0)


def test_kinds_with_few_lines_are_named() -> None:
    found, _ = measured(ECHOED[1:57], lambda text: text)
    assert found.left_out == ["four sentences a line", "another number"]
    assert found.as_dict()["left_out"] == found.left_out
    last = found.as_text().splitlines()[-1]
    assert last == "left out, fewer than 20 lines: four sentences a line, another number"
    few, asked = measured(ECHOED[:3], lambda text: text)
    assert few.kinds == []
    assert few.left_out == list(KINDS)
    assert not asked


def test_evaluate_prints_and_writes_the_table(
    toy: ToyCorpus, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "evaluate",
        str(trained),
        str(toy.folder / "test.tsv"),
        "--robustness",
        "--beam",
        "1",
    ]
    path = tmp_path / "h.txt"
    assert cli.main([*command, "-o", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    scores = printed["robustness"]
    written = json.loads((tmp_path / "h.robustness.json").read_text(encoding="utf-8"))
    translations = written.pop("translations")
    assert written == scores
    assert {kind["kind"] for kind in scores["kinds"]} == {"UPPER CASE", "Title Case", *KINDS[-4:]}
    assert "unusual name" in scores["left_out"]
    for kind in scores["kinds"]:
        assert kind["unchanged"] == pytest.approx(printed["bleu"]["score"])
        assert kind["lines"] == 20
        assert len(translations[kind["kind"]]) <= 20
    assert all(text.isupper() for text in translations["UPPER CASE"])
    assert cli.main([*command, "-o", str(path), "--workers", "2"]) == 0
    text = capsys.readouterr().out
    for kind in scores["kinds"]:
        assert f"{kind['kind']:28}{20:6}{kind['unchanged']:11.1f}{kind['bleu']:7.1f}" in text
    assert json.loads((tmp_path / "h.robustness.json").read_text(encoding="utf-8")) == {
        **scores, "translations": translations
    }  # fmt: skip

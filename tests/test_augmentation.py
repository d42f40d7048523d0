import random
import re
import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.config import AugmentationConfig, load_config
from seq2seq.data.augmentation import (
    Changed,
    as_in_chats,
    augment,
    made_up_name,
    title_case,
    token_to_copy,
    with_typo,
    without_accents,
)
from seq2seq.data.cleaning import normalize
from seq2seq.errors import ConfigError
from seq2seq.languages import language

SETTINGS = settings(max_examples=60, deadline=None)
KINDS = tuple(AugmentationConfig.model_fields)
SOURCES = ("¿Dónde está Tom?", "Vámonos a las 12.", "Hola, Ana.", "El año que viene", "Qué bien!")
TARGETS = ("Where is Tom?", "Let's go at 12.", "Hello, Ana.", "Next year", "How nice!")
CAPITALIZED = "Zoe"


def only(*kinds: str, rate: float = 0.999999) -> AugmentationConfig:
    return AugmentationConfig(**dict.fromkeys(KINDS, 0.0) | dict.fromkeys(kinds, rate))


def change(pair: tuple[str, str], *kinds: str, seed: int = 0) -> tuple[str, str]:
    """Return a pair after changes of these kinds, itself if there was none."""
    found = augment([pair[0]], [pair[1]], [0], only(*kinds), np.random.default_rng(seed))
    return (found[0].source, found[0].target) if found else pair


def changes(pair: tuple[str, str], kind: str, count: int = 300) -> list[tuple[str, str]]:
    return [change(pair, kind, seed=seed) for seed in range(count)]


@pytest.mark.parametrize(
    ("kind", "pair", "expected"),
    [
        ("upper_case", ("¿Qué?", "What?"), ("¿QUÉ?", "WHAT?")),
        ("title_case", ("la casa de Ana", "ana's house"), ("La Casa De Ana", "Ana's House")),
        ("lower_case", ("Tom, ¿Qué?", "Tom, what?"), ("tom, ¿qué?", "Tom, what?")),
        ("accents", ("¿Él cantó ñu? ¡Ü!", "He Café"), ("El canto ñu? U!", "He Café")),
        ("digits", ("Hay diez.", "There are ten."), ("Hay diez.", "There are ten.")),
        ("names", ("Fui con María.", "I went with Mary."), ("Fui con María.", "I went with Mary.")),
        ("final_punctuation", ("Hola", "Hello."), ("Hola", "Hello.")),
        ("joined", ("Hola", "Hello."), ("Hola", "Hello.")),
    ],
)
def test_changes_that_have_one_outcome(kind, pair, expected):
    assert set(changes(pair, kind, 20)) == {expected}


def test_names_that_both_sides_share_are_replaced_alike():
    found = changes(("Tom dijo que Ana es alta.", "Tom's aunt said Ana is tall."), "names")
    alone = [pair for pair in found if pair[0] == pair[1]]
    assert set(alone) == {("Tom", "Tom"), ("Ana", "Ana")}
    assert len(alone) < 40
    for source, target in set(found).difference(alone):
        said = re.fullmatch(r"(.+) dijo que (.+) es alta\.", source)
        assert said is not None
        assert target == f"{said[1]}'s aunt said {said[2]} is tall."
        assert "Tom" not in said[1].split()
    assert len(set(found)) > 240


def test_digits_that_both_sides_share_are_replaced_alike():
    found = changes(("Tengo 12 de 345, no 7 o 7.", "I have 12 of 345, not 7 or 8."), "digits")
    for source, target in found:
        one, other = re.findall(r"\d+", source)[:2]
        assert source == f"Tengo {one} de {other}, no 7 o 7."
        assert target == f"I have {one} of {other}, not 7 or 8."
    assert len(set(found)) > 250
    source, target = change(("Hay 7.5 y 7.", "Seven and a half and 7."), "digits")
    assert source.removeprefix("Hay 7.5 y ") == target.removeprefix("Seven and a half and ") != "7."
    decimals = ("Vale 3,50 y 2.000.", "It is 3.50 and 2,000.")
    assert change(decimals, "digits") == decimals  # written in another way on each side


def test_tokens_are_added_at_corresponding_places():
    alone = 0
    forms = Counter()
    for source, target in changes(("Ven aquí.", "Come here."), "copied_tokens", 600):
        if source == target:
            alone += 1
            continue
        assert "Ven aquí" in source
        before, after = source.split("Ven aquí")
        assert target == f"{before}Come here{after}"
        forms[bool(before), bool(after.strip("."))] += 1
    assert 5 < alone < 60
    assert min(forms[True, False], forms[False, True]) > 50


def test_ordinals_keep_their_digits():
    assert change(("El 3rd y el 7.", "The 3rd and 7."), "digits")[1].startswith("The 3rd and ")


def test_words_as_in_chats():
    found = {as_in_chats("que no can't thanks", random.Random(seed)) for seed in range(300)}
    words = {word for text in found for word in text.split()}
    assert {"que", "q", "k", "ke", "thx", "tnx", "thanks", "can't", "cant", "NO", "THX"} <= words
    assert any(re.fullmatch("noo+", word) for word in words)
    assert as_in_chats("", random.Random(1)) == ""
    careless = {source for source, _ in changes(("¿Qué tal?", "How are you?"), "careless")}
    assert {"que tal", "q tal", "KE tal"} <= careless


def test_final_marks_are_left_out_or_repeated_on_both_sides():
    found = Counter(changes(("¿Qué?", "What?"), "final_punctuation"))
    assert found.pop(("¿Qué", "What")) > 180
    assert set(found) == {("¿Qué?" + "?" * n, "What?" + "?" * n) for n in (1, 2, 3)}


def test_joined_pairs_stand_in_the_same_order_on_both_sides():
    rows = range(len(SOURCES))
    found = augment(SOURCES, TARGETS, rows, only("joined"), np.random.default_rng(3))
    assert found
    target_of = dict(zip(SOURCES, TARGETS, strict=True))
    for place, pair in found.items():
        assert pair.row == place
        source, target = pair.source, pair.target
        while source:
            first = next(text for text in SOURCES if source.startswith(text))
            assert target.startswith(target_of[first])
            source = source.removeprefix(first).lstrip()
            target = target.removeprefix(target_of[first]).lstrip()
        assert not target


def test_what_must_be_copied_is_not_misspelled():
    for seed in range(200):
        source, target = change(
            ("Vi a Tom.", "I saw Tom."), "names", "typos", "lower_case", seed=seed
        )
        name = source.removeprefix("Vi a ").removesuffix(".")
        assert target == ("Tom" if source == "Tom" else f"I saw {name}.")


def test_rates_are_shares_of_the_pairs():
    config = AugmentationConfig(**dict.fromkeys(KINDS, 0.0) | {"upper_case": 0.1, "accents": 0.3})
    sources, targets = ["Él está."] * 4000, ["He is here."] * 4000
    found = augment(sources, targets, range(4000), config, np.random.default_rng(1))
    kinds = Counter((pair.source.isupper(), "é" in pair.source.lower()) for pair in found.values())
    assert kinds[True, True] / 4000 == pytest.approx(0.07, abs=0.02)
    assert kinds[False, False] / 4000 == pytest.approx(0.27, abs=0.03)
    assert kinds[True, False] / 4000 == pytest.approx(0.03, abs=0.015)


@pytest.mark.parametrize("pair", [("?!", "?!"), ("¡¿", "What"), ("¿ ¿", "What"), ("...", ".")])
def test_pairs_without_words_keep_text_on_both_sides(pair):
    for seed in range(50):
        for kinds in (("final_punctuation", "careless"), ("accents", "careless"), ("accents",)):
            assert all(map(str.strip, change(pair, *kinds, seed=seed)))


@SETTINGS
@given(
    pair=st.tuples(st.text(min_size=1), st.text(min_size=1)).map(
        lambda p: tuple(map(normalize, p))
    ),
    rate=st.sampled_from([0.2, 0.999]),
    seed=st.integers(0, 1000),
)
def test_any_pair_stays_a_pair_and_draws_are_reproducible(pair, rate, seed):
    if not all(pair):
        return
    rows = [0, 1, 1]
    sides = [pair[0], "¡Hola, Tom!"], [pair[1], "Hello, Tom!"]
    config = only(*KINDS, rate=rate)
    found = augment(*sides, rows, config, np.random.default_rng(seed))
    assert found == augment(*sides, rows, config, np.random.default_rng(seed))
    for place, new in found.items():
        assert isinstance(new, Changed)
        assert new.row == rows[place]
        assert new.source
        assert new.target
        assert (new.source, new.target) != (sides[0][new.row], sides[1][new.row])


@SETTINGS
@given(text=st.text(max_size=40), seed=st.integers(0, 1000))
def test_a_typo_is_small(text, seed):
    found = with_typo(text, random.Random(seed))
    assert abs(len(found) - len(text)) <= 1
    different = Counter(text) - Counter(found)
    assert different.total() <= 1
    if len(text) < 4:
        assert found == text


def test_typos_of_each_kind():
    kinds = set()
    for seed in range(300):
        found = with_typo("teclado", random.Random(seed))
        kinds.add(len(found) - len("teclado") or Counter(found) == Counter("teclado"))
    assert kinds == {-1, 1, False}
    assert with_typo("teclado", random.Random(1))[0] == "t"


def test_accents_of_other_languages():
    assert without_accents("Ça où, žluťoučký; İ") == "Ca ou, zlutoucky; I"
    assert without_accents("mañana Ñandú") == "mañana Ñandu"
    assert without_accents("ひらがな ёлка мой") == "ひらがな ёлка мой"


def test_title_case_keeps_the_rest():
    assert title_case("de la McDonald ¿qué? 3d") == "De La McDonald ¿qué? 3d"


def test_names_and_tokens_are_text_that_cleaning_keeps():
    rng = random.Random(1)
    names = [made_up_name(rng) for _ in range(500)]
    assert all(name[0].isupper() and name == normalize(name) for name in names)
    assert len(set(names)) > 450
    assert {len(name.split()) for name in names} == {1, 2, 3}
    for kind, found in {
        "number": r".*\d.*", "emoji": r"\W+", "address": r".*\w\.[a-z]{2}.*", "identifier": r"\S+",
    }.items():  # fmt: skip
        tokens = [token_to_copy(rng, kind, ["Casa", "árbol"]) for _ in range(300)]
        assert all(re.fullmatch(found, token) and token == normalize(token) for token in tokens)
        assert len(set(tokens)) > 150
    addresses = [token_to_copy(rng, "address", ["árbol"]) for _ in range(100)]
    assert sum("arbol" in address for address in addresses) > 30
    emoji = {char for _ in range(2000) for char in token_to_copy(rng, "emoji")}
    # Symbols, skin tones and the mark for a picture.
    assert {unicodedata.category(char) for char in emoji} == {"So", "Sk", "Mn"}


def test_names_are_made_of_all_pieces_of_a_vocabulary():
    pieces, number = ["schr", "itz", "ngu", "oö"], 400
    sides, languages = (["Vi a Tom."] * number, ["I saw Tom."] * number), ("es", "en")
    found = augment(
        *sides, range(number), only("names"), np.random.default_rng(1),
        tuple(map(language, languages)), pieces,
    )  # fmt: skip
    names = [pair.source.removeprefix("Vi a ").removesuffix(".") for pair in found.values()]
    for piece in pieces:
        assert sum(piece.capitalize() in name for name in names) > 4
        assert sum(name.endswith(piece) for name in names) > 4
    assert sum(all(piece not in name.lower() for piece in pieces) for name in names) > number / 4


def test_recipe_with_a_wrong_rate_or_a_weight_of_the_test_set(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    text = "run_dir: x\ndata:\n  train: [{path: a.tsv}]\n  valid: {path: b.tsv%s}\n%s"
    for valid, more, message in (
        ("", "  augmentation: {typos: 1.5}\n", r"data\.augmentation\.typos: expected less than 1"),
        ("", "  augmentation: {typo: 0.1}\n", r"unknown key; did you mean typos\?"),
        (", weight: 2", "", r"valid\.weight: only training corpora have weights"),
    ):
        recipe.write_text(text % (valid, more), encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            load_config(recipe)

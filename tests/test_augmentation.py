import hashlib
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
SPANISH, ENGLISH = language("es"), language("en")


def only(*kinds: str, rate: float = 0.999999) -> AugmentationConfig:
    return AugmentationConfig(**dict.fromkeys(KINDS, 0.0) | dict.fromkeys(kinds, rate))


def change(
    pair: tuple[str, str], *kinds: str, seed: int = 0, codes: str = "es-en"
) -> tuple[str, str]:
    """Return a pair after changes of these kinds, itself if there was none."""
    source, target = map(language, codes.split("-"))
    rng = np.random.default_rng(seed)
    found = augment([pair[0]], [pair[1]], [0], only(*kinds), rng, (source, target))
    return (found[0].source, found[0].target) if found else pair


def changes(
    pair: tuple[str, str], kind: str, count: int = 300, codes: str = "es-en"
) -> list[tuple[str, str]]:
    return [change(pair, kind, seed=seed, codes=codes) for seed in range(count)]


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
    found = {
        as_in_chats("que no can't thanks", random.Random(seed), SPANISH) for seed in range(300)
    }
    words = {word for text in found for word in text.split()}
    assert {"que", "q", "k", "ke", "thx", "tnx", "thanks", "can't", "cant", "NO", "THX"} <= words
    assert any(re.fullmatch("noo+", word) for word in words)
    assert as_in_chats("", random.Random(1), SPANISH) == ""
    careless = {source for source, _ in changes(("¿Qué tal?", "How are you?"), "careless")}
    assert {"que tal", "q tal", "KE tal"} <= careless


def test_final_marks_are_left_out_or_repeated_on_both_sides():
    found = Counter(changes(("¿Qué?", "What?"), "final_punctuation"))
    assert found.pop(("¿Qué", "What")) > 180
    assert set(found) == {("¿Qué?" + "?" * n, "What?" + "?" * n) for n in (1, 2, 3)}


def test_joined_pairs_stand_in_the_same_order_on_both_sides():
    rows = range(len(SOURCES))
    rng = np.random.default_rng(3)
    found = augment(SOURCES, TARGETS, rows, only("joined"), rng, (SPANISH, ENGLISH))
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
    rng = np.random.default_rng(1)
    found = augment(sources, targets, range(4000), config, rng, (SPANISH, ENGLISH))
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
    codes=st.sampled_from(["es-en", "ja-de", "fr-zh", "ar-el", "und-tr", "th-und"]),
)
def test_any_pair_stays_a_pair_and_draws_are_reproducible(pair, rate, seed, codes):
    if not all(pair):
        return
    rows = [0, 1, 1]
    sides = [pair[0], "¡Hola, Tom!"], [pair[1], "Hello, Tom!"]
    config = only(*KINDS, rate=rate)
    both = tuple(map(language, codes.split("-")))
    found = augment(*sides, rows, config, np.random.default_rng(seed), both)
    assert found == augment(*sides, rows, config, np.random.default_rng(seed), both)
    for place, new in found.items():
        assert isinstance(new, Changed)
        assert new.row == rows[place]
        assert new.source
        assert new.target
        assert (new.source, new.target) != (sides[0][new.row], sides[1][new.row])


@SETTINGS
@given(text=st.text(max_size=40), seed=st.integers(0, 1000))
def test_a_typo_is_small(text, seed):
    found = with_typo(text, random.Random(seed), SPANISH)
    assert abs(len(found) - len(text)) <= 1
    different = Counter(text) - Counter(found)
    assert different.total() <= 1
    if len(text) < 4:
        assert found == text


def test_typos_of_each_kind():
    kinds = set()
    for seed in range(300):
        found = with_typo("teclado", random.Random(seed), SPANISH)
        kinds.add(len(found) - len("teclado") or Counter(found) == Counter("teclado"))
    assert kinds == {-1, 1, False}
    assert with_typo("teclado", random.Random(1), SPANISH)[0] == "t"


def test_accents_of_other_languages():
    def bare(text: str, code: str) -> str:
        return without_accents(text, language(code))

    assert bare("Ça où, žluťoučký; İ", "es") == "Ca ou, zlutoucky; I"
    assert bare("mañana Ñandú ¿no?", "es") == "mañana Ñandu no?"
    assert bare("ひらがな ёлка мой", "es") == "ひらがな ёлка мой"
    assert bare("Là-bas, l'été à Nîmes", "fr") == "La-bas, l'ete a Nimes"
    assert bare("Schöne Grüße, Café", "de") == "Schoene Gruesse, Cafe"
    assert bare("ёлка мой", "ru") == "елка мой"
    assert bare("İyi ışık", "tr") == "İyi isik"
    assert bare("Łódź", "pl") == "Lodz"
    assert bare("Τι κάνεις;", "el") == "Τι κανεις;"
    assert bare("ذهب أحمد", "ar") == "ذهب احمد"
    for text, code in (
        ("Äiti", "fi"),
        ("Å, ø", "nb"),
        ("がんばれ", "ja"),
        ("é", "und"),
        ("نُ", "fa"),
    ):
        assert bare(text, code) == text


def test_title_case_keeps_the_rest():
    assert title_case("de la McDonald ¿qué? 3d", SPANISH) == "De La McDonald ¿qué? 3d"
    assert title_case("istanbul ışık", language("tr")) == "İstanbul Işık"


def test_changes_of_spanish_and_english_stay_what_they_were():
    """Weights of recipes that existed before other languages had rules of their own."""
    pairs = [
        ("¿Dónde está Tom?", "Where is Tom?"), ("¡Hola, Ana! Tengo 12 años.", "Hi, Ana! I'm 12."),
        ("Que bien, mañana te quiero ver.", "Great, I want to see you tomorrow."),
    ]  # fmt: skip
    digests = []
    for sides in (zip(*pairs, strict=True), zip(*(pair[::-1] for pair in pairs), strict=True)):
        source, target = map(list, sides)
        both = (SPANISH, ENGLISH) if source[0].startswith("¿") else (ENGLISH, SPANISH)
        rows, config = [*range(3)] * 200, only(*KINDS, rate=0.3)
        found = augment(source, target, rows, config, np.random.default_rng(1), both)
        text = "\n".join(f"{place} {tuple(pair)}" for place, pair in found.items())
        digests.append(hashlib.sha256(text.replace(";", "ñ").encode()).hexdigest()[:12])
    assert digests == ["7a1b7c009104", "83298f15131f"]


FRENCH = [
    ("Qu'est-ce que c'est ?", "What is it?"),
    ("Je crois qu’Alice et Marie vont à l'école.", "I think Alice and Marie go to school."),
    ("Je viens de Paris !", "I come from Paris!"),
]
GERMAN = [
    ("Winter ist schön.", "Winter is nice."), ("Wo ist Anna?", "Where is Anna?"),
    ("Große Hunde!", "Big dogs!"), ("Das für dich, Peter.", "That's for you, Peter."),
]  # fmt: skip
JAPANESE = [
    ("「おはよう！」と彼女は言った。", '"Good morning!" she said.'),
    ("これはTシャツですか？", "Is this a T-shirt?"), ("駅はどこですか。", "Where is the station?"),
]  # fmt: skip
ARABIC = [
    ("أين الكتاب؟", "Where is the book?"), ("أنا من باريس.", "I am from Paris."),
    ("عندي 3 قطط!", "I have 3 cats!"),
]  # fmt: skip


def all_changes(codes: str, pairs: list[tuple[str, str]], kind: str) -> set[tuple[str, str]]:
    """Return the pairs that a kind of change makes of some pairs, in one direction."""
    sources, targets = map(list, zip(*pairs, strict=True))
    both = tuple(map(language, codes.split("-")))
    rows, rng = [*range(len(pairs))] * 100, np.random.default_rng(1)
    found = augment(sources, targets, rows, only(kind), rng, both)
    return {(pair.source, pair.target) for pair in found.values()}


def reversed_pairs(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [pair[::-1] for pair in pairs]


@pytest.mark.parametrize(
    ("codes", "pairs", "kinds"),
    [
        ("ja-en", JAPANESE, "names title_case upper_case lower_case accents typos"),
        ("en-ja", reversed_pairs(JAPANESE), "names title_case upper_case accents"),
        ("ar-en", ARABIC, "names title_case upper_case lower_case"),
        ("en-ar", reversed_pairs(ARABIC), "names title_case upper_case accents"),
        ("und-en", GERMAN, "names title_case upper_case lower_case accents typos"),
    ],
)
def test_kinds_that_languages_do_not_have_change_nothing(codes, pairs, kinds):
    for kind in kinds.split():
        assert not all_changes(codes, pairs, kind)


def test_pairs_are_joined_as_each_language_joins_sentences():
    for source, target in all_changes("ja-en", JAPANESE, "joined"):
        assert " " not in source
        assert re.search(r'[.?] ["A-Z]', target)
    assert all(
        re.search(r"[.؟!] \w", source) for source, _ in all_changes("ar-en", ARABIC, "joined")
    )


def test_final_marks_are_repeated_as_each_script_writes_them():
    assert all_changes("en-ja", reversed_pairs(JAPANESE), "final_punctuation") >= {
        ("Is this a T-shirt???", "これはTシャツですか？？？"),
        ('"Good morning!" she said..', "「おはよう！」と彼女は言った。。"),
        ("Where is the station", "駅はどこですか"),
    }
    for codes, pairs in (("ja-en", JAPANESE), ("ar-en", ARABIC)):
        for source, target in all_changes(codes, pairs, "final_punctuation"):
            assert not re.search("[。！？؟]", target)
            assert not re.search("[.?]" if codes == "ja-en" else "[?]", source)
    assert ("أين الكتاب؟؟", "Where is the book??") in all_changes(
        "ar-en", ARABIC, "final_punctuation"
    )
    assert ("Je viens de Paris !!", "I come from Paris!!") in all_changes(
        "fr-en", FRENCH, "final_punctuation"
    )


def test_no_language_gets_the_spellings_and_keys_of_another():
    text = "je viens de paris parce que c'est bien"
    words = {
        re.sub(r"(.)\1+$", r"\1", word.lower())
        for seed in range(100)
        for word in as_in_chats(text, random.Random(seed), language("fr")).split()
    }
    assert words == set(text.split())
    typed = {source for source, _ in all_changes("de-en", GERMAN, "typos")}
    assert not any("ñ" in source for source in typed)
    assert not any(
        re.search("[a-zñ]", source) for source, _ in all_changes("ar-en", ARABIC, "typos")
    )
    # The neighbours of d in German and of a in French.
    assert {"Große Huned!", "Große Husde!", "Große Hunfe!", "Große Hunse!"} & typed
    french = {source for source, _ in all_changes("fr-en", FRENCH, "typos")}
    assert any("Pzris" in source for source in french)
    assert all_changes("de-en", GERMAN, "accents") == {
        ("Winter ist schoen.", "Winter is nice."), ("Grosse Hunde!", "Big dogs!"),
        ("Das fuer dich, Peter.", "That's for you, Peter."),
    }  # fmt: skip


def test_japanese_that_is_typed_carelessly_is_still_japanese():
    for source, target in all_changes("ja-en", JAPANESE, "careless"):
        assert any(source.rstrip("。？") == pair[0].rstrip("。？") for pair in JAPANESE)
        assert target[0].isupper() or target[0] == '"'
    assert any("t-shirt" in source for source, _ in all_changes(
        "en-ja", reversed_pairs(JAPANESE), "careless"
    ))  # fmt: skip


def test_capitals_are_a_sign_of_a_name_only_where_they_are():
    """In German every noun has one; and French words change before a vowel."""
    german = all_changes("de-en", GERMAN, "names")
    assert german
    assert not any("winter" in target or target.endswith("is nice.") for _, target in german)
    french = all_changes("fr-en", FRENCH, "names")
    for source, target in french:
        assert "Alice" in source or "Alice" not in target
        name = re.fullmatch("Je viens de (.+) !", source)
        assert not name or not re.match(r"[AEIOUYH]|[^\W\d_a-zA-Z]", name[1])
    assert len(french) > 50


def test_tokens_stand_as_each_script_sets_them_off():
    for source, target in all_changes("ja-en", JAPANESE, "copied_tokens"):
        assert ": " not in source.replace(target, "")
        assert not re.search(r" \(|[。？]: ", source)
        assert (" (" in target) == ("（" in source)
    assert any(" : " in source for source, _ in all_changes("fr-en", FRENCH, "copied_tokens"))
    latin = {target for _, target in all_changes("de-en", GERMAN, "copied_tokens")}
    assert any(re.fullmatch(r"Where is Anna, [A-Z]\S+\?", target) for target in latin)
    arabic = {target for _, target in all_changes("ar-en", ARABIC, "copied_tokens")}
    assert not any(re.search(r"[a-z], |, [A-Z]", target) for target in arabic)


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

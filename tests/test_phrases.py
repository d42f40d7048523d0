from __future__ import annotations

import random
import re

import pytest

from corpora.general.phrases import phrase_pairs, phrase_spans, truecase
from seq2seq.inference.words import Links, words


def links(text: str) -> Links:
    return frozenset((int(s), int(t)) for s, t in re.findall(r"(\d+)-(\d+)", text))


def consistent(found: Links, longest: int, size: int) -> set[tuple[tuple[int, int], ...]]:
    """Return the phrase pairs of sentences of `size` words by the definition, trying every box."""
    spans = [(a, b) for a in range(size) for b in range(a + 1, min(a + longest, size) + 1)]
    pairs = set()
    for source in spans:
        for target in spans:
            sides = [(source[0] <= s < source[1], target[0] <= t < target[1]) for s, t in found]
            inside = [link for link, side in zip(found, sides, strict=True) if all(side)]
            edges = {source[0], source[1] - 1} <= {s for s, _ in inside} and {
                target[0],
                target[1] - 1,
            } <= {t for _, t in inside}
            if edges and all(s == t for s, t in sides):
                pairs.add((source, target))
    return pairs


@pytest.mark.parametrize("longest", [1, 2, 4])
def test_spans_equal_the_definition(longest: int) -> None:
    draw = random.Random(longest)
    number = 0
    for _ in range(300):
        size = draw.randint(1, 6)
        chosen = frozenset(
            (draw.randrange(size), draw.randrange(size)) for _ in range(draw.randint(0, 2 * size))
        )
        spans = list(phrase_spans(chosen, longest))
        assert len(spans) == len(set(spans))
        assert set(spans) == consistent(chosen, longest, size)
        number += len(spans)
    assert number > 100


def test_spans_by_hand() -> None:
    """La casa blanca | the white house: the adjective and the noun change places."""
    found = set(phrase_spans(links("0-0 1-2 2-1"), 4))
    assert found == {
        ((0, 1), (0, 1)), ((1, 2), (2, 3)), ((2, 3), (1, 2)), ((1, 3), (1, 3)), ((0, 3), (0, 3)),
    }  # fmt: skip


def test_truecasing_reads_within_clauses() -> None:
    texts = ["Casa, Tom. La casa.", "Mi casa. Tom", "Veo a Tom", "¡Adiós"]
    assert [" ".join(found) for found in truecase([words(text) for text in texts])] == [
        "casa , Tom . La casa .", "Mi casa . Tom", "Veo a Tom", "¡ Adiós",
    ]  # fmt: skip


def extract(*rows: tuple[str, str, str], fewest: int = 2) -> list[tuple[str, str]]:
    sources, targets = ([words(row[side]) for row in rows] for side in (0, 1))
    return phrase_pairs(sources, targets, [links(row[2]) for row in rows], fewest=fewest)


ROWS = (
    ("Veo la casa de Tom.", "I see the house of Tom.", "0-0 0-1 1-2 2-3 3-4 4-5 5-6"),
    ("Veo la casa de Ana.", "I see the house of Ana.", "0-0 0-1 1-2 2-3 3-4 4-5 5-6"),
    ("La casa arde, Tom.", "The house burns, Tom.", "0-0 1-1 2-2 3-3 4-4 5-5"),
    ("Tom ve su casa.", "Tom sees his house.", "0-0 1-1 2-2 3-3 4-4"),
    ("Ana y Tom ven la casa.", "Ana and Tom see the house.", "0-0 1-1 2-2 3-3 4-4 5-5 6-6"),
)


def test_reliable_phrases_are_kept_in_their_usual_casing() -> None:
    found = extract(*ROWS)
    assert found[0] == ("casa", "house")
    assert {("la casa", "the house"), ("Tom", "Tom"), ("Ana", "Ana")} < set(found)
    assert ("la casa de", "the house of") not in found  # twice, but never at the end of a clause
    assert ("la", "the") not in found
    assert ("su casa", "his house") not in found  # once
    assert ("casa arde", "house burns") not in found
    assert not any(set(",.") & set(source + target) for source, target in found)
    assert ("la casa", "the house") not in extract(*ROWS, fewest=5)
    assert ("su", "his") not in found


def test_rare_translations_of_frequent_words_are_dropped() -> None:
    often = [("Veo pan.", "I see bread.", "0-0 0-1 1-2 2-3")] * 20
    wrong = [("Quiero pan.", "I want food.", "0-0 0-1 1-2 2-3")] * 2
    assert ("pan", "food") not in extract(*often, *wrong)  # 2 * 2 / (22 + 2) < 0.25
    right = [("Quiero pan.", "I want food.", "0-0 0-1 1-2 2-3")] * 4
    assert ("pan", "food") in extract(*often, *right)  # 2 * 4 / (24 + 4) > 0.25


def test_short_sentences_lose_their_marks() -> None:
    rows = (
        ("¡Hola!", "Hi.", ""),
        ("¿Estás aquí?", "Are you here?", ""),
        ("Estoy aquí.", "I'm here.", ""),
        ("Hola, Tom.", "Hi, Tom.", ""),
        ("Eso no es verdad.", "Lies.", ""),
        ("...", "...", ""),
        ("¡Hola!", "Hi!", ""),
    )
    assert extract(*rows) == [("Hola", "Hi"), ("Estoy aquí", "I'm here")]


def test_links_beyond_a_sentence_are_ignored() -> None:
    rows = [("Veo pan.", "I see bread.", "0-0 0-1 1-2 2-3 3-3")] * 3
    assert ("Veo pan", "I see bread") in extract(*rows)
    assert all(source and target for source, target in extract(*rows))

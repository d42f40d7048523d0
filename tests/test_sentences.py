"""Texts are split into sentences, and their translations have the same white space between them."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from seq2seq.analysis.alignment import align
from seq2seq.data.corpus import Pair
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.sentences import language_rules, split_sentences
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator

SPANISH = """
Hola.| ¿Cómo estás?| Me llamo Ana y vivo en Madrid.| ¡Tengo dos hermanos!| ¿Y tú?
El Sr. García, la Sra. López y la Dra. Ruiz llegaron.| Vinieron D. Juan, Dña. María y Fco. Gil.
La Dra. Ruiz vive en EE. UU. desde 1990.| EE.UU. es grande.
Uds. no saben nada.| Vd. sí, p. ej. cómo se llega a la Avda. Sur, núm. 5, 2.º B.
Cuesta 3.50 euros.| Vale 1.000.000 de pesos.| Son las 3 p. m. en Madrid.
Vivo en el 2.º piso.| El 1.º es de Ana.| Fue el 1.er premio.| El n.º 5 no.
J. R. R. Tolkien nació en 1892.| Vi a J. García.| Murió en 44 a. C. en Roma.
1. Abre la puerta.| 2. Entra.| 3. Cierra.
«No puedo.»| Se fue.| «Ven aquí. Ahora», dijo.
"No puedo ir. Estoy enfermo", dijo Tom.| “¿Vienes?”| “No.”| Se fue.
¿Por qué no vienes?, le pregunté.| ¡Ven!, gritó.| ¿¡Qué!?| —¿Cuándo? —preguntó él.
No sé... quizás mañana.| Espera...| Ahora sí.| ¡Ay! no sé.
Está bien.| Vi el mar.| Era azul.| ¿Vienes?| No.| Estoy cansado.| Es el no. 5.
hola.| como estas?| me llamo ana
HOLA.| ¿CÓMO ESTÁS?| LA SRA. GIL NO ESTÁ BIEN.
Escribe a ana@ejemplo.com.| Mira https://ejemplo.org/a.b?c=d y config.yaml.| Gracias.
¡Hola!| 👋 ¿Cómo estás?| Bien. 😀
Sí.No.Quizás
"""
ENGLISH = """
Hello.| How are you?| My name is Ann.| Look out!| I live here.
Mr. Smith, Mrs. Jones, Ms. May and Prof. Gil came.| Dr. No did not.
The U.S. Army is big.| He lives in the U.K. and works.| He lives in the U.S.| His house is big.
It costs $25.50.| Buy 3.5 kg, approx. 5 m, e.g. here, i.e. now, vs. them.| It's no. 5.
J. R. R. Tolkien wrote.| John F. Kennedy died.| J.K. Rowling did not.
1. Open the door.| 2. Go in.| 3. Close it.
"I can't go. I'm ill," said Tom.| "Are you coming?" she asked.| "No!"| He ran.
Well... maybe tomorrow.| Wait...| Now.| What?!| Really??| Yes!!
He told me.| It's OK.| She is ill.| I said no.| Tom doesn't.| It's my uncle's.| Go.
She has a Ph.D. and works for Acme Inc. in St. Louis.| It's 5 p.m. now.| We left.
hello.| how are you?| my name is ann
Yahoo! is a company.| Version 3.11.2 is out.| See www.example.com.| Bye.
"""
OTHERS = {
    "de": "Am 3. Oktober kam Dr. Müller, z. B. um 5.| Er ging.",
    "fr": "Qui est-ce ?| Il est là.",
    "ja": "日本語。|「はい。」と彼は言った。|「本当？」|それから。",
    "hi": "यह है।| वह है।",
    "ru": "Это г. Москва.| Я здесь.",
}


@pytest.mark.parametrize(
    ("language", "marked"),
    [
        *(("es", line) for line in SPANISH.strip().splitlines()),
        *(("en", line) for line in ENGLISH.strip().splitlines()),
        *OTHERS.items(),
    ],
)
def test_sentences_end_where_they_end(language: str, marked: str) -> None:
    assert [each.strip() for each in split_sentences(marked.replace("|", ""), language)] == [
        each.strip() for each in marked.split("|")
    ]


@examples(200)
@given(st.text() | st.text("aAB1 .,!?…\"'«»()。\n\r\t\xa0\u202f\ud800", max_size=200))
def test_sentences_are_the_text(text: str) -> None:
    for language in ("es", "en", None):
        found = split_sentences(text, language)
        assert "".join(found) == text
        assert not any("\n" in each.strip() for each in found)


def test_lines_are_sentences_in_any_case() -> None:
    text = "\nA. B\n \n\nc\n😀\nd\n"
    assert split_sentences(text, None) == ["\n", "A. B\n \n\n", "c\n", "😀\n", "d\n"]
    assert split_sentences(text, "es") == split_sentences(text, None)
    assert split_sentences("a B.\nC we. E", "en") == ["a B.\n", "C we. ", "E"]


def test_white_space_of_several_bytes_after_an_initial() -> None:
    for space in "\xa0\u202f\x85\u2028\u3000":
        text = f"El plan B{space}. Es así.{space}Sí."
        assert split_sentences(text, "es") == ([f"El plan B{space}. Es así.{space}", "Sí."])


def test_a_long_line_of_unclosed_quotes_is_split_in_linear_time() -> None:
    found = split_sentences("«No vi. " * 20_000, "es")
    assert 19_900 < len(found) <= 20_000


def test_a_language_without_rules_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    language_rules.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert split_sentences("Saluton. Kiel vi? Bone.", "eo") == [
            "Saluton. ",
            "Kiel vi? ",
            "Bone.",
        ]
        split_sentences("Jes. Ne. Jes.", "eo")
        assert language_rules("es-MX") == language_rules("ES") == "es"
    [record] = caplog.records
    assert "'eo': sentencex has no rules" in record.getMessage()


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


TEXT = "Gato come pan.   Perro ve agua!\t¿Él come?\n\nCasa grande."
LINES = ["Gato come pan.", "Perro ve agua!", "¿Él come?", "Casa grande."]


def test_sentences_are_translated_by_themselves_and_keep_white_space(
    translator: Translator,
) -> None:
    options = translator.options(nbest=2, keep_weights=True)
    [found] = translator.translate([f" {TEXT}\n"], options)
    alone = translator.translate(LINES, options)
    assert len(found) == 2
    for rank, whole in enumerate(found):
        one, two, three, four = (each[rank].text for each in alone)
        assert whole.text == f"{one}   {two}\t{three}\n\n{four}"
        assert whole.line == f"{one}   {two}\t{three} {four}"
        assert whole.score == pytest.approx(np.mean([each[rank].score for each in alone]), abs=1e-4)
    parts = found[0].as_json(attention=True)["parts"]
    assert [part["source"] for part in parts] == LINES
    assert [part["space"] for part in parts] == ["", "   ", "\t", "\n\n"]
    assert all(
        np.shape(p["attention"]) == (len(p["tokens"]), len(p["source_tokens"])) for p in parts
    )


def test_lines_without_visible_characters_stay(translator: Translator) -> None:
    for blank in ("\n\u200b\n", "\r\n\ufeff \r\n", "\n\n\xa0\n"):
        [[found]] = translator.translate([f"Gato.{blank}Perro."])
        assert found.parts[1].space == re.sub("[\u200b\ufeff]", "", blank)


def test_white_space_of_any_length_is_taken_off_lines_in_linear_time(
    translator: Translator,
) -> None:
    [[found]] = translator.translate(["Gato.\nPerro."])
    long = replace(found.parts[1], space="\t" * 100_000)
    began = time.process_time()
    assert Translation([long] * 3).line.count("\t") == 200_000
    assert time.process_time() - began < 1


def test_lines_are_whole_on_request(translator: Translator) -> None:
    whole = translator.options(split_sentences=False)
    [[found], [broken]] = translator.translate(["Él ve. Casa", "Él ve. Casa\n\npan"], whole)
    assert [part.source for part in found.parts] == ["Él ve. Casa"]
    assert [part.space for part in broken.parts] == ["", "\n\n"]
    [[found]] = translator.translate(["casa\ngato"], whole, prefixes=["\nA. B.\nC"])
    assert found.text.startswith("A. B.\nC")


def test_samples_of_a_sentence_depend_on_its_place(translator: Translator) -> None:
    sampling = Sampling(num_samples=3, temperature=3.0, seed=1)
    [first] = translator.translate(["Gato come. Perro ve."], sampling=sampling)
    [again] = translator.translate(["Gato come. Niño quiere."], sampling=sampling)
    assert [t.parts[0].text for t in first] == [t.parts[0].text for t in again]


@pytest.mark.parametrize(
    ("prefix", "sources"),
    [
        ("A cat", [0]),
        ("A cat. ", [0, 1]),
        ("\n A cat. A d", [0, 1]),
        ("A cat.  A dog!\nHe", [0, 1, 2]),
        ("A cat. A dog! He! House. ", [0, 1, 2, 3]),
    ],
)
def test_a_prefix_reaches_across_sentences(
    translator: Translator, prefix: str, sources: list[int]
) -> None:
    [found] = translator.translate([TEXT], translator.options(nbest=2), prefixes=[prefix])
    given = [*split_sentences(prefix.lstrip(), "en"), ""][: len(sources)]
    free = translator.translate(LINES)
    for rank, translation in enumerate(found):
        texts = [part.text for part in translation.parts]
        assert "".join(translation.text.split()).startswith("".join(prefix.split()))
        for place, (text, start) in enumerate(zip(texts, given, strict=False)):
            assert text.startswith(start.strip())
            assert place == sources[-1] or text == start.strip()
        if rank == 0:
            rest = slice(sources[-1] + 1, None)
            assert texts[rest] == [best.text for [best] in free[rest]]


def test_invisible_lines_of_a_prefix_are_no_sentences(translator: Translator) -> None:
    prefixes = ["A cat. A d", "\u200b\n\ufeff \nA cat. \n\x01\nA d"]
    one, other = translator.translate([TEXT] * 2, prefixes=prefixes)
    assert one == other


def test_alternatives_are_those_of_the_sentence_that_the_prefix_ends_in(
    translator: Translator,
) -> None:
    [[last]] = translator.translate(["Casa."])
    for prefix, alone in (("A cat. ", ""), ("A cat. The", "The"), ("A cat.", "")):
        found = translator.alternatives("Gato come pan. Perro ve agua! Casa.", prefix)
        expected = translator.alternatives("Perro ve agua!", alone)
        assert [each.word for each in found] == [each.word for each in expected]
        for one, other in zip(found, expected, strict=True):
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
            texts = [part.text for part in one.translation.parts]
            assert texts == ["A cat.", other.translation.text, last.text]


def test_pairs_with_equally_many_sentences_are_aligned_by_sentence(translator: Translator) -> None:
    pairs = [Pair("gato come. perro ve", "cat eats. dog sees"), Pair("gato. perro", "cat dog")]
    one, two = align(translator, [Pair("gato come.", "cat eats."), Pair("perro ve", "dog sees")])
    [joined, whole] = align(translator, pairs)
    assert joined == one | {(source + 2, target + 2) for source, target in two}
    assert {target for _, target in whole} == {0, 1}


def test_an_evaluation_counts_lines_that_are_split(translator: Translator, tmp_path: Path) -> None:
    pairs = [Pair("gato", "cat"), Pair("gato come. perro ve.", "cat eats. dog sees.")]
    found = evaluate(translator, pairs)
    assert "2 lines (1 in several sentences), beam 3" in found.as_text(tmp_path)
    assert '"split": 1' in found.as_json(tmp_path)
    whole = evaluate(translator, pairs, translator.options(split_sentences=False))
    assert whole.split == 0

from __future__ import annotations

import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import LEXICON, ToyCorpus
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from random_model import random_translator

from benchmarks.decoding import CPU, Kind, native_kinds
from seq2seq.data.tokenizer import normalize_line
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.text import Part, Translation, join_parts
from seq2seq.inference.translator import Translator
from seq2seq.pipeline import train

ODD = [
    "",
    " \t",
    "😀👩‍👩‍👧",
    "שלום עולם",
    "a\x00b\x07",
    "a\u2028b\u2029c\x85d",
    "\ufeffgato",
    "a\rb",
    "▁",
]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


def best(translator: Translator, lines: list[str], **options: int) -> list[str]:
    return [found[0].text for found in translator.translate(lines, translator.options(**options))]


def words(line: str) -> str:
    return " ".join(LEXICON[word] for word in line.split())


def test_translates_the_toy_language(translator: Translator) -> None:
    lines = ["gato come pan", "perro", "niño quiere casa grande"]
    assert best(translator, lines) == [words(line) for line in lines]
    assert best(translator, lines, beam_size=1) == [words(line) for line in lines]


def test_any_iterable_of_lines_is_translated(translator: Translator) -> None:
    lines = ["gato come pan", "perro"]
    expected = translator.translate(lines)
    for given_lines in (iter(lines), tuple(lines), np.array(lines), dict.fromkeys(lines)):
        assert translator.translate(given_lines) == expected
    begun = translator.translate((line for line in lines), prefixes=(begin for begin in ("c", "")))
    assert [found[0].text for found in begun] == ["cat eats bread", "dog"]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("gato", "lines: expected a list of lines, found one text; pass [text]"),
        (None, "lines: expected lines of text, found None; pass a list of texts"),
        (3, "lines: expected lines of text, found 3; pass a list of texts"),
        (["gato", None], "lines: number 2 is of type NoneType, not a text; pass str"),
        ([b"gato"], "lines: number 1 is of type bytes, not a text; pass str"),
    ],
)
def test_what_is_not_lines_is_refused(translator: Translator, lines: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        translator.translate(lines)
    with pytest.raises(DataError, match=re.escape(message.replace("lines:", "targets:", 1))):
        translator.force_decode(["gato"], lines)


@examples(40)
@given(st.lists(st.text(max_size=30) | st.sampled_from(ODD), max_size=6))
def test_one_line_out_per_line_in(translator: Translator, lines: list[str]) -> None:
    found = best(translator, lines, beam_size=1)
    assert len(found) == len(lines)
    for line, text in zip(lines, found, strict=True):
        breaks = re.split(r"\r?\n", text)
        assert text.splitlines() == [each for each in breaks if text]
        assert text == text.strip()
        if not normalize_line(line):
            assert text == ""


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize(
    "kind", [kind for kind in native_kinds(CPU) if kind[1] != "bf16"], ids=" ".join
)
def test_translation_does_not_depend_on_batch(trained: Path, kind: Kind, beam_size: int) -> None:
    translator = Translator.load(trained, backend=kind[0], precision=kind[1])
    options = translator.options(beam_size=beam_size, nbest=beam_size)
    lines = ["gato come pan", *ODD, "él ve", "perro " * 60, "agua rojo come ve pan casa"]
    together = translator.translate(lines, options)
    budget = translator.config.inference.model_copy(update={"batch_tokens": 1})
    alone = Translator(
        translator.backends, translator.source, translator.target,
        translator.config.model_copy(update={"inference": budget}),
    ).translate(lines, options)  # fmt: skip
    backwards = translator.translate(lines[::-1], options)[::-1]
    for number, line in enumerate(lines):
        [single] = translator.translate([line], options)
        for other in (alone[number], backwards[number], single):
            assert [t.text for t in other] == [t.text for t in together[number]]
            scores = [t.score for t in together[number]]
            assert [t.score for t in other] == pytest.approx(scores, abs=1e-5)


WORDY = st.lists(st.sampled_from([*LEXICON, "😀", "xyz"]), max_size=30).map(" ".join)


@examples(15)
@given(st.lists(WORDY | st.sampled_from(ODD), min_size=1, max_size=6), st.data())
def test_translation_does_not_depend_on_order_or_number_of_lines(
    translator: Translator, lines: list[str], data: st.DataObject
) -> None:
    order = data.draw(st.lists(st.integers(0, len(lines) - 1), max_size=8))
    whole = translator.translate(lines)
    again = translator.translate([lines[place] for place in order])
    for place, found in zip(order, again, strict=True):
        assert found[0].text == whole[place][0].text
        assert found[0].score == pytest.approx(whole[place][0].score, abs=1e-4)


def test_fields_of_a_translation(translator: Translator) -> None:
    options = translator.options(keep_weights=True, nbest=3)
    first, second, third = translator.translate(["gato come"], options)[0]
    assert first.score >= second.score >= third.score
    (part,) = first.parts
    assert part.source == "gato come"
    assert part.source_pieces == ["▁gato", "▁come", "</s>"]
    assert part.target_pieces == ["▁cat", "▁eats", "</s>"]
    assert part.finished
    assert part.weights is not None
    assert part.weights.shape == (3, 3)
    np.testing.assert_allclose(part.weights.sum(1), 1, rtol=1e-6)
    assert part.score == pytest.approx(part.log_prob / ((5 + 3) / 6))


def test_long_line_is_translated_in_parts(translator: Translator) -> None:
    line = "gato come pan. " * 20
    (found,) = translator.translate([line], translator.options(nbest=2, split_sentences=False))
    assert len(found[0].parts) > 2
    assert " ".join(part.source for part in found[0].parts) == line.strip()


def test_huge_line_is_translated(translator: Translator) -> None:
    (found,) = translator.translate(["gatop" * 20_000], translator.options(beam_size=1))
    assert "".join(part.source for part in found[0].parts) == "gatop" * 20_000


def test_no_further_translation_is_empty(translator: Translator) -> None:
    for seed in range(4):
        random = random_translator(seed, translator.target)
        [found] = random.translate(["gato"], random.options(nbest=60))
        assert len(found) > 30
        assert all(each.text for each in found[1:])


def test_nbest_raises_the_beam(translator: Translator) -> None:
    assert translator.options(nbest=7).beam_size == 7
    assert translator.options(beam_size=9, nbest=7).beam_size == 9
    with pytest.raises(ConfigError, match="beam_size: expected 1 or more"):
        translator.options(beam_size=0)


def test_samples_depend_on_seed_and_place(translator: Translator) -> None:
    lines = ["gato come", "perro " * 30, "agua"]
    sampling = Sampling(num_samples=4, temperature=3.0, seed=7)

    def draw(lines: list[str], first: int = 1, seed: int = 7) -> list[list[str]]:
        sampled = Sampling(num_samples=4, temperature=3.0, seed=seed)
        found = translator.translate(lines, sampling=sampled, first_number=first)
        return [[translation.text for translation in line] for line in found]

    found = draw(lines)
    assert found == draw(lines)
    assert [len(line) for line in found] == [4, 4, 4]
    assert found[2:] == draw(lines[2:], first=3)
    assert found != draw(lines, seed=8)
    chosen = translator.translate(lines, sampling=sampling, mbr="chrf")
    for line, options in zip(chosen, found, strict=True):
        assert sorted(t.text for t in line) == sorted(options) or len(line[0].parts) > 1


def test_ensemble_averages_runs(trained: Path, other: Path, toy: ToyCorpus) -> None:
    both = Translator.load(trained, other)
    assert len(both.backends) == 2
    (found,) = both.translate(["gato come pan"], both.options(keep_weights=True))
    assert found[0].parts[0].weights is not None
    twice = Translator.load(trained, trained).translate(["gato come pan"])[0][0]
    once = Translator.load(trained).translate(["gato come pan"])[0][0]
    assert twice.text == once.text
    assert twice.score == pytest.approx(once.score, abs=1e-4)
    assert len(Translator.load(*sorted((trained / "checkpoints").glob("step-*"))).backends) == 3


def test_checkpoint_path_selects_checkpoint(trained: Path) -> None:
    early = Translator.load(trained / "checkpoints/step-000050")
    late = Translator.load(trained / "checkpoints/step-000150")
    lines = ["gato come pan agua rojo"]
    assert early.translate(lines)[0][0].score < late.translate(lines)[0][0].score


def test_unusable_runs_are_refused(
    trained: Path, toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CheckpointError, match="not a run directory"):
        Translator.load(tmp_path / "none")
    with pytest.raises(ConfigError, match="needs a run directory"):
        Translator.load()
    with pytest.raises(ConfigError, match="device"):
        Translator.load(trained, device="abacus")
    path = tmp_path / "bpe"
    train(
        toy.config(
            path,
            "training.max_steps=1",
            "data.tokenizer.type=bpe",
        )
    )
    with pytest.raises(CheckpointError, match="its tokenizers are not those of"):
        Translator.load(trained, path)
    back = shutil.copytree(trained, tmp_path / "back")
    recipe = (back / "config.yaml").read_text()
    (back / "config.yaml").write_text(recipe.replace("source_language: es", "source_language: en"))
    with pytest.raises(CheckpointError, match="its languages are not those of"):
        Translator.load(trained, back)
    (path / "source.model").write_bytes(b"")
    with pytest.raises(DataError, match=r"source.model"):
        Translator.load(path)
    (path / "source.model").unlink()
    with pytest.raises(DataError, match=r"source.model"):
        Translator.load(path)
    with pytest.raises((DataError, CheckpointError), match=r"source.model"):
        Translator.load(trained, path)


def test_nonfinite_weights_raise(trained: Path) -> None:
    translator = Translator.load(trained, backend="torch")
    with torch.no_grad():
        translator.models[0].output_bias.fill_(math.nan)
    with pytest.raises(CheckpointError, match="not finite"):
        translator.translate(["gato"])


def test_join_parts_combines_ranks() -> None:
    def part(text: str, score: float) -> Part:
        return Part("", [], [], text, score, 0.0, True)

    found = join_parts([[part("a", 2.0), part("b", 1.0)], [part(" c ", 4.0)]])
    assert [t.text for t in found] == ["a c", "b c"]
    assert [t.score for t in found] == [3.0, 2.5]
    assert join_parts([]) == [Translation()]
    assert Translation().as_json() == {"text": "", "score": 0.0, "parts": []}
    broken = Translation([part("a", 1.0), replace(part("b\nc", 1.0), space=" \n\n")])
    assert (broken.text, broken.line) == ("a \n\nb c", "a b c")

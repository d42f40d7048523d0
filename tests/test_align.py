from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from conftest import ToyCorpus, to_read, toy_pairs

import prepare_data
from corpora.general.phrases import phrase_pairs
from seq2seq import cli
from seq2seq.analysis.alignment import (
    align,
    align_both,
    alignment_error,
    gold_of,
)
from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import DataError
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import links_of, words
from seq2seq.pipeline import train


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    """Return pairs whose words translate one by one, with that as gold links."""
    gold = [" ".join(f"{n}-{n}" for n in range(len(s.split()))) for s, _ in toy_pairs(40, 8)]
    return [Pair(*pair, alignment=a) for pair, a in zip(toy_pairs(40, 8), gold, strict=True)]


@pytest.fixture(scope="module")
def test_file(pairs: list[Pair], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("align") / "test.tsv"
    path.write_text("".join(f"{p.source}\t{p.target}\n" for p in pairs))
    path.with_suffix(".gold").write_text("".join(f"{p.alignment}\n" for p in pairs))
    return path


@pytest.fixture(scope="module")
def reverse(toy: ToyCorpus, shared: Path) -> Iterator[Path]:
    """Return a run of the opposite direction."""
    swapped = [f"data.{n}={v}" for n, v in (("source_language", "en"), ("target_language", "es"))]
    for corpus in ("train.0", "valid", "test"):
        swapped += [f"data.{corpus}.source=1", f"data.{corpus}.target=0"]
    steps = ["training.max_steps=150", "training.validate_every=150"]
    same = ["training.scheduled_sampling=0"]
    changes = (*swapped, *steps, *same)
    yield from to_read(shared / "reverse", lambda path: train(toy.config(path, *changes)))


def run(*arguments: object) -> int:
    try:
        return cli.main(["align", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


def test_word_by_word_translations_are_linked(trained: Path, pairs: list[Pair]) -> None:
    translator = Translator.load(trained)
    gold = gold_of(pairs, split=str.split)
    assert gold is not None
    for threshold in (None, 0.4):
        found = align(translator, pairs, threshold=threshold)
        error = alignment_error(found, gold)
        assert error.aer is not None
        assert error.aer < 0.2
    # The links are those of the given translation, not of the model's own.
    turned = [Pair(p.source, " ".join(reversed(p.target.split()))) for p in pairs]
    assert {t for links in align(translator, turned) for _, t in links} == set(range(6))


def test_threshold_takes_all_heavy_links() -> None:
    weights = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.0, 0.0, 0.0, 1.0]])
    part = Part("", ["▁a", "▁b", "c", "</s>"], ["▁x", "▁y", "</s>"], "", 0.0, 0.0, True, weights)
    found = {
        threshold: links_of(part, split=str.split, threshold=threshold)
        for threshold in (0.1, 0.5, 0.9)
    }
    assert found[0.1] == {(0, 0), (1, 0), (0, 1), (1, 1)}
    assert found[0.5] == {(0, 0), (1, 1)}
    assert found[0.9] == frozenset()
    assert links_of(part, split=str.split) == {(0, 0), (1, 1)}


def test_symmetrisation_of_two_models(trained: Path, reverse: Path, pairs: list[Pair]) -> None:
    translator, backward = Translator.load(trained), Translator.load(reverse)
    found = align_both(translator, backward, pairs)
    gold = gold_of(pairs, split=str.split)
    assert gold is not None
    errors = {name: alignment_error(links, gold) for name, links in found.items()}
    precision = {name: error.precision or 0.0 for name, error in errors.items()}
    recall = {name: error.recall or 0.0 for name, error in errors.items()}
    assert precision["intersection"] >= max(precision["forward"], precision["reverse"])
    assert recall["union"] >= max(recall["forward"], recall["reverse"])
    assert errors["grow-diag-final-and"].aer == pytest.approx(0, abs=0.2)
    # The links of the reverse model are its own, with sides swapped.
    turned = align(backward, [Pair(pair.target, pair.source) for pair in pairs])
    assert found["reverse"] == [frozenset((s, t) for t, s in links) for links in turned]
    assert found["forward"] == align(translator, pairs)


def test_reverse_model_of_same_direction_is_refused(trained: Path, pairs: list[Pair]) -> None:
    translator = Translator.load(trained)
    with pytest.raises(DataError, match="--reverse: runs in the other direction than the run"):
        align_both(translator, translator, pairs)


def test_comparing_opposite_directions_logs_warning(
    trained: Path, reverse: Path, test_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        cli.main(["compare", str(trained), str(reverse), str(test_file), "--resamples", "9"]) == 0
    )
    assert "the runs have different languages: es to en; en to es" in capsys.readouterr().err


def test_empty_sides_have_no_links(trained: Path) -> None:
    translator = Translator.load(str(trained))
    empty = Pair("", "")
    assert align(translator, [empty]) == [frozenset()]
    found = align(translator, [empty, Pair("gato come", "cat eats"), Pair("gato", ""), empty])
    assert found[1] == {(0, 0), (1, 1)}
    assert not any((found[0], found[2], found[3]))


def test_punctuation_marks_can_be_words(trained: Path) -> None:
    pair = Pair("gato, come pan.", "cat, eats bread.", alignment="0-0 1-1 2-2 3-3 4-4")
    assert gold_of([pair], split=words) is not None
    (links,) = align(Translator.load(trained), [pair], split=words)
    assert {target for _, target in links} == {0, 1, 2, 3, 4}
    with pytest.raises(DataError, match=r"pair 1: link 3-3 .* has 3 and the target 3 words"):
        gold_of([pair], split=str.split)


def test_each_character_of_a_language_without_spaces_is_a_word(
    japanese: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("gato come pan.\t猫食べるパン。\n" * 2, encoding="utf-8")
    assert run(japanese, test) == 0
    links = capsys.readouterr().out.splitlines()
    assert links[0] == links[1]
    assert {"0-0", "1-1", "1-2", "1-3"} <= set(links[0].split())  # 猫, 食べる
    assert len(links[0].split()) == 7
    assert run(japanese, test, "--words", "spaces") == 0
    assert capsys.readouterr().out.splitlines()[0] in ("0-0", "1-0", "2-0")
    # Sentences are aligned one by one although nothing separates them.
    twice = Pair("gato come pan. gato come pan.", "猫食べるパン。猫食べるパン。")
    [once] = align(
        Translator.load(japanese), [Pair("gato come pan.", "猫食べるパン。")], split=words
    )
    [both] = align(Translator.load(japanese), [twice], split=words)
    assert both == once | {(source + 4, target + 7) for source, target in once}


def test_unusable_gold_raises(pairs: list[Pair], tmp_path: Path) -> None:
    plain = [Pair(pair.source, pair.target) for pair in pairs]
    assert gold_of(plain, split=str.split) is None
    path = tmp_path / "gold"
    path.write_text("0-0\n")
    with pytest.raises(DataError, match="1 lines of links for 40 sentence pairs"):
        gold_of(plain, str(path), split=str.split)
    path.write_text("\n" * 40)
    with pytest.raises(DataError, match="no gold links at all"):
        gold_of(plain, str(path), split=str.split)


def test_command_scores_links(
    trained: Path, reverse: Path, test_file: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    gold = test_file.with_suffix(".gold")
    assert run(trained, test_file, "--gold", gold) == 0
    table = capsys.readouterr().out
    assert re.search(r"forward +\d+\.\d +\d+\.\d +\d+\.\d +\d+\n40 sentence pairs, \d+ sure", table)
    output = tmp_path / "links"
    both = ("--reverse", reverse, "--gold", gold, "-o", output)
    assert run(trained, test_file, *both, "--symmetrize", "intersection", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sentences"] == 40
    assert found["union"]["links"] >= found["grow-diag-final-and"]["links"]
    lines = output.read_text().split("\n")
    assert len(lines) == 41
    assert sum(len(line.split()) for line in lines) == found["intersection"]["links"]
    # Counted from 1 the gold links are the same.
    shifted = [re.sub(r"\d+", lambda m: str(int(m[0]) + 1), line) for line in gold.open()]
    (tmp_path / "gold").write_text("".join(shifted))
    one = ("--gold", tmp_path / "gold", "--one-based", "--json")
    assert run(trained, test_file, *one) == 0
    assert json.loads(capsys.readouterr().out)["forward"] == found["forward"]


def test_command_prints_links(
    trained: Path, test_file: Path, pairs: list[Pair], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(trained, test_file) == 0
    lines = capsys.readouterr().out.splitlines()
    expected = align(Translator.load(trained), pairs)
    assert [{tuple(map(int, x.split("-"))) for x in line.split()} for line in lines] == expected
    assert np.mean([len(line.split()) for line in lines]) > 1


def test_phrases_are_those_of_the_alignments(
    trained: Path, reverse: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = toy_pairs(200, 8)
    corpus, out = tmp_path / "train.tsv", tmp_path / "phrases.tsv"
    corpus.write_text("".join(f"{source}\t{target}\n" for source, target in texts))
    pairs = [Pair(*text) for text in texts]
    translator = Translator.load(trained)
    both = align_both(translator, Translator.load(reverse), pairs)
    sides = [[words(text[side]) for text in texts] for side in (0, 1)]
    lexicon = {pair for s, t in texts for pair in zip(s.split(), t.split(), strict=True)}
    written = tmp_path / "train.links"
    for options, links in (
        ((), align(translator, pairs)),
        (("--reverse", reverse), both["grow-diag-final-and"]),
    ):
        assert run(trained, corpus, "--words", "marks", "-o", written, *options) == 0
        assert prepare_data.main(["phrases", str(corpus), str(written), "--out", str(out)]) == 0
        assert f"{out}: " in capsys.readouterr().out
        found = [(pair.source, pair.target) for pair in read_corpus(CorpusConfig(path=str(out)))]
        assert found == phrase_pairs(sides[0], sides[1], links)
        single = {pair for pair in found if " " not in "".join(pair)}
        assert len(single & lexicon) > 0.8 * len(single) > 3
    written.write_text("0-0\n")
    assert prepare_data.main(["phrases", str(corpus), str(written), "--out", str(out)]) == 2
    assert "1 lines of links for 200 sentence pairs" in capsys.readouterr().err
    for given in (corpus, written):
        assert prepare_data.main(["phrases", str(corpus), str(written), "--out", str(given)]) == 2
        assert f"{given}: would overwrite" in capsys.readouterr().err
    assert run(trained, corpus, "--threshold", "2") == 2
    assert "expected a number from 0 to 1, found '2'" in capsys.readouterr().err


def test_gold_column_equals_gold_file(
    toy: ToyCorpus, trained: Path, pairs: list[Pair], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    path = tmp_path / "test.tsv"
    path.write_text("".join(f"{p.source}\t{p.target}\t{p.alignment}\n" for p in pairs))
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("source.model", "target.model", "checkpoints"):
        copy = shutil.copytree if (trained / name).is_dir() else shutil.copy
        copy(trained / name, folder / name)
    config = yaml.safe_load((trained / "config.yaml").read_text())
    config["data"]["test"] |= {"references": False, "alignment": 2}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    assert run(folder, path, "--json") == 0
    column = json.loads(capsys.readouterr().out)
    gold = tmp_path / "gold"
    gold.write_text("".join(f"{p.alignment}\n" for p in pairs))
    assert run(folder, path, "--json", "--gold", gold) == 0
    assert json.loads(capsys.readouterr().out) == column


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{run}", "{test}", "--json"], "--json needs gold alignments; pass --gold FILE"),
        (["{run}", "{test}", "--gold", "{test}"], "test.tsv:1: '"),
        (["{run}", "{test}", "--gold", "none"], "none: no such file"),
        (["{run}", "none.tsv"], "none.tsv: no such file"),
        (["none", "{test}"], "none: not a run directory"),
        (["{run}", "{test}", "--reverse", "none"], "none: not a run directory"),
        (["{run}", "{test}", "-o", "/none/links"], "/none/links: cannot be written"),
    ],
)
def test_user_errors_print_one_line_and_exit_2(
    trained: Path, test_file: Path, capfd: pytest.CaptureFixture[str],
    arguments: list[str], words: str,
) -> None:  # fmt: skip
    places = {"{run}": str(trained), "{test}": str(test_file)}
    assert run(*(places.get(argument, argument) for argument in arguments)) == 2
    errors = [line for line in capfd.readouterr().err.splitlines() if line.startswith("seq2seq")]
    assert len(errors) == 1
    assert words in errors[0]

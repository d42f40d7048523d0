"""New training pairs from the translations of a corpus (seq2seq distill)."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import ToyCorpus, toy_pairs
from processes import Server

from seq2seq import cli
from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.inference import lines as reading
from seq2seq.inference.translator import Translator


def run(*arguments: object) -> int:
    try:
        return cli.main(["distill", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


def pairs_of(path: Path) -> list[Pair]:
    return list(read_corpus(CorpusConfig(path=str(path))))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return pairs of which every third has no true translation."""
    path = tmp_path_factory.mktemp("corpus") / "corpus.tsv"
    rows = [(s, "he he he" if n % 3 == 0 else t) for n, (s, t) in enumerate(toy_pairs(60, 9))]
    path.write_text("".join(f"{source}\t{target}\t\n" for source, target in rows))
    return path


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WINDOW", 7)


@pytest.fixture(scope="module")
def expected(single: Path, other: Path, corpus: Path) -> str:
    """Return what an ensemble makes of the corpus, in windows of another size."""
    pairs = pairs_of(corpus)
    translator = Translator.load(single, other)
    found = translator.translate([pair.source for pair in pairs])
    return "".join(
        f"{pair.source}\t{best.text}\n" for pair, (best, *_) in zip(pairs, found, strict=True)
    )


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("workers", [1, 2])
def test_contents(
    single: Path,
    other: Path,
    corpus: Path,
    expected: str,
    tmp_path: Path,
    workers: int,
    capsys: Any,
) -> None:
    output = tmp_path / "out.tsv"
    assert run(single, other, corpus, "-o", output, "--workers", workers) == 0
    assert output.read_text() == expected
    assert capsys.readouterr().err.endswith(f"{output}: 60 pairs\n")
    assert {path.name for path in tmp_path.iterdir()} == {"out.tsv", "out.tsv.distill.json"}
    about = json.loads((tmp_path / "out.tsv.distill.json").read_text())
    assert (len(about["runs"]), about["beam_size"], about["precision"]) == (2, 3, "fp32")
    changed = os.stat(output).st_mtime_ns
    assert run(single, other, corpus, "-o", output) == 0
    assert os.stat(output).st_mtime_ns == changed


def test_parallel_files(exported: Path, tmp_path: Path) -> None:
    """Line n is made of pair n, also if a side is empty or has tabs; the run needs no weights."""
    source, target, output = (tmp_path / name for name in ("a.es", "a.en", "out.tsv"))
    source.write_text("perro\tcome\n\ngato ve agua\n")
    target.write_text("dog eats\nnothing\n\n")
    assert run(exported, source, "--target", target, "-o", output) == 0
    assert output.read_text() == "perro come\tdog eats\n\t\ngato ve agua\tcat sees water\n"


def test_reverse_translates_the_target_side(single: Path, corpus: Path, tmp_path: Path) -> None:
    swapped, output = tmp_path / "swapped.tsv", tmp_path / "out.tsv"
    pairs = pairs_of(corpus)
    swapped.write_text("".join(f"{pair.target}\t{pair.source}\n" for pair in pairs))
    assert run(single, swapped, "-o", output, "--reverse", "--beam", 1) == 0
    found = Translator.load(single).translate(
        [pair.source for pair in pairs], Translator.load(single).options(beam_size=1)
    )
    assert output.read_text() == "".join(
        f"{best.text}\t{pair.source}\n" for pair, [best] in zip(pairs, found, strict=True)
    )


@pytest.mark.usefixtures("small_windows")
def test_continues_wherever_it_was_stopped(
    single: Path, other: Path, corpus: Path, expected: str, tmp_path: Path
) -> None:
    output, part = tmp_path / "out.tsv", tmp_path / "out.tsv.partial"
    arguments = (single, other, corpus, "-o", output)
    assert run(*arguments) == 0
    for size in (0, 1, 100, 400, len(expected.encode()) - 1, len(expected.encode())):
        output.unlink()
        part.write_bytes(expected.encode()[:size])
        assert run(*arguments, "--workers", 1 + size % 2) == 0
        assert output.read_text() == expected
        assert not part.exists()


def test_killed_and_continued(
    single: Path, other: Path, corpus: Path, expected: str, tmp_path: Path, server: Server
) -> None:
    output, part = tmp_path / "out.tsv", tmp_path / "out.tsv.partial"
    arguments = ("distill", single, other, corpus, "-o", output)
    setup = (
        "import time; from seq2seq.inference import lines as d\n"
        "d.WINDOW, t = 7, d._translate\n"
        "d._translate = lambda *a: (time.sleep(0.1), t(*a))[1]"
    )
    for number, (stop, lines, workers) in enumerate(
        [(signal.SIGKILL, 7, 1), (signal.SIGINT, 14, 1), (signal.SIGKILL, 28, 2)]
    ):
        process = server.start(
            [*arguments, "--workers", workers], tmp_path / f"{number}.txt", setup
        )
        end = time.monotonic() + 60
        while not part.exists() or part.read_bytes().count(b"\n") < lines:
            assert time.monotonic() < end
            time.sleep(0.005)
        process.send(stop)
        assert process.wait() == (130 if stop == signal.SIGINT else -9)
        if stop == signal.SIGINT:
            assert process.text().endswith("interrupted; run the same command again to continue\n")
        assert not output.exists()
    assert server.start([*arguments], tmp_path / "last.txt", setup).wait() == 0
    assert output.read_text() == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("{corpus}",), "arguments are required"),
        (("{run}", "none.tsv"), "none.tsv: no such file"),
        (("none", "{corpus}"), "none: not a run directory"),
        (("{run}", "{corpus}", "--target", "{single}"), "has 60 lines but"),
        (("{run}", "{corpus}", "--beam", "4"), "beam_size was 3 and is 4; choose another --output"),
        (("{run}", "{corpus}", "--reverse"), "remove --reverse"),
        (("{run}", "{other}", "{corpus}"), "partial: made by another command: runs was"),
        (("{run}", "{single}"), "partial: made by another command: corpus was"),
        (("{run}", "{corpus}", "-o", "out.tsv.gz"), "out.tsv.gz: the file is not compressed"),
        (("{run}", "{corpus}", "-o", "/none/x"), "/none/x: cannot be written"),
        (("{run}", "{corpus}", "-o", "{corpus}"), "corpus.tsv: would overwrite"),
    ],
)
def test_bad_input(
    single: Path, other: Path, corpus: Path, tmp_path: Path, capsys: Any,
    arguments: tuple[str, ...], words: str,
) -> None:  # fmt: skip
    output, part, one = (tmp_path / name for name in ("out.tsv", "out.tsv.partial", "one.tsv"))
    one.write_text("perro\tdog\n")
    assert run(single, corpus, "-o", output) == 0
    output.rename(part)
    before, about = part.read_bytes(), (tmp_path / "out.tsv.distill.json").read_bytes()
    capsys.readouterr()
    places = {"{run}": single, "{other}": other, "{corpus}": corpus, "{single}": one}
    for mark, place in places.items():
        arguments = tuple(text.replace(mark, str(place)) for text in arguments)
    assert run(*(() if "-o" in arguments else ("-o", output)), *arguments) == 2
    assert words in capsys.readouterr().err
    assert (part.read_bytes(), (tmp_path / "out.tsv.distill.json").read_bytes()) == (before, about)


def test_two_processes_do_not_share_a_file(tmp_path: Path, server: Server, single: Path) -> None:
    corpus = tmp_path / "corpus.tsv"
    corpus.write_text("perro\tdog\n")
    setup = (
        "import time; from seq2seq.inference import lines as d\n"
        "d._translate = lambda *_: time.sleep(60)"
    )
    arguments = ("distill", single, corpus, "-o", tmp_path / "out.tsv")
    first = server.start(arguments, tmp_path / "first.txt", setup)
    end = time.monotonic() + 60
    while not (tmp_path / "out.tsv.distill.json").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    second = server.start(arguments, tmp_path / "second.txt")
    assert second.wait() == 2
    assert "another process is writing it" in second.text()
    first.send(signal.SIGKILL)
    first.wait()


def test_training_reads_originals_and_translations_together(
    toy: ToyCorpus, single: Path, tmp_path: Path
) -> None:
    from seq2seq.data.dataset import load_pairs

    output = tmp_path / "out.tsv"
    train = toy.folder / "train.tsv"
    assert run(single, train, "-o", output, "--beam", 1) == 0
    alone, _ = load_pairs(toy.config(tmp_path / "a"))
    both, _ = load_pairs(
        toy.config(tmp_path / "b", f"data.train=[{{path: {train}}}, {{path: {output}}}]")
    )
    new = {(p.source, p.target) for p in pairs_of(output)}
    old = {(p.source, p.target) for p in pairs_of(train)}
    assert len(both) == len({(s, t) for s, t in new | old if t}) >= len(alone)

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from properties import examples

from seq2seq import processes
from seq2seq.data.corpus import conversion
from seq2seq.data.tokenizer import normalize_line
from seq2seq.errors import ConfigError, DataError, WorkerError
from seq2seq.files import check_writable
from seq2seq.inference import lines as reading
from seq2seq.inference.lines import Pipe, Request, is_pipe, translate_files
from seq2seq.inference.onnx_backend import OnnxBackend
from seq2seq.inference.sampling import Sampling
from seq2seq.inference.translator import Translator
from seq2seq.processes import Parallelism, ordered_map


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    loaded = Translator.load(trained)
    assert [type(backend) for backend in loaded.backends] == [OnnxBackend]
    return loaded


def run(
    translator: Translator,
    folder: Path,
    data: bytes,
    workers: int | None = 1,
    **changes: Any,
) -> list[str]:
    """Translate bytes through files; return the lines of output."""
    names = {"beam_size", "nbest", "keep_weights"}
    options = translator.options(
        **{"beam_size": 1, **{k: v for k, v in changes.items() if k in names}}
    )
    rest = {k: v for k, v in changes.items() if k not in names}
    request = Request(options, **rest)
    (folder / "in").write_bytes(data)
    translate_files(
        translator,
        request,
        source=str(folder / "in"),
        output=str(folder / "out"),
        parallelism=Parallelism(workers),
    )
    found = (folder / "out").read_bytes().decode()
    assert found == "" or found.endswith("\n")
    return found.split("\n")[:-1]


def lines_of(data: bytes) -> list[str]:
    """Return the lines; only a line feed ends one."""
    lines = data.decode().split("\n")
    return lines[:-1] if lines[-1] == "" else lines


TEXT = st.text(max_size=25) | st.sampled_from(
    [
        "",
        "gato come",
        "a\rb\r",
        "\u2028",
        "\x85",
        "\x0b\x0c\x1c",
        "😀",
        "\u202eabc",
        "\ufeff",
        "▁ ▁",
    ]
)


@examples(50)
@given(st.lists(TEXT, max_size=5), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_output_lines_correspond_to_input_lines(
    translator: Translator,
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    end: str,
    ended: bool,
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    data = (end.join(lines) + (end if ended and lines else "")).encode()
    found = run(translator, folder, data)
    expected = lines_of(data)
    assert len(found) == len(expected)
    for line, text in zip(expected, found, strict=True):
        assert len(text.splitlines()) <= 1
        assert bool(normalize_line(line)) or text == ""


def test_windows_keep_the_order(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["gato come pan", "perro", "", "agua casa", "él ve rojo grande", "pan"]
    data = "\n".join(lines).encode()
    whole = run(translator, tmp_path, data)
    monkeypatch.setattr(reading, "WINDOW", 2)
    assert run(translator, tmp_path, data) == whole
    assert whole[0] == "cat eats bread"


def test_nbest_writes_n_lines(translator: Translator, tmp_path: Path) -> None:
    found = run(translator, tmp_path, b"gato come\n\nperro\n", nbest=3)
    assert len(found) == 9
    assert found[0] == "cat eats"
    assert found[3:6] == ["", "", ""]
    assert len(set(found[:3])) == 3


def test_json_lines(translator: Translator, tmp_path: Path) -> None:
    data = ("gato come\n\n" + "perro " * 40 + "\n").encode()
    found = run(
        translator, tmp_path, data, format="jsonl", attention=True, nbest=2, keep_weights=True
    )
    first, empty, long = map(json.loads, found)
    assert first["text"] == "cat eats"
    assert [n["score"] for n in first["nbest"]] == sorted(
        (n["score"] for n in first["nbest"]), reverse=True
    )
    assert empty == {"text": "", "score": 0.0, "parts": [], "nbest": [
        {"text": "", "score": 0.0, "parts": []}]}  # fmt: skip
    assert len(long["parts"]) > 1
    for part in (*first["parts"], *long["parts"]):
        assert len(part["attention"]) == len(part["tokens"])
        for row in part["attention"]:
            assert len(row) == len(part["source_tokens"])
            assert sum(row) == pytest.approx(1, abs=1e-5)


def test_samples_and_minimum_bayes_risk(translator: Translator, tmp_path: Path) -> None:
    data = b"gato come pan\nagua\n"
    sampling = Sampling(num_samples=4, temperature=4.0, seed=3)
    found = run(translator, tmp_path, data, sampling=sampling)
    assert len(found) == 8
    assert run(translator, tmp_path, data, sampling=sampling) == found
    assert run(translator, tmp_path, data, sampling=Sampling(4, 4.0, seed=4)) != found
    chosen = run(translator, tmp_path, data, sampling=sampling, mbr="chrf")
    assert chosen[0] in found[:4]
    assert chosen[1] in found[4:]
    by_beam = run(translator, tmp_path, data, mbr="bleu", beam_size=4)
    assert len(by_beam) == 2


def test_invalid_utf8(
    translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, mended = b"gato\na\xff\nagua\n", "gato\na\ufffd\nagua\n"
    found = run(translator, tmp_path, data)
    first = f"{tmp_path}/in: line 2: not UTF-8 (byte 0xff at 1): replaced; convert it with "
    first += conversion(b"").removeprefix("convert it with ")
    assert [record.getMessage() for record in caplog.records] == [first]
    assert found == run(translator, tmp_path, mended.encode())
    assert len(found) == 3
    caplog.clear()
    assert len(run(translator, tmp_path, data * 1000, workers=2)) == 3000
    told = [record.getMessage() for record in caplog.records]
    assert told == [first, f"{tmp_path}/in: 1000 of 3000 lines were not UTF-8: replaced"]
    with pytest.raises(DataError, match=r"line 2: not UTF-8 \(byte 0xff at 1\)"):
        run(translator, tmp_path, data, refuse_invalid=True)


def test_output_never_overwrites_input(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, link = tmp_path / "in", tmp_path / "link"
    path.write_text("gato\n")
    link.symlink_to(path)
    request = Request(translator.options())
    for files in (
        {"source": str(path), "output": str(path)},
        {"source": str(path), "output": str(link)},
        {"source": os.devnull, "prefixes": str(path), "output": f"{tmp_path}/./in"},
    ):
        with pytest.raises(DataError, match="choose another file to write to"):
            translate_files(translator, request, **files)
    with path.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        with pytest.raises(DataError, match="would overwrite standard input"):
            translate_files(translator, request, output=str(path))
    assert path.read_text() == "gato\n"
    monkeypatch.setattr(sys, "stdin", None)  # closed: an option that is not given is no input
    check_writable(path, None)


def test_unopenable_files_are_named(translator: Translator, tmp_path: Path) -> None:
    request = Request(translator.options())
    with pytest.raises(DataError, match="none: cannot be read"):
        translate_files(translator, request, source=str(tmp_path / "none"))
    (tmp_path / "in").write_text("gato\n")
    for output in (tmp_path, tmp_path / "none/out"):
        with pytest.raises(DataError, match="cannot be written"):
            translate_files(translator, request, source=str(tmp_path / "in"), output=str(output))


class Terminal(io.StringIO):
    """Standard input or output, of a person if `terminal`."""

    def __init__(self, text: str = "", terminal: bool = True) -> None:
        super().__init__(text)
        self.buffer = io.BytesIO(text.encode())
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def fileno(self) -> int:
        return os.open(os.devnull, os.O_RDONLY)


@pytest.mark.parametrize(("reads", "writes"), [(True, True), (True, False), (False, True)])
def test_prompt_only_on_terminals(
    translator: Translator,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reads: bool,
    writes: bool,
) -> None:
    output = Terminal(terminal=writes)
    monkeypatch.setattr(sys, "stdin", Terminal("gato come\nperro\n", reads))
    monkeypatch.setattr(sys, "stdout", output)
    translate_files(translator, Request(translator.options()))
    assert output.getvalue() == "cat eats\ndog\n"
    assert ("> " in capsys.readouterr().err) == (reads and writes)


LINES = ["gato come pan", "perro", "", "agua casa", "él ve rojo grande", "pan", "perro " * 40]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"beam_size": 3, "nbest": 2, "keep_weights": True, "format": "jsonl", "attention": True},
        {"sampling": Sampling(num_samples=3, temperature=3.0, seed=2)},
    ],
)
def test_workers_do_not_change_the_output(
    translator: Translator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
) -> None:
    monkeypatch.setattr(reading, "WINDOW", 3)
    data = "\n".join(LINES * 3).encode() + b"\na\xff\n"
    alone = run(translator, tmp_path, data, **changes)
    assert run(translator, tmp_path, data, workers=3, **changes) == alone


def test_killed_worker_leaves_no_gap(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WINDOW", 2)
    lines = ["gato", "pan"] * 6
    whole = run(translator, tmp_path, "\n".join(lines).encode())
    lines[9] = "agua"
    translate, first = Translator.translate, os.getpid()

    def fatal(self: Translator, lines: list[str], *args: Any, **kwargs: Any) -> object:
        if "agua" in lines and os.getpid() != first:
            os.kill(os.getpid(), signal.SIGKILL)
        return translate(self, lines, *args, **kwargs)

    monkeypatch.setattr(Translator, "translate", fatal)
    with pytest.raises(WorkerError, match="lower --workers"):
        run(translator, tmp_path, "\n".join(lines).encode(), workers=2)
    written = (tmp_path / "out").read_text().split("\n")
    assert written.pop() == ""
    assert written == whole[: len(written)]
    assert len(written) in range(0, 9, 2)


def test_few_lines_are_divided_among_workers(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, windows = b"gato come pan\nperro\n" * 300, list[int]()
    monkeypatch.setattr(processes, "cores", lambda: 3)
    monkeypatch.setattr(reading, "cores", lambda: 3)

    def observed(self: Parallelism, function: Any, items: Any, **changes: Any) -> Any:
        kept = list(items)
        windows[:] = [len(lines) for _, lines in kept]
        return ordered_map(function, kept, processes=1, option="")

    alone = run(translator, tmp_path, data)
    monkeypatch.setattr(Parallelism, "map", observed)
    for workers, expected in ((1, [600]), (2, [300] * 2), (None, [200] * 3)):
        assert run(translator, tmp_path, data, workers=workers) == alone
        assert windows == expected
    assert len(run(translator, tmp_path, b"gato\n" * 299, workers=None)) == 299
    assert windows == [299]
    monkeypatch.setattr(sys, "stdin", (tmp_path / "in").open())
    translate_files(
        translator, Request(translator.options(beam_size=1)), output=str(tmp_path / "out"),
        parallelism=Parallelism(None),
    )  # fmt: skip
    assert windows == [299]
    monkeypatch.setattr(processes, "available_memory", lambda: 0)
    assert run(translator, tmp_path, data, workers=None) == alone
    assert windows == [600]


@pytest.mark.parametrize("workers", [1, 2, None])
def test_lines_of_a_pipe_are_translated_as_they_arrive(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int | None
) -> None:
    monkeypatch.setattr(reading, "_PATIENCE", 0.0)
    out, written = os.pipe()
    request = Request(translator.options(beam_size=1))
    # A process of its own writes, as forked workers keep what this one has open.
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as typing:
        assert typing.stdin
        assert typing.stdout
        files = {
            "source": f"/dev/fd/{typing.stdout.fileno()}",
            "output": f"/dev/fd/{written}",
            "parallelism": Parallelism(workers),
        }
        translated = threading.Thread(
            target=translate_files, args=(translator, request), kwargs=files
        )
        translated.start()
        with open(out, "rb") as found:
            for sent, lines in (
                (b"gato\n", [b"cat\n"]),
                (b"perro\npan\nag", [b"dog\n", b"bread\n"]),
                (b"ua\n\nca", [b"water\n", b"\n"]),
            ):
                os.write(typing.stdin.fileno(), sent)
                assert [found.readline() for _ in lines] == lines
            os.write(typing.stdin.fileno(), b"sa\n")
            assert found.readline() == b"house\n"
            typing.terminate()
            translated.join()
    os.close(written)


def test_lines_of_a_pipe_are_those_of_a_file(tmp_path: Path) -> None:
    data = b"a\n\n" + b"b" * 200_000 + b"\r\n" + b"c\n" * 100_000 + "é".encode()
    reads, writes = os.pipe()
    writing = threading.Thread(target=lambda: [os.write(writes, data), os.close(writes)])
    writing.start()
    with open(reads, "rb") as file:
        pipe = Pipe(file, 300_000)
        assert is_pipe(file)
        assert list(iter(pipe.readline, b"")) == data.splitlines(keepends=True)
        assert not pipe.has_line()
    writing.join()
    pipe = Pipe(io.BytesIO(b"a\n" + b"b" * 200_000), 100_000)
    assert pipe.readline() == b"a\n"
    assert len(pipe.readline()) > 100_000


def test_workers_require_the_cpu() -> None:
    with pytest.raises(ConfigError, match="2 workers cannot share a GPU; use --device cpu"):
        Parallelism(2).map(len, [""], on_gpu=True)


def test_tabs_are_warned_about_once(
    translator: Translator, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = run(translator, tmp_path, b"gato\nperro\tdog\npan\tbread\n")
    assert len(found) == 3
    [warning] = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert warning.startswith(f"{tmp_path}/in: line 2: it has tabs")
    assert "cut -f1" in warning

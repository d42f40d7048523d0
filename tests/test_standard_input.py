"""Any bytes on standard input: one line is written for each line read."""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import toy_pairs

from seq2seq import cli
from seq2seq.data.corpus import MAX_LINE_BYTES

WORDS = " ".join(source for source, _ in toy_pairs(30_000, 3)).split()

TEXTS = [
    "gato come pan",
    "",
    " \t ",
    "😀👩‍👩‍👧 🏳️‍🌈",
    "שלום עולם \u202eabc\u202c مرحبا",
    "漢字かな 한글 ไทย हिन्दी ქართული",
    "a\x00b\x01\x07\x1b[2J\x7f",
    "a\x0bb\x0cc\x1cd\x1ee\x85f\u2028g\u2029h",
    "lone \r return \r\r",
    "\ufeff gato",
    "e\u0301" * 300,
    "a\u0300\u0301\u0302" * 200,
    "\ufffd\uffff\U0010ffff\ue000",
    "▁ ▁▁ <s> </s> <unk> <pad> <0x0A>",
    "perro",
]
BROKEN = [
    b"\xff\xfe",
    b"gato \xc3",
    b"\xed\xa0\x80",
    b"\xf8\x88\x80\x80\x80",
    "ñ".encode("latin-1"),
]
LONG = [
    " ".join(WORDS)[:50_000],
    "x" * 50_000,
    "".join(random.Random(1).choices("aáñ😀漢 .", k=50_000)),
]
LINES = [*(text.encode() for text in TEXTS), *BROKEN, *(text.encode() for text in LONG), b"gato"]


@dataclass(frozen=True)
class Done:
    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of the output, which are as many by any definition of a line."""
        assert self.code == 0, self.err
        text = self.out.decode()
        assert text.endswith("\n")
        lines = text[:-1].split("\n")
        assert not [line for line in lines if len(line.splitlines()) > 1]
        return lines


Translate = Callable[..., Done]


@pytest.fixture
def translate(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Translate:
    """Return the command as a function of its standard input and more options."""

    def call(data: bytes, *options: object) -> Done:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        code = cli.main(["translate", str(trained), "--beam", "1", *map(str, options)])
        found = capsysbinary.readouterr()
        assert b"Traceback" not in found.err
        return Done(code, found.out, found.err.decode())

    return call


def test_one_line_out_per_line_in(translate: Translate) -> None:
    done = translate(b"\n".join(LINES))
    found = done.lines
    assert len(found) == len(LINES)
    assert (found[0], found[1], found[14], found[-1]) == ("cat eats bread", "", "dog", "cat")
    told = done.err.splitlines()
    [tabs] = [line for line in told if "it has tabs" in line]
    told.remove(tabs)
    first, number = told
    assert f"line {len(TEXTS) + 1}: not UTF-8 (byte 0xff at 0): replaced; convert" in first
    assert number.endswith(f"{len(BROKEN)} of {len(LINES)} lines were not UTF-8: replaced")


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_last_line_may_be_unterminated(translate: Translate, end: bytes) -> None:
    assert translate(b"gato\r\n\r\nperro" + end).lines == ["cat", "", "dog"]


def test_one_json_object_per_line(translate: Translate) -> None:
    found = [json.loads(line) for line in translate(b"\n".join(LINES), "--format", "jsonl").lines]
    assert len(found) == len(LINES)
    assert found[-1]["text"] == "cat"
    assert found[1] == {"text": "", "score": 0.0, "parts": []}
    for text, line in zip(LONG, found[-4:-1], strict=True):
        sources = "".join("".join(part["source"].split()) for part in line["parts"])
        assert sources == "".join(text.split())


def test_nbest_writes_n_lines_per_line(translate: Translate) -> None:
    lines = [line for line in LINES if len(line) < 2000]
    found = translate(b"\n".join(lines), "--nbest", 3).lines
    assert len(found) == 3 * len(lines)
    assert found[0] == "cat eats bread"
    assert found[3:9] == [""] * 6


def test_line_of_100_000_words(translate: Translate) -> None:
    assert len(WORDS) > 100_000
    before, found, after = translate(f"perro\n{' '.join(WORDS[:100_000])}\nperro".encode()).lines
    assert (before, after) == ("dog", "dog")
    assert len(found.split()) > 10_000


def test_empty_input_gives_empty_output(translate: Translate) -> None:
    assert translate(b"") == Done(0, b"", "")
    assert translate(b"\n").lines == [""]
    assert translate(b"\n\n").lines == ["", ""]


def test_invalid_utf8_is_refused_on_request(translate: Translate) -> None:
    done = translate(b"gato\n\xff\n", "--invalid", "refuse")
    assert (done.code, done.out) == (2, b"")
    words = (
        "line 2: not UTF-8 (byte 0xff at 0); convert it with iconv -f ENCODING -t UTF-8 < OLD > NEW"
    )
    assert done.err.startswith(f"seq2seq: {words}")
    done = translate("gato\n".encode("utf-16"))  # of which nothing could be used
    assert (done.code, done.out) == (2, b"")
    assert done.err.endswith(
        "; it is UTF-16: convert it with iconv -f UTF-16 -t UTF-8 < OLD > NEW\n"
    )


def test_endless_line_is_refused(translate: Translate) -> None:
    done = translate(b"perro\n" + b"x" * (MAX_LINE_BYTES + 1))
    assert done.code == 2
    assert done.err.startswith(f"seq2seq: line 2: more than {MAX_LINE_BYTES} bytes without a line")


@pytest.mark.parametrize("name", ["input", "output"])
def test_closed_stream_is_named(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"gato\n")))
    monkeypatch.setattr(sys, f"std{name.removesuffix('put')}", None)
    assert cli.main(["translate", str(trained)]) == 2
    words = f"seq2seq: standard {name} is closed; name a file with --{name}\n"
    assert capsys.readouterr().err == words


def test_full_output_device(trained: Path) -> None:
    command = f"{sys.executable} -m seq2seq translate {trained} > /dev/full"
    done = subprocess.run(
        ["bash", "-c", command], input="gato\n", capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "seq2seq: No space left on device\n")

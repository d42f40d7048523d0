"""The command that prepares corpora: what it writes, says and refuses."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corpora import sample
from corpora.tatoeba.prepare import prepare_tatoeba
from prepare_data import main
from seq2seq.config import CorpusConfig
from seq2seq.data.cleaning import HeldOut
from seq2seq.data.corpus import read_corpus
from seq2seq.files import sha256

TATOEBA = Path(__file__).parents[2] / "shared/data/tatoeba-es-en"
TEXT = "".join(f"Sentence {n}.\tFrase {n}.\tCC-BY 2.0 #{n}\n" for n in range(40))


def zipped(path: Path, text: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("spa-eng/_about.txt", "about")
        bundle.writestr("spa-eng/spa.txt", text)
    return path


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    def run(*arguments: str) -> tuple[int, str, str]:
        status = main([*arguments, "--out", str(tmp_path / "out")])
        printed = capsys.readouterr()
        return status, printed.out, printed.err

    return run


def tatoeba(source: str | Path, *more: str) -> list[str]:
    return ["tatoeba", str(source), "--valid", "5", "--test", "5", *more]


def tarred(path: Path, text: str) -> Path:
    with tarfile.open(path, f"w:{path.suffix.removeprefix('.')}") as bundle:
        for name, content in (("spa-eng/_about.txt", "about"), ("spa-eng/spa.txt", text)):
            info = tarfile.TarInfo(name)
            info.size = len(content.encode())
            bundle.addfile(info, io.BytesIO(content.encode()))
    return path


@pytest.mark.parametrize("name", ["spa-eng.zip", "spa.txt", "spa-eng.tar.gz", "spa-eng.tar.xz"])
def test_tatoeba_from_a_file(tmp_path: Path, call: Call, name: str) -> None:
    text = TEXT + "Sentence 1.\tFrase 1.\n\nNothing.\t\n"
    source = tmp_path / name
    if name.endswith(".zip"):
        zipped(source, text)
    elif ".tar." in name:
        tarred(source, text)
    else:
        source.write_text(text, encoding="utf-8")
    status, out, _ = call(*tatoeba(source))
    assert status == 0
    folder = tmp_path / "out"
    names = {entry.name for entry in folder.iterdir()}
    assert names == {"train.tsv", "valid.tsv", "test.tsv", "metadata.json"}
    train, valid, test = (rows(folder / f"{side}.tsv") for side in ("train", "valid", "test"))
    assert (len(train), len(valid), len(test)) == (30, 5, 5)
    assert sorted(train + valid + test) == sorted(
        [f"Frase {n}.", f"Sentence {n}."] for n in range(40)
    )
    metadata = json.loads((folder / "metadata.json").read_text())
    assert metadata["source"] == name
    assert metadata["sha256"] == sha256(source)
    assert "CC BY 2.0" in metadata["licence"]
    assert metadata["pairs"]["read"] == 42
    assert metadata["pairs"]["dropped"]["duplicate"] == 1
    assert metadata["pairs"]["dropped"]["empty side"] == 1
    for words in ("read", "duplicate", "40 groups", "train.tsv 30 rows", "licence"):
        assert words in out


def test_multi30k_from_a_clone(tmp_path: Path, call: Call) -> None:
    texts = {
        "train": (
            "Ein Hund in einer \tFontäne.\nZwei  Männer.\n",
            "A dog in a fountain.\nTwo men.\n",
        ),
        "val": ("Ein Kind.\n", "A child.\n"),
        "test_2016_flickr": ("Ein Haus.\n", "A house.\n"),
        "test_2017_flickr": ("Ein Boot.\n", "A boat.\n"),
    }
    raw = tmp_path / "clone/data/task1/raw"
    raw.mkdir(parents=True)
    for text, sides in texts.items():
        for language, content in zip(("de", "en"), sides, strict=True):
            (raw / f"{text}.{language}.gz").write_bytes(gzip.compress(content.encode()))
        (raw / f"{text}.fr.gz").write_bytes(gzip.compress(b"Une phrase.\n"))
    status, out, _ = call("multi30k", str(tmp_path / "clone"))
    assert status == 0
    folder = tmp_path / "out"
    assert rows(folder / "train.tsv") == [
        ["Ein Hund in einer Fontäne.", "A dog in a fountain."],
        ["Zwei Männer.", "Two men."],
    ]
    assert rows(folder / "valid.tsv") == [["Ein Kind.", "A child."]]
    assert rows(folder / "test_2016_flickr.tsv") == [["Ein Haus.", "A house."]]
    assert rows(folder / "test_2017_flickr.tsv") == [["Ein Boot.", "A boat."]]
    metadata = json.loads((folder / "metadata.json").read_text())
    assert list(metadata["rows"].values()) == [2, 1, 1, 1]
    assert metadata["columns"] == ["de", "en"]
    assert "train.tsv 2 rows" in out
    status, again, _ = call("multi30k", str(raw), "--force")
    assert (status, again) == (0, out)


@pytest.mark.parametrize("parts", [["train.{}"], ["train.{}.000", "train.{}.001"]])
def test_japanese_from_a_clone_has_no_spaces(tmp_path: Path, call: Call, parts: list[str]) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in (*parts, "dev.{}", "test.{}", "train.{}.vocab"):
        (clone / name.format("en")).write_text("i 'm in the club .\n")
        (clone / name.format("ja")).write_text("私 は 部員 で す 。\n", encoding="utf-8")
    assert call("enja", str(clone))[0] == 0
    row = ["i 'm in the club .", "私は部員です。"]
    assert rows(tmp_path / "out/train.tsv") == [row] * len(parts)
    assert rows(tmp_path / "out/valid.tsv") == rows(tmp_path / "out/test.tsv") == [row]


def test_folder_that_is_no_clone(tmp_path: Path, call: Call) -> None:
    status, _, err = call("multi30k", str(tmp_path))
    assert status == 2
    assert "no train.de; pass a clone: git clone https://github.com/multi30k/dataset" in err
    (tmp_path / "out").mkdir()
    (tmp_path / "out/train.tsv").touch()
    status, _, err = call("enja", str(tmp_path / "gone"))
    assert status == 2
    assert f"{tmp_path / 'gone'}: no such folder; pass a clone: git clone" in err
    (tmp_path / "out/train.tsv").unlink()
    (tmp_path / "train.en").write_text("a .\n")
    status, _, err = call("enja", str(tmp_path))
    assert status == 2
    assert f"{tmp_path / 'train.ja'}: no such file" in err
    assert not (tmp_path / "out/train.tsv").exists()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers every request with the bytes that its server was given."""

    content: bytes
    requests: list[str]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.requests.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)


def test_tatoeba_from_an_address(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    content = zipped(tmp_path / "a.zip", TEXT).read_bytes()
    requests: list[str] = []
    handler = type("OneFile", (Handler,), {"content": content, "requests": requests})
    checksum = ["--sha256", hashlib.sha256(content).hexdigest()]
    folder = tmp_path / "out"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        url = f"http://127.0.0.1:{server.server_address[1]}/anki/spa-eng.zip?x=1"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        status, out, _ = call(*tatoeba(url, *checksum))
        again, out_again, _ = call(*tatoeba(url, *checksum, "--force"))
        server.shutdown()
        thread.join()
    assert (status, again) == (0, 0)
    assert "downloading" in out
    assert "already exists; using it" in out_again
    assert requests == ["/anki/spa-eng.zip?x=1"]
    assert (folder / "spa-eng.zip").read_bytes() == content
    assert json.loads((folder / "metadata.json").read_text())["source"] == url


def test_nothing_is_overwritten_without_force(tmp_path: Path, call: Call) -> None:
    source = tmp_path / "spa.txt"
    source.write_text(TEXT)
    assert call(*tatoeba(source))[0] == 0
    before = (tmp_path / "out/test.tsv").read_bytes()
    status, _, err = call(*tatoeba(source, "--seed", "2"))
    assert status == 2
    assert "has train.tsv, valid.tsv, test.tsv, metadata.json already" in err
    assert (tmp_path / "out/test.tsv").read_bytes() == before
    assert call(*tatoeba(source, "--seed", "2", "--force"))[0] == 0
    assert (tmp_path / "out/test.tsv").read_bytes() != before


@pytest.mark.parametrize(
    ("content", "more", "message"),
    [
        (None, [], "no such file"),
        (b"", [], "an empty file"),
        (b"Hello.\n", [], "spa.txt:1: 1 column"),
        ("Hello.\tAdiós.\n".encode("latin-1"), [], "spa.txt:1: not UTF-8"),
        (b"Hello.\tHola.\n", [], "too few"),
        (TEXT.encode(), ["--valid", "90"], "too few"),
        (TEXT.encode(), ["--sha256", "abc"], "64 hexadecimal digits"),
        (TEXT.encode(), ["--sha256", "0" * 64], "it is another file"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, call: Call, content: bytes | None, more: list[str], message: str
) -> None:
    source = tmp_path / "spa.txt"
    if content is not None:
        source.write_bytes(content)
    status, _, err = call(*tatoeba(source, *more))
    assert status == 2
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "out/train.tsv").exists()


def test_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "spa.txt").write_text(TEXT)
    (tmp_path / "file").write_text("")
    assert main([*tatoeba(tmp_path / "spa.txt"), "--out", str(tmp_path / "file/out")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_failed_write_leaves_nothing(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spa.txt").write_text(TEXT)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    status, _, err = call(*tatoeba(tmp_path / "spa.txt"))
    assert status == 1
    assert "No space left" in err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nosuch"],
        ["tatoeba"],
        ["tatoeba", "a", "--valid", "0"],
        ["tatoeba", "a", "--test", "x"],
    ],
)
def test_wrong_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("prepare_data.py")
    assert err.endswith("--help)\n")
    assert err.count("\n") == 1


def test_interrupt(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("prepare_data.prepare_tatoeba", interrupt)
    assert call("tatoeba", "a") == (130, "", "")


def test_sample_passes_its_options_on(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Path, dict[str, int]]] = []

    def write_sample(directory: Path, **keys: int) -> str:
        calls.append((directory, keys))
        return "a summary"

    monkeypatch.setattr(sample, "write_sample", write_sample)
    status, out, _ = call("sample", "--seed", "3", "--train", "20")
    assert status == 0
    assert out == "a summary\n"
    assert call("sample")[0] == 0
    sizes = {"valid": 1_000, "test": 1_000}
    assert calls == [
        (tmp_path / "out", {"seed": 3, "train": 20, **sizes}),
        (tmp_path / "out", {"seed": 1, "train": 48_000, **sizes}),
    ]


def test_sample_shows_pairs_without_writing(tmp_path: Path, call: Call) -> None:
    status, out, _ = call("sample", "--show", "3", "--seed", "3", "--links")
    assert status == 0
    lines = out.splitlines()
    assert len(lines) == 9
    first = next(sample.generate(3))
    links = " ".join(f"{i}-{j}" for i, j in first.alignment)
    assert lines[:3] == [first.source, f"    {first.target}", f"    {links}"]
    assert not (tmp_path / "out").exists()
    status, _, err = call("sample", "--links")
    assert (status, err) == (2, "prepare_data.py: --links requires --show N\n")


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="the shared corpus is not here")
def test_real_pairs_split_without_leak(tmp_path: Path) -> None:
    with (TATOEBA / "train.tsv").open(encoding="utf-8") as stream:
        lines = [
            line.rstrip("\n").split("\t") for line, _ in zip(stream, range(8000), strict=False)
        ]
    source = tmp_path / "spa.txt"
    source.write_text("".join(f"{english}\t{spanish}\n" for spanish, english in lines))
    shown: list[str] = []
    prepare_tatoeba(str(source), tmp_path, valid=200, test=200, show=shown.append)
    sides = {
        side: list(read_corpus(CorpusConfig(path=str(tmp_path / f"{side}.tsv"), references=True)))
        for side in ("train", "valid", "test")
    }
    held_out = HeldOut()
    held_out.add("test", sides["test"])
    assert not any(held_out.overlap(pair) for pair in sides["train"] + sides["valid"])
    held_out.add("valid", sides["valid"])
    assert not any(held_out.overlap(pair) for pair in sides["train"])
    assert len(shown) > 8

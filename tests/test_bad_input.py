"""User errors, each with its exit code and a line that says where it is and how to fix it.

Errors in command-line arguments are in test_cli.py.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from conftest import ToyCorpus
from foreign import alter_config, alter_header, alter_state, checkpoint_of, copy_run, seal

from seq2seq import cli, pipeline
from seq2seq.errors import exit_status
from seq2seq.inference.translator import Translator

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


@dataclass(frozen=True)
class Place:
    """A folder to break things in, with a recipe of the toy language and a run."""

    folder: Path
    toy: ToyCorpus
    trained: Path

    def train(self, *overrides: str, old: str = "run_dir", new: str = "run_dir") -> list[str]:
        """Return the command that trains the recipe, with some text replaced."""
        text = self.toy.recipe(self.folder / "new")
        assert old in text
        (self.folder / "toy.yaml").write_text(text.replace(old, new, 1))
        return ["train", f"{self.folder}/toy.yaml", *overrides]

    def corpus(
        self, content: bytes | str, name: str = "bad.tsv", key: str = "train.0"
    ) -> list[str]:
        """Return the command that trains on a corpus with this content."""
        return self.train(f"data.{key}.path={self.write(name, content)}")

    def evaluate(self, content: str, *more: str) -> list[str]:
        return ["evaluate", str(self.trained), self.write("test.tsv", content), *more]

    def translate(self, *more: str) -> list[str]:
        return ["translate", str(self.trained), "-i", self.write("lines", "gato\n"), *more]

    def write(self, name: str, content: bytes | str) -> str:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)


@pytest.fixture
def place(tmp_path: Path, toy: ToyCorpus, trained: Path) -> Place:
    return Place(tmp_path, toy, trained)


def check(arguments: list[str], code: int, words: str, errors: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == code
    err = errors.readouterr().err
    assert "Traceback" not in err
    (line,) = [line for line in err.splitlines() if line.startswith("seq2seq: ")]
    assert re.search(words, err), err
    assert len(line) < 600


Case = tuple[str, Callable[[Place], list[str]], str]

RECIPES: list[Case] = [
    ("unknown key", lambda p: p.train(new="color: blue\nrun_dir"),
     "color: unknown key; known keys: run_dir, data"),
    ("misspelled key", lambda p: p.train(old="ema:", new="emma:"),
     r"training\.emma: unknown key; did you mean ema\?"),
    ("misspelled value", lambda p: p.train(old="kind: plateau", new="kind: plato"),
     "training.schedule.kind: expected one of .* did you mean plateau"),
    ("wrong type", lambda p: p.train(old="max_steps: 20", new="max_steps: many"),
     'training.max_steps: expected an integer, found "many"'),
    ("not a number", lambda p: p.train(old="ema: 0.9", new="ema: .nan"),
     "training.ema: expected a finite number, found NaN"),
    ("infinite", lambda p: p.train(old="rate: 1e-2", new="rate: 1e999"),
     "training.learning_rate: expected a finite number"),
    ("too many digits", lambda p: p.train(old="max_steps: 20", new="max_steps: " + "9" * 5000),
     "not valid YAML: line .*: a number with 5000 digits"),
    ("too large", lambda p: p.train(old="decoder_size: 24", new="decoder_size: 1000000000"),
     "model.decoder_size: expected 65536 or less, found 1000000000"),
    ("seed too large", lambda p: p.train(f"training.seed={10**40}"),
     "training.seed: expected 2147483647 or less"),
    ("sizes that do not fit", lambda p: p.train(old="{size: 24}", new="{score: dot}"),
     "attention.score dot requires .* decoder_size is 24 and the key size 48; set attention.key_"),
    ("keys that do not fit", lambda p: p.train("model.joint_embeddings=true"),
     "model.joint_embeddings requires data.tokenizer.joint=true"),
    ("half a choice", lambda p: p.train("training.schedule={kind: inverse_sqrt}"),
     "schedule.kind inverse_sqrt requires schedule.warmup_steps >= 1"),
    ("no language", lambda p: p.train(old="  target_language: en\n", new=""),
     "data.target_language: missing required key; set it to the ISO 639 code .* such as es"),
    ("name of a language", lambda p: p.train("data.source_language=japanese"),
     "data.source_language: 'japanese' is not the code of that language; use ja"),
    ("not YAML", lambda p: p.train(new="a: [1\nrun_dir"),
     r"toy.yaml: not valid YAML: line \d+, column \d+"),
    ("billion laughs", lambda p: p.train(new=f"{LAUGHS}run_dir"),
     r"aliases \(\*\) expand to more than 100000 values"),
    ("an object of Python", lambda p: p.train(new="x: !!python/object/apply:os.getcwd []\nrun_dir"),
     "could not determine a constructor for the tag .*python/object/apply"),
    ("a value against its tag", lambda p: p.train(old="ema: 0.9", new="ema: !!bool maybe"),
     "a value does not match its tag"),
    ("NUL in a path", lambda p: p.train(r'run_dir="a\0b"'), "run_dir: contains a NUL character"),
    ("an endless recipe", lambda p: ["train", "/dev/zero"], "/dev/zero: larger than 1048576 bytes"),
    ("a binary recipe", lambda p: ["train", p.write("a.yaml", bytes(range(256)))],
     "a.yaml: not UTF-8 text .byte 0x80 at offset 128"),
    ("run_dir is a file", lambda p: p.train(f"run_dir={p.folder}/toy.yaml"),
     "run_dir: .*toy.yaml cannot be written .*; choose another"),
]  # fmt: skip

CORPORA: list[Case] = [
    ("missing", lambda p: p.train("data.train.0.path=none.tsv"),
     r"none.tsv: no such file; check data.train.0.path or prepare it as in README.md"),
    ("missing side", lambda p: p.train("data.train.1={format: aligned, source_path: "
     f"{p.toy.folder}/train.tsv, target_path: none.tsv}}"),
     "none.tsv: no such file; check data.train.1.target_path"),
    ("missing validation set", lambda p: p.train("data.valid.path=none.tsv"),
     "none.tsv: no such file; check data.valid.path"),
    ("missing test set", lambda p: p.train("data.test.path=none.tsv"),
     "none.tsv: no such file; check data.test.path"),
    ("a folder", lambda p: p.train(f"data.train.0.path={p.folder}"),
     "a directory; name a file in it"),
    ("empty", lambda p: p.corpus(""),
     "bad.tsv: an empty file; one sentence pair per line is expected"),
    ("blank", lambda p: p.corpus("\n\n"),
     "bad.tsv:2: blank lines only; rows of tab-separated columns are"),
    ("binary", lambda p: p.corpus(bytes(range(256))),
     "bad.tsv:1: a NUL byte at byte 0; this is binary data"),
    ("NUL", lambda p: p.corpus("a\tb\nc\0\td\n"),
     "bad.tsv:2: a NUL byte at byte 5; .* is expected"),
    ("latin-1", lambda p: p.corpus("a\tb\nñ\tn\n".encode("latin-1")),
     "bad.tsv:2: not UTF-8: byte 0xf1 at byte 4; convert it with iconv -f ENC"),
    ("UTF-16", lambda p: p.corpus("a\tb\n".encode("utf-16")),
     "bad.tsv:1: not UTF-8: byte 0xff at byte 0; it is UTF-16: convert it with iconv -f UTF-16 -t"),
    ("UTF-32", lambda p: p.corpus("a\tb\n".encode("utf-32")),
     "bad.tsv:1: not UTF-8: .*; it is UTF-32: convert it with iconv -f UTF-32 -t"),
    ("Shift-JIS", lambda p: p.corpus("猫\tcat\n".encode("shift_jis")),
     "bad.tsv:1: not UTF-8: .*, where ENCODING is what it was saved in, such as latin1, shift_jis"),
    ("ragged", lambda p: p.corpus("a\tb\nc\n"), "bad.tsv:2: 1 column, but 'target: 1' needs 2"),
    ("malformed lines", lambda p: p.corpus("a\tb\nc\n" * 20),
     "bad.tsv:2: 1 column, .*; 20 lines are malformed: 2, 4, .*, 20, ..."),
    ("CSV", lambda p: [*p.corpus('es,en\na,"b', "a.csv"), "data.train.0.format=csv",
     "data.train.0.source=es", "data.train.0.target=en"], "a.csv:2: not CSV .unexpected end of"),
    ("semicolons", lambda p: [*p.corpus("es;en\na,b;c\n", "a.csv"), "data.train.0.format=csv"],
     "a.csv:1: columns separated by semicolons, and commas are expected; save it with commas, or"),
    ("quoted semicolons",
     lambda p: [*p.corpus('"es";"en"\n"a";"b"\n', "a.csv"), "data.train.0.format=csv"],
     "a.csv:1: columns separated by semicolons, and commas are expected; save it with commas, or"),
    ("damaged", lambda p: p.corpus(gzip.compress(b"a\tb\n" * 99)[:-5], "a.tsv.gz"),
     "a.tsv.gz: damaged compressed data .*; download or compress the file again"),
    ("JSON lines", lambda p: [*p.corpus('{"es": "a"}\n', "a.jsonl"), "data.train.0.format=jsonl",
     "data.train.0.source=es", "data.train.0.target=en"], "a.jsonl:1: no field 'en'; fields: es"),
    ("all dropped", lambda p: p.corpus("a\t\n"), "data.train: none of 1 pairs is left; loosen"),
    ("unequal line counts", lambda p: p.train("data.train.0={format: aligned, source_path: "
     f"{p.write('es', 'a' + chr(10))}, target_path: {p.write('en', 'a' + chr(10) + 'b')}}}"),
     "es has 1 line but .*en has 2 lines; line n of one must translate line n of the other"),
    ("empty validation set", lambda p: p.corpus("", key="valid"), "bad.tsv: an empty file"),
    ("half a validation set", lambda p: p.corpus("a\t\n", key="valid"),
     "data.valid: no pairs with text on both sides"),
    ("empty test set", lambda p: p.corpus("", key="test"), "bad.tsv: an empty file"),
    ("trained and tested on", lambda p: p.train(f"data.test.path={p.toy.folder}/train.tsv"),
     r"data.test: .*train.tsv is the same as data.train.0 \(.*\); scores on training"),
    ("tested on a copy", lambda p: p.corpus((p.toy.folder / "train.tsv").read_bytes(), key="test"),
     "data.test: .*bad.tsv is the same as data.train.0 .*train.tsv"),
    ("nothing to score", lambda p: p.evaluate(""), "test.tsv: an empty file"),
    ("blanks to score", lambda p: p.evaluate("\n"), "test.tsv:1: blank lines only"),
    ("half a test set", lambda p: p.evaluate("gato\n"), "test.tsv:1: 1 column, but 'target: 1'"),
    ("too few to resample", lambda p: p.evaluate(
        "gato come pan agua\tcat eats bread water\ngato\tx\n", "--confidence"),
     "2 sentences are too few for an interval of .*, which is 0 in .*; .* give more sentences"),
    ("unequal sides", lambda p: p.evaluate("a\nb\n", "--target", p.write("en", "a\n")),
     "test.tsv has 2 lines but .*en has 1 line; line n"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), [pytest.param(*c[1:], id=c[0]) for c in RECIPES])
def test_invalid_recipes(
    place: Place, capfd: pytest.CaptureFixture[str], make: Callable[[Place], list[str]], words: str
) -> None:
    check(make(place), 2, words, capfd)
    assert not (place.folder / "new").exists()


@pytest.mark.parametrize(("make", "words"), [pytest.param(*c[1:], id=c[0]) for c in CORPORA])
def test_invalid_corpora(
    place: Place, capfd: pytest.CaptureFixture[str], make: Callable[[Place], list[str]], words: str
) -> None:
    check(make(place), 2, words, capfd)
    assert not (place.folder / "new").exists()


RUNS: list[tuple[str, Callable[[Path], object], str]] = [
    ("no config", lambda run: (run / "config.yaml").unlink(),
     "not a run directory .no config.yaml"),
    ("config of another version", lambda run: alter_config(run, "ema:", "amount:"),
     r"config.yaml: training.amount: unknown key.*trained by another version"),
    ("damaged config", lambda run: alter_config(run, "training:", "training"),
     "config.yaml: not valid YAML"),
    ("checkpoint of another version",
     lambda run: alter_state(run, lambda state: state.update(version=9)),
     "step-000150: checkpoint format 9, but this program reads format 1"),
    ("no checkpoint", lambda run: shutil.rmtree(run / "checkpoints"),
     "checkpoints: no intact checkpoint; train the run first"),
    ("no checksums", lambda run: (checkpoint_of(run) / "SHA256SUMS").unlink(),
     "step-000150: incomplete checkpoint .SHA256SUMS: No such file"),
    ("no weights", lambda run: (checkpoint_of(run) / "model.safetensors").unlink(),
     "step-000150: incomplete checkpoint, model.safetensors is missing"),
    ("damaged weights", lambda run: os.truncate(checkpoint_of(run) / "model.safetensors", 5000),
     "step-000150: damaged, model.safetensors does not match its checksum"),
    ("a state that is none", lambda run: alter_state(run, lambda _: [1]),
     "checkpoint format None"),
    ("a state without step",
     lambda run: alter_state(run, lambda state: state.update(step=None)),
     "step-000150: damaged, its step or validation metrics are not numbers"),
    ("metrics that are none",
     lambda run: alter_state(run, lambda state: state.update(validation={"bleu": "high"})),
     "damaged, its step or validation metrics are not numbers; use another checkpoint"),
    ("an endless state", lambda run: (
        (checkpoint_of(run) / "state.json").write_text("[" * 100_000), seal(checkpoint_of(run))),
     "step-000150: damaged, state.json: "),
    ("weights of another size", lambda run: alter_config(run, "encoder_size: 24",
     "encoder_size: 32"),
     r"step-000150: .* has the shape \(.*\), but the config asks for \("),
    ("weights of another model", lambda run: alter_config(run, "style: bahdanau", "style: luong"),
     r"step-000150: weights do not match the config: missing \["),
    ("weights of other names", lambda run: alter_header(
        run, lambda header: header.update(bias=header.pop("output_bias"))),
     r"weights do not match the config: missing \['output_bias'\]"),
    ("no tokenizer", lambda run: (run / "source.model").unlink(),
     "source.model: cannot be read .No such file"),
    ("garbage for a tokenizer", lambda run: (run / "target.model").write_bytes(os.urandom(9999)),
     "target.model: tokenizer: not a SentencePiece model, or damaged"),
]  # fmt: skip


@pytest.mark.parametrize("by", ["run", "checkpoint"])
@pytest.mark.parametrize(("spoil", "words"), [pytest.param(*c[1:], id=c[0]) for c in RUNS])
def test_invalid_runs(
    place: Place,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], object],
    words: str,
    by: str,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.folder))  # which has no graphs of the weights
    run = copy_run(place.trained, place.folder / "run")
    spoil(run)
    named = (
        run
        if by == "run" or not (checkpoint_of(run) / "model.safetensors").exists()
        else (checkpoint_of(run))
    )
    check(["translate", str(named), "-i", place.write("lines", "gato\n")], 2, words, capfd)


def test_resume_without_usable_checkpoint(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    run = copy_run(place.trained, place.folder / "run")
    os.truncate(checkpoint_of(run) / "training.safetensors", 5000)
    arguments = ["train", str(run / "config.yaml"), f"run_dir={run}", "--resume"]
    check(arguments, 2, "checkpoints: no intact checkpoint; train the run first", capfd)


OUTPUTS: list[Case] = [
    ("missing folder", lambda p: p.translate("-o", f"{p.folder}/none/out"),
     "none/out: cannot be written"),
    ("a folder", lambda p: p.translate("-o", str(p.folder)), "cannot be written .Is a directory"),
    ("below a file", lambda p: p.translate("-o", "/dev/null/out"),
     "/dev/null/out: cannot be written"),
    ("hypotheses", lambda p: p.evaluate("gato\tcat\n", "-o", f"{p.folder}/none/out"),
     "none/out: cannot be written .No such file or directory"),
    ("a report", lambda p: p.evaluate("gato\tcat\n", "--report", p.write("file", "")),
     "file: cannot be written .File exists.; choose another path"),
    ("a fault gallery", lambda p: ["faults", str(p.trained), "--out", p.write("file", "")],
     "file: cannot be written .File exists.; choose another path"),
    ("links of an alignment",
     lambda p: ["align", *p.evaluate("gato\tcat\n")[1:], "-o", f"{p.folder}/none/out"],
     "none/out: cannot be written"),
    ("a comparison", lambda p: ["compare", str(p.trained), f"{p.trained}/checkpoints/average",
     p.write("test.tsv", "gato\tcat\n"), "--html", f"{p.folder}/none/out"],
     "none/out: cannot be written"),
    ("hypotheses in the test set",
     lambda p: p.evaluate("gato\tcat\n", "-o", f"{p.folder}/test.tsv"),
     "test.tsv: would overwrite /.*test.tsv; choose another file"),
    ("hypotheses in the minimal pairs",
     lambda p: ["evaluate", str(p.trained), "--challenge",
                (path := p.write("pairs", "a\tgato\tcat\tdog\n")), "-o", path],
     "pairs: would overwrite"),
    ("links in the corpus",
     lambda p: ["align", *p.evaluate("gato\tcat\n")[1:], "-o", f"{p.folder}/test.tsv"],
     "test.tsv: would overwrite"),
    ("a comparison in the test set",
     lambda p: ["compare", str(p.trained), f"{p.trained}/checkpoints/average",
                (path := p.write("test.tsv", "gato\tcat\n")), "--html", path],
     "test.tsv: would overwrite"),
    ("a picture", lambda p: ["plot", "length", str(p.trained), "--test",
     p.write("test.tsv", "gato\tcat\n"), "-o", f"{p.folder}/none/out.png"],
     "none/out.png: cannot be written"),
    ("a picture of attention",
     lambda p: ["plot", "attention", str(p.trained), "gato", "-o", f"{p.folder}/none/out.png"],
     "none/out.png: cannot be written"),
    ("hypotheses in a folder", lambda p: p.evaluate("gato\tcat\n", "-o", str(p.folder)),
     "cannot be written .Is a directory"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), [pytest.param(*c[1:], id=c[0]) for c in OUTPUTS])
def test_outputs_are_checked_before_the_work(
    place: Place,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[Place], list[str]],
    words: str,
) -> None:
    for work in ("translate", "force_decode"):
        monkeypatch.setattr(Translator, work, lambda *_, **__: pytest.fail("worked in vain"))
    check(make(place), 2, words, capfd)


def test_run_dir_is_checked_before_corpora_are_read(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "load_pairs", lambda _: pytest.fail("read in vain"))
    arguments = place.train("run_dir=/dev/null/a/run")
    check(arguments, 2, "run_dir: /dev/null/a/run cannot be written .Not a directory.", capfd)


def test_full_disk_is_a_fault(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    check(place.translate("-o", "/dev/full"), 1, "No space left on device", capfd)
    check(place.evaluate("gato\tcat\n", "-o", "/dev/full"), 1, "No space left on device", capfd)


def test_output_to_device_or_pipe_is_kept(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    pipe = place.folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert cli.main(place.evaluate("gato\tcat\n", "-o", str(pipe))) == 0
    assert os.read(reader, 100) == b"cat\n"
    os.close(reader)
    assert pipe.is_fifo()


def test_out_of_memory_is_a_fault_and_bugs_show_a_traceback(
    place: Place, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhaust(*_: object, **__: object) -> None:
        torch.empty(1 << 60, dtype=torch.uint8)

    monkeypatch.setattr(Translator, "translate", exhaust)
    check(place.translate(), 1, "out of memory; reduce .* --beam", capfd)
    for error in (MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried")):
        assert exit_status(error) == exit_status(MemoryError())

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(Translator, "translate", fail)
    with pytest.raises(ValueError, match="a bug"):
        cli.main(place.translate())


def test_os_errors_of_paths_are_user_errors_others_faults() -> None:
    assert exit_status(FileNotFoundError(2, "No such file", "a\nb")) == (2, "a b: No such file")
    assert exit_status(PermissionError(13, "Permission denied", "a")) == (2, "a: Permission denied")
    assert exit_status(OSError(5, "Input/output error", "a")) == (1, "a: Input/output error")
    assert exit_status(OSError("odd")) == (1, "odd")
    assert exit_status(KeyError("a")) is None


def test_messages_escape_control_characters(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = place.train(new='"\\e[2J\\u202e": 1\nrun_dir')
    check(arguments, 2, r"toy.yaml: \\x1b\[2J\\u202e: unknown key", capfd)

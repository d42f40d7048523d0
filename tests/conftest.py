"""A toy language pair, and runs trained on it in seconds."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import properties  # noqa: F401
import pytest
import torch
from foreign import copy_run
from hypothesis import settings
from processes import Server

from seq2seq.config import Config, parse_config
from seq2seq.errors import UserError
from seq2seq.export import export
from seq2seq.files import locked
from seq2seq.pipeline import train
from seq2seq.serving.static import export_web, packages

LEXICON = {
    "perro": "dog", "gato": "cat", "niño": "boy", "pan": "bread", "agua": "water", "casa": "house",
    "rojo": "red", "grande": "big", "come": "eats", "ve": "sees", "quiere": "wants", "él": "he",
}  # fmt: skip
JAPANESE = {
    "dog": "犬", "cat": "猫", "boy": "少年", "bread": "パン", "water": "水", "house": "家",
    "red": "赤い", "big": "大きい", "eats": "食べる", "sees": "見る", "wants": "ほしい", "he": "彼",
}  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    asked = "fuzz" in config.option.markexpr and "not fuzz" not in config.option.markexpr
    settings.load_profile("fuzz" if asked else "usual")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.fuzz)
    # Files with slow tests come first: in the end, processes share what is left, which is short.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@dataclass(frozen=True)
class ToyCorpus:
    """Files of word-for-word translations."""

    folder: Path

    def recipe(self, run_dir: Path) -> str:
        """Return a recipe that learns them, with everything random switched on."""
        return f"""
run_dir: {run_dir}
data:
  source_language: es
  target_language: en
  train: [{{path: {self.folder}/train.tsv}}]
  valid: {{path: {self.folder}/valid.tsv}}
  test: {{path: {self.folder}/test.tsv, references: true}}
  tokenizer: {{source_vocab_size: 330, target_vocab_size: 330}}
  batching: {{unit: sentences, size: 16, window: 100}}
  word_dropout: 0.02
model:
  embedding_size: 24
  encoder_size: 24
  decoder_size: 24
  attention: {{size: 24}}
  init: scaled
  dropout: 0.1
training:
  precision: fp32
  device: cpu
  max_steps: 20
  learning_rate: 1e-2
  accumulate: 2
  ema: 0.9
  scheduled_sampling: 0.2
  scheduled_sampling_steps: 20
  label_smoothing: 0.1
  schedule: {{kind: plateau, warmup_steps: 5, plateau_patience: 0}}
  log_every: 3
  validate_every: 6
  checkpoint_every: 4
  validation_sentences: 10
  tensorboard: false
inference:
  max_source_length: 24
  beam_size: 3
"""

    def config(self, run_dir: Path, *overrides: str) -> Config:
        """Return the recipe with overrides."""
        return parse_config(self.recipe(run_dir), overrides)


def toy_pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """Return sentences and their translations, word for word."""
    generator = random.Random(seed)
    words = list(LEXICON)
    sources = [generator.choices(words, k=generator.randint(1, 6)) for _ in range(count)]
    return [(" ".join(s), " ".join(LEXICON[word] for word in s)) for s in sources]


LEARNS = (
    "training.max_steps=150",
    "training.validate_every=50",
    "training.checkpoint_every=50",
    "training.scheduled_sampling=0",
    "training.schedule.kind=linear",
    "training.average=last",
)

torch.set_num_threads(1)  # before any fixture trains: the weights depend on it
os.fsync = os.fstat  # no test cuts the power, and each waits for the disks of all
# What is started in the background of a script ignores Ctrl-C, and so would all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of all processes of this test session."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def made_once(path: Path, make: Callable[[Path], object]) -> Path:
    """Return a folder, or what else is at a path, which the first process that needs it makes."""
    record = path.with_name(f"{path.name}.json")
    with locked(path.with_name(f"{path.name}.lock")):
        if not record.exists():
            make(path)
            record.write_text(json.dumps(_times(path)))
    return path


def to_read(path: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Yield a folder that is made once, and check in the end that no test has changed it.

    Tests that change something in it work on a copy.
    """
    yield made_once(path, make)
    made = json.loads(path.with_name(f"{path.name}.json").read_text())
    assert _times(path) == made, f"a test has changed {path}"


def _times(folder: Path) -> dict[str, int]:
    """Return when each file of a folder was changed."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in files}


@pytest.fixture(autouse=True, scope="session")
def _cache(shared: Path) -> Iterator[None]:
    """Keep prepared data out of the home folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared / "cache"))
        yield


@pytest.fixture(autouse=True)
def _on_the_cpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide GPUs from all tests but those that have a `device`."""
    if "device" not in request.fixturenames:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    """Take away what the command line sets up, which writes to a stream that is closed by then.

    Also before a test: fixtures of a whole module have called commands.
    """
    root = logging.getLogger()

    def restore() -> None:
        root.handlers[:] = [h for h in root.handlers if type(h).__module__.startswith("_pytest.")]
        root.setLevel(logging.WARNING)

    restore()
    yield
    restore()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Start trainings in processes of their own."""
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def toy(shared: Path) -> Iterator[ToyCorpus]:
    """Return files of toy pairs."""

    def write(folder: Path) -> None:
        folder.mkdir()
        for seed, (name, count) in enumerate({"train": 400, "valid": 30, "test": 20}.items()):
            rows = ["\t".join(pair) for pair in toy_pairs(count, seed)]
            (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")

    yield from map(ToyCorpus, to_read(shared / "toy", write))


@pytest.fixture(scope="session")
def trained(toy: ToyCorpus, shared: Path) -> Iterator[Path]:
    """Return a run that has learned the toy language."""
    yield from to_read(shared / "trained", lambda path: train(toy.config(path, *LEARNS)))


@pytest.fixture(scope="session")
def japanese(shared: Path) -> Iterator[Path]:
    """Return a run that has learned to write the toy language in Japanese, without spaces."""

    def make(path: Path) -> None:
        folder = path.with_name("japanese-corpus")
        folder.mkdir()
        for seed, (name, count) in enumerate({"train": 400, "valid": 30, "test": 20}.items()):
            pairs = [
                (source, "".join(map(JAPANESE.get, target.split())))
                for source, target in toy_pairs(count, seed)
            ]
            rows = [f"{source}.\t{target}。\n" for source, target in pairs]
            (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")
        changes = ("data.target_language=ja", *LEARNS)
        train(ToyCorpus(folder).config(path, *changes))

    yield from to_read(shared / "japanese", make)


@pytest.fixture(scope="session")
def single(trained: Path, shared: Path) -> Iterator[Path]:
    """Return a copy of that run with only the last checkpoint."""
    yield from to_read(shared / "single", lambda path: copy_run(trained, path))


@pytest.fixture(scope="session")
def exported(trained: Path, shared: Path) -> Iterator[Path]:
    """Return an export of that run, which has ONNX files."""
    yield from to_read(shared / "exported", lambda path: export(trained, path))


@pytest.fixture(scope="session")
def other(toy: ToyCorpus, shared: Path) -> Iterator[Path]:
    """Return a run of the same tokenizers that has learned little."""
    changes = ("training.max_steps=12", "training.validate_every=12", "model.init=uniform")
    yield from to_read(shared / "other", lambda path: train(toy.config(path, *changes)))


@pytest.fixture(scope="session")
def libraries(shared: Path) -> Path:
    """Return a folder with the packages of `export --web`; skip where npm cannot get them."""

    def pack(path: Path) -> None:
        try:
            list(packages(path))
        except UserError as error:
            pytest.skip(str(error))

    return made_once(shared / "libraries", pack)


@pytest.fixture(scope="session")
def web(libraries: Path, shared: Path) -> Iterator[Path]:
    """Return the folder of `export --web es-en` in fp32, which the processor does not change."""

    def make(path: Path) -> None:
        export_web("es-en", path, "fp32", str(libraries))

    yield from to_read(shared / "web", make)

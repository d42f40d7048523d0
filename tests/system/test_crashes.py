"""Training killed again and again ends exactly like undisturbed training."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from conftest import ToyCorpus, to_read
from processes import Server, Training
from same_runs import assert_same

from seq2seq.runs.checkpoint import list_checkpoints

OVERRIDES = (
    "training.max_steps=200",
    "training.accumulate=1",
    "training.patience=5",
    "training.checkpoint_every=3",
    "training.validate_every=25",
    "training.validation_sentences=4",
    "training.log_every=1",
    "training.average=last",
    "training.keep_last=2",
    "training.keep_best=2",
    "model.variational_dropout=true",
)
# Suffixes of the directories that exist while a checkpoint is written or removed.
SIGNS = {"saving": ".partial", "removing": ".old"}


@dataclass
class Victim:
    """A run that is killed again and again."""

    server: Server
    recipe: Path
    path: Path
    overrides: tuple[str, ...] = OVERRIDES
    kills: int = 0
    left: set[str] = field(default_factory=set)  # suffixes that kills have left behind

    def start(self, setup: str = "") -> Training:
        """Start or resume the training."""
        how = ["--resume"] if (self.path / "config.yaml").exists() else []
        output = self.path.with_name(f"{self.path.name}.txt")
        arguments = ["train", self.recipe, f"run_dir={self.path}", *self.overrides, *how]
        return self.server.start(arguments, output, setup)

    def finish(self) -> None:
        """Train to the end, undisturbed."""
        training = self.start()
        assert training.wait() == 0, training.text()

    def kill(self, moment: str, generator: random.Random) -> bool:
        """Start the training and kill it at a moment; return whether it was still running."""
        training = self.start()
        if moment in SIGNS:
            for _ in range(generator.randint(1, 3)):
                self._await(SIGNS[moment], training)
            time.sleep(generator.choice([0.0, 0.0, 0.0005, 0.002]))
        else:
            time.sleep(generator.uniform(0.0, 0.6))
        training.send(signal.SIGKILL)
        return self.killed(training)

    def killed(self, training: Training) -> bool:
        """Return whether the training was killed; assert that all its checkpoints are intact."""
        code = training.wait()
        assert code in (0, -signal.SIGKILL), training.text()
        self.kills += code != 0
        for checkpoint in list_checkpoints(self.path / "checkpoints"):
            checkpoint.verify()
        self.left |= {sign for sign in SIGNS.values() if self._signs(sign)}
        return code != 0

    def _await(self, sign: str, training: Training) -> None:
        """Wait until a directory with the suffix appears anew."""
        for wanted in (False, True):
            look = time.monotonic()
            while bool(self._signs(sign)) != wanted:
                if time.monotonic() > look:
                    if training.code() is not None:
                        return
                    look = time.monotonic() + 0.02
                time.sleep(0.0001)  # a directory is there for milliseconds

    def _signs(self, sign: str) -> list[str]:
        try:
            names = os.listdir(self.path / "checkpoints")
        except FileNotFoundError:
            return []
        return [name for name in names if name.endswith(sign)]


@pytest.fixture(scope="module")
def recipe(toy: ToyCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crashes")
    path = folder / "toy.yaml"
    path.write_text(toy.recipe(folder / "run"))
    return path


@pytest.fixture(scope="module")
def straight(server: Server, recipe: Path, shared: Path) -> Iterator[Path]:
    """Return an undisturbed run of the same recipe."""
    yield from to_read(shared / "undisturbed", lambda path: Victim(server, recipe, path).finish())


def torment(victim: Victim, moments: list[str], straight: Path) -> None:
    """Kill a run at each of the moments; start another one if it ends before."""
    seed = int(os.environ.get("CRASH_SEED", random.randrange(2**32)))
    print(f"CRASH_SEED={seed}")
    generator = random.Random(seed)
    generator.shuffle(moments)
    first, number = victim.path, 0
    for moment in moments:
        while not victim.kill(moment, generator):
            assert_same(straight, victim.path)
            number += 1
            victim.path = first.with_name(f"{first.name}-{number}")
    victim.finish()
    assert_same(straight, victim.path)


def test_a_dozen_kills(server: Server, recipe: Path, straight: Path, tmp_path: Path) -> None:
    victim = Victim(server, recipe, tmp_path / "run")
    torment(victim, ["whenever", "saving", "removing"] * 4, straight)
    assert victim.kills == 12


@pytest.mark.slow
def test_dozens_of_kills(server: Server, recipe: Path, straight: Path, tmp_path: Path) -> None:
    victim = Victim(server, recipe, tmp_path / "run")
    torment(victim, ["whenever", "saving", "saving", "removing"] * 6, straight)
    assert victim.kills == 24
    assert victim.left >= {".partial"}


@pytest.mark.slow
def test_kill_at_every_call_of_saving(
    server: Server, recipe: Path, straight: Path, tmp_path: Path
) -> None:
    """Resuming, logging, and twice saving and pruning take some sixty calls."""
    victim = Victim(server, recipe, tmp_path / "run")
    for call in (150, *range(1, 65)):  # first until there are old checkpoints to remove
        assert victim.killed(victim.start(f"import faults; faults.die_at({call})"))
    assert victim.left == set(SIGNS.values())
    victim.finish()
    assert_same(straight, victim.path)


@pytest.mark.slow
def test_kill_at_every_call_of_starting(server: Server, recipe: Path, tmp_path: Path) -> None:
    """Includes data preparation; a run without a checkpoint starts over."""
    short = (*OVERRIDES, "training.max_steps=2")
    Victim(server, recipe, tmp_path / "straight", short).finish()
    for call in range(2, 134, 16):
        path = tmp_path / f"run-{call}"
        victim = Victim(server, recipe, path, (*short, f"data.cache={path}-cache"))
        assert victim.killed(victim.start(f"import faults; faults.die_at({call})"))
        victim.finish()
        assert_same(tmp_path / "straight", victim.path)

"""One line of 100,000 tokens in a corpus harms nobody."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from conftest import ToyCorpus
from processes import Server
from same_runs import assert_same

LINE = " ".join(["gato"] * 100_000) + "\t" + " ".join(["cat"] * 100_000) + "\n"
LIMIT = """
import resource
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 600 * 2**20,) * 2)
"""


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ([], "dropped, too long                            1"),
        (
            ["data.cleaning.max_chars=9000000"],
            "1 of 339 training pairs are skipped: over data.batching.max_length=256 pieces",
        ),
    ],
    ids=["cleaning", "batching"],
)
def test_a_line_of_100_000_tokens(
    server: Server, toy: ToyCorpus, tmp_path: Path, overrides: list[str], told: str
) -> None:
    corpus = ToyCorpus(Path(shutil.copytree(toy.folder, tmp_path / "corpus")))
    for name in ("train", "valid"):
        path = corpus.folder / f"{name}.tsv"
        # The twentieth, so that it is not among the few that a log shows.
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines[:19], LINE, *lines[19:]]))
    (tmp_path / "toy.yaml").write_text(corpus.recipe(tmp_path / "run"))
    more = ["training.max_steps=4", "training.validation_sentences=30", *overrides]
    command = ["train", tmp_path / "toy.yaml", *more]
    training = server.start(command, tmp_path / "output", LIMIT)
    assert training.wait() == 0, training.text()
    assert told in training.text()
    assert "validation at step 4" in training.text()


def test_without_the_line_the_same_is_learned(
    toy: ToyCorpus, server: Server, tmp_path: Path
) -> None:
    for name, text in (("plain", ""), ("long", LINE)):
        folder = tmp_path / name
        corpus = ToyCorpus(Path(shutil.copytree(toy.folder, folder)))
        with (folder / "train.tsv").open("a") as file:
            file.write(text)
        (folder / "toy.yaml").write_text(corpus.recipe(folder / "run"))
        command = ["train", folder / "toy.yaml", "training.max_steps=4"]
        assert server.start(command, folder / "output").wait() == 0
    assert_same(tmp_path / "plain/run", tmp_path / "long/run")

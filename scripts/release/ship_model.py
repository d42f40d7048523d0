"""Make a model of the package of a run: compact weights, and a card with its scores and its data.

    python scripts/release/ship_model.py runs/tatoeba es-en --evaluate Tatoeba=data/tatoeba/test.tsv

Measures BLEU and chrF of the compact weights on test sets; the first should be one that the run was
not chosen by. Run it from the folder in which the run was trained: what int8 costs is measured on
its validation set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/

from benchmarks.measuring import describe
from corpora.general.sources import read_sources
from seq2seq import cli
from seq2seq.analysis.publishing import make_card, read_tests, score_tests
from seq2seq.commands.options import Parser
from seq2seq.config import DataConfig
from seq2seq.config.loading import changed_keys, dump_config, load_config
from seq2seq.data.cleaning import read_validation
from seq2seq.errors import DataError
from seq2seq.export import export
from seq2seq.files import write_atomic
from seq2seq.packaged import CARD, MODELS, read_card
from seq2seq.pipeline import resumed
from seq2seq.runs.directory import RunDirectory

MOST_BYTES = 16_000_000


@dataclass(frozen=True)
class Corpus:
    """What a card says about training data."""

    data: str
    licence: str
    limits: str
    text: str


def _general() -> Corpus:
    """Return what a card says about the general corpus: its sources in scripts/corpora/general."""
    licences: dict[str, str] = {}
    repositories: dict[str, list[str]] = {}
    for row in read_sources():
        if row.source != "XQuAD":  # held out
            licences[row.source] = row.licence
            names = (f"{each.name} {each.commit}".strip() for each in row.repositories)
            found = repositories.setdefault(row.source, [])
            found += (name for name in names if name not in found)
    rows = "\n".join(
        f"| {source} | {licence} | {', '.join(repositories[source])} |"
        for source, licence in licences.items()
    )
    return Corpus(
        "textbooks, manuals and interfaces, the texts of a game, pages of projects and public "
        "services, a dictionary",
        ", ".join(dict.fromkeys(licences.values())),
        "It was trained on everyday sentences, on textbooks and manuals, the texts of a game, and "
        "pages of\nprojects and public services. Newspapers, literature and dialects are mostly "
        "beyond what it has seen,",
        "Text of the following projects, © their authors, under the licences that they state. "
        "Such text is\nprepared by `scripts/prepare_data.py general` from clones.\n\n"
        f"| source | licence | repositories and commits |\n| --- | --- | --- |\n{rows}",
    )


CORPORA = {  # by the name of their folder; the last one says what a model has not seen
    "data": Corpus(
        "words and sentences written for it",
        "MIT",
        "It was trained on words, greetings and sentences,",
        "`data/everyday.tsv`, `data/words.tsv` and `data/sentences.tsv`: words, greetings and "
        "sentences written\nfor this project, MIT.",
    ),
    "tatoeba": Corpus(
        "sentence pairs of Tatoeba",
        "CC BY 2.0 FR",
        "It was trained on short everyday sentences. Longer texts, technical language and most "
        "names are\nbeyond what it has seen,",
        "[Tatoeba](https://tatoeba.org)'s sentence pairs, as published by\n"
        "[manythings.org/anki](https://www.manythings.org/anki/), © the contributors of Tatoeba, "
        "licence\n[CC BY 2.0 FR](https://creativecommons.org/licenses/by/2.0/fr/). "
        "`scripts/prepare_data.py tatoeba`\nsplit them.",
    ),
    "general": _general(),
}


def ship(
    run: str,
    name: str,
    tests: Sequence[str],
    machine: str,
    recipe: str | None,
    data: Sequence[str] = (),
) -> Path:
    """Write a run's compact weights and its card as the model of this name; return its folder.

    The tests are NAME=FILE; the data are names of CORPORA, by default those of the run's training
    files. Raises DataError where either is not.
    """
    path, trained = MODELS / name, RunDirectory(Path(run))
    config = trained.config()
    corpora = find_corpora(config.data, data)
    valid = read_validation(config.data)
    validated = {pair.source for pair in valid}
    sets = read_tests(tests, config)
    (path / CARD).unlink(missing_ok=True)
    checkpoint = export(run, path, compact=True, valid=valid)
    shown = config.model_copy(update={"run_dir": f"runs/{name}"})  # no path of this machine
    write_atomic(RunDirectory(path).config_path, dump_config(shown))
    changes = changed_keys(resumed(load_config(recipe), config), config) if recipe else {}
    text = make_card(
        name,
        trained,
        checkpoint,
        score_tests(path, sets),
        chosen_on={
            test: sum(pair.source in validated for pair in pairs) for test, pairs in sets.items()
        },
        corpora=corpora,
        machine=machine,
        recipe=recipe,
        changes=[
            (key, new)
            for key, (_, new) in changes.items()
            if key not in ("run_dir", "training.initial.run")
        ],
    )
    write_atomic(path / CARD, text)
    read_card(path)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    if size > MOST_BYTES:
        print(f"{path}: {size / 1e6:.1f} MB, more than a model should have", file=sys.stderr)
    return path


def find_corpora(config: DataConfig, names: Sequence[str]) -> list[Corpus]:
    """Return the corpora of these names, else those of the folders of a run's training files."""
    names = names or [Path(corpus.path or "").parent.name for corpus in config.train]
    for name in names:
        if name not in CORPORA:
            raise DataError(
                f"data.train: a corpus in a folder '{name}', whose licence is unknown; pass --data "
                f"with the corpora that it is from ({', '.join(CORPORA)}), or add it to "
                "scripts/release/ship_model.py"
            )
    return [CORPORA[name] for name in CORPORA if name in names]


def _machine() -> str:
    """Return the processor and the number of its cores."""
    found = describe(torch.device("cpu"))
    return f"{found['cores']} cores of {found['processor']}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit code, as seq2seq.cli.main does."""
    parser = Parser(
        prog="ship_model.py", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.set_defaults(action=_ship, parser=parser)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("name", metavar="NAME", help="such as es-en")
    parser.add_argument(
        "--evaluate", metavar="NAME=FILE", required=True, nargs="+", help="test sets"
    )
    parser.add_argument(
        "--data", metavar="NAME", nargs="+", default=(), help=f"corpora: {', '.join(CORPORA)}"
    )
    parser.add_argument("--machine", default=_machine(), help="what trained it; default: this one")
    parser.add_argument("--recipe", metavar="FILE", help="the recipe, to say what was changed")
    return cli.main(arguments, parser)


def _ship(given: argparse.Namespace) -> int:
    path = ship(given.run, given.name, given.evaluate, given.machine, given.recipe, given.data)
    print((path / CARD).read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Make a model of the package of a run: compact weights, and a card with its scores and its data.

    python scripts/ship_model.py runs/tatoeba es-en --evaluate Tatoeba=data/tatoeba/test.tsv

Measures BLEU and chrF of the compact weights on test sets; the first should be one that the run was
not chosen by. Run it from the folder in which the run was trained: what int8 costs is measured on
its validation set.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import torch

from benchmarks.measuring import describe
from general_corpus.sources import read_sources
from seq2seq import Translator, evaluate
from seq2seq.commands.options import Parser
from seq2seq.config import DataConfig
from seq2seq.config.loading import changed_keys, dump_config, load_config
from seq2seq.data.cleaning import read_validation
from seq2seq.errors import DataError, verdict
from seq2seq.evaluation.evaluate import Evaluation, read_test
from seq2seq.files import write_atomic
from seq2seq.onnx.export import export_compact
from seq2seq.packaged import CARD, MODELS, read_card
from seq2seq.pipeline import resumed
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import read_metrics
from seq2seq.serving.models import LANGUAGE_NAMES

MOST_BYTES = 14_000_000

TEMPLATE = """\
---
source_language: {source}
target_language: {target}
test_set: {sentences:,} pairs of {test}, one reference, beam {beam}
bleu: {bleu.score:.2f}
chrf: {chrf.score:.2f}
bleu_signature: "{bleu.signature}"
chrf_signature: "{chrf.signature}"
data: {data}
data_license: {licence}
---

# {name}: {source} to {target}

A model of {millions:.1f} million weights with {architecture}.

{limits} and wrong translations often read well: do not rely on it where errors matter.

    echo '{example}' | seq2seq translate {name}
    seq2seq explain {name} '{example}'

## Scores

First reference, cased, beam {beam}. `scripts/prepare_data.py` leaves out training pairs that share
a sentence with a test set that it writes. The weights were chosen on the validation set.

| test set | pairs | in the validation set | BLEU | chrF |
| --- | --- | --- | --- | --- |
{scores}

sacreBLEU's signatures are `{bleu.signature}` and `{chrf.signature}`. The scores are those of the
weights in this directory, which are int8 with a scale for each row.
{costs}

## Training

{training} `config.yaml` is the complete recipe.

## Data

{corpora}
"""
EXAMPLES = {"es": "¿Dónde está el perro?", "en": "Where is the dog?"}


@dataclass(frozen=True)
class Corpus:
    """What a card says about training data."""

    data: str
    licence: str
    limits: str
    text: str


def _general() -> Corpus:
    """Return what a card says about the general corpus: its sources in scripts/general_corpus."""
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
        "text of textbooks, manuals, documentation and interfaces",
        ", ".join(dict.fromkeys(licences.values())),
        "It was trained on everyday sentences and on textbooks, manuals and documentation. News, "
        "literature\nand dialects are beyond what it has seen,",
        "Text of the following projects, © their authors, under the licences that they state. "
        "Such text is\nprepared by `scripts/prepare_data.py general` from clones.\n\n"
        f"| source | licence | repositories and commits |\n| --- | --- | --- |\n{rows}",
    )


CORPORA = {  # by the name of their folder; the last one says what a model has not seen
    "data": Corpus(
        "words and greetings",
        "MIT",
        "It was trained on words and greetings,",
        "Words and greetings of `data/everyday.tsv`, written for this project, MIT. Other files in "
        "`data`\nwere made of the following corpora by models that were trained on them.",
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
    sets = {
        test: read_test(file, config.data, single_reference=True)
        for test, file in map(_named, tests)
    }
    (path / CARD).unlink(missing_ok=True)
    checkpoint = export_compact(run, path, valid=valid)
    shown = config.model_copy(update={"run_dir": f"runs/{name}"})  # no path of this machine
    write_atomic(RunDirectory(path).config_path, dump_config(shown))
    translator = Translator.load(path)
    chosen_on = {pair.source for pair in valid}
    scores: list[tuple[str, int, int, Evaluation]] = []
    for test, pairs in sets.items():
        chosen = sum(pair.source in chosen_on for pair in pairs)
        scores.append((test, len(pairs), chosen, evaluate(translator, pairs)))
    test, sentences, _, found = scores[0]
    source, target = config.data.source_language, config.data.target_language
    shapes = checkpoint.shapes().values()
    text = TEMPLATE.format(
        name=name,
        source=LANGUAGE_NAMES[source],
        target=LANGUAGE_NAMES[target],
        test=test,
        sentences=sentences,
        beam=found.beam,
        bleu=found.metrics["bleu"],
        chrf=found.metrics["chrf"],
        scores="\n".join(starmap(_row, scores)),
        data="; ".join(corpus.data for corpus in corpora),
        licence="; ".join(corpus.licence for corpus in corpora),
        limits=corpora[-1].limits,
        corpora="\n\n".join(corpus.text for corpus in corpora),
        millions=sum(size[0] * (size[1] if len(size) == 2 else 1) for size in shapes) / 1e6,
        architecture=f"{config.model.attention.score} attention in style {config.model.style}",
        example=EXAMPLES[source],
        costs=_costs(checkpoint.state),
        training=_training(trained, checkpoint.step, machine, recipe),
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
                "scripts/ship_model.py"
            )
    return [CORPORA[name] for name in CORPORA if name in names]


def _named(test: str) -> tuple[str, str]:
    name, is_named, path = test.partition("=")
    if not is_named:
        raise DataError(f"--evaluate {test}: expected NAME=FILE, such as Tatoeba={test}")
    return name, path


def _row(test: str, pairs: int, chosen: int, found: Evaluation) -> str:
    bleu, chrf = (found.metrics[name].score for name in ("bleu", "chrf"))
    return f"| {test} | {pairs:,} | {chosen:,} | {bleu:.1f} | {chrf:.1f} |"


def _costs(state: dict[str, object]) -> str:
    """Return what int8 cost on the validation set, in words."""
    costs = {
        "these weights have {} BLEU {} than the fp32 weights": state.get("compact_bleu_loss"),
        "graphs that compute in int8 {} {} than fp32": state.get("int8_bleu_loss"),
    }
    parts = [
        words.format(f"{abs(cost):.2f}", "less" if cost > 0 else "more")
        for words, cost in costs.items()
        if isinstance(cost, float)
    ]
    return f"On the validation set, {', and '.join(parts)}." if parts else ""


def _training(run: RunDirectory, step: int, machine: str, recipe: str | None) -> str:
    """Return how a run was trained, in words."""
    minutes = max(record.get("minutes", 0) for record in read_metrics(run.metrics))
    text = f"{step:,} updates in {minutes:.0f} minutes on {machine}"
    config = run.config()
    start = ""
    if initial := config.training.initial:
        start = (
            f" It started from the weights of `{initial.run}` at that time (SHA-256 "
            f"`{str(initial.weights)[:12]}`)."
        )
    if recipe is None:
        return f"{text}.{start}"
    changed = changed_keys(resumed(load_config(recipe), config), config)
    named = {"run_dir", "training.initial.run"}
    others = [f"`{key}={new}`" for key, (_, new) in changed.items() if key not in named]
    how = f"`{recipe}`" + (f" with {', '.join(others)}" if others else " unchanged")
    return f"{text}, with the recipe {how}.{start}"


def _machine() -> str:
    """Return the processor and the number of its cores."""
    found = describe(torch.device("cpu"))
    return f"{found['cores']} cores of {found['processor']}"


def main() -> int:
    """Run the command; return its exit code."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    arguments = parser.parse_args()
    try:
        path = ship(
            arguments.run,
            arguments.name,
            arguments.evaluate,
            arguments.machine,
            arguments.recipe,
            arguments.data,
        )
    except Exception as error:
        if (found := verdict(error)) is None:
            raise
        print(f"ship_model: {found[1]}", file=sys.stderr)
        return found[0]
    print((path / CARD).read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())

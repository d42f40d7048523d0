"""Make a model of the package of a run on Tatoeba: compact weights, and a card with its scores.

    python scripts/ship_model.py runs/tatoeba es-en --evaluate data/tatoeba/test.tsv

Measures BLEU and chrF of the compact weights on a test set that the run was not chosen by. Run it
from the folder in which the run was trained: what int8 costs is measured on its validation set.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path

from seq2seq import Translator, evaluate
from seq2seq.commands.options import Parser
from seq2seq.config.loading import changed_keys, dump_config, load_config
from seq2seq.data.cleaning import read_validation
from seq2seq.errors import verdict
from seq2seq.evaluation.evaluate import read_test
from seq2seq.files import write_atomic
from seq2seq.onnx.export import export_compact
from seq2seq.packaged import CARD, MODELS, read_card
from seq2seq.pipeline import resumed
from seq2seq.runs.directory import RunDirectory
from seq2seq.runs.logs import read_metrics
from seq2seq.serving.models import LANGUAGE_NAMES

MOST_BYTES = 12_000_000

TEMPLATE = """\
---
source_language: {source}
target_language: {target}
test_set: {sentences:,} pairs of Tatoeba, one reference, beam {beam}
bleu: {bleu.score:.2f}
chrf: {chrf.score:.2f}
bleu_signature: "{bleu.signature}"
chrf_signature: "{chrf.signature}"
data: sentence pairs of Tatoeba
data_license: CC BY 2.0 FR
---

# {name}: {source} to {target}

A model of {millions:.1f} million weights with {architecture}.

It was trained on short everyday sentences. Longer texts, technical language and most names are
beyond what it has seen, and wrong translations often read well: do not rely on it where errors
matter.

    echo '{example}' | seq2seq translate {name}
    seq2seq explain {name} '{example}'

## Scores

On {sentences:,} test pairs, none of which shares a sentence with the training pairs (first
reference, cased, beam {beam}):

| metric | score | sacreBLEU's signature |
| --- | --- | --- |
| BLEU | {bleu.score:.1f} | `{bleu.signature}` |
| chrF | {chrf.score:.1f} | `{chrf.signature}` |

Both are scores of the weights in this directory, which are int8 with a scale for each row.
{costs}

## Training

{training} `config.yaml` is the complete recipe.

## Data

[Tatoeba](https://tatoeba.org)'s sentence pairs, as published by
[manythings.org/anki](https://www.manythings.org/anki/), © the contributors of Tatoeba, licence
[CC BY 2.0 FR](https://creativecommons.org/licenses/by/2.0/fr/). `scripts/prepare_data.py tatoeba`
split them.
"""
EXAMPLES = {"es": "¿Dónde está el perro?", "en": "Where is the dog?"}


def ship(run: str, name: str, test: str, machine: str, recipe: str | None) -> Path:
    """Write a run's compact weights and its card as the model of this name; return its folder."""
    path, trained = MODELS / name, RunDirectory(Path(run))
    (path / CARD).unlink(missing_ok=True)
    config = trained.config()
    checkpoint = export_compact(run, path, valid=read_validation(config.data))
    shown = config.model_copy(update={"run_dir": f"runs/{name}"})  # no path of this machine
    write_atomic(RunDirectory(path).config_path, dump_config(shown))
    translator = Translator.load(path)
    pairs = read_test(test, config.data, single_reference=True)
    found = evaluate(translator, pairs)
    source, target = config.data.source_language, config.data.target_language
    shapes = checkpoint.shapes().values()
    text = TEMPLATE.format(
        name=name,
        source=LANGUAGE_NAMES[source],
        target=LANGUAGE_NAMES[target],
        sentences=len(pairs),
        beam=found.beam,
        bleu=found.metrics["bleu"],
        chrf=found.metrics["chrf"],
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
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return f"{os.cpu_count()} cores of {cpu[1] if cpu else 'an unknown processor'}"


def main() -> int:
    """Run the command; return its exit code."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("name", metavar="NAME", help="such as es-en")
    parser.add_argument("--evaluate", metavar="TEST", required=True, help="test set")
    parser.add_argument("--machine", default=_machine(), help="what trained it; default: this one")
    parser.add_argument("--recipe", metavar="FILE", help="the recipe, to say what was changed")
    arguments = parser.parse_args()
    try:
        path = ship(
            arguments.run, arguments.name, arguments.evaluate, arguments.machine, arguments.recipe
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

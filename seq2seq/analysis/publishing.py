"""Publish a run: make its card, and its folder for the Hugging Face hub (docs/hub.md)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seq2seq.analysis.heatmaps import plot_sentences
from seq2seq.analysis.pages import render
from seq2seq.analysis.plots import plot_training
from seq2seq.config import Config
from seq2seq.config.loading import dump_config
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import Tokenizer
from seq2seq.errors import DataError
from seq2seq.evaluation.evaluate import Evaluation, check_direction, evaluate, read_test
from seq2seq.export import export
from seq2seq.files import make_folder, write_atomic
from seq2seq.inference.translator import Translator
from seq2seq.packaged import CARD, find_run
from seq2seq.runs.checkpoint import MODEL, Checkpoint
from seq2seq.runs.directory import TOKENIZERS, RunDirectory, run_of
from seq2seq.runs.logs import read_metrics
from seq2seq.runs.tensors import read_arrays

EXAMPLES = {"es": "¿Dónde está el perro?", "en": "Where is the dog?"}
_USE = "\n## Use with seq2seq\n"  # the heading of the part that is added to a card on the hub
# Facts about a run that its files do not have (see the template).
_FACTS = ("corpora", "machine", "recipe", "changes", "license", "repo")


def read_tests(tests: Sequence[str], config: Config) -> dict[str, list[Pair]]:
    """Return the pairs of test sets, given as NAME=FILE, with their first reference."""
    found = {}
    for test in tests:
        name, is_named, path = test.partition("=")
        if not is_named:
            raise DataError(f"--evaluate {test}: expected NAME=FILE, such as Tatoeba={test}")
        found[name] = read_test(path, config.data, single_reference=True)
    return found


def score_tests(run: Path, tests: Mapping[str, Sequence[Pair]]) -> dict[str, Evaluation]:
    """Return the scores of a run on test sets. Raises DataError as check_direction does."""
    if not tests:
        return {}
    translator = Translator.load(run)
    for name, pairs in tests.items():
        check_direction(translator, pairs, name)
    return {name: evaluate(translator, pairs) for name, pairs in tests.items()}


def make_card(
    name: str,
    run: RunDirectory,
    checkpoint: Checkpoint,
    scores: Mapping[str, Evaluation],
    **facts: Any,
) -> str:
    """Return the card of a checkpoint of a run (packaged.Card), with further facts.

    Without scores on test sets, it has those on the validation set.
    """
    config = run.config()
    records = read_metrics(run.metrics) if run.metrics.exists() else []
    minutes = max((record.get("minutes", 0) for record in records), default=0)
    given = {"name": name, "config": config, "scores": scores, "minutes": minutes, **facts}
    return render("card.md", **dict.fromkeys(_FACTS) | _about(checkpoint, config) | given)


def _about(checkpoint: Checkpoint, config: Config) -> dict[str, Any]:
    """Return the facts about a checkpoint that both templates use."""
    weights = sum(map(math.prod, checkpoint.shapes().values()))
    compact = (checkpoint.path / MODEL).stat().st_size < 2 * weights
    example = EXAMPLES.get(config.data.source_language, "...")
    return {"checkpoint": checkpoint, "weights": weights, "compact": compact, "example": example}


def write_folder(
    run: str, folder: Path, repo: str, *, tests: Sequence[str] = (), license: str | None = None
) -> None:
    """Write the folder of a run's repository; the folder is a run itself.

    It has the best checkpoint, the tokenizers and an index of the weights as other programs expect
    them, and the card: the run's own README.md, or else one that is written with the scores on test
    sets (NAME=FILE). Raises as `export` and `read_test` do.
    """
    source, target = run_of(find_run(run)), RunDirectory(folder)
    config, given = source.config(), source.path / CARD
    if given.exists() and (tests or license):
        raise DataError(f"{given}: pushed as it is; remove --evaluate and --license, or this file")
    sets = read_tests(tests, config)
    checkpoint = export(run, folder, [])
    name = repo.rpartition("/")[2]
    shown = config.model_copy(update={"run_dir": f"runs/{name}"})  # no path of this machine
    write_atomic(target.config_path, dump_config(shown))
    if source.metrics.exists():
        write_atomic(target.metrics, source.metrics.read_bytes())
    _write_for_others(target, config, checkpoint)
    pictures = _draw(target, config)
    if given.exists():
        card = given.read_text(encoding="utf-8").partition(_USE)[0]
    else:
        scores = score_tests(folder, sets)
        card = make_card(name, target, checkpoint, scores, license=license, repo=repo)
    marks_case = target.tokenizers()[0].marks_case
    about = _about(checkpoint, config)
    use = render("hub.md", repo=repo, pictures=pictures, marks_case=marks_case, **about)
    write_atomic(folder / CARD, f"{card.rstrip()}\n{_USE}\n{use.lstrip()}")


def _write_for_others(run: RunDirectory, config: Config, checkpoint: Checkpoint) -> None:
    """Write the tokenizers as transformers' MarianTokenizer reads them, and a list of weights."""
    weights = checkpoint.path / MODEL
    place = weights.relative_to(run.path).as_posix()
    index = {
        "metadata": {"total_size": weights.stat().st_size},
        "weight_map": dict.fromkeys(read_arrays(weights), place),
    }
    kind = {"model_type": "seq2seq", "architectures": ["TranslationModel"]}
    marian = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": True}
    files = {
        "config.json": kind | config.model.model_dump(mode="json"),
        f"{MODEL}.index.json": index,  # so that the weights are not stored twice
        "tokenizer_config.json": marian | {"clean_up_tokenization_spaces": False},
    }
    names = ("source.spm", "vocab.json"), ("target.spm", "target_vocab.json")
    for model, (copy, vocabulary) in zip(TOKENIZERS, names, strict=True):
        write_atomic(run.path / copy, (run.path / model).read_bytes())
        files[vocabulary] = Tokenizer.load(run.path / model).ids
    for name, content in files.items():
        text = json.dumps(content, indent=1, ensure_ascii=False)
        write_atomic(run.path / name, f"{text}\n")


def _draw(run: RunDirectory, config: Config) -> list[str]:
    """Draw the learning curves and the attention of an example; return the names of pictures."""
    folder, example = run.path / "images", EXAMPLES.get(config.data.source_language)
    make_folder(folder)
    drawn = []
    if run.metrics.exists():
        plot_training([str(run.path)], folder / "training.png")
        drawn.append("training")
    if example and config.model.attention.score != "none":
        plot_sentences(Translator.load(run.path), [example], folder / "attention.png")
        drawn.append("attention")
    return drawn

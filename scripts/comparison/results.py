"""Scores of the translations, and the tables of docs/comparison.md."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import describe
from comparison.toolkits import MODELS, Setup, logged
from documentation.pages import markdown_table, replace_between
from seq2seq.config import CorpusConfig
from seq2seq.data.cleaning import normalize, normalize_pair
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.data.tokenizer import UNK
from seq2seq.evaluation.evaluate import Evaluation, references_of
from seq2seq.evaluation.metrics import score
from seq2seq.evaluation.robustness import measure_robustness
from seq2seq.inference.text import Part, Translation
from seq2seq.runs.directory import RunDirectory

START, END = "<!-- comparison -->", "<!-- end of comparison -->"
ROWS: dict[str, tuple[str, str, bool | None]] = {  # label, format, whether more is better
    "train_speed": ("training: target pieces a second", ",.0f", True),
    "bleu": ("BLEU on the test set", ".1f", True),
    "chrf": ("chrF on the test set", ".1f", True),
    "translate_speed": ("translation: sentences a second", ".1f", True),
    "train_memory": ("peak memory of training, MiB", ",.0f", False),
    "translate_memory": ("peak memory of translation, MiB", ",.0f", False),
    "weights": ("weights, millions", ".1f", None),
    "megabytes": ("files that translation reads, MB", ".1f", False),
}


def read_pairs(path: Path) -> list[Pair]:
    """Return the pairs of a TSV file, normalized, with the first reference only."""
    return list(map(normalize_pair, read_corpus(CorpusConfig(path=str(path)))))


def translations(setup: Setup, part: str, target: Path) -> dict[str, str]:
    """Return the translations of a prepared file by their sources.

    Raises SystemExit for a wrong number of lines.
    """
    texts, found = (
        path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        for path in (setup.out / f"{part}.txt", target)
    )
    if len(texts) != len(found):
        sys.exit(f"{target}: {len(found)} lines, but {len(texts)} were to be translated; delete it")
    if setup.toolkit.lines == "pieces":
        _, tokenizer = RunDirectory(setup.out).tokenizers()
        ids = [[tokenizer.ids.get(piece, UNK) for piece in line.split(" ")] for line in found]
        found = list(map(tokenizer.decode, ids))
    return dict(zip(texts, found, strict=True))


def bleu_chrf(found: Mapping[str, str], pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the scores of translations of the sources of pairs."""
    texts = [found[pair.source] for pair in pairs]
    scores = score(texts, references_of(pairs), "en", metrics=("bleu", "chrf"))
    return scores["bleu"].score, scores["chrf"].score


def robustness(found: Mapping[str, str], pairs: Sequence[Pair]) -> dict[str, dict[str, Any]]:
    """Return the scores of each kind of text, as `seq2seq evaluate --robustness` computes them."""

    def translate(some: Sequence[Pair]) -> list[Translation]:
        texts = [(pair.source, found[normalize(pair.source)]) for pair in some]
        return [Translation([Part(source, [], [], text, 0, 0, True)]) for source, text in texts]

    evaluation = Evaluation(translate(pairs), {}, 0, "en")
    kinds = measure_robustness(pairs, evaluation, translate, "es").kinds
    return {kind.kind: vars(kind) for kind in kinds}


def measure(setup: Setup) -> dict[str, Any]:
    """Return what was measured for a model. Raises SystemExit if a step is missing."""
    folder, pairs = setup.run, read_pairs(setup.out / "test.tsv")

    def reports(pattern: str) -> list[dict[str, float]]:
        paths = sorted(folder.glob(f"{pattern}.json"))
        if not paths:
            sys.exit(f"{folder}: no {pattern}.json; finish `compare.py run {setup.name}` first")
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]

    def lines(part: str) -> int:
        return (setup.out / f"{part}.txt").read_text(encoding="utf-8").count("\n")

    [model], [trained], tests = reports("chosen"), reports("train"), reports("test.*")
    number, starts = lines("test") - lines("test-head"), reports("test-head.*")
    seconds = [a["seconds"] - b["seconds"] for a, b in zip(tests, starts, strict=True)]
    test = translations(setup, "test", folder / "test.0.out")
    bleu, chrf = bleu_chrf(test, pairs)
    if not (speeds := logged(setup.toolkit.speed, folder / "train.log")):
        sys.exit(f"{folder}/train.log: no speed is logged; delete {folder} and train longer")
    split, found = folder / "robust.split.out", {
        "train_speed": statistics.median(speeds),
        "bleu": bleu,
        "chrf": chrf,
        "translate_speed": number / statistics.median(seconds),
        "train_memory": trained["mebibytes"],
        "translate_memory": statistics.median(each["mebibytes"] for each in tests),
        "weights": model["weights"] / 1e6,
        "megabytes": model["bytes"] / 1e6,
        "minutes": json.loads((folder / "minutes.json").read_text(encoding="utf-8")),
    }  # fmt: skip
    for key, path in {"robustness": folder / "robust.0.out", "split": split}.items():
        if path.exists():
            found[key] = robustness(test | translations(setup, "robust", path), pairs)
    return found


def tables(results: dict[str, Any]) -> str:
    """Return the tables of the page; the best values of each row are bold."""
    models: dict[str, dict[str, Any]] = results["models"]
    minutes = " or ".join(f"{each:g}" for each in sorted({m["minutes"] for m in models.values()}))
    sizes = results["sizes"]
    text = (
        f"{sizes['train']:,} training pairs, {minutes} minutes each, one core ({results['cpu']}), "
        f"torch {results['torch']}; test set: {sizes['test']:,} sentences, first reference."
    )
    main = [_row("", list(models), None)]
    main += [
        _row(label, [format(m[key], how) for m in models.values()], more)
        for key, (label, how, more) in ROWS.items()
    ]
    columns = {name: model["robustness"] for name, model in models.items()}
    columns |= {f"{name}, split": each["split"] for name, each in models.items() if "split" in each}
    lost, kept = [_row("BLEU", list(columns), None)], [_row("copied, %", list(columns), None)]
    for kind in next(iter(columns.values())):
        rows = [column[kind] for column in columns.values()]
        lost.append(_row(kind, [f"{row['bleu']:.1f} ({-row['lost']:+.1f})" for row in rows], True))
        if rows[0]["copied"] is not None:
            kept.append(_row(kind, [f"{row['copied']:.1f}" for row in rows], True))
    ruled = (markdown_table(head, rows, names=1) for head, *rows in (main, lost, kept))
    return "\n\n".join([text, *ruled])


def _row(label: str, cells: Sequence[str], more: bool | None) -> list[str]:
    if more is not None:
        numbers = [float(cell.split()[0].replace(",", "")) for cell in cells]
        best = max(numbers) if more else min(numbers)
        pairs = zip(cells, numbers, strict=True)
        cells = [f"**{cell}**" if number == best else cell for cell, number in pairs]
    return [label, *cells]


def gather(out: Path, page: Path, path: Path) -> None:
    """Write the JSON of all models and, between the markers of the page, its tables.

    Models without a folder keep what the JSON has of them. Raises SystemExit if that was measured
    elsewhere.
    """
    machine = describe(torch.device("cpu"))
    results: dict[str, Any] = {
        "cpu": machine["processor"],
        "torch": machine["torch"].partition("+")[0],
        "sizes": json.loads((out / "prepared.json").read_text(encoding="utf-8")),
    }
    earlier = json.loads(path.read_text(encoding="utf-8")) if path.exists() else results
    if any(earlier[key] != value for key, value in results.items()):
        sys.exit(f"{path}: of another processor, corpus or version of torch; move it away")
    known = earlier.get("models", {})
    known |= {name: measure(Setup(name, out)) for name in MODELS if (out / name).exists()}
    results["models"] = {name: known[name] for name in MODELS if name in known}
    replace_between(page, START, END, tables(results))
    path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")

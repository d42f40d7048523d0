#!/usr/bin/env python3
"""Compare this project with OpenNMT-py and JoeyNMT; docs/comparison.md has the method.

compare.py prepare data/tatoeba --out comparison
compare.py run onmt-rnn --core 0 --out comparison --envs envs
compare.py gather --out comparison
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from comparison import results
from comparison.toolkits import BATCH_PIECES, BEAM, HERE, MODELS, Setup, logged
from seq2seq.config.loading import dump_config, load_config
from seq2seq.data.cleaning import normalize
from seq2seq.data.dataset import load_pairs, train_tokenizers
from seq2seq.data.tokenizer import EOS, Tokenizer
from seq2seq.evaluation.evaluate import write_lines
from seq2seq.evaluation.robustness import KINDS, lines_of
from seq2seq.languages import language
from seq2seq.runs.directory import RunDirectory, find_checkpoint

HEAD = 10  # one test sentence of so many is translated alone, to know how long a start takes


def prepare(data: Path, out: Path) -> None:
    """Write the recipe, tokenizers, pieces and lines to translate, which all toolkits share."""
    out.mkdir(parents=True, exist_ok=True)
    for name in ("train.tsv", "valid.tsv", "test.tsv"):
        shutil.copyfile(data / name, out / name)
    paths = [f"data.{key}.path={out / name}" for key, name in
             (("train.0", "train.tsv"), ("valid", "valid.tsv"), ("test", "test.tsv"))]  # fmt: skip
    one_core = ["training.threads=1", "data.processes=1", "training.log_every=50"]
    batches = f"inference.batch_tokens={BEAM * BATCH_PIECES}"
    settings = [*paths, *one_core, batches, "data.valid.references=false"]
    config = load_config(ROOT / "configs" / "tatoeba.yaml", settings)
    pairs, _ = load_pairs(config)
    tokenizers = train_tokenizers(pairs, config)
    for name, tokenizer in zip(("source", "target"), tokenizers, strict=True):
        tokenizer.save(out / f"{name}.model")
        pieces = tokenizer.pieces(range(EOS + 1, tokenizer.vocab_size))  # without the special ones
        write_lines(out / f"{name}.vocab", pieces)
    sides = [
        [text for texts in column for text in texts] for column in zip(*pairs.texts(), strict=True)
    ]
    valid, test = results.read_pairs(out / "valid.tsv"), results.read_pairs(out / "test.tsv")
    sets = {"train": sides, "valid": [[p.source for p in valid], [p.target for p in valid]]}
    sizes = {"train": len(pairs), "valid": len(valid), "test": len(test)}
    for name, both in sets.items():
        for suffix, tokenizer, texts in zip(("es", "en"), tokenizers, both, strict=True):
            write_lines(out / f"{name}.{suffix}", [_pieces(tokenizer, text) for text in texts])
    languages = language("es"), language("en")
    made = [sides[0] for kind in KINDS for sides, *_ in lines_of(kind, test, languages)]
    lines = {"choose": [p.source for p in valid], "test": [p.source for p in test], "robust": made}
    for name, texts in lines.items():
        unique = {normalize(text): _pieces(tokenizers[0], text) for text in texts}
        ordered = sorted(unique.items(), key=lambda item: (item[1].count(" "), item))
        for part, some in ((name, ordered), (f"{name}-head", ordered[::HEAD])):
            write_lines(out / f"{part}.txt", [text for text, _ in some])
            write_lines(out / f"{part}.pieces", [pieces for _, pieces in some])
    (out / "recipe.yaml").write_text(dump_config(config), encoding="utf-8")
    (out / "prepared.json").write_text(json.dumps(sizes), encoding="utf-8")


def _pieces(tokenizer: Tokenizer, text: str) -> str:
    return " ".join(tokenizer.pieces(tokenizer.encode(text)))


def run(setup: Setup, core: int, repeats: int) -> None:
    """Train a model, choose its checkpoint and translate; skip what is done already."""
    toolkit, folder = setup.toolkit, setup.run
    folder.mkdir(exist_ok=True)
    if not (folder / "train.json").exists():
        shutil.rmtree(folder / "model", ignore_errors=True)
        (folder / "minutes.json").write_text(json.dumps(setup.minutes), encoding="utf-8")
        limit = ["--after", toolkit.starts, "--minutes", str(setup.minutes)]
        target = folder / "train"
        command = setup.command(toolkit.train, target)
        _measure(target, command, core, *(limit if toolkit.starts else []))
    chosen = folder / "chosen.json"
    if not chosen.exists():
        found = _choose(setup, core) if toolkit.checkpoints else _exported(setup)
        chosen.write_text(json.dumps(found, indent=1), encoding="utf-8")
    model = json.loads(chosen.read_text(encoding="utf-8"))["checkpoint"]
    parts = [(part, f"{part}.{n}") for n in range(repeats) for part in ("test-head", "test")]
    split = [] if toolkit.checkpoints else [("robust", "robust.split")]
    for part, name in [*parts, ("robust", "robust.0"), *split]:
        _translate(setup, core, part, folder / f"{name}.out", model)


def _measure(path: Path, command: list[str], core: int, *options: str) -> None:
    """Run a command on a core; write PATH.json and PATH.log. Raises SystemExit if it fails."""
    given = ["--core", str(core), "--report", f"{path}.json", "--log", f"{path}.log", *options]
    measured = [sys.executable, str(HERE / "measured.py"), *given, "--", *command]
    print(f"{path}: {' '.join(command)}", flush=True)
    environment = {"PYTHONPATH": str(ROOT), "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    if subprocess.run(measured, env=os.environ | environment).returncode:
        sys.exit(f"{path}.log: the command failed; see the end of this file")


def _translate(
    setup: Setup, core: int, part: str, target: Path, model: str, beam: int = BEAM
) -> None:
    """Translate the lines of a prepared file, unless that is done already."""
    if not target.with_suffix(".json").exists():
        command = setup.command(setup.toolkit.translate, target, model=model, beam=beam, part=part)
        source = setup.out / f"{part}.{setup.toolkit.lines}"
        _measure(target.with_suffix(""), command, core, "--input", str(source))


def _choose(setup: Setup, core: int) -> dict[str, Any]:
    """Return the checkpoint with the best greedy BLEU on the validation set, weights and bytes."""
    folder, pairs = setup.run, results.read_pairs(setup.out / "valid.tsv")
    scores: dict[str, float] = {}
    for path in sorted(folder.glob(setup.toolkit.checkpoints), key=lambda p: p.stat().st_mtime):
        target = folder / f"choose-{path.stem}.out"
        _translate(setup, core, "choose", target, str(path), beam=1)
        found = results.translations(setup, "choose", target)
        scores[str(path)], _ = results.bleu_chrf(found, pairs)
    if not scores:
        sys.exit(f"{folder}: no checkpoint; see {folder}/train.log")
    best = max(scores, key=scores.__getitem__)
    [weights, *_] = logged(setup.toolkit.weights, folder / "train.log")
    size = Path(best).stat().st_size
    return {"checkpoint": best, "weights": int(weights), "bytes": size, "valid": scores}


def _exported(setup: Setup) -> dict[str, Any]:
    """Return the same of a run of this project, which has chosen its best checkpoint itself."""
    run, output = setup.run / "model", setup.run / "exported"
    if not RunDirectory(run).shares_tokenizers(RunDirectory(setup.out)):
        sys.exit(f"{run}: other pieces than those in {setup.out}; prepare and train again")
    subprocess.run([setup.python, "-m", "seq2seq", "export", run, "-o", output], check=True)
    files = [path for path in output.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files if "step-" not in path.parent.name)
    weights = sum(map(math.prod, find_checkpoint(run).shapes().values()))
    return {"checkpoint": str(run), "weights": weights, "bytes": size}


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("prepare", "run", "gather"):
        command = commands.add_parser(name)
        command.add_argument("--out", type=Path, required=True, metavar="DIR")
        if name == "prepare":
            command.add_argument("data", type=Path, help="folder of train, valid and test.tsv")
        if name == "run":
            command.add_argument("name", choices=MODELS)
            command.add_argument("--core", type=int, required=True)
            command.add_argument("--envs", type=Path, required=True, help="has onmt and joeynmt")
            command.add_argument("--minutes", type=float, default=60)
            command.add_argument("--repeats", type=int, default=3, help="of translating")
        if name == "gather":
            command.add_argument(
                "--page", type=Path, default=HERE.parents[1] / "docs/comparison.md"
            )
            command.add_argument("--json", type=Path, default=HERE / "results.json")
    given = parser.parse_args(argv)
    out = given.out.resolve()
    if given.command == "prepare":
        prepare(given.data, out)
    elif given.command == "run":
        run(Setup(given.name, out, given.envs.resolve(), given.minutes), given.core, given.repeats)
    else:
        results.gather(out, given.page, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())

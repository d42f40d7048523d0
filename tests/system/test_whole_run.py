"""The commands as a user runs them: train, translate, evaluate, each in its own process."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path

from conftest import LEXICON, toy_pairs
from processes import Server

RECIPE = """
run_dir: run
data:
  source_language: es
  target_language: en
  train: [{path: train.tsv}]
  valid: {path: valid.tsv}
  tokenizer: {source_vocab_size: 330, target_vocab_size: 330}
  batching: {unit: sentences, size: 32}
model:
  style: luong
  embedding_size: 32
  encoder_size: 32
  decoder_size: 32
  attention: {score: general}
  init: scaled
training:
  precision: fp32
  device: cpu
  threads: 1
  max_steps: 200
  learning_rate: 1e-2
  schedule: {kind: linear}
  validate_every: 100
  checkpoint_every: 50
  log_every: 50
"""


def test_train_translate_evaluate(server: Server, tmp_path: Path) -> None:
    number = count()

    def seq2seq(*arguments: str, text: str = "") -> str:
        output, errors = (tmp_path / f"{next(number)}.txt" for _ in range(2))
        there = f"import os; os.chdir({str(tmp_path)!r})"
        process = server.start(arguments, output, there, given=text, errors=errors)
        assert process.wait() == 0, errors.read_text()
        assert "Traceback" not in errors.read_text()
        return process.text()

    for seed, (name, size) in enumerate({"train": 600, "valid": 40, "test": 40}.items()):
        rows = ["\t".join(pair) for pair in toy_pairs(size, seed)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    seq2seq("train", "recipe.yaml")
    records = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    assert [r["step"] for r in records if r["kind"] == "validation"] == [100, 200]
    (tmp_path / "run").rename(tmp_path / "moved")

    source = "niño quiere pan grande"
    translated = seq2seq("translate", "moved", text=f"{source}\n\nperro\n")
    assert translated == f"{' '.join(LEXICON[word] for word in source.split())}\n\ndog\n"

    scores = json.loads(seq2seq("evaluate", "moved", "test.tsv", "--json"))
    assert scores["sentences"] == 40
    assert scores["bleu"]["score"] > 90
    assert (tmp_path / "moved/test.hypotheses.txt").read_text().count("\n") == 40

    seq2seq("plot", "attention", "moved", source, "-o", "attention.svg")
    assert "svg" in (tmp_path / "attention.svg").read_text()[:500]

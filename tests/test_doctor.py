from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import ToyCorpus, toy_pairs

from seq2seq import cli
from seq2seq.analysis import model_checks
from seq2seq.analysis.doctor import checksums, diagnose, healthy, leak, vocabulary
from seq2seq.analysis.model_checks import (
    MODEL_CHECKS,
    Probe,
    examine,
    make_probe,
    mean_loss,
    step_through,
    widen,
)
from seq2seq.config import CorpusConfig
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import DataError
from seq2seq.evaluation.validation import Validator
from seq2seq.inference.torch_backend import TorchBackend
from seq2seq.inference.translator import Translator
from seq2seq.runs.directory import RunDirectory

NAMES = {"checksums", "vocabulary", "no leak", *MODEL_CHECKS}


@pytest.fixture(scope="module")
def probe(trained: Path) -> Probe:
    return make_probe(
        Translator.load(trained, backend="torch"), [Pair(*pair) for pair in toy_pairs(40, 12)]
    )


@pytest.fixture
def copied(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def run(*arguments: object) -> int:
    try:
        return cli.main(["doctor", *map(str, arguments)])
    except SystemExit as end:
        return int(end.code or 0)


def test_healthy_run_passes_every_check(
    toy: ToyCorpus, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "test.tsv"
    test.write_text("".join(f"{s}\t{t}\n" for s, t in toy_pairs(30, 13) if len(s.split()) > 4))
    assert run(trained, test) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "13 passed, 0 failed, 0 skipped"
    assert all(line.startswith("pass  ") for line in lines[:-1])
    assert run(trained, test, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == NAMES
    assert all(check["passed"] for check in found.values())


def test_failed_check_sets_the_exit_code(
    toy: ToyCorpus, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(trained, toy.folder / "train.tsv") == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line[:13] for line in lines if line.startswith("FAIL")] == ["FAIL  no leak"]


def test_damaged_checkpoint_is_found(copied: Path) -> None:
    directory = RunDirectory(copied)
    assert checksums(directory).passed
    total = len(list(directory.checkpoints.iterdir()))
    weights = directory.checkpoint_path(50) / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    found = checksums(directory)
    assert found.passed is False
    assert found.found.startswith(f"{total - 1} of {total} checkpoints are intact; ")
    assert "step-000050: damaged" in found.found
    shutil.rmtree(directory.checkpoints)
    assert checksums(directory).passed is False


def test_unknown_pieces_are_found(trained: Path) -> None:
    translator = Translator.load(trained, backend="torch")
    pairs = [Pair(*pair) for pair in toy_pairs(20, 1)]
    assert vocabulary(translator, pairs).found == (
        "0.00 % of the source, 0.00 % of the target pieces are <unk> or bytes"
    )
    assert vocabulary(translator, [*pairs, Pair("gato 日本", "cat")]).passed is False
    assert vocabulary(translator, [*pairs, Pair("gato", "cat 日本")]).passed is False


def test_leak_is_found(toy: ToyCorpus, tmp_path: Path) -> None:
    train = tmp_path / "train.tsv"
    train.write_text("uno dos\tone two\ntres\tthree\ncuatro\tfour\n")
    config = toy.config(tmp_path / "run", f"data.train.0.path={train}")
    found = leak(config, [Pair("¡Uno, DOS!", "One two."), Pair("tres", "x"), Pair("y", "four")])
    assert found.passed is False
    assert found.found == (
        "1 of 3 train pairs are in the test set with both sides, 1 with the source only, "
        "1 with the target only"
    )
    assert leak(config, [Pair("tres", "x"), Pair("y", "four")]).passed
    test = tmp_path / "test.tsv"
    test.write_text("¡Uno, DOS!\tOne two.\n")
    dropping = "data.cleaning.drop_overlap=true"
    recipe = toy.config(
        tmp_path / "run", f"data.train.0.path={train}", f"data.test.path={test}", dropping
    )
    assert leak(recipe, [Pair("uno dos", "one two")]).passed
    assert leak(recipe, [Pair("tres", "three")]).passed is False  # not the test set it dropped
    train.unlink()
    gone = leak(config, [Pair("a", "b")])
    assert gone.passed is None
    assert "no such file" in gone.found
    fields = {"format": "huggingface", "name": "n", "split": "s", "source": "a", "target": "b"}
    data = config.data.model_copy(update={"train": (CorpusConfig.model_validate(fields),)})
    assert leak(config.model_copy(update={"data": data}), []).passed is None


def test_default_test_set_is_that_of_the_recipe(toy: ToyCorpus, copied: Path) -> None:
    found = diagnose(copied)
    assert set(found) == NAMES
    config = (copied / "config.yaml").read_text()
    (copied / "config.yaml").write_text(config.replace("test.tsv", "none.tsv"))
    with pytest.raises(DataError, match=r"as no other is given: .*none.tsv: no such file"):
        diagnose(copied)
    assert healthy(diagnose(copied, str(toy.folder / "valid.tsv"))) == (
        diagnose(copied, str(toy.folder / "valid.tsv"))["no leak"].passed
    )


def test_search_that_mixes_up_sentences_is_found(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = examine(probe)
    assert found["order invariance"].passed
    assert found["beam 1 is greedy"].passed
    translate, search = Translator.translate, model_checks.beam_search

    def alphabetical(self: Translator, lines: list[str]) -> object:
        return sorted(translate(self, lines), key=lambda found: found[0].text)

    monkeypatch.setattr(Translator, "translate", alphabetical)
    monkeypatch.setattr(model_checks, "beam_search", lambda *given: search(*given)[::-1])
    found = examine(probe)
    assert found["order invariance"].passed is False
    assert found["beam 1 is greedy"].passed is False


def test_probe_has_sentences_of_all_lengths(trained: Path) -> None:
    translator = Translator.load(trained, backend="torch")
    pairs = [Pair(*pair) for pair in toy_pairs(300, 2)]
    chosen = make_probe(translator, pairs, sentences=9).pairs
    assert len(chosen) == 9
    assert {len(pair.source.split()) for pair in chosen} == {1, 2, 3, 4, 5, 6}
    assert [pairs.index(pair) for pair in chosen] == sorted(pairs.index(p) for p in chosen)
    odd = [Pair("", "a"), Pair("a", " "), Pair("gato " * 100, "cat"), Pair("gato", "cat")]
    with pytest.raises(DataError, match="two or more sentence pairs of 1 to 60 pieces, found 1"):
        make_probe(translator, odd)


def test_loss_matches_validation(probe: Probe) -> None:
    translator = probe.translator
    batch = widen(probe.batch(), 3)
    loss = float(mean_loss(probe.model, batch).detach())
    steps = step_through(probe, batch)
    rows = zip(steps.log_probs_BTV.numpy(), batch.labels_BT.tolist(), strict=True)
    chosen = [
        row[t, label] for row, labels in rows for t, label in enumerate(labels) if label != PAD
    ]
    assert loss == pytest.approx(-sum(chosen) / len(chosen), rel=1e-4)
    config = translator.config.model_copy(
        update={"training": translator.config.training.model_copy(
            update={"validation_sentences": 1000}
        )}
    )  # fmt: skip
    validator = Validator(
        list(probe.pairs), translator.source, translator.target, config,
        device=probe.device, dtype=torch.float32,
    )  # fmt: skip
    assert validator(probe.model).metrics["loss"] == pytest.approx(loss, rel=1e-4)


def test_widen_adds_only_padding(probe: Probe) -> None:
    batch = probe.batch()
    wide = widen(batch, 4)
    assert wide.source_BS.shape[1] == batch.source_BS.shape[1] + 4
    assert wide.labels_BT.shape[1] == wide.inputs_BT.shape[1] == batch.labels_BT.shape[1] + 4
    assert torch.equal(wide.source_mask_BS.sum(1), batch.source_mask_BS.sum(1))
    assert torch.equal(wide.label_mask_BT.sum(1), batch.label_mask_BT.sum(1))


def test_non_finite_numbers_fail(probe: Probe) -> None:
    broken = probe.copy()
    with torch.no_grad():
        broken.model.output_bias.fill_(math.nan)
    failed = {name for name, found in examine(broken).items() if found.passed is False}
    assert {"batch invariance", "order invariance", "beam 1 is greedy", "history counts",
            "steps equal training", "source counts", "loss ignores padding"} <= failed  # fmt: skip
    with torch.no_grad():
        broken.model.output_bias.zero_()
        next(broken.model.decoder.attention.parameters()).fill_(math.nan)
    failed = {name for name, found in examine(broken).items() if found.passed is False}
    assert {"weights sum to 1", "no weight on padding", "attention moves"} <= failed


def test_model_that_ignores_its_source_is_found(probe: Probe) -> None:
    assert examine(probe)["source counts"].passed
    # Each target gets the source of the next one.
    following = (*probe.pairs[1:], probe.pairs[0])
    moved = [
        replace(pair, source=other.source)
        for pair, other in zip(probe.pairs, following, strict=True)
    ]
    assert not examine(replace(probe, pairs=tuple(moved)))["source counts"].passed


def test_attention_checks_are_skipped_without_attention(toy: ToyCorpus, probe: Probe) -> None:
    from seq2seq.config import ModelConfig
    from seq2seq.model.translation_model import TranslationModel

    old = probe.translator
    sizes = {"embedding_size": 8, "encoder_size": 8, "decoder_size": 8}
    config = ModelConfig.model_validate({**sizes, "attention": {"score": "none"}})
    model = TranslationModel(config, old.source.vocab_size, old.target.vocab_size)
    translator = Translator([TorchBackend(model)], old.source, old.target, old.config)
    found = examine(replace(probe, translator=translator))
    skipped = {name for name, finding in found.items() if finding.passed is None}
    assert skipped == {"weights sum to 1", "no weight on padding", "attention moves"}
    assert found["batch invariance"].passed


def test_history_check_is_skipped_for_short_targets(trained: Path) -> None:
    translator = Translator.load(trained, backend="torch")
    probe = make_probe(translator, [Pair("gato", "cat"), Pair("perro", "dog")])
    assert examine(probe)["history counts"].passed is None

"""Training that starts from the weights and tokenizers of another run (train --from)."""

from __future__ import annotations

import itertools
import json
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ToyCorpus, to_read
from processes import Server, Training
from same_runs import assert_same, records
from test_ranks import codes, text, wait_for
from test_ranks import run as run_ranks
from test_resumption import Crash, train_with_crashes

from seq2seq import cli
from seq2seq.config import Config, load_config, parse_config
from seq2seq.data.casing import CAPS, SHIFT
from seq2seq.data.stream import BatchStream
from seq2seq.data.tokenizer import EOS
from seq2seq.errors import CheckpointError, ConfigError, UserError
from seq2seq.pipeline import train
from seq2seq.runs.checkpoint import list_checkpoints
from seq2seq.runs.directory import RunDirectory, find_checkpoint
from seq2seq.training import trainer

METRICS = ("loss", "bleu", "chrf")


def recipe(toy: ToyCorpus, run_dir: Path, parent: Path) -> str:
    """Return a recipe without model, tokenizers and search, which are the parent's."""
    return f"""
run_dir: {run_dir}
data:
  train: [{{path: {toy.folder}/test.tsv}}]
  valid: {{path: {toy.folder}/valid.tsv}}
  batching: {{unit: sentences, size: 4}}
training:
  initial: {{run: {parent}}}
  max_steps: 7
  learning_rate: 1e-3
  ema: 0.9
  schedule: {{kind: linear, warmup_steps: 2}}
  log_every: 1
  validate_every: 4
  checkpoint_every: 2
  validation_sentences: 10
  precision: fp32
  device: cpu
  tensorboard: false
"""


def tuning(toy: ToyCorpus, run_dir: Path, parent: Path, *overrides: str) -> Config:
    return parse_config(recipe(toy, run_dir, parent), overrides)


@pytest.fixture(scope="module")
def tuned(toy: ToyCorpus, trained: Path, shared: Path) -> Iterator[Path]:
    yield from to_read(shared / "tuned", lambda path: train(tuning(toy, path, trained)))


def test_first_validation_is_that_of_the_parent(trained: Path, tuned: Path) -> None:
    first = records(tuned)[0]
    parent = find_checkpoint(trained).state["validation"]
    assert (first["kind"], first["step"]) == ("validation", 0)
    assert {key: first[key] for key in METRICS} == {key: parent[key] for key in METRICS}
    assert [r["step"] for r in records(tuned) if r["kind"] == "validation"] == [0, 4, 7]


def test_model_and_tokenizers_are_those_of_the_parent(trained: Path, tuned: Path) -> None:
    ours, theirs = RunDirectory(tuned), RunDirectory(trained)
    assert ours.shares_tokenizers(theirs)
    config, parent = ours.config(), theirs.config()
    assert (config.model, config.inference) == (parent.model, parent.inference)
    assert config.data.tokenizer == parent.data.tokenizer
    assert config.data.batching != parent.data.batching
    assert config.training.initial is not None
    assert config.training.initial.run == str(trained)
    assert config.training.initial.weights == find_checkpoint(trained).weights_sum


def test_keys_that_no_weight_depends_on_may_differ(
    toy: ToyCorpus, trained: Path, tmp_path: Path
) -> None:
    given = "model={dropout: 0.3, init: uniform, attention: {score: additive, size: 24}}"
    train(tuning(toy, tmp_path, trained, given, "training.max_steps=1"))
    config, parent = RunDirectory(tmp_path).config(), RunDirectory(trained).config()
    assert config.model.dropout == 0.3
    assert config.model.encoder_size == parent.model.encoder_size


def test_output_biases_are_those_of_the_parent_unless_the_target_language_differs(
    toy: ToyCorpus, trained: Path, tmp_path: Path
) -> None:
    found = []
    for language in ("en", "fr"):
        changes = (f"data.target_language={language}", "training.max_steps=1")
        path = tmp_path / language
        train(tuning(toy, path, trained, "training.learning_rate=1e-9", *changes))
        found.append(find_checkpoint(path).weights()["output_bias"])
    torch.testing.assert_close(found[0], find_checkpoint(trained).weights()["output_bias"])
    _, target = RunDirectory(trained).tokenizers()
    rows = (toy.folder / "test.tsv").read_text(encoding="utf-8").splitlines()
    ids = [i for row in rows for i in (*target.encode(row.split("\t")[1]), EOS)]
    counts_V = torch.bincount(torch.tensor(ids), minlength=target.vocab_size).double() + 1
    torch.testing.assert_close(found[1], (counts_V / counts_V.sum()).log().float())


def test_other_languages_than_the_parent_are_logged(
    toy: ToyCorpus, trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    keys = "data.source_language", "data.target_language"
    for languages, expected in (
        (("es", "en"), []),
        (("es", "fr"), ["that model translates es to en, this run es to fr"]),
        (("en", "es"), ["that model translates es to en, this run en to es"]),
    ):
        caplog.clear()
        given = [f"{key}={value}" for key, value in zip(keys, languages, strict=True)]
        train(tuning(toy, tmp_path / "-".join(languages), trained, "training.max_steps=1", *given))
        found = [r.getMessage() for r in caplog.records if "translates" in r.getMessage()]
        assert found == expected


def test_new_tokenizers_get_embeddings_made_of_the_old_ones(
    toy: ToyCorpus, trained: Path, tmp_path: Path
) -> None:
    changes = (
        "training.initial.new_tokenizers=true", "data.tokenizer={joint: true, case_marks: true, "
        "source_vocab_size: 310}", "model.joint_embeddings=true", "training.max_steps=1",
        "training.learning_rate=1e-9",
    )  # fmt: skip
    train(tuning(toy, tmp_path, trained, *changes))
    run, parent = RunDirectory(tmp_path), RunDirectory(trained)
    joint, target = run.tokenizers()
    assert joint.fingerprint() == target.fingerprint()
    assert joint.marks_case
    before, after = (find_checkpoint(path).weights() for path in (trained, tmp_path))
    sides = [
        (old.pieces(range(old.vocab_size)), before[f"{name}_embedding.weight"])
        for old, name in zip(parent.tokenizers(), ("source", "target"), strict=True)
    ]
    checked = 0
    for number, piece in enumerate(joint.pieces(range(joint.vocab_size))):
        ways = [fewest_pieces(piece, pieces) for pieces, _ in sides]
        if piece[1:2] in (SHIFT, CAPS) or not any(ways) or max(map(len, ways)) > 1:
            continue  # no old piece has marks; of several equally short ways any may be taken
        fewest = min(len(way[0]) for way in ways if way)
        means = [
            table[way[0]].mean(0)
            for way, (_, table) in zip(ways, sides, strict=True)
            if way and len(way[0]) == fewest
        ]
        torch.testing.assert_close(after["source_embedding.weight"][number], sum(means))
        checked += 1
    assert checked > 0.9 * joint.vocab_size
    for name, weights in before.items():
        if "embedding" not in name and not name.startswith("output"):
            torch.testing.assert_close(after[name], weights)
    assert "target_embedding.weight" not in after


def fewest_pieces(text: str, pieces: list[str]) -> list[list[int]]:
    """Return all ways to spell a text with the fewest pieces."""
    for count in range(1, len(text) + 1):
        ways = []
        for cuts in itertools.combinations(range(1, len(text)), count - 1):
            parts = [text[a:b] for a, b in itertools.pairwise((0, *cuts, len(text)))]
            if all(part in pieces for part in parts):
                ways.append([pieces.index(part) for part in parts])
        if ways:
            return ways
    return []


def test_average_starts_at_the_parent(
    toy: ToyCorpus, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A young average of a parent does not move faster than an old one."""
    monkeypatch.setattr(BatchStream, "target_counts", lambda *_: pytest.fail("biases were set"))
    train(tuning(toy, tmp_path, trained, "training.max_steps=1"))
    before = find_checkpoint(trained).weights()
    [_, after] = list_checkpoints(tmp_path / "checkpoints")
    weights, raw = after.weights(), after.training()
    for name, tensor in before.items():
        expected = tensor.lerp(raw[f"raw.{name}"], 1 - 0.9)
        torch.testing.assert_close(weights[name], expected)
        assert not torch.equal(raw[f"raw.{name}"], tensor)


def test_resume_is_bit_identical_and_needs_no_parent(
    toy: ToyCorpus, trained: Path, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, path = tmp_path / "parent", tmp_path / "run"
    shutil.copytree(trained, parent)
    text = recipe(toy, path, parent)
    save = trainer.save_checkpoint

    def crashing(path: Path, *arguments: Any) -> None:
        if path.name == "step-000002":
            raise Crash
        save(path, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(trainer, "save_checkpoint", crashing)
        with pytest.raises(Crash):
            train(parse_config(text))
    shutil.rmtree(parent)
    without = "\n".join(line for line in text.splitlines() if "initial" not in line)
    assert train_with_crashes(parse_config(without), 1, monkeypatch, resume=True) == "finished"
    assert_same(tuned, path)


def test_crash_before_the_first_checkpoint(
    toy: ToyCorpus, trained: Path, tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "save_checkpoint", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            train(tuning(toy, tmp_path, trained))
    train(tuning(toy, tmp_path, trained), resume=True)
    assert_same(tuned, tmp_path)


def test_resume_before_the_first_checkpoint_has_the_new_tokenizers(
    toy: ToyCorpus, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = "training.initial.new_tokenizers=true", "data.tokenizer.source_vocab_size=300"
    recipe = tuning(toy, tmp_path, trained, *new, "training.max_steps=1")
    with monkeypatch.context() as patch:
        patch.setattr(trainer, "save_checkpoint", lambda *_: (_ for _ in ()).throw(Crash))
        with pytest.raises(Crash):
            train(recipe)
    trained_before = [each.fingerprint() for each in RunDirectory(tmp_path).tokenizers()]
    monkeypatch.setattr("seq2seq.pipeline.train_tokenizers", lambda *_: pytest.fail("trained"))
    train(recipe, resume=True)
    tokenizers = RunDirectory(tmp_path).tokenizers()
    assert [each.fingerprint() for each in tokenizers] == trained_before
    embeddings = find_checkpoint(tmp_path).weights()["source_embedding.weight"]
    assert len(embeddings) == tokenizers[0].vocab_size


@pytest.mark.parametrize(
    ("new", "options", "expected"),
    [
        (True, ["--from", "other"], ("other", True)),
        (False, ["--from", "other", "--new-tokenizers"], ("other", True)),
        (False, ["--new-tokenizers"], ("parent", True)),
        (False, ["--from", "other"], ("other", False)),
    ],
)
def test_options_and_recipe_together_say_what_to_start_from(
    toy: ToyCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    new: bool, options: list[str], expected: tuple[str, bool],
) -> None:  # fmt: skip
    file = tmp_path / "tune.yaml"
    file.write_text(recipe(toy, tmp_path / "run", Path("parent")))
    started: list[Config] = []
    monkeypatch.setattr("seq2seq.pipeline.train", lambda config, **_: started.append(config))
    monkeypatch.setattr("seq2seq.commands.train._report_end", lambda *_: 0)
    override = f"training.initial.new_tokenizers={str(new).lower()}"
    assert cli.main(["train", str(file), override, *options]) == 0
    [config] = started
    assert config.training.initial is not None
    assert (config.training.initial.run, config.training.initial.new_tokenizers) == expected


def test_recorded_recipe_trains_the_same_run(
    toy: ToyCorpus, trained: Path, tuned: Path, tmp_path: Path
) -> None:
    parent, path = tmp_path / "parent", tmp_path / "run"
    shutil.copytree(trained, parent)
    places = (f"run_dir={path}", f"training.initial.run={parent}")
    config = load_config(tuned / "config.yaml", places)
    train(config)
    assert_same(tuned, path)
    shutil.rmtree(find_checkpoint(parent).path)
    with pytest.raises(CheckpointError, match=r"not the weights that training\.initial\.weights"):
        train(config, overwrite=True)
    assert_same(tuned, path)


def test_command(
    toy: ToyCorpus, trained: Path, tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = tmp_path / "run", tmp_path / "tune.yaml"
    lines = recipe(toy, path, trained).splitlines()
    file.write_text("\n".join(line for line in lines if "initial" not in line))
    command = ["train", str(file), "--from", str(trained)]
    assert cli.main(command) == 0
    printed = capsys.readouterr().err
    assert f"starting from {find_checkpoint(trained).path}" in printed
    assert "validation at step 0: loss" in printed
    assert_same(tuned, path)
    assert cli.main([*command, "--resume"]) == 2
    assert "use one of them" in capsys.readouterr().err
    assert cli.main(["train", str(file), "--resume"]) == 0
    assert "already finished at step 7" in capsys.readouterr().err


def test_end_says_if_the_weights_that_it_started_from_are_still_the_best(
    toy: ToyCorpus, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = tmp_path / "run", tmp_path / "tune.yaml"
    file.write_text(recipe(toy, path, tmp_path / "none"))
    command = ["train", str(file), "--from", str(trained), "training.metric=loss"]
    assert cli.main([*command, "training.learning_rate=10", "training.clip_norm=null"]) == 0
    last = RunDirectory(path).checkpoint_path(7)
    assert f"(step 0), which the run goes on using; the last ones are in {last}. Translate" in (
        capsys.readouterr().err
    )


def test_ranks_start_from_the_same_weights(
    server: Server, toy: ToyCorpus, trained: Path, tuned: Path, tmp_path: Path, capsys: Any
) -> None:
    file = tmp_path / "tune.yaml"
    file.write_text(recipe(toy, tmp_path / "run", tmp_path / "none"))
    code, errors = run_ranks(server, file, tmp_path / "run", "--from", str(trained))
    assert code == 0, errors
    alone, together = records(tuned), records(tmp_path / "run")
    assert together[0]["loss"] == pytest.approx(alone[0]["loss"], rel=1e-5)
    assert [r["step"] for r in together] == [r["step"] for r in alone]
    # The launcher itself finds out what no restart can change.
    command = ["train", str(file), f"run_dir={tmp_path / 'other'}", "--processes", "2"]
    assert cli.main([*command, "--from", str(tmp_path / "none"), "--restarts", "2"]) == 2
    assert capsys.readouterr().err.count("not a run directory") == 1


@pytest.mark.slow
def test_restarted_ranks_continue_the_new_run(
    server: Server,
    toy: ToyCorpus,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The launcher gives the same command again, which still has --from."""
    file, path = tmp_path / "tune.yaml", tmp_path / "run"
    file.write_text(recipe(toy, path, tmp_path / "none"))
    launched: list[tuple[int, list[str], int]] = []

    def launch(processes: int, command: list[str], *, restarts: int) -> int:
        launched.append((processes, command, restarts))
        return 0

    monkeypatch.setattr("seq2seq.processes.launch", launch)
    arguments = ["train", str(file), "--processes", "2", "--restarts", "1"]
    assert cli.main([*arguments, "--from", str(trained), "training.max_steps=60"]) == 0
    [(processes, command, restarts)] = launched
    assert (processes, restarts) == (2, 1)

    def start(number: int) -> list[Training]:
        torchrun = {"TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": str(number)}
        return server.start_ranks(2, command, tmp_path / f"{number}.txt", **torchrun)

    first = start(0)
    wait_for(lambda: any(path.glob("checkpoints/step-00000[2-9]")))
    first[1].send(signal.SIGKILL)
    assert codes(first) == [1, -signal.SIGKILL]
    second = start(1)
    assert codes(second) == [0, 0], text(second)
    assert "resuming from" in text(second)
    steps = [r["step"] for r in records(path) if r["kind"] == "train"]
    assert steps == list(range(1, 61))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (("model.encoder_size=32",), r"model\.encoder_size: the recipe has 32, but .* has 24"),
        (("model.style=luong",), r"model\.style: the recipe has 'luong'"),
        (("model={attention: {score: general}}",), r"model\.attention\.score: the recipe"),
        (("data.tokenizer.source_vocab_size=500",), r"source_vocab_size: the recipe has 500"),
        (("data.tokenizer.joint=true",), r"tokenizer\.joint: the recipe has True, but .*remove"),
        (("training.initial.run=none",), "none: not a run directory"),
        (("training.initial.run={bare}",), "has ONNX files for other programs, but no weights"),
        (("training.initial.run={damaged}",), "no intact checkpoint"),
        (("training.initial.run={cut}",), "model.safetensors does not match its checksum"),
        (("training.initial.run={run}",), "is the run that training starts from"),
        (("training.initial.run={run}/checkpoints/step-000004",), "is the run that training st"),
        (("training.initial={}",), r"training\.initial\.run: missing required key"),
    ],
)  # fmt: skip
def test_bad_starts_are_refused_before_anything_is_replaced(
    toy: ToyCorpus, trained: Path, exported: Path, tuned: Path, tmp_path: Path,
    overrides: tuple[str, ...], words: str, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    run, damaged = tmp_path / "run", tmp_path / "damaged"
    shutil.copytree(tuned, run)
    shutil.copytree(trained, damaged)
    for checkpoint in damaged.glob("checkpoints/*"):
        (checkpoint / "model.safetensors").write_bytes(b"")
    bare = shutil.copytree(exported, tmp_path / "bare")
    shutil.rmtree(bare / "checkpoints")  # as earlier versions exported
    names: dict[str, Any] = {
        "bare": bare, "damaged": damaged, "run": run,
        "cut": damaged / "checkpoints/step-000150",
    }  # fmt: skip
    for name, place in names.items():
        overrides = tuple(text.replace(f"{{{name}}}", str(place)) for text in overrides)
    monkeypatch.setattr("seq2seq.pipeline.load_pairs", lambda *_: pytest.fail("data was read"))
    with pytest.raises(UserError, match=words):
        train(tuning(toy, run, trained, *overrides), overwrite=True)
    assert_same(tuned, run)


def test_another_start_is_refused_when_resuming(
    toy: ToyCorpus, trained: Path, other: Path, tuned: Path
) -> None:
    with pytest.raises(ConfigError, match=r"training\.initial\.run was .*training began with its"):
        train(tuning(toy, tuned, other), resume=True)
    text = json.dumps({"run": str(other)})
    with pytest.raises(ConfigError, match=r"training\.initial"):
        train(load_config(trained / "config.yaml", (f"training.initial={text}",)), resume=True)

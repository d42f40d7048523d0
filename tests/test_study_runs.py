"""Small studies of the toy language, trained for real."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ToyCorpus, toy_pairs
from processes import Server

import study
from seq2seq.data.corpus import read_corpus
from seq2seq.errors import ConfigError
from seq2seq.evaluation.evaluate import evaluate
from seq2seq.inference.translator import Translator
from seq2seq.runs.directory import RunDirectory
from studies.plan import SCRIPT, Plan, Run, make_plan
from studies.runs import RunResult, complete, launcher_line, load_result

STUDY = """
name: toy
out: {folder}/out
base: {folder}/base.yaml
overrides:
  data.test: {{path: {folder}/test.tsv, alignment: 2}}
  model.attention.score: general
grid:
  style: {{luong: {{model.style: luong}}, bahdanau: {{}}}}
  training.ema: [0.9]
seeds: [1, 2]
"""

TOY = list(toy_pairs(8, 3))

Planner = Callable[..., Plan]


@pytest.fixture
def plan(toy: ToyCorpus, tmp_path: Path) -> Planner:
    """Return a function that plans 2 x 1 cells with 2 seeds and gold alignments."""
    (tmp_path / "base.yaml").write_text(toy.recipe(Path("none")))
    (tmp_path / "study.yaml").write_text(STUDY.format(folder=tmp_path))
    rows = []
    for source, target in toy_pairs(20, 2):
        links = " ".join(f"{n}-{n}" for n in range(len(source.split())))
        rows.append(f"{source}\t{target}\t{links}\n")
    (tmp_path / "test.tsv").write_text("".join(rows), encoding="utf-8")
    return lambda *changes: make_plan(str(tmp_path / "study.yaml"), changes)


@pytest.fixture
def quick_python(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a study start its runs from a process with all modules imported."""
    monkeypatch.setattr(sys, "executable", str(server.python))


def make(run: Run, plan: Plan, *, overwrite: bool = False) -> RunResult:
    complete(run, plan.study, list(read_corpus(plan.test)), overwrite=overwrite)
    result = load_result(run.path)
    assert result is not None
    return result


def same(one: Run, other: Run) -> bool:
    """Return whether two runs have the same weights and results, except for times and paths."""
    weights = [RunDirectory(run.path).newest().weights() for run in (one, other)]
    assert weights[0].keys() == weights[1].keys()
    equal = all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    results: list[dict[str, Any]] = []
    for run in (one, other):
        result = json.loads((run.path / "result.json").read_text())
        del result["minutes"], result["config"]["run_dir"], result["config"]["training"]["threads"]
        for point in result["curve"]:
            del point["minutes"]
        results.append(result)
    return equal and results[0] == results[1]


def test_finished_run_is_not_repeated(
    plan: Planner, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    first = plan()
    run = first.runs[0]
    result = make(run, first)
    pairs = list(read_corpus(first.test))
    translator = Translator.load(run.path)
    [model] = Translator.load(run.path, backend="torch").models
    assert list(result.hypotheses) == evaluate(translator, pairs).hypotheses
    assert result.bleu == evaluate(translator, pairs).metrics["bleu"].score
    assert (result.steps, result.ended, result.config) == (20, "finished", run.config)
    assert [point.step for point in result.curve] == [6, 12, 18, 20]
    assert result.parameters == sum(p.numel() for p in model.parameters())
    assert result.alignment_error is not None
    assert 0 < result.alignment_error < 100
    files = {p: p.stat().st_mtime_ns for p in run.path.rglob("*") if p.is_file()}
    with caplog.at_level("INFO"):
        assert make(run, first) == result
    assert "already finished" in caplog.text
    assert files == {p: p.stat().st_mtime_ns for p in run.path.rglob("*") if p.is_file()}

    wider = plan("inference.beam_size=1", "measure=[bleu]")
    again = make(wider.runs[0], wider)
    assert again.config.inference.beam_size == 1
    assert again.alignment_error is again.lost is None
    typed = plan("inference.beam_size=1", "measure=[lost]")
    assert make(typed.runs[0], typed).lost is not None
    assert again.curve == result.curve

    minimal = tmp_path / "minimal.tsv"
    minimal.write_text("".join(f"{n % 2}\t{s}\t{t}\t{t} {t}\n" for n, (s, t) in enumerate(TOY)))
    asked = (f"challenge={minimal}", "inference.beam_size=1", "measure=[bleu, challenge]")
    found = make((of := plan(*asked)).runs[0], of)
    assert list(found.phenomena) == ["0", "1", "all"]
    assert found.challenge == found.phenomena["all"] > 50  # right ones are shorter
    minimal.write_text(f"reversed\t{TOY[0][0]}\t{TOY[0][1]} {TOY[0][1]}\t{TOY[0][1]}\n")
    assert make(of.runs[0], of).phenomena == {"reversed": 0.0}
    checkpoints = run.path / "checkpoints"
    assert all(p.stat().st_mtime_ns == files[p] for p in checkpoints.rglob("*") if p.is_file())

    changed = plan("training.max_steps=6")
    with pytest.raises(ConfigError, match=r"max_steps was 20 and is 6\. .*--overwrite"):
        make(changed.runs[0], changed)
    assert make(changed.runs[0], changed, overwrite=True).steps == 6


def test_no_alignment_error_without_attention(plan: Planner) -> None:
    without = plan("model.attention.score=none", "training.max_steps=6")
    assert make(without.runs[0], without).alignment_error is None


def test_killed_run_resumes_to_the_same_result(
    server: Server, plan: Planner, tmp_path: Path
) -> None:
    changes = (
        "training.max_steps=40",
        "training.validate_every=20",
        "training.checkpoint_every=10",
    )
    straight, killed = plan(f"out={tmp_path}/straight", *changes), plan(*changes)
    make(straight.runs[0], straight)
    run = killed.runs[0]
    arguments = [killed.path, *changes, "--cell", run.name]
    process = server.start(arguments, tmp_path / "output.txt", module="study")
    while not any((run.path / "checkpoints").glob("step-*")):
        assert process.code() is None, process.text()
        time.sleep(0.005)
    process.send(signal.SIGKILL)
    process.wait()
    assert load_result(run.path) is None
    assert RunDirectory(run.path).newest().step < 40
    assert study.main(arguments) == 0
    assert same(run, straight.runs[0])


def test_a_cell_tries_its_values_and_then_trains_its_seeds(
    plan: Planner, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ("training.max_steps=6", "tune={training.learning_rate: [0.003, 1.0e-9]}")
    tuned = plan(*changes)
    cell, names = tuned.cells[1].name, [run.name for run in tuned.runs]
    found = [tuned.path, *changes]
    assert study.main([*found, "--cell", cell]) == 0
    assert study.main([*found, "--list"]) == 0
    done = [line.split()[1] for line in capsys.readouterr().out.splitlines() if "BLEU" in line]
    assert done == [f"{cell}/0.003/seed-1", f"{cell}/0.003/seed-2"]
    times = {path: path.stat().st_mtime_ns for path in tuned.study.directory.rglob("result.json")}
    assert len(times) == 3
    # A line of --launcher that is repeated, though its value was not the best, trains nothing.
    assert study.main([*found, "--cell", names[3]]) == 0
    assert times == {path: path.stat().st_mtime_ns for path in times}


@pytest.mark.slow
@pytest.mark.usefixtures("quick_python")
def test_whole_study(
    server: Server, plan: Planner, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = plan()
    for run in first.runs[:3]:  # these are finished already
        make(run, first)
    command = [first.path, "--jobs", "2"]
    # One more cell, whose training diverges: the others continue.
    more = "grid.style.broken={training.learning_rate: 1e30, training.max_skipped: 2}"
    assert study.main([*command, more]) == 1
    captured = capfd.readouterr()
    assert captured.err.count("FAILED (exit status 2") == 2
    broken = first.study.directory / "cells/broken_ema=0.9/seed-2"
    assert f"broken_ema=0.9/seed-2 failed: exit status 2; see {broken}/output.txt" in captured.err
    assert "updates in a row were not finite" in (broken / "output.txt").read_text()
    assert "4 of 6 runs are finished" in captured.err
    # Without it, everything is finished and nothing is trained.
    results = [run.path / "result.json" for run in first.runs]
    before = [path.stat().st_mtime_ns for path in results]
    assert study.main(command) == 0
    assert [path.stat().st_mtime_ns for path in results] == before
    table = capfd.readouterr().out
    assert [line.split(" | ")[2] for line in table.splitlines()[2:]] == ["2", "2"]

    # The commands of --launcher make the same runs.
    apart = plan(f"out={tmp_path}/apart")
    assert study.main([first.path, f"out={tmp_path}/apart", "--launcher"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines == [launcher_line(apart, run) for run in apart.runs]
    arguments = shlex.split(lines[3])
    assert arguments[:2] == ["python", os.path.relpath(SCRIPT)]
    assert server.start(arguments[2:], tmp_path / "output.txt", module="study").wait() == 0
    assert same(apart.runs[3], first.runs[3])
    assert study.main([first.path, f"out={tmp_path}/apart", "--gather"]) == 0
    assert "1 of 4 runs are finished" in capfd.readouterr().err


def test_cells_that_differ_by_their_search_share_a_training(
    plan: Planner, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = "grid={inference.beam_size: [1, 3]}"
    searches = plan(grid, "seeds=[1]")
    assert study.main([searches.path, grid, "seeds=[1]"]) == 0
    assert "2 of 2 runs are finished" in capsys.readouterr().err
    one, other = (load_result(run.path) for run in searches.runs)
    assert one is not None
    assert other is not None
    assert one.curve == other.curve  # also the minutes
    assert [each.config.inference.beam_size for each in (one, other)] == [1, 3]
    assert Translator.load(searches.runs[1].path).options().beam_size == 3
    narrow, wide = (Translator.load(run.path, backend="torch") for run in searches.runs)
    sources = [source for source, _ in toy_pairs(20, 2)]
    assert list(one.hypotheses) == [t[0].text for t in narrow.translate(sources)]
    assert list(other.hypotheses) == [t[0].text for t in wide.translate(sources)]


@pytest.mark.usefixtures("quick_python")
def test_tuned_study_trains_all_seeds_with_the_best_value(
    plan: Planner, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = "tune={training.learning_rate: [1.0e-2, 1.0e-9]}"  # too small to learn
    tuned = plan(rates, "seeds=[1, 2]")
    assert [run.seed for run in tuned.runs] == [1, 1, 1, 1]
    assert study.main([tuned.path, rates, "--jobs", "2"]) == 0
    captured = capsys.readouterr()
    assert "4 of 4 runs are finished" in captured.err
    assert [line.split(" | ")[2:4] for line in captured.out.splitlines()[2:]] == [["2", "0.01"]] * 2
    paths = sorted(run.parent for run in tuned.study.directory.rglob("result.json"))
    assert [path.parent.name for path in paths] == ["0.01", "0.01", "1e-09"] * 2


@pytest.mark.slow
def test_interrupted_study_continues_with_the_same_command(
    server: Server, plan: Planner, tmp_path: Path
) -> None:
    changes = ["training.max_steps=50", "training.validate_every=25", "seeds=[1]"]
    changes += ["training.checkpoint_every=10", "measure=[bleu]"]
    begun = plan(*changes)
    command = [begun.path, *changes]
    python = f"import sys; sys.executable = {str(server.python)!r}"
    process = server.start(command, tmp_path / "first.txt", python, module="study")
    while not any((begun.runs[0].path / "checkpoints").glob("step-*")):
        assert process.code() is None, process.text()
        time.sleep(0.005)
    process.send(signal.SIGINT)
    assert process.wait() == 130, process.text()
    again = f"{os.path.relpath(SCRIPT)} {begun.path} training.max_steps=50"
    assert f"Continue with: python {again}" in process.text()
    assert 0 < RunDirectory(begun.runs[0].path).newest().step < 50
    assert not begun.runs[1].path.exists()
    process = server.start(command, tmp_path / "second.txt", python, module="study")
    assert process.wait() == 0, process.text()
    assert "resuming from" in process.text()
    straight = plan(*changes, f"out={tmp_path}/straight")
    make(straight.runs[0], straight)
    assert same(begun.runs[0], straight.runs[0])

"""Small studies of the toy language, trained for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
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
from studies.plan import Plan, Run, make_plan
from studies.runs import RunResult, load_result, make_run

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


def runs_of(plan: Plan) -> list[Run]:
    return [run for cell in plan.cells for option in cell.options for run in option]


def make(run: Run, plan: Plan) -> RunResult:
    make_run(run, plan, list(read_corpus(plan.test)))
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
    run = runs_of(first)[0]
    result = make(run, first)
    pairs = list(read_corpus(first.test))
    translator = Translator.load(run.path)
    [model] = Translator.load(run.path, backend="torch").models
    assert list(result.hypotheses) == evaluate(translator, pairs).hypotheses
    assert result.bleu == evaluate(translator, pairs).metrics["bleu"].score
    assert (result.steps, result.ended, result.config) == (20, "finished", run.config)
    assert [point["step"] for point in result.curve] == [6, 12, 18, 20]
    assert result.parameters == sum(p.numel() for p in model.parameters())
    assert result.alignment_error is not None
    assert 0 < result.alignment_error < 100
    files = {p: p.stat().st_mtime_ns for p in run.path.rglob("*") if p.is_file()}
    with caplog.at_level("INFO"):
        assert make(run, first) == result
    assert "already finished" in caplog.text
    assert files == {p: p.stat().st_mtime_ns for p in run.path.rglob("*") if p.is_file()}

    wider = plan("inference.beam_size=1", "measure=[bleu]")
    again = make(runs_of(wider)[0], wider)
    assert again.config.inference.beam_size == 1
    assert again.alignment_error is again.lost is None
    typed = plan("inference.beam_size=1", "measure=[lost]")
    assert make(runs_of(typed)[0], typed).lost is not None
    assert again.curve == result.curve

    minimal = tmp_path / "minimal.tsv"
    minimal.write_text("".join(f"{n % 2}\t{s}\t{t}\t{t} {t}\n" for n, (s, t) in enumerate(TOY)))
    asked = (f"challenge={minimal}", "inference.beam_size=1", "measure=[bleu, challenge]")
    of = plan(*asked)
    found = make(runs_of(of)[0], of)
    assert list(found.phenomena) == ["0", "1", "all"]
    assert found.challenge == found.phenomena["all"] > 50  # right ones are shorter
    minimal.write_text(f"reversed\t{TOY[0][0]}\t{TOY[0][1]} {TOY[0][1]}\t{TOY[0][1]}\n")
    assert make(runs_of(of)[0], of).phenomena == {"reversed": 0.0}
    checkpoints = run.path / "checkpoints"
    assert all(p.stat().st_mtime_ns == files[p] for p in checkpoints.rglob("*") if p.is_file())

    changed = plan("training.max_steps=6")
    with pytest.raises(ConfigError, match=r"max_steps was 20 and is 6\. .*delete this folder"):
        make(runs_of(changed)[0], changed)


def test_no_alignment_error_without_attention(plan: Planner) -> None:
    without = plan("model.attention.score=none", "training.max_steps=6")
    assert make(runs_of(without)[0], without).alignment_error is None


def test_killed_run_resumes_to_the_same_result(
    server: Server, plan: Planner, tmp_path: Path
) -> None:
    changes = (
        "training.max_steps=40",
        "training.validate_every=20",
        "training.checkpoint_every=10",
    )
    straight, killed = plan(f"out={tmp_path}/straight", *changes), plan(*changes)
    make(runs_of(straight)[0], straight)
    run = runs_of(killed)[0]
    arguments = [killed.path, *changes, "--cell", run.cell, "seeds=[1]"]
    process = server.start(arguments, tmp_path / "output.txt", module="study")
    while not any((run.path / "checkpoints").glob("step-*")):
        assert process.code() is None, process.text()
        time.sleep(0.005)
    process.send(signal.SIGKILL)
    process.wait()
    assert load_result(run.path) is None
    assert RunDirectory(run.path).newest().step < 40
    assert study.main(arguments) == 0
    assert same(run, runs_of(straight)[0])


def test_a_cell_tries_its_values_and_then_trains_its_seeds(
    plan: Planner, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = ("training.max_steps=6", "tune={training.learning_rate: [0.003, 1.0e-9]}")
    tuned = plan(*changes)
    cell, found = tuned.cells[1].name, [tuned.path, *changes]
    assert study.main([*found, "--cell", cell]) == 0
    done = sorted(tuned.study.directory.rglob("result.json"))
    folder = tuned.study.directory / "cells" / cell
    runs = ("0.003/seed-1", "0.003/seed-2", "1e-09/seed-1")
    assert done == [folder / run / "result.json" for run in runs]
    times = [path.stat().st_mtime_ns for path in done]
    assert study.main([*found, "--cell", cell]) == 0  # trains nothing
    assert times == [path.stat().st_mtime_ns for path in done]
    assert study.main([*found, "--gather"]) == 0
    captured = capsys.readouterr()
    assert "2 of 4 runs are finished" in captured.err
    assert captured.out.splitlines()[-1].split(" | ")[2:4] == ["2", "0.003"]


@pytest.mark.slow
@pytest.mark.usefixtures("quick_python")
def test_whole_study(plan: Planner, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = plan()
    for run in runs_of(first)[:3]:  # these are finished already
        make(run, first)
    command = [first.path, "--jobs", "2"]
    # One more cell, whose training diverges: the others continue.
    more = "grid.style.broken={training.learning_rate: 1e30, training.max_skipped: 2}"
    assert study.main([*command, more]) == 1
    captured = capfd.readouterr()
    output = first.study.directory / "cells/broken_ema=0.9/output.txt"
    assert f"broken_ema=0.9: exit code 1; see {output}" in captured.err
    assert "updates in a row were not finite" in output.read_text()
    assert "4 of 6 runs are finished" in captured.err
    # Without it, everything is finished and nothing is trained.
    results = [run.path / "result.json" for run in runs_of(first)]
    before = [path.stat().st_mtime_ns for path in results]
    assert study.main(command) == 0
    assert [path.stat().st_mtime_ns for path in results] == before
    table = capfd.readouterr().out
    assert [line.split(" | ")[2] for line in table.splitlines()[2:]] == ["2", "2"]

    # In this process, one after the other, the runs are the same.
    apart = plan(f"out={tmp_path}/apart")
    assert study.main([first.path, f"out={tmp_path}/apart", more]) == 1
    assert "broken_ema=0.9 failed: " in capfd.readouterr().err
    assert same(runs_of(apart)[3], runs_of(first)[3])


def test_cells_that_differ_by_their_search_share_a_training(
    plan: Planner, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = "grid={inference.beam_size: [1, 3]}"
    searches = plan(grid, "seeds=[1]")
    assert study.main([searches.path, grid, "seeds=[1]"]) == 0
    assert "2 of 2 runs are finished" in capsys.readouterr().err
    one, other = (load_result(run.path) for run in runs_of(searches))
    assert one is not None
    assert other is not None
    assert one.curve == other.curve  # also the minutes
    assert [each.config.inference.beam_size for each in (one, other)] == [1, 3]
    assert Translator.load(runs_of(searches)[1].path).options().beam_size == 3
    narrow, wide = (Translator.load(run.path, backend="torch") for run in runs_of(searches))
    sources = [source for source, _ in toy_pairs(20, 2)]
    assert list(one.hypotheses) == [t[0].text for t in narrow.translate(sources)]
    assert list(other.hypotheses) == [t[0].text for t in wide.translate(sources)]


def test_ctrl_c_starts_no_further_process(plan: Planner, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def interrupted(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        started.append(command[-1])
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)
        return subprocess.CompletedProcess(command, 130)

    monkeypatch.setattr("study.subprocess.run", interrupted)
    grid = "grid={model.dropout: [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]}"
    assert study.main([plan().path, grid, "--jobs", "2"]) == 130
    assert 1 <= len(started) <= 4


@pytest.mark.slow
def test_interrupted_study_continues_with_the_same_command(
    server: Server, plan: Planner, tmp_path: Path
) -> None:
    changes = ["training.max_steps=50", "training.validate_every=25", "seeds=[1]"]
    changes += ["training.checkpoint_every=10", "measure=[bleu]"]
    begun = plan(*changes)
    command = [begun.path, *changes]
    process = server.start(command, tmp_path / "first.txt", module="study")
    while not any((runs_of(begun)[0].path / "checkpoints").glob("step-*")):
        assert process.code() is None, process.text()
        time.sleep(0.005)
    process.send(signal.SIGINT)
    assert process.wait() == 130, process.text()
    assert "interrupted; saved. Continue with the same command" in process.text()
    assert 0 < RunDirectory(runs_of(begun)[0].path).newest().step < 50
    assert not runs_of(begun)[1].path.exists()
    process = server.start(command, tmp_path / "second.txt", module="study")
    assert process.wait() == 0, process.text()
    assert "resuming from" in process.text()
    straight = plan(*changes, f"out={tmp_path}/straight")
    make(runs_of(straight)[0], straight)
    assert same(runs_of(begun)[0], runs_of(straight)[0])

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import ToyCorpus

import study
from seq2seq.analysis.plots import fixed_buckets
from seq2seq.data.corpus import Pair, read_corpus
from seq2seq.errors import CheckpointError, DataError
from seq2seq.evaluation.metrics import score
from studies.plan import Plan, Run, make_plan
from studies.results import (
    Spread,
    StudyResults,
    as_markdown,
    gather,
    length_table,
    main_table,
    matrices,
    parts_table,
)
from studies.runs import (
    RunResult,
    changes_of,
    checksum_of,
    chosen,
    finished_result,
    load_result,
)

STUDY = """
name: made-up
out: {folder}/out
base: {folder}/base.yaml
grid:
  style: {{bahdanau: {{}}, luong: {{model.style: luong}}, 'a|b': {{model.style: pre_attention}}}}
  model.attention.score: [general, none]
exclude: [{{style: a|b, model.attention.score: none}}]
seeds: [1, 2, 3]
lengths: [2, 4]
"""


def runs_of(plan: Plan) -> list[Run]:
    return [run for cell in plan.cells for option in cell.options for run in option]


MEASURES = ("bleu", "chrf", "alignment_error", "minutes", "parameters")


@pytest.fixture
def plan(toy: ToyCorpus, tmp_path: Path) -> Plan:
    (tmp_path / "base.yaml").write_text(toy.recipe(Path("none")))
    path = tmp_path / "study.yaml"
    path.write_text(STUDY.format(folder=tmp_path))
    return make_plan(str(path))


@pytest.fixture
def pairs(plan: Plan) -> list[Pair]:
    return list(read_corpus(plan.test))


def finish(runs: Iterable[Run], pairs: list[Pair]) -> None:
    """Write results in which a worse seed and no attention mean more wrong words."""
    for run in runs:
        wrong = 0.1 * run.seed + (0.3 if "none" in run.cell else 0.1)
        generator = random.Random(run.name)
        hypotheses = tuple(
            " ".join("so" if generator.random() < wrong else w for w in pair.target.split())
            for pair in pairs
        )
        metrics = score(hypotheses, [pair.target for pair in pairs], "en")
        curve = [
            {
                "step": step,
                "minutes": step / 60,
                "loss": 5 / step,
                "bleu": step / run.seed,
                "chrf": None,
            }
            for step in (10, 20)
        ]
        run.path.mkdir(parents=True)
        RunResult(
            config=run.config,
            test_sha256=checksum_of(pairs),
            ended="finished",
            steps=20,
            minutes=1.0 + run.seed,
            parameters=12345,
            curve=tuple(curve),
            measured=MEASURES,
            bleu=metrics["bleu"].score,
            chrf=metrics["chrf"].score,
            signatures={name: metric.signature for name, metric in metrics.items()},
            alignment_error=None if "none" in run.cell else 10.0 * run.seed,
            kinds={"lower case": 2.0 * run.seed, "emoji added, copied %": 90.0},
            hypotheses=hypotheses,
            torch="2.0",
        ).save(run.path)


@pytest.fixture
def results(plan: Plan, pairs: list[Pair]) -> StudyResults:
    finish(runs_of(plan), pairs)
    return gather(plan, pairs)


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]


def test_result_round_trip(plan: Plan, pairs: list[Pair]) -> None:
    run = runs_of(plan)[0]
    assert load_result(run.path) is None
    finish([run], pairs)
    result = load_result(run.path)
    assert result is not None
    assert result.config == run.config
    text = (run.path / "result.json").read_bytes()
    result.save(run.path)
    assert (run.path / "result.json").read_bytes() == text
    for damage in (text[:-20], text.replace(b'"steps": 20', b'"steps": "20"'), b"[]"):
        (run.path / "result.json").write_bytes(damage)
        with pytest.raises(CheckpointError, match=r"result.json: not a result of this version"):
            load_result(run.path)


def test_state_of_a_run(plan: Plan, pairs: list[Pair], tmp_path: Path) -> None:
    run, sha256 = runs_of(plan)[0], checksum_of(pairs)

    def state(*changes: str, measures: tuple[str, ...] = MEASURES, test: str = sha256) -> str:
        changed = runs_of(make_plan(plan.path, changes))[0]
        study = plan.study.model_copy(update={"measure": measures})
        if finished_result(changed, study, test):
            return "finished"
        return changes_of(changed, load_result(changed.path)) or "to be made"

    assert state() == "to be made"
    run.path.mkdir(parents=True)
    from seq2seq.config import dump_config

    (run.path / "config.yaml").write_text(dump_config(run.config))
    assert state("training.threads=2", "data.processes=1") == "to be made"
    assert state("inference.beam_size=9", "data.test.references=false") == "to be made"
    assert state("training.max_steps=3") == "training.max_steps was 20 and is 3"
    (run.path / "config.yaml").unlink()
    run.path.rmdir()
    finish([run], pairs)
    assert state() == "finished"
    assert state("training.threads=2", "training.tensorboard=true") == "finished"
    assert state(measures=("bleu",)) == "finished"
    assert state("inference.beam_size=9") == "to be made"
    assert state("data.test.references=false") == "to be made"
    assert state(test="another") == "to be made"
    checksums = {"data.train.0.path": "0" * 64, "data.train.1.path": "0" * 64}
    (run.path / "data.json").write_text(json.dumps(checksums))
    assert state() == "data.train.0.path has new content"
    (run.path / "data.json").unlink()
    assert state("model.dropout=0.3", "inference.beam_size=9") == (
        "model.dropout was 0.1 and is 0.3"
    )
    moved = tmp_path / "moved/cells" / run.cell
    moved.mkdir(parents=True)
    run.path.rename(moved / f"seed-{run.seed}")
    assert state(f"out={tmp_path}/moved") == "finished"


def test_scores_are_means_over_seeds(results: StudyResults, pairs: list[Pair]) -> None:
    assert results.finished == 15
    summary = results.summaries[0]
    values = [score(r.hypotheses, [p.target for p in pairs], "en")["bleu"].score
              for r in summary.results.values()]  # fmt: skip
    spread = summary.spread("bleu")
    assert spread is not None
    assert spread.values == pytest.approx(values)
    assert summary.spread("alignment_error") == Spread((10.0, 20.0, 30.0))
    assert results.summaries[1].spread("alignment_error") is None
    means = {s.cell.name: Spread(tuple(r.bleu for r in s.results.values())).mean
             for s in results.summaries}  # fmt: skip
    best = max(means, key=lambda name: means[name])
    for each in results.summaries:
        assert each.baseline == best
        if each.cell.name == best:
            assert each.difference is None
        else:
            assert each.difference is not None
            assert each.difference.value == pytest.approx(means[each.cell.name] - means[best])


def test_bleu_by_length_is_corpus_bleu_of_each_bucket(
    results: StudyResults, pairs: list[Pair]
) -> None:
    assert [(b.label, b.shortest, b.longest) for b in results.buckets] == [
        ("1-2", 1, 2), ("3-4", 3, 4), ("over 4", 5, None),
    ]  # fmt: skip
    assert sorted(n for b in results.buckets for n in b.sentences) == list(range(len(pairs)))
    result = results.summaries[0].results[2]
    places = [n for n, pair in enumerate(pairs) if len(pair.source.split()) in (3, 4)]
    expected = score(
        [result.hypotheses[n] for n in places], [pairs[n].target for n in places], "en"
    )
    found = results.summaries[0].by_length[1].values[1]
    assert found == pytest.approx(expected["bleu"].score)
    assert [c.label for c in fixed_buckets(["a b c"], "en", (2, 9, 12))] == ["3-9"]


def test_page_without_lengths_has_no_table_of_them(plan: Plan, results: StudyResults) -> None:
    file = Path(plan.path)
    file.write_text(file.read_text().replace("lengths: [2, 4]", "lengths: []"))
    page = as_markdown(gather(make_plan(plan.path), list(read_corpus(plan.test))))
    assert page == as_markdown(results).partition("\n\n## BLEU by length")[0] + "\n"


def test_main_table(results: StudyResults) -> None:
    found = rows(main_table(results))
    assert found[0] == ["style", "score", "n", "BLEU", "chrF", "AER %", "minutes", "parameters",
                        "difference", "p"]  # fmt: skip
    assert found[2][:3] == ["bahdanau", "general", "3"]
    assert found[2][5:8] == ["20.0 ± 10.0", "3.0 ± 1.0", "12,345"]
    assert found[3][5] == ""
    assert found[-1][0] == "a\\|b"
    [baseline] = [row for row in found if "baseline" in row]
    best = next(s.cell for s in results.summaries if s.cell.name == s.baseline)
    assert [cell.replace("\\|", "|") for cell in baseline[:2]] == list(best.levels.values())
    assert rows(length_table(results))[0][2:] == [
        f"{b.label} ({len(b.sentences)})" for b in results.buckets
    ]


def test_parts_of_measures(results: StudyResults, plan: Plan) -> None:
    head, _, *body = rows(parts_table(results, "kinds"))
    assert head == ["", "bahdanau / general", "bahdanau / none", "luong / general", "luong / none",
                    "a\\|b / general"]  # fmt: skip
    assert body == [["lower case", *["4.0 ± 2.0"] * 5],
                    ["emoji added, copied %", *["90.0 ± 0.0"] * 5]]  # fmt: skip
    assert parts_table(results, "phenomena") == ""
    page = as_markdown(results)
    assert parts_table(results, "kinds") in page
    assert "by phenomenon" not in page


def test_parts_that_some_runs_lack_are_left_out(plan: Plan, pairs: list[Pair]) -> None:
    finish(runs_of(plan), pairs)
    result = load_result(runs_of(plan)[-1].path)
    assert result is not None
    result.model_copy(update={"kinds": {"lower case": 1.0}}).save(runs_of(plan)[-1].path)
    found = gather(plan, pairs)
    assert [row[0] for row in rows(parts_table(found, "kinds"))[2:]] == ["lower case"]


def test_many_cells_of_two_axes_are_tables_of_one_against_the_other(
    plan: Plan, pairs: list[Pair]
) -> None:
    file = Path(plan.path)
    file.write_text(
        file.read_text().replace("[general, none]", "[general, none, additive, concat]")
    )
    finish((wider := make_plan(plan.path)) and runs_of(wider), pairs)
    found = gather(wider, pairs)
    assert list(matrices(found)) == ["BLEU", "AER %"]
    assert parts_table(found, "kinds") == ""
    head, _, *body = rows(matrices(found)["AER %"])
    assert head == ["score", "bahdanau", "luong", "a\\|b"]
    assert [row[0] for row in body] == ["general", "none", "additive", "concat"]
    assert body[0] == ["general", *["20.0 ± 10.0"] * 3]
    assert body[1] == ["none", "", "", ""]
    bleu = {s.cell.name: s.spread("bleu") for s in found.summaries}["luong_score=additive"]
    assert bleu is not None
    assert rows(matrices(found)["BLEU"])[4][2].startswith(f"{bleu.mean:.1f} ± ")
    assert matrices(found)["BLEU"] in as_markdown(found)
    assert rows(main_table(found))[0] == ["style", "score", "n", "chrF", "minutes", "parameters",
                                          "difference", "p"]  # fmt: skip


def test_tuned_cells_are_compared_with_their_best_value(plan: Plan, pairs: list[Pair]) -> None:
    file = Path(plan.path)
    file.write_text(file.read_text() + "tune: {training.learning_rate: [0.001, 3.0e-3]}\n")
    tuned = make_plan(plan.path)
    cell = tuned.cells[0]
    assert [[run.name for run in option[:1]] for option in cell.options] == [
        ["bahdanau_score=general/0.001/seed-1"],
        ["bahdanau_score=general/0.003/seed-1"],
    ]
    firsts = [option[0] for option in cell.options]
    finish(firsts[:1], pairs)
    with pytest.raises(DataError, match="no run is finished"):
        gather(tuned, pairs)
    assert chosen(cell) == []
    finish(firsts[1:], pairs)
    loss = firsts[1].path / "result.json"  # the second value is better in this cell
    result = json.loads(loss.read_text())
    result["curve"][-1]["loss"] = 0.1
    loss.write_text(json.dumps(result))
    assert [run.name for run in chosen(cell)] == [
        f"bahdanau_score=general/0.003/seed-{seed}" for seed in (1, 2, 3)
    ]
    found = gather(tuned, pairs)
    assert (found.finished, found.runs) == (1, 3 + 2 * 4)
    head, _, *body = rows(main_table(found))
    assert head[:5] == ["style", "score", "n", "learning_rate", "BLEU"]
    assert [row[:4] for row in body] == [["bahdanau", "general", "1", "0.003"]]
    page = as_markdown(found)
    assert "of 0.001, 0.003, the one with the lowest validation loss with seed 1" in page


def test_cells_that_differ_by_their_search_are_compared_model_by_model(
    plan: Plan, pairs: list[Pair]
) -> None:
    """Where all cells translate alike, the seeds leave no doubt that a search changes nothing."""
    changes = [
        "grid={style: {bahdanau: {}, luong: {model.style: luong}}, inference.beam_size: [1, 2]}",
        "exclude=[]",
    ]
    runs = runs_of(make_plan(plan.path, changes))
    finish(runs, pairs)
    for run, alike in zip(runs[3:], itertools.cycle(runs[:3])):
        result, other = load_result(run.path), load_result(alike.path)
        assert result
        assert other
        result.model_copy(update={"hypotheses": other.hypotheses}).save(run.path)

    def limits(baseline: str) -> list[tuple[float, float]]:
        found = gather(make_plan(plan.path, [*changes, f"baseline={baseline}"]), pairs)
        differences = [each.difference for each in found.summaries]
        return [(each.low, each.high) for each in differences if each]

    assert limits("{inference.beam_size: 1}") == [(0, 0)] * 2
    assert all(low < -1 and high > 1 for low, high in limits("{style: bahdanau}"))


def test_single_seed_has_no_deviation(plan: Plan, pairs: list[Pair]) -> None:
    finish([runs_of(plan)[0], runs_of(plan)[3]], pairs)
    found = gather(plan, pairs)
    assert rows(main_table(found))[2][5] == "10.0"
    assert "2 of 15 runs are finished" in as_markdown(found)


def test_baseline_of_every_cell(plan: Plan, pairs: list[Pair]) -> None:
    finish(runs_of(plan), pairs)
    named = make_plan(plan.path, ["baseline={model.attention.score: none}"])
    found = {s.cell.name: s for s in gather(named, pairs).summaries}
    assert {name: summary.baseline for name, summary in found.items()} == {
        "bahdanau_score=general": "bahdanau_score=none",
        "bahdanau_score=none": "bahdanau_score=none",
        "luong_score=general": "luong_score=none",
        "luong_score=none": "luong_score=none",
        "a-b_score=general": "",  # whose baseline is excluded
    }
    compared = [name for name, summary in found.items() if summary.difference is not None]
    assert compared == ["bahdanau_score=general", "luong_score=general"]
    page = as_markdown(gather(named, pairs))
    assert "that of the cell with `score: none` and otherwise its own levels; in" in page
    one = make_plan(plan.path, ["baseline={model.attention.score: none, style: luong}"])
    assert {s.baseline for s in gather(one, pairs).summaries} == {"luong_score=none"}
    page = as_markdown(gather(one, pairs))
    assert "that of the cell with `score: none`, `style: luong`; in" in page


def test_baseline_without_results(plan: Plan, pairs: list[Pair]) -> None:
    finish(runs_of(plan)[:4], pairs)
    named = make_plan(plan.path, ["baseline={style: luong}"])
    assert [s.baseline for s in gather(named, pairs).summaries] == [
        "luong_score=general",
        "luong_score=none",
    ]
    assert "baseline" not in main_table(gather(named, pairs))
    with pytest.raises(DataError, match="no run is finished with these settings"):
        gather(make_plan(plan.path, ["out=none"]), pairs)


def test_gathered_results_are_printed_and_written(
    results: StudyResults, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert study.main([plan.path, "--gather"]) == 0
    assert main_table(results) in capsys.readouterr().out
    page = (plan.study.directory / "made-up.md").read_text()
    assert page.startswith("# Study made-up\n")
    assert "15 of 15 runs are finished" in page
    assert "nrefs:1|case:mixed" in page
    assert main_table(results) in page
    assert length_table(results) in page


def test_runs_of_another_recipe_are_refused(
    plan: Plan, pairs: list[Pair], capsys: pytest.CaptureFixture[str]
) -> None:
    run = runs_of(plan)[0]
    finish([run], pairs)
    assert study.main([plan.path, "training.max_steps=9", "--cell", run.cell]) == 1
    message = capsys.readouterr().err
    assert "training.max_steps was 20 and is 9. Change it back, delete this folder" in message
    assert study.main([plan.path, "--cell", f"{run.cell}0"]) == 2
    assert f"no cell is called {run.cell}0; did you mean {run.cell}?" in capsys.readouterr().err

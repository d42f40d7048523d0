from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ToyCorpus

import study
from seq2seq import cli
from seq2seq.errors import ConfigError
from studies.plan import Plan, Run, Study, make_plan

ROOT = Path(__file__).parents[1]
STUDIES = sorted((ROOT / "configs/studies").glob("*.yaml"))

GRID = """
name: toy
out: {folder}/out
base: {folder}/base.yaml
overrides: {{model.dropout: 0.0, training.learning_rate: 1e-3}}
grid:
  style:
    bahdanau: {{}}
    luong, not fed: {{model.style: luong, model.input_feeding: false}}
    pre_attention: {{model.style: pre_attention}}
  model.attention.score: [general, none]
  model.attention.residual: [true, false]
exclude:
  - {{style: pre_attention, model.attention.score: none, model.attention.residual: false}}
  - {{style: [bahdanau, pre_attention], model.attention.residual: true}}
seeds: [3, 5]
"""

Planner = Callable[..., Plan]


@pytest.fixture
def plan(toy: ToyCorpus, tmp_path: Path) -> Planner:
    """Return a function that plans the grid above, with changes to its text and its keys."""
    (tmp_path / "base.yaml").write_text(toy.recipe(Path("none")))

    def make(*changes: str, old: str = "", new: str = "") -> Plan:
        text = GRID.format(folder=tmp_path)
        assert old in text
        path = tmp_path / "study.yaml"
        path.write_text(text.replace(old, new) if old else text)
        return make_plan(str(path), changes)

    return make


def runs_of(plan: Plan) -> list[Run]:
    return [run for cell in plan.cells for option in cell.options for run in option]


def error(plan: Planner, *changes: str, **edit: str) -> str:
    with pytest.raises(ConfigError) as caught:
        plan(*changes, **edit)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_grid_expands_to_all_combinations_not_excluded(plan: Planner) -> None:
    found = plan()
    assert [cell.name for cell in found.cells] == [
        "bahdanau_score=general_residual=false",
        "bahdanau_score=none_residual=false",
        "luong-not-fed_score=general_residual=true",
        "luong-not-fed_score=general_residual=false",
        "luong-not-fed_score=none_residual=true",
        "luong-not-fed_score=none_residual=false",
        "pre-attention_score=general_residual=false",
    ]
    [[first, run]] = found.cells[2].options
    assert first.name == "luong-not-fed_score=general_residual=true/seed-3"
    assert run.path == found.study.directory / "cells" / found.cells[2].name / "seed-5"
    config = run.config
    assert (config.model.style, config.model.input_feeding) == ("luong", False)
    assert (config.model.attention.score, config.model.attention.residual) == ("general", True)
    assert (config.training.seed, config.training.learning_rate) == (5, 1e-3)
    assert config.training.schedule.kind == "plateau"  # as in the base recipe
    assert found.study.titles == {
        "style": "style",
        "model.attention.score": "score",
        "model.attention.residual": "residual",
    }


def test_ambiguous_axis_titles_keep_the_full_key(plan: Planner) -> None:
    grid = "grid={model.encoder_layers: [1, 2], model.decoder_layers: [1], data.valid.path: [v]}"
    found = plan(grid, "exclude=[]")
    assert list(found.study.titles.values()) == ["encoder_layers", "decoder_layers", "path"]
    assert found.cells[0].name == "encoder-layers=1_decoder-layers=1_path=v"
    grid = "grid={data.valid.path: [v], data.test.path: [t]}"
    assert list(plan(grid, "exclude=[]").study.titles) == ["data.valid.path", "data.test.path"]
    assert plan(grid, "exclude=[]").cells[0].name == "data.valid.path=v_data.test.path=t"


def test_overrides_apply_to_study_or_recipes(plan: Planner, tmp_path: Path) -> None:
    found = plan("seeds=[9]", f"out={tmp_path}/other", "training.max_steps=7", "model.dropout=0.5")
    assert found.study.directory == tmp_path / "other"
    assert {run.seed for run in runs_of(found)} == {9}
    assert {run.config.training.max_steps for run in runs_of(found)} == {7}
    assert {run.config.model.dropout for run in runs_of(found)} == {0.5}  # overrides the study's


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("seds=[1]", "seds: unknown key; did you mean seeds?"),
        ("seeds=[]", "seeds: expected a list of integers with at least one entry, found []"),
        ("seeds=[-1]", "seeds.0: expected 0 or more, found -1"),
        ("measure=[blue]", 'found "blue"; did you mean bleu?'),
        ("base=none.yaml", "none.yaml: no such file"),
        ("overrides={training: {max_steps: 3}}", "'training.seed' is set by the study's `seeds`"),
        ("overrides={run_dir: x}", "overrides: 'run_dir' is set by the study's `out`"),
        ("overrides={trainin.x: 3}", "cell bahdanau_score=general_residual=false: "),
        ("overrides={trainin.x: 3}", "trainin: unknown key; did you mean training?"),
        ("overrides=3", "overrides: expected keys and values, found 3"),
        ("grid={}", "grid: expected keys and values with at least one entry, found {}"),
        ("grid={score: 3}", "axis 'score': expected a list of values, or named levels with"),
        ("grid={a: {b: dot}}", "axis 'a': expected a list of values, or named levels with"),
        ("grid={a: {b: {training.seed: 3}}}", "'training.seed' is set by the study's `seeds`"),
        (
            "grid={a: {b: {model.attention.score: dot}}, model.attention: [{score: none}]}",
            "axis 'a' and axis 'model.attention' both set model.attention; remove one of them",
        ),
        ("exclude=[{stile: bahdanau}]", "exclude.0: no cell has these levels; correct them"),
        ("exclude=[{style: lung}]", "exclude.0: no cell has these levels; correct them"),
        (
            "exclude=[{model.attention.residual: [true, false]}]",
            "exclude: no cell is left; remove an entry",
        ),
        ("baseline=bahdanau", 'baseline: expected keys and values or null, found "bahdanau"'),
        ("baseline={stile: x}", "baseline: no cell has these levels; choose one of the grid"),
        (
            "baseline={style: bahdanau, model.attention.score: none, "
            "model.attention.residual: true}",
            "baseline: no cell has these levels; choose one of the grid",
        ),
        ("tune={training.ema: 0.9}", "tune: expected"),
        ("tune={training.ema: [0.9], training.seed: [1]}", "tune: expected"),
        (
            "tune={model.attention: [{score: dot}]}",
            "tune and axis 'model.attention.score' both set model.attention.score",
        ),
        ("data.test=null", "data.test: a study needs one test set, the same for all cells"),
        ("model.attention.score=dot", "the command line and axis 'model.attention.score' both"),
        ("model.attention={score: dot}", "the command line and axis 'model.attention.score' both"),
        ("training.seed=3", "'training.seed' is set by the study's `seeds`"),
        ("training={}", "'training.seed' is set by the study's `seeds`"),
        ("training.max_steps", "expected section.key=value"),
    ],
)
def test_invalid_study_is_explained(plan: Planner, change: str, words: str) -> None:
    assert words in error(plan, change)


def test_tuned_key_cannot_be_overridden(plan: Planner) -> None:
    message = error(plan, "tune={training.ema: [0.9]}", "training.ema=0.5")
    assert "the command line and tune both set training.ema" in message


def test_level_names_must_give_distinct_directories(plan: Planner) -> None:
    message = error(plan, "grid={a: {x_y: {}, x y: {}}}", "exclude=[]")
    assert "several cells would have the directory x-y; rename levels" in message
    message = error(plan, "grid={data.test.path: [a, b]}", "exclude=[]")
    assert "data.test: a study needs one test set, the same for all cells" in message


def test_invalid_cell_is_reported_before_training(plan: Planner, tmp_path: Path) -> None:
    message = error(plan, old="[general, none]", new="[general, none, dot]")
    assert "cell bahdanau_score=dot_residual=false: " in message
    assert "score dot requires queries and keys of one size" in message
    assert "; correct it, or leave it out with 'exclude'" in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_shipped_studies_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = make_plan(str(path))
    assert found.study.name == path.stem
    runs = runs_of(found)
    assert len(runs) == 3 * len(found.cells) * len(found.cells[0].options) >= 6
    assert len({run.path for run in runs}) == len(runs)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        study.main(["--help"])
    assert end.value.code == 0
    examples = re.findall("^  python scripts/study.py (.+)", capsys.readouterr().out, re.MULTILINE)
    assert len(examples) == 5
    for line in examples:
        assert cli.parse(line.split(), study.make_parser()).study == "configs/studies/residual.yaml"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: STUDY"),
        (["none.yaml"], "none.yaml: no such file"),
        (["{toy}"], "name: missing required key"),
        (["{toy}", "--cell", "a", "--gather"], "not allowed with"),
        (["{toy}", "--jobs", "0"], "expected 1, 2, 3, ..., found"),
        (["{toy}", "--gathr"], "unrecognized arguments: --gathr; did you mean --gather"),
    ],
)
def test_user_errors_print_one_line_and_exit_with_2(
    toy: ToyCorpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    recipe = tmp_path / "toy.yaml"
    recipe.write_text(toy.recipe(tmp_path / "run"))
    try:
        code = study.main([argument.replace("{toy}", str(recipe)) for argument in arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    assert code == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("study.py:")]
    assert words in line


def test_docs_list_every_key() -> None:
    page = (ROOT / "docs/study/making.md").read_text(encoding="utf-8")
    assert [key for key in Study.model_fields if f"| `{key}` |" not in page] == []

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ToyCorpus

import study
from seq2seq import cli
from seq2seq.errors import ConfigError, UserError
from studies.plan import Plan, Study, make_plan
from studies.runs import launcher_line, unfinished

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
    assert [run.name for run in found.select([found.cells[2].name])] == [
        "luong-not-fed_score=general_residual=true/seed-3",
        "luong-not-fed_score=general_residual=true/seed-5",
    ]
    run = found.runs[5]
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
    assert {run.seed for run in found.runs} == {9}
    assert {run.config.training.max_steps for run in found.runs} == {7}
    assert {run.config.model.dropout for run in found.runs} == {0.5}  # overrides the study's


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("seds=[1]", "seds: unknown key; did you mean seeds?"),
        (f"out={__file__}", "test_study_plan.py' is a file; name a directory"),
        ("seeds=[]", "seeds: expected a list of integers with at least one entry, found []"),
        ("seeds=[-1]", "seeds.0: expected 0 or more, found -1"),
        ("seeds=[9999999999]", "seeds.0: expected 2147483647 or less, found 9999999999"),
        ("seeds=[1, 1]", "seeds: duplicate entry in [1, 1]; keep one of them"),
        ("lengths=[9, 5]", "lengths: expected increasing numbers, found [9, 5]"),
        ("measure=[blue]", 'found "blue"; did you mean bleu?'),
        ("name=a b", "expected letters, digits, '.' and '-', found 'a b'"),
        ("base=none.yaml", "none.yaml: no such file"),
        ("overrides={training: {max_steps: 3}}", "'training': expected section.key"),
        ("overrides={run_dir: x}", "'run_dir' is set by the study's `out`; remove it"),
        ("overrides={trainin.x: 3}", "unknown section 'trainin'; did you mean 'training'?"),
        ("overrides=3", "overrides: expected keys and values, found 3"),
        ("grid={}", "grid: no axes"),
        ("grid={score: 3}", "axis 'score': expected a list of values or a mapping of named levels"),
        ("grid={score: [dot]}", "'score': expected section.key, such as"),
        ("grid={a: {b: dot}}", "level 'b' of 'a': expected keys and values"),
        ("grid={a: {b: {training.seed: 3}}}", "'training.seed' is set by the study's `seeds`"),
        ("grid={a: {'?': {}}}", "axis 'a': '?' has no letter or digit; rename it"),
        ("grid={model.dropout: [0.1, 0.1]}", "axis 'model.dropout': duplicate value 0.1; keep one"),
        (
            "grid={a: {b: {model.attention.score: dot}}, model.attention: [{score: none}]}",
            "'a' and 'model.attention' both set model.attention.score; make them one axis",
        ),
        ("exclude=[{stile: bahdanau}]", "exclude.0: unknown axis 'stile'; did you mean 'style'"),
        (
            "exclude=[{style: luong}]",
            "unknown level of style 'luong'; known: 'bahdanau', 'luong, not fed', ",
        ),
        (
            "exclude=[{model.attention.residual: [true, false]}]",
            "exclude: no cell is left; remove an entry",
        ),
        ("baseline=bahdanau", 'baseline: expected keys and values or null, found "bahdanau"'),
        ("baseline={stile: x}", "baseline: unknown axis 'stile'; did you mean 'style'?"),
        ("baseline={style: bahdanu}", "baseline: unknown level of style 'bahdanu'; did you"),
        (
            "baseline={style: bahdanau, model.attention.score: none, "
            "model.attention.residual: true}",
            "baseline: 'exclude' leaves this cell out; choose another",
        ),
        ("tune={training.ema: 0.9}", "'training.ema': expected a list of values, found 0.9"),
        ("tune={training.ema: [0.9, 0.9]}", "axis 'training.ema': duplicate value 0.9"),
        ("tune={training.ema: [0.9], training.seed: [1]}", "tune: expected one key, found"),
        ("tune={inference.beam_size: [1, 2]}", "'inference.beam_size' does not change the"),
        (
            "tune={model.attention: [{score: dot}]}",
            "tune: the axis 'model.attention.score' sets model",
        ),
        ("data.test=null", "data.test: a study needs a test set"),
        ("model.attention.score=dot", "the axis 'model.attention.score' of"),
        ("model.attention={score: dot}", "the axis 'model.attention.score' of"),
        ("training.seed=3", "'training.seed' is set by the study's `seeds`"),
        ("training={}", "'training': expected section.key"),
        ("training.max_steps", "expected section.key=value"),
    ],
)
def test_invalid_study_is_explained(plan: Planner, change: str, words: str) -> None:
    assert words in error(plan, change)


def test_tuned_key_cannot_be_overridden(plan: Planner) -> None:
    message = error(plan, "tune={training.ema: [0.9]}", "training.ema=0.5")
    assert f"tune of {plan().path} sets this key" in message


def test_level_names_must_give_distinct_directories(plan: Planner) -> None:
    message = error(plan, "grid={a: {x_y: {}, x y: {}}}", "exclude=[]")
    assert "several cells would have the directory x-y; rename levels" in message
    message = error(plan, "grid={data.test.path: [a, b]}", "exclude=[]")
    assert "data.test: all cells of a study need the same test set" in message


def test_all_invalid_cells_are_reported_before_training(plan: Planner, tmp_path: Path) -> None:
    message = error(plan, old="[general, none]", new="[general, none, dot, dott]")
    assert "8 of 15 cells are invalid, nothing was trained: " in message
    assert message.count("score dot requires queries and keys of one size") == 1
    assert message.count("did you mean dot?") == 1
    assert "bahdanau_score=dot_residual=false, luong-not-fed_score=dot_residual=true, " in message
    assert "; correct them, or leave them out with 'exclude'" in message
    assert "all cells: " in error(plan, "training.lerning_rate=1")
    assert not (tmp_path / "out").exists()


def test_unknown_cell_name(plan: Planner) -> None:
    found = plan()
    name = found.runs[0].name
    assert found.select([name]) == [found.runs[0]]
    with pytest.raises(ConfigError, match=f"unknown name '{name}0'; did you mean '{name}'"):
        found.select([f"{name}0"])


def test_corpora_and_gold_alignments_are_checked_before_training(
    plan: Planner, tmp_path: Path
) -> None:
    from seq2seq.data.corpus import Pair

    found = plan("data.train.1.path=none.tsv")
    with pytest.raises(UserError, match=r"none.tsv: no such file"):
        unfinished(found, [Pair("a", "b")], overwrite=False)
    with pytest.raises(
        UserError, match=r"pair 1: link 1-0 .* is outside the sentences: the source has 1"
    ):
        unfinished(plan(), [Pair("a", "b", alignment="1-0")], overwrite=False)
    assert len(unfinished(plan(), [Pair("a", "b", alignment="0-0")], overwrite=False)) == 14
    assert not (tmp_path / "out").exists()


def test_launcher_line_is_quoted_for_the_shell(
    plan: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    found = plan("data.source_language=it's me")
    line = launcher_line(found, found.runs[3], overwrite=True)
    assert shlex.split(line) == [
        "python", "scripts/study.py", found.path, "data.source_language=it's me", "--cell",
        found.runs[3].name, "--overwrite",
    ]  # fmt: skip


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_shipped_studies_are_valid(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = make_plan(str(path))
    assert found.study.name == path.stem
    assert len(found.runs) == 3 * len(found.cells) >= 6
    assert len({run.path for run in found.runs}) == len(found.runs)


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        study.main(["--help"])
    assert end.value.code == 0
    examples = re.findall("^  python scripts/study.py (.+)", capsys.readouterr().out, re.MULTILINE)
    assert len(examples) >= 6
    for line in examples:
        words = shlex.split(line.partition(">")[0])
        assert cli.parse(words, study.make_parser()).study == "configs/studies/residual.yaml"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "required: STUDY"),
        (["none.yaml"], "none.yaml: no such file"),
        (["{toy}"], "name: missing required key"),
        (["{toy}", "--list", "--gather"], "not allowed with"),
        (["{toy}", "--jobs", "0"], "expected 1, 2, 3, ..., found"),
        (["{toy}", "--lanch"], "unrecognized arguments: --lanch; did you mean --la"),
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
    page = (ROOT / "docs/study.md").read_text(encoding="utf-8")
    assert [key for key in Study.model_fields if f"| `{key}` |" not in page] == []

"""From a study file to the runs to be made, all of whose recipes are checked before the first."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from seq2seq.config import Config, CorpusConfig, parse_config, parse_section, read_yaml_file
from seq2seq.errors import ConfigError
from seq2seq.study.spec import Study, check_keys, check_known, label, overlap, slug


@dataclass(frozen=True)
class Cell:
    """A combination of levels, one of each axis."""

    name: str
    levels: dict[str, str]  # by axis
    settings: dict[str, Any]  # by key of the recipe


@dataclass(frozen=True)
class Run:
    """A cell with one seed: an ordinary run directory."""

    cell: str
    seed: int
    config: Config

    @property
    def path(self) -> Path:
        """The run directory."""
        return Path(self.config.run_dir)

    @property
    def name(self) -> str:
        """The run's name within its study."""
        return f"{self.cell}/seed-{self.seed}"


@dataclass(frozen=True)
class Plan:
    """A study with its cells and runs, in the order of the grid; the seeds of a cell together."""

    path: str
    changes: tuple[str, ...]  # as given on the command line
    study: Study
    cells: list[Cell]
    runs: list[Run]
    test: CorpusConfig

    @property
    def out(self) -> Path:
        """The directory of runs and results."""
        return out_of(self.study)

    def chosen(self, names: Sequence[str]) -> list[Run]:
        """Return the runs of some cells, or single runs (CELL/seed-N), by name.

        Raises ConfigError for a name that is neither.
        """
        known = [name for cell in self.cells for name in (cell.name, *self._runs_of(cell))]
        for name in names:
            with _told_of("--cell"):
                check_known("name", name, known)
        return [run for run in self.runs if run.name in names or run.cell in names]

    def _runs_of(self, cell: Cell) -> list[str]:
        return [run.name for run in self.runs if run.cell == cell.name]


def make_plan(path: str, changes: Sequence[str] = ()) -> Plan:
    """Read a study and apply changes: of its own keys, or `section.key=value` for all cells.

    Raises ConfigError where the file does not fit the schema, and one for all cells whose recipe is
    none.
    """
    of_recipe = [change for change in changes if is_of_recipe(change)]
    of_study = [change for change in changes if not is_of_recipe(change)]
    study = parse_section(read_yaml_file(path), Study, of_study, origin=path)
    _check_changes(path, study, of_recipe)
    base = read_yaml_file(study.base)
    parse_config(base, origin=study.base)
    with _told_of(path):
        cells = _expand(study)
    configs, problems = {}, {}
    for cell in cells:
        settings = [_override(key, value) for key, value in study.overrides.items()]
        settings += of_recipe + [_override(key, value) for key, value in cell.settings.items()]
        try:
            configs[cell.name] = parse_config(base, settings, origin=study.base)
        except ConfigError as error:
            problems[cell.name] = str(error)
    if problems:
        raise ConfigError(f"{path}: {_all_problems(problems, len(cells))}")
    test = _test_of(path, configs)
    runs = [
        Run(cell.name, seed, _with_seed(study, cell, seed, configs[cell.name]))
        for cell in cells
        for seed in study.seeds
    ]
    return Plan(path, tuple(changes), study, cells, runs, test)


def out_of(study: Study) -> Path:
    """Return the directory of a study."""
    return Path(study.out or f"runs/studies/{study.name}")


def baseline_of(study: Study, cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """Return the cell that the study compares a cell with; None where there is no such one."""
    fixed = {axis: label(level) for axis, level in (study.baseline or {}).items()}
    return next((other for other in cells if other.levels == cell.levels | fixed), None)


def is_of_recipe(change: str) -> bool:
    """Return whether a change is of the recipe's keys, rather than the study's own."""
    return change.partition("=")[0].partition(".")[0] in Config.model_fields


def _check_changes(path: str, study: Study, changes: Sequence[str]) -> None:
    """Raise ConfigError for a change that no cell may have, or that the grid would undo."""
    for change in changes:
        key = change.partition("=")[0]
        with _told_of(f"override '{change}'"):
            check_keys([key])
        for axis, levels in study.axes.items():
            if any(overlap(key, own) for settings in levels.values() for own in settings):
                raise ConfigError(f"override '{change}': the axis '{axis}' of {path} sets it")


def _expand(study: Study) -> list[Cell]:
    """Return the combinations of levels that are not excluded. Raises ValueError for none."""
    axes, cells = study.axes, []
    for combination in product(*axes.values()):
        levels = dict(zip(axes, combination, strict=True))
        if any(_matches(levels, excluded) for excluded in study.exclude):
            continue
        settings: dict[str, Any] = {}
        for axis, level in levels.items():
            settings |= axes[axis][level]
        cells.append(Cell(_name(study, levels), levels, settings))
    if not cells:
        raise ValueError("exclude: it leaves out all cells")
    if study.baseline and not any(baseline_of(study, cell, cells) for cell in cells):
        raise ValueError("baseline: it is a cell that 'exclude' leaves out")
    names = [cell.name for cell in cells]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"grid: several cells would have the directory {twice[0]}; rename levels so that they "
            "differ in letters, digits or dots"
        )
    return cells


def _matches(levels: Mapping[str, str], excluded: Mapping[str, Any]) -> bool:
    return all(
        levels[axis] in [label(v) for v in (named if isinstance(named, tuple) else (named,))]
        for axis, named in excluded.items()
    )


def _name(study: Study, levels: Mapping[str, str]) -> str:
    """Return the directory of a cell: named levels as they are, values with their axis."""
    parts = []
    for axis, level in levels.items():
        named = isinstance(study.grid[axis], dict)
        parts.append(slug(level) if named else f"{slug(study.titles[axis])}={slug(level)}")
    return "_".join(parts)


def _override(key: str, value: Any) -> str:
    # JSON is YAML too, and quotes whatever could be taken for something else.
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _with_seed(study: Study, cell: Cell, seed: int, config: Config) -> Config:
    run_dir = out_of(study) / "cells" / cell.name / f"seed-{seed}"
    training = config.training.model_copy(update={"seed": seed})
    return config.model_copy(update={"run_dir": str(run_dir), "training": training})


def _all_problems(problems: Mapping[str, str], number: int) -> str:
    """Return what is wrong with which cells; the same problem is told once."""
    by_text: dict[str, list[str]] = {}
    for name, text in problems.items():
        by_text.setdefault(text, []).append(name)
    told = [
        f"{'all cells' if len(names) == number else ', '.join(names)}: {text}"
        for text, names in by_text.items()
    ]
    return (
        f"{len(problems)} of {number} cells cannot be trained, and nothing was begun: "
        f"{'; '.join(told)}. Mend them, or leave them out with 'exclude'"
    )


def _test_of(path: str, configs: Mapping[str, Config]) -> CorpusConfig:
    tests = [config.data.test for config in configs.values()]
    if tests[0] is None:
        raise ConfigError(f"{path}: data.test: a study needs a test set; set it under 'overrides'")
    if any(test != tests[0] for test in tests):
        raise ConfigError(f"{path}: data.test: all cells of a study need the same test set")
    return tests[0]


@contextlib.contextmanager
def _told_of(origin: str) -> Iterator[None]:
    """Turn a ValueError into a ConfigError that names its origin."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from None

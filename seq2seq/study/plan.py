"""From a study file to the runs to be made, all of whose recipes are checked before the first."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from seq2seq.config import (
    Config,
    CorpusConfig,
    Section,
    parse_config,
    parse_section,
    read_yaml_file,
)
from seq2seq.config.section import Count
from seq2seq.errors import ConfigError

Measure = Literal["bleu", "chrf", "alignment_error", "minutes", "parameters"]
Settings = dict[str, Any]
Seed = Annotated[int, Field(ge=0)]

_SHOWN = 10  # names in an error message
_OWN = {"run_dir": "the study's `out`", "training.seed": "the study's `seeds`"}


class Study(Section):
    """A grid of recipes, each trained with several seeds."""

    name: str = Field(description="names the study in titles and in the default of `out`")
    out: str | None = Field(
        None, description="directory of runs and results; default: runs/studies/NAME"
    )
    base: str = Field(description="the recipe that every cell starts from")
    overrides: Settings = Field(
        {}, description="changes for all cells, `section.key: value` as on the command line"
    )
    grid: dict[str, Any] = Field(
        description="axes: a key of the recipe with a list of values, or any name with named "
        "levels, each a mapping of keys to values"
    )
    exclude: tuple[dict[str, Any], ...] = Field(
        (), description="combinations to leave out: axis to level, or to a list of levels"
    )
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)] = Field(
        (1, 2, 3), description="training.seed of the runs of each cell"
    )
    measure: Annotated[tuple[Measure, ...], Field(min_length=1)] = Field(
        ("bleu", "chrf", "alignment_error", "minutes", "parameters"),
        description="columns of the table; alignment_error where data.test has gold alignments",
    )
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(
        (5, 10, 15, 20),
        description="BLEU by length: the most source words of each class; a last one is open",
    )
    baseline: dict[str, Any] | None = Field(
        None,
        description="axis to level: each cell is compared with the one that has these levels and "
        "otherwise its own; default: all with the best BLEU",
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if slug(name) != name:
            raise ValueError(f"expected letters, digits, '.' and '-', found '{name}'")
        return name

    @field_validator("overrides")
    @classmethod
    def _check_overrides(cls, overrides: Settings) -> Settings:
        check_keys(overrides)
        return overrides

    @field_validator("grid")
    @classmethod
    def _check_grid(cls, grid: dict[str, Any]) -> dict[str, Any]:
        if not grid:
            raise ValueError("no axes; give one or more")
        for axis, levels in grid.items():
            _check_axis(axis, levels)
        keys = {axis: _keys(levels) for axis, levels in levels_of(grid).items()}
        for one, other in combinations(grid, 2):
            for key in keys[one]:
                if any(overlap(key, second) for second in keys[other]):
                    raise ValueError(f"'{one}' and '{other}' both set {key}; make them one axis")
        return grid

    @model_validator(mode="after")
    def _fits(self) -> Study:
        for number, excluded in enumerate(self.exclude):
            for axis, levels in excluded.items():
                where = f"exclude.{number}"
                check_known(f"{where}: axis", axis, self.axes)
                for level in levels if isinstance(levels, tuple) else (levels,):
                    check_known(f"{where}: level of {axis}", label(level), self.axes[axis])
        for axis, level in (self.baseline or {}).items():
            check_known("baseline: axis", axis, self.axes)
            check_known(f"baseline: level of {axis}", label(level), self.axes[axis])
        for name in ("seeds", "lengths"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name}: {list(values)} has an entry twice; keep one of them")
        if sorted(self.lengths) != list(self.lengths):
            raise ValueError(f"lengths: expected rising numbers, found {list(self.lengths)}")
        return self

    @property
    def axes(self) -> dict[str, dict[str, Settings]]:
        """The levels of each axis, each with the keys that it sets."""
        return levels_of(self.grid)

    @property
    def titles(self) -> dict[str, str]:
        """What each axis is called in tables: of a key its last part, where that is clear."""
        last = {axis: axis.rpartition(".")[2] for axis in self.grid}
        names = list(last.values())
        return {axis: title if names.count(title) == 1 else axis for axis, title in last.items()}

    def shown(self, levels: Mapping[str, str]) -> list[str]:
        """Return the levels of a cell in words; numbers and truth values with their axis."""
        words = []
        for axis, level in levels.items():
            values = self.grid[axis]
            clear = isinstance(values, dict) or all(isinstance(value, str) for value in values)
            words.append(level if clear else f"{self.titles[axis]} {level}")
        return words


def levels_of(grid: Mapping[str, Any]) -> dict[str, dict[str, Settings]]:
    """Return for each axis of a grid the settings of its levels."""
    return {
        axis: levels if isinstance(levels, dict) else {label(v): {axis: v} for v in levels}
        for axis, levels in grid.items()
    }


def label(value: Any) -> str:
    """Return what a value of an axis is called."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def slug(text: str) -> str:
    """Return a text as a part of a file's name: letters, digits, dots and hyphens."""
    return re.sub(r"[^\w.]+", "-", text.replace("_", "-"), flags=re.ASCII).strip("-.")


def overlap(one: str, other: str) -> bool:
    """Return whether two keys of a recipe are the same, or one is within the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def check_keys(keys: Iterable[str]) -> None:
    """Raise ValueError for a key that no cell may set, or that would replace a whole section."""
    for key in keys:
        for own, given in _OWN.items():
            if key == own:
                raise ValueError(f"'{key}' is made from {given}; leave it out")
        if "." not in key:
            raise ValueError(f"'{key}': expected section.key, such as training.max_steps")
        check_known("section", key.partition(".")[0], Config.model_fields)


def check_known(what: str, found: str, known: Iterable[str]) -> None:
    """Raise ValueError where a name is not one of those known."""
    known = list(known)
    if found not in known:
        close = difflib.get_close_matches(found, known, n=1)
        shown = ", ".join(f"'{name}'" for name in known[:_SHOWN]) + ", …" * (len(known) > _SHOWN)
        mend = f"did you mean '{close[0]}'?" if close else f"known: {shown}"
        raise ValueError(f"{what} '{found}' is unknown; {mend}")


def _keys(levels: Mapping[str, Settings]) -> list[str]:
    return sorted({key for settings in levels.values() for key in settings})


def _check_axis(axis: str, levels: Any) -> None:
    if not isinstance(levels, dict | tuple) or not levels:
        raise ValueError(
            f"axis '{axis}': expected a list of values or a mapping of named levels, "
            f"found {json.dumps(levels)}"
        )
    names = [label(value) for value in levels]
    if nameless := [name for name in names if not slug(name)]:
        raise ValueError(f"axis '{axis}': '{nameless[0]}' has no letter or digit; rename it")
    if isinstance(levels, tuple):
        check_keys([axis])
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"axis '{axis}': the value {twice} is there twice; keep one")
        return
    for name, settings in levels.items():
        if not isinstance(settings, dict):
            raise ValueError(
                f"level '{name}' of '{axis}': expected keys and values, such as "
                f"{{model.style: luong}}, found {json.dumps(settings)}"
            )
        check_keys(settings)


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

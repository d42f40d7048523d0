"""A study file, and the training runs that it describes.

The axes of the grid span all combinations of their levels. A combination is a cell; a cell with
one seed is a run. The recipes of all cells are checked before the first run is trained.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from seq2seq.config import Config, CorpusConfig, Section, parse_config
from seq2seq.config.loading import parse_section, read_yaml_file
from seq2seq.config.section import Count, CountFrom0
from seq2seq.errors import ConfigError
from seq2seq.evaluation.challenge import read_challenge

Measure = Literal[
    "bleu", "chrf", "alignment_error", "lost", "copied", "challenge", "minutes", "parameters"
]
Settings = dict[str, Any]  # by key of the recipe
Values = Annotated[tuple[Any, ...], Field(min_length=1)]

SCRIPT = Path(__file__).parents[1] / "study.py"


class Study(Section):
    """A grid of recipes, each with several seeds; docs/study/making.md lists the keys."""

    name: str
    base: str
    grid: Annotated[dict[str, Any], Field(min_length=1)]
    out: str | None = None
    overrides: Settings = {}  # noqa: RUF012 (never changed)
    exclude: tuple[dict[str, Any], ...] = ()
    seeds: Annotated[tuple[CountFrom0, ...], Field(min_length=1)] = (1, 2, 3)
    measure: Annotated[tuple[Measure, ...], Field(min_length=1)] = (
        "bleu", "chrf", "alignment_error", "minutes", "parameters",
    )  # fmt: skip
    challenge: str | None = None
    lengths: tuple[Count, ...] = (5, 10, 15, 20)
    tune: dict[str, Values] = Field({}, max_length=1)
    baseline: dict[str, Any] | None = None

    @property
    def directory(self) -> Path:
        """The directory of runs and results."""
        return Path(self.out or f"runs/studies/{self.name}")

    @property
    def axes(self) -> dict[str, dict[str, Settings]]:
        """The levels of each axis, each with the keys that it sets."""
        return {
            axis: levels if isinstance(levels, dict) else {label(v): {axis: v} for v in levels}
            for axis, levels in self.grid.items()
        }

    @property
    def titles(self) -> dict[str, str]:
        """The name of each axis in tables: the last part of a key, where that is unambiguous."""
        last = {axis: axis.rpartition(".")[2] for axis in self.grid}
        names = list(last.values())
        return {axis: title if names.count(title) == 1 else axis for axis, title in last.items()}

    @property
    def tuned_title(self) -> str:
        """The title of the key that is tuned; empty without one."""
        return "".join(self.tune).rpartition(".")[2]

    def describe(self, levels: Mapping[str, str]) -> list[str]:
        """Return the levels of a cell in words; numbers and booleans come with their axis."""
        words = []
        for axis, level in levels.items():
            values = self.grid[axis]
            clear = isinstance(values, dict) or all(isinstance(value, str) for value in values)
            words.append(level if clear else f"{self.titles[axis]} {level}")
        return words


def label(value: Any) -> str:
    """Return the name of a value of an axis."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def slug(text: str) -> str:
    """Return a text as part of a file name: letters, digits, dots and hyphens."""
    return re.sub(r"[^\w.]+", "-", text.replace("_", "-"), flags=re.ASCII).strip("-.")


@dataclass(frozen=True)
class Run:
    """A cell with one seed: an ordinary run directory."""

    cell: str
    seed: int
    config: Config
    tuned: str = ""  # the value of the key that the study tunes

    @property
    def path(self) -> Path:
        """The run directory."""
        return Path(self.config.run_dir)

    @property
    def name(self) -> str:
        """The name of the run within its study."""
        return "/".join(filter(None, [self.cell, slug(self.tuned), f"seed-{self.seed}"]))


@dataclass(frozen=True)
class Cell:
    """A combination of levels, one of each axis, with the values of `tune` to choose from."""

    name: str
    levels: dict[str, str]  # by axis
    settings: Settings
    options: list[list[Run]]  # for each value, or the only one, a run of each seed


@dataclass(frozen=True)
class Plan:
    """A study with its cells, in the order of the grid."""

    path: str
    changes: tuple[str, ...]  # as given on the command line
    study: Study
    cells: list[Cell]
    test: CorpusConfig

    @property
    def command(self) -> str:
        """The shell command of this study, for the current directory."""
        return shlex.join(["python", os.path.relpath(SCRIPT), self.path, *self.changes])

    def baseline_of(self, cell: Cell) -> Cell | None:
        """Return the cell with the levels of the baseline and otherwise those of this one."""
        fixed = {axis: label(level) for axis, level in (self.study.baseline or {}).items()}
        return next((each for each in self.cells if each.levels == cell.levels | fixed), None)


def make_plan(path: str, changes: Sequence[str] = ()) -> Plan:
    """Read a study and apply changes: of its own keys, or `section.key=value` for all cells.

    Raises ConfigError for a file that does not fit the schema, and for an invalid recipe; DataError
    for minimal pairs that cannot be read.
    """
    own = [change for change in changes if not changes_recipe(change)]
    study = parse_section(read_yaml_file(path), Study, own, origin=path)
    for axis, levels in study.grid.items():
        named = isinstance(levels, dict) and all(isinstance(s, dict) for s in levels.values())
        if not levels or not (named or isinstance(levels, tuple)):
            raise ConfigError(
                f"{path}: grid: axis '{axis}': expected a list of values, or named levels with the "
                f"keys that they set, found {json.dumps(levels)}"
            )
    for_all = [change for change in changes if changes_recipe(change)]
    _check_keys(path, study, for_all)
    cells = _make_cells(path, study, for_all)
    if study.challenge:
        read_challenge(study.challenge)
    tests = {cell.options[0][0].config.data.test for cell in cells}
    if len(tests) > 1 or not (test := tests.pop()):
        raise ConfigError(f"{path}: data.test: a study needs one test set, the same for all cells")
    plan = Plan(path, tuple(changes), study, cells, test)
    if study.baseline and not any(map(plan.baseline_of, cells)):
        raise ConfigError(f"{path}: baseline: no cell has these levels; choose one of the grid")
    return plan


def changes_recipe(change: str) -> bool:
    """Return whether `key=value` changes a key of the recipe, not one of the study."""
    return change.partition("=")[0].partition(".")[0] in Config.model_fields


def _check_keys(path: str, study: Study, changes: Sequence[str]) -> None:
    """Raise ConfigError for keys that are the study's own, and for two that set the same key."""
    setters = [
        *(("overrides", key) for key in study.overrides),
        *(("the command line", change.partition("=")[0]) for change in changes),
        *(("tune", key) for key in study.tune),
        *(
            (f"axis '{axis}'", key)
            for axis, levels in study.axes.items()
            for settings in levels.values()
            for key in settings
        ),
    ]
    for where, key in setters:
        for ours, own in (("run_dir", "out"), ("training.seed", "seeds")):
            if _overlap(key, ours):
                raise ConfigError(f"{path}: {where}: '{ours}' is set by the study's `{own}`")
    # The command line and the levels may change what `overrides` sets for all cells.
    for (one, key), (other, same) in itertools.combinations(setters, 2):
        if one not in ("overrides", other) and _overlap(key, same):
            raise ConfigError(f"{path}: {one} and {other} both set {same}; remove one of them")


def _overlap(key: str, other: str) -> bool:
    """Return whether keys are the same, or one is a section around the other."""
    return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")


def _make_cells(path: str, study: Study, changes: Sequence[str]) -> list[Cell]:
    """Return the combinations of levels that are not excluded, with their runs."""
    base, axes = read_yaml_file(study.base), study.axes
    parse_config(base, origin=study.base)
    common = [*_overrides(study.overrides), *changes]
    tried = [{key: value} for key, values in study.tune.items() for value in values] or [{}]
    every = [dict(zip(axes, each, strict=True)) for each in itertools.product(*axes.values())]
    for number, entry in enumerate(study.exclude):
        if not any(_excludes(entry, levels) for levels in every):
            raise ConfigError(f"{path}: exclude.{number}: no cell has these levels; correct them")
    cells: dict[str, Cell] = {}
    for levels in every:
        if any(_excludes(entry, levels) for entry in study.exclude):
            continue
        settings: Settings = {}
        for axis, level in levels.items():
            settings |= axes[axis][level]
        name = _cell_name(study, levels)
        if name in cells:
            raise ConfigError(
                f"{path}: grid: several cells would have the directory {name}; rename levels so "
                "that they differ in letters, digits or dots"
            )
        cells[name] = Cell(name, levels, settings, [])
        for option in tried:
            overrides = [*common, *_overrides(settings | option)]
            try:
                config = parse_config(base, overrides, origin=study.base)
            except ConfigError as error:
                raise ConfigError(
                    f"{path}: cell {name}: {error}; correct it, or leave it out with 'exclude'"
                ) from None
            runs = [_run(study, name, seed, config, *option.values()) for seed in study.seeds]
            cells[name].options.append(runs)
    if not cells:
        raise ConfigError(f"{path}: exclude: no cell is left; remove an entry")
    return list(cells.values())


def _excludes(entry: Mapping[str, Any], levels: Mapping[str, str]) -> bool:
    """Return whether a cell has the levels of an entry, each a level or a list of some."""
    return all(
        levels.get(axis, "") in map(label, named if isinstance(named, tuple) else (named,))
        for axis, named in entry.items()
    )


def _cell_name(study: Study, levels: Mapping[str, str]) -> str:
    """Return the directory name of a cell: names of levels as they are, values with their axis."""
    return "_".join(
        slug(level)
        if isinstance(study.grid[axis], dict)
        else f"{slug(study.titles[axis])}={slug(level)}"
        for axis, level in levels.items()
    )


def _overrides(settings: Settings) -> Iterable[str]:
    # JSON is valid YAML, and quotes whatever YAML could take for something else.
    return [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]


def _run(study: Study, cell: str, seed: int, config: Config, *tuned: Any) -> Run:
    run = Run(cell, seed, config, *map(label, tuned))
    training = config.training.model_copy(update={"seed": seed})
    path = str(study.directory / "cells" / run.name)
    return replace(run, config=config.model_copy(update={"run_dir": path, "training": training}))

"""A study file, and the plan of training runs that it describes.

The axes of the grid span all combinations of their levels. A combination is a cell; a cell with
one seed is a run. The recipes of all cells are checked before the first run is trained.
"""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from seq2seq.config import Config, CorpusConfig, Section, parse_config
from seq2seq.config.loading import parse_section, read_yaml_file
from seq2seq.config.section import Count, CountFrom0
from seq2seq.errors import ConfigError
from seq2seq.evaluation.challenge import read_challenge

Measure = Literal[
    "bleu", "chrf", "alignment_error", "lost", "copied", "challenge", "minutes", "parameters"
]
Settings = dict[str, Any]  # by key of the recipe

SCRIPT = Path(__file__).parents[1] / "study.py"
_SET_BY_STUDY = {"run_dir": "out", "training.seed": "seeds"}


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
    seeds: Annotated[tuple[CountFrom0, ...], Field(min_length=1)] = Field(
        (1, 2, 3), description="training.seed of the runs of each cell"
    )
    measure: Annotated[tuple[Measure, ...], Field(min_length=1)] = Field(
        ("bleu", "chrf", "alignment_error", "minutes", "parameters"),
        description="columns of the table; alignment_error where data.test has gold alignments, "
        "lost and copied of the kinds of text that `evaluate --robustness` makes of it, challenge "
        "of the pairs under `challenge`",
    )
    challenge: str | None = Field(
        None, description="file of right and wrong translations, as for `evaluate --challenge`"
    )
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(
        (5, 10, 15, 20),
        description="BLEU by length: the most source words of each bucket; the last one is open",
    )
    tune: dict[str, Any] = Field(
        {},
        description="a key of the recipe and a list of values: each cell tries them with its first "
        "seed, and all its seeds use the one with the lowest validation loss",
    )
    baseline: dict[str, Any] | None = Field(
        None,
        description="axis to level: each cell is compared with the cell that has these levels and "
        "otherwise its own; default: the cell with the best BLEU",
    )

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        if slug(name) != name:
            raise ValueError(f"expected letters, digits, '.' and '-', found '{name}'")
        return name

    @field_validator("out")
    @classmethod
    def _check_out(cls, out: str | None) -> str | None:
        if out and Path(out).is_file():
            raise ValueError(f"'{out}' is a file; name a directory")
        return out

    @field_validator("overrides")
    @classmethod
    def _check_overrides(cls, overrides: Settings) -> Settings:
        _check_keys(overrides)
        return overrides

    @field_validator("grid")
    @classmethod
    def _check_grid(cls, grid: dict[str, Any]) -> dict[str, Any]:
        if not grid:
            raise ValueError("no axes; give one or more")
        for axis, levels in grid.items():
            _check_axis(axis, levels)
        axes = _axes(grid)
        for key in (key for levels in axes.values() for level in levels.values() for key in level):
            if len(found := _axes_that_set(key, axes)) > 1:
                one, other = found[:2]
                raise ValueError(f"'{one}' and '{other}' both set {key}; make them one axis")
        return grid

    @field_validator("tune")
    @classmethod
    def _check_tune(cls, tune: dict[str, Any]) -> dict[str, Any]:
        if len(tune) > 1:
            raise ValueError(f"expected one key, found {', '.join(tune)}; make the others axes")
        for key, values in tune.items():
            if key.startswith("inference."):
                raise ValueError(f"'{key}' does not change the validation loss; make it an axis")
            if not isinstance(values, tuple):
                raise ValueError(f"'{key}': expected a list of values, found {json.dumps(values)}")
            _check_axis(key, values)
        return tune

    @model_validator(mode="after")
    def _check_challenge(self) -> Study:
        if (self.challenge is not None) != ("challenge" in self.measure):
            raise ValueError("challenge: name a file here and 'challenge' in measure, or neither")
        return self

    @model_validator(mode="after")
    def _check_levels(self) -> Study:
        for key in self.tune:
            for axis in _axes_that_set(key, self.axes):
                raise ValueError(f"tune: the axis '{axis}' sets {key}; remove it from one of them")
        for number, excluded in enumerate(self.exclude):
            for axis, levels in excluded.items():
                self._check_level(f"exclude.{number}", axis, _level_names(levels))
        for axis, level in (self.baseline or {}).items():
            self._check_level("baseline", axis, [label(level)])
        for name in ("seeds", "lengths"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name}: duplicate entry in {list(values)}; keep one of them")
        if sorted(self.lengths) != list(self.lengths):
            raise ValueError(f"lengths: expected increasing numbers, found {list(self.lengths)}")
        return self

    def _check_level(self, where: str, axis: str, levels: Iterable[str]) -> None:
        _check_known(f"{where}: unknown axis", axis, self.axes)
        for level in levels:
            _check_known(f"{where}: unknown level of {axis}", level, self.axes[axis])

    @property
    def directory(self) -> Path:
        """The directory of runs and results."""
        return Path(self.out or f"runs/studies/{self.name}")

    @property
    def axes(self) -> dict[str, dict[str, Settings]]:
        """The levels of each axis, each with the keys that it sets."""
        return _axes(self.grid)

    @property
    def titles(self) -> dict[str, str]:
        """The name of each axis in tables: the last part of a key, where that is unambiguous."""
        last = {axis: axis.rpartition(".")[2] for axis in self.grid}
        names = list(last.values())
        return {axis: title if names.count(title) == 1 else axis for axis, title in last.items()}

    def describe(self, levels: Mapping[str, str]) -> list[str]:
        """Return the levels of a cell in words; numbers and booleans come with their axis."""
        words = []
        for axis, level in levels.items():
            values = self.grid[axis]
            clear = isinstance(values, dict) or all(isinstance(value, str) for value in values)
            words.append(level if clear else f"{self.titles[axis]} {level}")
        return words

    @property
    def tuned_title(self) -> str:
        """The title of the key that is tuned; empty without one."""
        return "".join(self.tune).rpartition(".")[2]


def label(value: Any) -> str:
    """Return the name of a value of an axis."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def slug(text: str) -> str:
    """Return a text as part of a file name: letters, digits, dots and hyphens."""
    return re.sub(r"[^\w.]+", "-", text.replace("_", "-"), flags=re.ASCII).strip("-.")


def _axes(grid: Mapping[str, Any]) -> dict[str, dict[str, Settings]]:
    return {
        axis: levels if isinstance(levels, dict) else {label(v): {axis: v} for v in levels}
        for axis, levels in grid.items()
    }


def _level_names(levels: Any) -> list[str]:
    return [label(level) for level in (levels if isinstance(levels, tuple) else (levels,))]


def _axes_that_set(key: str, axes: Mapping[str, Mapping[str, Settings]]) -> list[str]:
    """Return the axes with a level that sets a key, a part of it, or a section around it."""

    def overlaps(other: str) -> bool:
        return f"{key}.".startswith(f"{other}.") or f"{other}.".startswith(f"{key}.")

    return [
        axis
        for axis, levels in axes.items()
        if any(overlaps(other) for level in levels.values() for other in level)
    ]


def _check_keys(keys: Iterable[str]) -> None:
    """Raise ValueError for a key that no cell may set, or that would replace a whole section."""
    for key in keys:
        if key in _SET_BY_STUDY:
            raise ValueError(f"'{key}' is set by the study's `{_SET_BY_STUDY[key]}`; remove it")
        if "." not in key:
            raise ValueError(f"'{key}': expected section.key, such as training.max_steps")
        _check_known("unknown section", key.partition(".")[0], Config.model_fields)


def _check_known(problem: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError where a name is not one of those known."""
    known = list(known)
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {str(known)[1:-1]}"
        raise ValueError(f"{problem} '{name}'; {hint}")


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
        _check_keys([axis])
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"axis '{axis}': duplicate value {twice[0]}; keep one of them")
        return
    for name, settings in levels.items():
        if not isinstance(settings, dict):
            raise ValueError(
                f"level '{name}' of '{axis}': expected keys and values, such as "
                f"{{model.style: luong}}, found {json.dumps(settings)}"
            )
        _check_keys(settings)


@dataclass(frozen=True)
class Cell:
    """A combination of levels, one of each axis."""

    name: str
    levels: dict[str, str]  # by axis
    settings: Settings


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
        return _run_name(self.cell, self.tuned, self.seed)


def _run_name(cell: str, tuned: str, seed: int) -> str:
    return "/".join(filter(None, [cell, slug(tuned), f"seed-{seed}"]))


@dataclass(frozen=True)
class Plan:
    """A study with its cells and runs, in the order of the grid; the seeds of a cell together.

    With `tune`, a cell first tries the values with its first seed; runs.decide finds the best.
    """

    path: str
    changes: tuple[str, ...]  # as given on the command line
    study: Study
    cells: list[Cell]
    options: dict[str, list[list[Run]]]  # by cell: for each value to be tried, a run a seed
    best: dict[str, list[Run]]  # by cell: the best of its options, once it is known
    test: CorpusConfig

    @property
    def undecided(self) -> set[str]:
        """The cells that still try values."""
        return self.options.keys() - self.best.keys()

    @property
    def runs(self) -> list[Run]:
        """The runs of the best option of each cell, or those that try its values."""
        return [
            run
            for cell, options in self.options.items()
            for run in self.best.get(cell) or [option[0] for option in options]
        ]

    def command(self, *options: str) -> str:
        """Return the shell command of this study, for the current directory."""
        words = ["python", os.path.relpath(SCRIPT), self.path, *self.changes, *options]
        return shlex.join(words)

    def select(self, names: Sequence[str]) -> list[Run]:
        """Return the runs of the named cells, and single runs by their names.

        Raises ConfigError for a name that is neither.
        """
        every = [run for options in self.options.values() for option in options for run in option]
        known = {name: None for run in every for name in (run.cell, run.name)}
        with _config_errors("--cell"):
            for name in names:
                _check_known("unknown name", name, known)
        wanted = {*names, *(run.name for run in self.runs if run.cell in names)}
        return [run for run in every if run.name in wanted]


def make_plan(path: str, changes: Sequence[str] = ()) -> Plan:
    """Read a study and apply changes: of its own keys, or `section.key=value` for all cells.

    Raises ConfigError for a file that does not fit the schema, and one for all invalid recipes;
    DataError for minimal pairs that cannot be read.
    """
    recipe_changes = [change for change in changes if changes_recipe(change)]
    study_changes = [change for change in changes if not changes_recipe(change)]
    study = parse_section(read_yaml_file(path), Study, study_changes, origin=path)
    _check_changes(path, study, recipe_changes)
    base = read_yaml_file(study.base)
    parse_config(base, origin=study.base)
    with _config_errors(path):
        cells = _make_cells(study)
    tries = [
        (label(value), [_override(key, value)])
        for key, values in study.tune.items()
        for value in values
    ] or [("", [])]
    options: dict[str, list[list[Run]]] = {}
    problems = {}
    for cell in cells:
        settings = [
            *(_override(key, value) for key, value in study.overrides.items()),
            *recipe_changes,
            *(_override(key, value) for key, value in cell.settings.items()),
        ]
        try:
            options[cell.name] = [
                _runs(study, cell, tuned, [*settings, *setting], base) for tuned, setting in tries
            ]
        except ConfigError as error:
            problems[cell.name] = str(error)
    if problems:
        raise ConfigError(
            f"{path}: {len(problems)} of {len(cells)} cells are invalid, nothing was trained: "
            f"{join_messages(problems, cells=len(cells))}; correct them, or leave them out with "
            "'exclude'"
        )
    if study.challenge:
        read_challenge(study.challenge)
    test = _test_set(path, [option[0].config for found in options.values() for option in found])
    best = {cell: found[0] for cell, found in options.items() if len(found) == 1}
    return Plan(path, tuple(changes), study, cells, options, best, test)


def _runs(study: Study, cell: Cell, tuned: str, settings: list[str], base: str) -> list[Run]:
    """Return a run for each seed. Raises ConfigError for an invalid recipe."""
    config = parse_config(base, settings, origin=study.base)
    runs = []
    for seed in study.seeds:
        training = config.training.model_copy(update={"seed": seed})
        path = study.directory / "cells" / _run_name(cell.name, tuned, seed)
        own = {"run_dir": str(path), "training": training}
        runs.append(Run(cell.name, seed, config.model_copy(update=own), tuned))
    return runs


def baseline_of(study: Study, cell: Cell, cells: Sequence[Cell]) -> Cell | None:
    """Return the cell that the study compares a cell with; None where it is excluded."""
    fixed = {axis: label(level) for axis, level in (study.baseline or {}).items()}
    return next((other for other in cells if other.levels == cell.levels | fixed), None)


def changes_recipe(change: str) -> bool:
    """Return whether `key=value` changes a key of the recipe, not one of the study."""
    return change.partition("=")[0].partition(".")[0] in Config.model_fields


def join_messages(messages: Mapping[str, str], *, cells: int | None = None) -> str:
    """Return messages by name in one line, `a, b: message; c: message`, each message once.

    A message of as many names as there are `cells` is one of "all cells".
    """
    names: dict[str, list[str]] = {}
    for name, message in messages.items():
        names.setdefault(message, []).append(name)
    return "; ".join(
        f"{'all cells' if len(found) == cells else ', '.join(found)}: {message}"
        for message, found in names.items()
    )


def _check_changes(path: str, study: Study, changes: Sequence[str]) -> None:
    """Raise ConfigError for a change that no cell may have, or that the grid would override."""
    for change in changes:
        key = change.partition("=")[0]
        with _config_errors(f"override '{change}'"):
            _check_keys([key])
        axes = {f"the axis '{name}'": levels for name, levels in study.axes.items()}
        for where in _axes_that_set(key, axes | {"tune": {name: {name: 0} for name in study.tune}}):
            raise ConfigError(
                f"override '{change}': {where} of {path} sets this key; change it there instead"
            )


def _make_cells(study: Study) -> list[Cell]:
    """Return the combinations of levels that are not excluded. Raises ValueError for none."""
    axes, cells = study.axes, []
    for combination in product(*axes.values()):
        levels = dict(zip(axes, combination, strict=True))
        if any(
            all(levels[axis] in _level_names(named) for axis, named in excluded.items())
            for excluded in study.exclude
        ):
            continue
        settings: Settings = {}
        for axis, level in levels.items():
            settings |= axes[axis][level]
        cells.append(Cell(_cell_name(study, levels), levels, settings))
    if not cells:
        raise ValueError("exclude: no cell is left; remove an entry")
    if study.baseline and not any(baseline_of(study, cell, cells) for cell in cells):
        raise ValueError("baseline: 'exclude' leaves this cell out; choose another")
    names = [cell.name for cell in cells]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(
            f"grid: several cells would have the directory {twice[0]}; rename levels so that they "
            "differ in letters, digits or dots"
        )
    return cells


def _cell_name(study: Study, levels: Mapping[str, str]) -> str:
    """Return the directory name of a cell: names of levels as they are, values with their axis."""
    return "_".join(
        slug(level)
        if isinstance(study.grid[axis], dict)
        else f"{slug(study.titles[axis])}={slug(level)}"
        for axis, level in levels.items()
    )


def _override(key: str, value: Any) -> str:
    # JSON is valid YAML, and quotes whatever YAML could take for something else.
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _test_set(path: str, configs: Sequence[Config]) -> CorpusConfig:
    first, *others = (config.data.test for config in configs)
    if first is None:
        raise ConfigError(f"{path}: data.test: a study needs a test set; set it under 'overrides'")
    if any(other != first for other in others):
        raise ConfigError(f"{path}: data.test: all cells of a study need the same test set")
    return first


@contextlib.contextmanager
def _config_errors(origin: str) -> Iterator[None]:
    """Turn a ValueError into a ConfigError that names its origin."""
    try:
        yield
    except ValueError as error:
        raise ConfigError(f"{origin}: {error}") from None

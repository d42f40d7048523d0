"""The schema of a study: a recipe, the grid of changes to it, seeds, and what is measured."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from seq2seq.config import Config, Section
from seq2seq.config.section import Count

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

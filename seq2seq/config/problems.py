"""What does not fit the schema, in words: the key, what was found there, and the mend."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from seq2seq.config.section import Section, section_of, type_name

_LIMITS = {
    "greater_than_equal": ("ge", "{} or more"),
    "greater_than": ("gt", "more than {}"),
    "less_than_equal": ("le", "{} or less"),
    "less_than": ("lt", "less than {}"),
}


def explain(error: ValidationError, overridden: Sequence[str], schema: type[Section]) -> str:
    """Return all problems in one line; those of overridden keys say where they were given."""
    by_key: dict[str, tuple[Any, list[Any]]] = {}
    for problem in error.errors(include_url=False):
        key, annotation = _place(problem["loc"], schema)
        by_key.setdefault(key, (annotation, []))[1].append(problem)
    # What is wrong inside a section makes the section wrong too: that is no news.
    told = [key for key in by_key if not any(other.startswith(f"{key}.") for other in by_key)]
    return "; ".join(_sentence(key, *by_key[key], overridden, schema) for key in told)


def _place(location: tuple[int | str, ...], schema: type[Section]) -> tuple[str, Any]:
    """Return the dotted key and its annotation; pydantic's marks of a union are left out."""
    annotation: Any = schema
    names = []
    for part in location:
        section = section_of(annotation)
        if isinstance(part, int):
            annotation = next(iter(get_args(annotation)), None)
        elif section is None:
            break
        else:
            field = section.model_fields.get(part)
            annotation = None if field is None else field.annotation
        names.append(str(part))
    return ".".join(names), annotation


def _sentence(
    key: str,
    annotation: Any,
    problems: list[Any],
    overridden: Sequence[str],
    schema: type[Section],
) -> str:
    problem = next((p for p in problems if not p["type"].endswith("_type")), problems[0])
    kind, found = problem["type"], _shown(problem["input"])
    if kind == "value_error":
        text = str(problem["ctx"]["error"])
        return f"{key}: {text}" if key else text
    if kind == "extra_forbidden":
        text = f"unknown key{_suggestion(key, schema)}"
    elif kind == "missing":
        text = "this key is needed"
    elif kind == "literal_error":
        close = difflib.get_close_matches(str(problem["input"]), get_args(annotation), n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        text = f"expected one of {type_name(annotation)}, found {found}{hint}"
    elif kind in _LIMITS:
        name, words = _LIMITS[kind]
        text = f"expected {words.format(problem['ctx'][name])}, found {found}"
    elif kind in ("too_short", "too_long", "missing_argument"):
        text = f"expected {type_name(annotation)}, one entry or more, found {found}"
    elif kind == "finite_number":
        text = f"expected a finite number, found {found}"
    elif kind == "string_unicode":
        text = f"expected text that UTF-8 can hold, found {found}"
    else:
        text = f"expected {_type(annotation)}, found {found}"
    given = any(f"{key}.".startswith(f"{k}.") or k.startswith(f"{key}.") for k in overridden)
    return f"{key}: {text}{' (given as an override)' if given else ''}"


def _type(annotation: Any) -> str:
    if section_of(annotation) is None:
        return type_name(annotation)
    return "a list of sections" if get_origin(annotation) is tuple else "a section (key: value)"


def _suggestion(key: str, schema: type[Section]) -> str:
    parent, _, name = key.rpartition(".")
    location = [int(p) if p.isdigit() else p for p in parent.split(".")] if parent else []
    section = section_of(_place(tuple(location), schema)[1])
    known = list(section.model_fields) if section else []
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else f"; known here: {', '.join(known)}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:59] + "…"

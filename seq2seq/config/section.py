"""The base of all sections of a recipe, the types of their keys, and the text of their errors."""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from seq2seq.errors import did_you_mean

# Every number has an upper bound, too: anything larger is a typing error, or a recipe meant to
# exhaust its user's machine.
LARGEST = 2**31 - 1
Rate = Annotated[float, Field(ge=0, lt=1)]
Count = Annotated[int, Field(ge=1, le=LARGEST)]
CountFrom0 = Annotated[int, Field(ge=0, le=LARGEST)]
Size = Annotated[int, Field(ge=1, le=65_536)]  # of a vector
Layers = Annotated[int, Field(ge=1, le=64)]
_MOST_LISTED = 20  # keys in a message


class Section(BaseModel):
    """A section of a recipe: immutable, strictly typed, and without unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        allow_inf_nan=False,
        defer_build=True,  # at first use: most commands use few sections
    )

    @field_validator("*")
    @classmethod
    def _without_nul(cls, value: Any) -> Any:
        if isinstance(value, str) and "\0" in value:
            raise ValueError("contains a NUL character; remove it")
        return value


def section_of(annotation: Any) -> type[Section] | None:
    """Return the Section in a key's type, also from an optional or a tuple, or None."""
    if get_origin(annotation) in (Union, types.UnionType, tuple, Annotated):
        found = (section_of(part) for part in get_args(annotation))
        return next((section for section in found if section is not None), None)
    is_section = isinstance(annotation, type) and issubclass(annotation, Section)
    return annotation if is_section else None


_NAMES = {
    int: "an integer",
    float: "a number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
_PLURALS = {"an integer": "integers", "a number": "numbers", "a section (key: value)": "sections"}


def type_name(annotation: Any) -> str:
    """Return the type of a key in words, for the reference page and for error messages."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(parts[0])
    if origin is Literal:
        return ", ".join(str(p).lower() if isinstance(p, bool) else str(p) for p in parts)
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(part) for part in parts)
    if origin is tuple:
        number = "" if Ellipsis in parts else f"{len(parts)} "
        item = type_name(parts[0])
        return f"a list of {number}{_PLURALS.get(item, item)}"
    if section_of(annotation):
        return "a section (key: value)"
    return _NAMES.get(annotation, "keys and values")


def explain(error: ValidationError, overridden: Sequence[str], schema: type[Section]) -> str:
    """Return all problems of a recipe in one line; those of overridden keys are marked as such."""
    by_key: dict[str, tuple[Any, list[Any]]] = {}
    for problem in error.errors(include_url=False):
        key, annotation = _locate(problem["loc"], schema)
        by_key.setdefault(key, (annotation, []))[1].append(problem)
    # A problem inside a section makes the section itself invalid too; only the former is reported.
    keys = [key for key in by_key if not any(other.startswith(f"{key}.") for other in by_key)]
    return "; ".join(_sentence(key, *by_key[key], overridden, schema) for key in keys)


def _locate(location: Sequence[int | str], schema: type[Section]) -> tuple[str, Any]:
    """Return the dotted key of a location and its type, without pydantic's names of union parts."""
    annotation: Any = schema
    names = []
    for part in location:
        section = section_of(annotation)
        if isinstance(part, int):
            annotation = next(iter(get_args(annotation)), None)
        elif section is None:
            break
        else:
            fields = section.model_fields.items()
            found = (each.annotation for name, each in fields if part in (name, each.alias))
            annotation = next(found, None)
        names.append(str(part))
    return ".".join(names), annotation


_EXPECTED = {  # by pydantic's type of problem; otherwise the key's type
    "greater_than_equal": "{ge} or more",
    "greater_than": "more than {gt}",
    "less_than_equal": "{le} or less",
    "less_than": "less than {lt}",
    "too_short": "{type} with at least one entry",
    "too_long": "{type}, no more than {max_length}",
    "literal_error": "one of {type}",
    "finite_number": "a finite number",
    "string_unicode": "text that can be encoded as UTF-8",
}


def _sentence(
    key: str, annotation: Any, problems: list[Any], overridden: Sequence[str], schema: type[Section]
) -> str:
    # A union reports a problem for each of its types; the most specific one is not about the type.
    problem = next((p for p in problems if not p["type"].endswith("_type")), problems[0])
    kind, value, context = problem["type"], problem["input"], problem.get("ctx", {})
    if kind == "value_error":
        return f"{key}: {context['error']}" if key else str(context["error"])
    if kind == "extra_forbidden":
        section = section_of(_locate(problem["loc"][:-1], schema)[1])
        known = list(section.model_fields) if section else []
        others = " and others ('seq2seq reference' lists all)" * (len(known) > _MOST_LISTED)
        listed = ", ".join(known[:_MOST_LISTED]) + others
        hint = did_you_mean(str(problem["loc"][-1]), known) or f"; known keys: {listed}"
        text = f"unknown key{hint}"
    elif kind == "missing":
        text = "missing required key"
    else:
        expected = _EXPECTED.get(kind, "{type}").format(type=type_name(annotation), **context)
        text = f"expected {expected}, found {_shown(value)}"
        if kind == "literal_error":
            text += did_you_mean(str(value), get_args(annotation))
    given = any(f"{key}.".startswith(f"{k}.") or k.startswith(f"{key}.") for k in overridden)
    return f"{key}: {text}{' (given as an override)' if given else ''}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 60 else text[:59] + "…"

"""The reference page of the configuration, made from the schema so that it cannot go stale."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from seq2seq.config import Config, Section, section_of

HEAD = """# Configuration

Every key with its type and default. This page is made by `seq2seq reference`.

A recipe is a YAML file; each key can be overridden on the command line, with list elements by
number: `seq2seq train recipe.yaml training.seed=2 data.train.0.path=pairs.tsv`.
"""


def reference() -> str:
    """Return the page as Markdown."""
    return HEAD + "".join(_sections(Config, ""))


def _sections(section: type[Section], prefix: str) -> Iterator[str]:
    own = {
        name: field
        for name, field in section.model_fields.items()
        if not section_of(field.annotation)
    }
    below = {name: field for name, field in section.model_fields.items() if name not in own}
    title = prefix.rstrip(".") or "top level"
    yield f"\n## {title}\n\n{section.__doc__}\n"
    if own:
        yield "\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n"
        for name, field in own.items():
            cells = (
                f"`{prefix}{name}`",
                _type(field.annotation),
                _default(field),
                field.description or "",
            )
            yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    for name, field in below.items():
        child = section_of(field.annotation)
        if child is None:
            continue
        many = get_origin(field.annotation) is tuple
        if prefix == "data." and name in ("valid", "test"):
            needed = "needed" if field.is_required() else "optional"
            yield f"\n`data.{name}` ({needed}) has the keys of `data.train.N`: {field.description}.\n"
        else:
            yield from _sections(child, f"{prefix}{name}." + ("N." if many else ""))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(needed)"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return f"`{json.dumps(value)}`"


def _type(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _type(get_args(annotation)[0])
    if origin is Literal:
        return ", ".join(str(value) for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(_type(part) for part in get_args(annotation))
    if origin is tuple:
        return "list of " + _type(get_args(annotation)[0])
    names = {
        int: "integer",
        float: "number",
        str: "text",
        bool: "true or false",
        type(None): "null",
    }
    return names.get(annotation, str(annotation))

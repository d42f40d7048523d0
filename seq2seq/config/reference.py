"""The reference page of the configuration, made from the schema so that it cannot go stale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import get_origin

from pydantic.fields import FieldInfo

from seq2seq.config import Config, Section, section_of, type_name

HEAD = """# Configuration

Every key with its type and default. This page is made by `seq2seq reference`.

A recipe is a YAML file; each key can be overridden on the command line, with list elements by
number: `seq2seq train recipe.yaml training.seed=2 data.train.0.path=pairs.tsv`. The number after
the last entry adds one to a list, and `null` takes a value away.
"""


def reference() -> str:
    """Return the page as Markdown."""
    return HEAD + "".join(_sections(Config, ""))


def _sections(section: type[Section], prefix: str) -> Iterator[str]:
    """Yield the table of a section's own keys, then what is below it."""
    fields = section.model_fields
    own = {name: field for name, field in fields.items() if not section_of(field.annotation)}
    title = prefix.rstrip(".") or "top level"
    yield f"\n## {title}\n\n{section.__doc__}\n"
    if own:
        yield "\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n"
        for name, field in own.items():
            yield _row(f"{prefix}{name}", field)
    told: dict[type[Section], str] = {}
    for name, field in fields.items():
        child = section_of(field.annotation)
        if child is None:
            continue
        below = f"{prefix}{name}." + ("N." if get_origin(field.annotation) is tuple else "")
        if child in told:
            needed = "needed" if field.is_required() else "optional"
            keys = f"has the keys of `{told[child]}`"
            yield f"\n`{below.rstrip('.')}` ({needed}) {keys}: {field.description}.\n"
        else:
            told[child] = below.rstrip(".")
            yield from _sections(child, below)


def _row(key: str, field: FieldInfo) -> str:
    cells = (f"`{key}`", type_name(field.annotation), _default(field), field.description or "")
    return "| " + " | ".join(c.replace("|", "\\|").replace("<", "&lt;") for c in cells) + " |\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(needed)"
    value = list(field.default) if isinstance(field.default, tuple) else field.default
    return f"`{json.dumps(value)}`"

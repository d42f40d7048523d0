"""Read recipes from YAML, apply `section.key=value` overrides, and write recipes back.

Scalars follow YAML 1.2: `1e-3` is a number and `no` is text. PyYAML's own rules are those of YAML
1.1, where `1e-3` is text, `no` is false, `010` is 8 and `2024-01-01` is a date. Duplicate keys are
errors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

import yaml
from pydantic import ValidationError

from seq2seq.config.recipe import Config
from seq2seq.config.section import Section, explain, section_of
from seq2seq.errors import ConfigError

MAX_BYTES = 1 << 20  # of a recipe file
MAX_NODES = 100_000  # of a document with its aliases expanded
MAX_DIGITS = 100  # of an integer; Python itself refuses some thousands
TAB = re.compile(r"(^ *\t.*|\t)\Z", re.MULTILINE)  # as the last character, or indenting its line

SectionT = TypeVar("SectionT", bound=Section)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe from YAML and apply `section.key=value` overrides in order.

    Raises ConfigError, naming the file and the key, for anything that does not fit the schema.
    """
    return parse_config(read_yaml_file(path), overrides, origin=str(path))


def parse_config(text: str, overrides: Sequence[str] = (), *, origin: str = "config") -> Config:
    """Parse a recipe from YAML text; `origin` names it in errors. See load_config."""
    return parse_section(text, Config, overrides, origin=origin)


def read_yaml_file(path: str | Path) -> str:
    """Return the text of a file. Raises ConfigError if it cannot be read."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_BYTES} bytes; expected a YAML recipe")
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 text (byte {error.object[error.start]:#04x} at offset "
            f"{error.start}); expected a YAML recipe"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason})") from None


def parse_section(
    text: str, schema: type[SectionT], overrides: Sequence[str] = (), *, origin: str
) -> SectionT:
    """Parse YAML text by any schema. See load_config."""
    try:
        raw = _frozen(_parse_yaml(text))
    except ValueError as error:
        raise ConfigError(f"{origin}: not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        found = {type(None): "nothing", tuple: "a list"}.get(type(raw), f"{str(raw)[:40]!r}")
        raise ConfigError(
            f"{origin}: expected keys and values, found {found}; see configs/ for examples"
        )
    for override in overrides:
        raw = _override(raw, schema, override)
    try:
        return schema.model_validate(raw)
    except ValidationError as error:
        keys = [override.partition("=")[0] for override in overrides]
        raise ConfigError(f"{origin}: {explain(error, keys, schema)}") from None


def dump_config(config: Config) -> str:
    """Return the recipe, defaults included, as YAML that load_config reads back."""
    raw = config.model_dump(mode="json")
    return yaml.dump(raw, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


def changed_keys(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Return the keys whose values differ between two recipes, with both; a missing one is None."""
    before, after = (flat(config.model_dump(mode="json")) for config in (old, new))
    keys = sorted(before.keys() | after.keys())
    pairs = {key: (before.get(key), after.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested keys with dots between them, as in overrides."""
    if not isinstance(value, dict | list):
        return {prefix: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, Any] = {}
    for key, item in items:
        found |= flat(item, f"{prefix}.{key}" if prefix else str(key))
    return found


def _frozen(value: Any) -> Any:
    """Turn YAML's lists into the tuples that a frozen schema holds, and its keys into strings."""
    if isinstance(value, dict):
        return {str(key): _frozen(item) for key, item in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


# --- overrides


def _override(raw: Any, schema: type[Section], override: str) -> Any:
    """Return the recipe with one `section.key=value` set."""
    key, equals, value = override.partition("=")
    names = key.split(".")
    if not equals or not all(names):
        raise ConfigError(f"override '{override}': expected section.key=value")
    try:
        parsed = _frozen(_parse_yaml(value))
    except ValueError as error:
        raise ConfigError(f"override '{override}': not valid YAML: {error}") from None
    return _updated(raw, schema, names, parsed, override)


def _updated(node: Any, annotation: Any, names: list[str], value: Any, override: str) -> Any:
    """Return a section or list with a value set in or below it.

    Missing lists start from their default; the number after the last entry adds one.
    """
    if not names:
        return value
    name, *below = names
    if isinstance(node, tuple):
        if not name.isdecimal() or int(name) > len(node):
            raise ConfigError(
                f"override '{override}': expected the number of a list entry from 0 to "
                f"{len(node)}, found '{name}'"
            )
        number = int(name)
        entry = node[number] if number < len(node) else None
        item_type = next(iter(get_args(annotation)), None)
        entry = _updated(entry, item_type, below, value, override)
        return (*node[:number], entry, *node[number + 1 :])
    if node is not None and not isinstance(node, dict):
        raise ConfigError(f"override '{override}': {node!r} has no key '{name}'; set it as a whole")
    node = node or {}
    section = section_of(annotation)
    field = section.model_fields.get(name) if section else None
    inner = field.annotation if field else None
    child = node.get(name)
    if child is None and field and get_origin(inner) is tuple:
        child = () if field.is_required() else field.default
    return {**node, name: _updated(child, inner, below, value, override)}


# --- YAML 1.2 scalars on PyYAML


class _Loader(yaml.SafeLoader):
    """Builds plain objects from the events of PyYAML's parser in C, if it is installed.

    PyYAML's own loader in C crashes on deeply nested text.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, text: str) -> None:
        super().__init__(text)
        if yaml.__with_libyaml__:
            parser = yaml.cyaml.CParser(text)  # type: ignore[attr-defined]
            for name in ("check_event", "peek_event", "get_event"):
                setattr(self, name, getattr(parser, name))

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"duplicate key '{key.value}'; keep one of them",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        return node

    def construct_int(self, node: yaml.ScalarNode) -> int:
        if len(node.value) > MAX_DIGITS:
            raise yaml.MarkedYAMLError(
                problem=f"a number with {len(node.value)} digits, more than {MAX_DIGITS}",
                problem_mark=node.start_mark,
            )
        return int(node.value)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def represent_text(self, text: str) -> yaml.ScalarNode:
        # Only double quotes have escapes for the characters that YAML takes for line ends.
        style = None if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_int)
_Dumper.add_representer(str, _Dumper.represent_text)
for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+(?:_[0-9]+)*", "-+0123456789"),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:_[0-9]+)*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), list(_first)
        )


def _parse_yaml(text: str) -> Any:
    """Return the value of YAML text.

    Raises ValueError, with a message of one line, for text that is not YAML, for aliases that
    expand to more than MAX_NODES values ("billion laughs"), and for an alias to itself.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _num_nodes(node, {}) > MAX_NODES:
            raise ValueError(f"aliases (*) expand to more than {MAX_NODES} values")
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "syntax error"
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        is_syntax = isinstance(error, yaml.scanner.ScannerError)
        if mark and is_syntax and TAB.search(text, 0, mark.index + 1):
            problem = "a tab where YAML expects spaces; replace it by spaces"
        elif problem.startswith("mapping values"):
            problem = "no key can be here; write one 'key: value' on each line, indented alike"
        raise ValueError(place + " ".join(problem.split())) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    except (KeyError, AttributeError):
        # PyYAML raises these for a scalar that does not fit its tag, such as `!!bool maybe`.
        raise ValueError("a value does not match its tag (!!)") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _num_nodes(node: yaml.Node, counts: dict[int, int]) -> int:
    """Return the number of values in a node with its aliases expanded."""
    if id(node) not in counts:
        counts[id(node)] = 0  # still counting: only a node that contains itself finds this
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in parts for part in pair]
        counts[id(node)] = 1 + sum(_num_nodes(part, counts) for part in parts)
    if not counts[id(node)]:
        raise ValueError("an alias (*) refers to itself")
    return counts[id(node)]

"""Recipes from YAML files with `section.key=value` overrides, and back to YAML.

YAML with the scalars of its version 1.2: `1e-3` is a number, `no` is text, keys come once.

PyYAML's own rules are those of version 1.1, in which `1e-3` is text, `no` is false, `010` is 8 and
`2024-01-01` is a date.
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

MAX_NODES = 100_000  # of a document whose aliases are written out
_SCALARS = (
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
)


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key '{key.value}' is there twice; keep one of them",
                        problem_mark=key.start_mark,
                    )
                seen.add(key.value)
        return node


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012


for _name, _pattern, _first in _SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), list(_first)
        )


def _int(loader: _Loader, node: yaml.ScalarNode) -> int:
    if len(node.value) > 100:  # Python refuses some thousand digits, in words of its own
        raise yaml.MarkedYAMLError(
            problem=f"a number of {len(node.value)} digits", problem_mark=node.start_mark
        )
    return int(node.value)


def _float(loader: _Loader, node: yaml.ScalarNode) -> float:
    return float(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:int", _int)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    # Only between double quotes is there an escape for what YAML takes for the end of a line.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def parse_yaml(text: str) -> Any:
    """Return what YAML text holds.

    Raises ValueError, in one line, where it is no YAML, and where aliases make it more than
    MAX_NODES values ("billion laughs") or hold themselves.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _num_nodes(node, {}) > MAX_NODES:
            raise ValueError(f"aliases (*) make it more than {MAX_NODES} values")
        return _construct(loader, node)
    except yaml.MarkedYAMLError as error:
        problem = error.problem or error.context or "not valid"
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ValueError(place + " ".join(problem.split())) from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(" ".join(str(error).split())) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _num_nodes(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values of a node, aliases counted as what they stand for."""
    if id(node) not in known:
        known[id(node)] = 0  # being counted: only an alias that holds itself finds this
        parts = [] if isinstance(node, yaml.ScalarNode) else node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in parts for part in pair]
        known[id(node)] = 1 + sum(_num_nodes(part, known) for part in parts)
    if not known[id(node)]:
        raise ValueError("an alias (*) that holds itself")
    return known[id(node)]


def _construct(loader: _Loader, node: yaml.Node) -> Any:
    try:
        return loader.construct_document(node)
    except (KeyError, AttributeError):
        # PyYAML, of a scalar that is not what its tag says, such as `!!bool maybe`.
        raise ValueError("a value does not fit its tag (!!)") from None


def dump_yaml(value: Any) -> str:
    """Return the YAML text that parse_yaml reads back as this value."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True)


MAX_BYTES = 1 << 20  # of a recipe

SectionT = TypeVar("SectionT", bound=Section)


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a recipe from YAML and apply `section.key=value` overrides in order.

    Raises ConfigError, which names the file and the key, for whatever does not fit the schema.
    """
    return parse_config(read_yaml_file(path), overrides, origin=str(path))


def parse_config(text: str, overrides: Sequence[str] = (), *, origin: str = "config") -> Config:
    """Parse a recipe from YAML text; see load_config."""
    return parse_section(text, Config, overrides, origin=origin)


def read_yaml_file(path: str | Path) -> str:
    """Return the text of a file. Raises ConfigError, which names it, where it cannot be read."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise ConfigError(f"{path}: more than {MAX_BYTES} bytes; a recipe in YAML is expected")
        return raw.decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; check the path") from None
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path}: not UTF-8 text (byte {error.object[error.start]:#04x} at {error.start}); "
            "YAML is expected"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(f"{path}: cannot be read ({reason})") from None


def parse_section(
    text: str, schema: type[SectionT], overrides: Sequence[str] = (), *, origin: str
) -> SectionT:
    """Parse YAML text by a schema; see load_config."""
    try:
        raw = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"{origin}: not valid YAML: {error}") from None
    if not isinstance(raw, dict):
        found = {type(None): "nothing", list: "a list"}.get(type(raw), f"{str(raw)[:40]!r}")
        raise ConfigError(f"{origin}: expected keys and values as in configs/, found {found}")
    try:
        raw = _frozen(raw)
        for override in overrides:
            _override(raw, schema, override)
        return schema.model_validate(_frozen(raw))
    except ValidationError as error:
        keys = [override.partition("=")[0] for override in overrides]
        raise ConfigError(f"{origin}: {explain(error, keys, schema)}") from None


def dump_config(config: Config) -> str:
    """Return the whole recipe, defaults included, as YAML that load_config reads back."""
    return dump_yaml(config.model_dump(mode="json"))


def changed_keys(old: Config, new: Config) -> dict[str, tuple[Any, Any]]:
    """Return the keys in which two recipes differ, with both values; null where one has none."""
    before, after = (_flat(config.model_dump(mode="json"), "") for config in (old, new))
    keys = sorted(before.keys() | after.keys())
    pairs = {key: (before.get(key), after.get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _flat(value: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(value, dict | list):
        return {prefix: value}
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: dict[str, Any] = {}
    for key, item in items:
        found |= _flat(item, f"{prefix}.{key}" if prefix else str(key))
    return found


def _override(raw: dict[str, Any], schema: type[Section], override: str) -> None:
    key, equals, value = override.partition("=")
    if not equals or not all(key.split(".")):
        raise ConfigError(f"override '{override}': expected section.key=value")
    try:
        parsed = _frozen(parse_yaml(value))
    except ValueError as error:
        raise ConfigError(f"override '{override}': not valid YAML: {error}") from None
    _put(raw, schema, key.split("."), parsed, override)


def _put(node: dict[str, Any], annotation: Any, names: list[str], value: Any, where: str) -> None:
    """Set a value below a section; what the recipe leaves out starts from its default."""
    name, *below = names
    section = section_of(annotation)
    field = section.model_fields.get(name) if section else None
    if not below:
        node[name] = value
        return
    child = node.get(name)
    if child is None and field is not None and get_origin(field.annotation) is tuple:
        child = () if field.is_required() else field.default
    inner = field.annotation if field else None
    if isinstance(child, tuple):
        node[name] = _put_item(child, inner, below, value, where)
        return
    if child is not None and not isinstance(child, dict):
        raise ConfigError(f"override '{where}': {name} has the value {child!r}, no keys below it")
    node[name] = child = dict(child or {})
    _put(child, inner, below, value, where)


def _put_item(
    items: tuple[Any, ...], annotation: Any, names: list[str], value: Any, where: str
) -> tuple[Any, ...]:
    """Return the list with one of its entries set; the number after the last adds an entry."""
    name, *below = names
    if not name.isdecimal() or int(name) > len(items):
        raise ConfigError(
            f"override '{where}': expected the number of a list entry from 0 to {len(items)}, "
            f"found '{name}'"
        )
    number = int(name)
    item = dict(items[number]) if number < len(items) and isinstance(items[number], dict) else {}
    if below:
        _put(item, get_args(annotation)[0] if annotation else None, below, value, where)
    return (*items[:number], item if below else value, *items[number + 1 :])


def _frozen(value: Any) -> Any:
    """Turn YAML's lists into the tuples that a frozen schema holds, and keys into text."""
    if isinstance(value, dict):
        return {str(key): _frozen(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    return value

"""YAML with the scalars of its version 1.2: `1e-3` is a number, `no` is text, keys come once.

PyYAML's own rules are those of version 1.1, in which `1e-3` is text, `no` is false, `010` is 8 and
`2024-01-01` is a date.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

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

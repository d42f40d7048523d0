"""Readers of translated files, one for each format; all yield pairs of paragraphs."""

from __future__ import annotations

import csv
import html
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polib
import yaml

from corpora.general.text import MISSING, markdown_sections, plain, plain_markdown, plain_rst
from corpora.tatoeba.download import open_member

Pairs = Iterator[tuple[str, str]]
Reader = Callable[[Path, Path], Pairs]  # of a Spanish file and its English counterpart

# XML: elements whose text is a paragraph, and those without text to translate.
_PARAGRAPHS = {
    "caption", "entry", "item", "meaning", "member", "para", "refpurpose", "simpara", "title",
}  # fmt: skip
_SKIPPED = {
    "classsynopsis", "equation", "literallayout", "methodsynopsis", "preformat", "programlisting",
    "screen", "synopsis",
}  # fmt: skip
_PHP_CONSTANTS = {"true": "true", "false": "false", "null": "null", "php": "PHP"}


def po(clean: Callable[[str], str]) -> Reader:
    """Return a reader of gettext files, whose one file has both languages."""

    def read(path: Path, _: Path) -> Pairs:
        for entry in polib.pofile(path.read_text(encoding="utf-8")):
            is_code = re.match("type: (Fenced|YAML)", entry.comment)  # of po4a
            if entry.msgstr and not (entry.obsolete or entry.fuzzy or is_code):
                yield clean(entry.msgstr), clean(entry.msgid)

    return read


def markdown(spanish: Path, english: Path) -> Pairs:
    """Yield the blocks of sections of equal structure, if both files have the same headings."""
    sides = [markdown_sections(path.read_text(encoding="utf-8")) for path in (spanish, english)]
    headings = [[section[0][0] if section else "" for section in side[1:]] for side in sides]
    if headings[0] != headings[1]:
        return
    for one, other in zip(*sides, strict=True):
        if [kind for kind, _ in one] == [kind for kind, _ in other]:
            yield from ((a, b) for (_, a), (_, b) in zip(one, other, strict=True))


def strings(spanish: Path, english: Path) -> Pairs:
    """Yield the values that two JSON or YAML files have under the same keys."""
    one, other = (_values(path) for path in (spanish, english))
    return ((plain(one[key]), plain(other[key])) for key in one if key in other)


def _values(path: Path) -> dict[tuple[str | int, ...], str]:
    """Return the strings of a file by their keys; a first key that is the language is left out."""
    text = path.read_text(encoding="utf-8")
    root = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    if isinstance(root, dict) and len(root) == 1 and set(root) <= {"es", "en"}:
        [root] = root.values()
    found: dict[tuple[str | int, ...], str] = {}

    def visit(node: Any, keys: tuple[str | int, ...]) -> None:
        if isinstance(node, str):
            found[keys] = node
        elif isinstance(node, dict | list):
            for key, value in node.items() if isinstance(node, dict) else enumerate(node):
                if key != "answers":  # of questions in XQuAD: parts of the paragraph
                    visit(value, (*keys, key))

    visit(root, ())
    return found


def xml(spanish: Path, english: Path) -> Pairs:
    """Yield the paragraphs below elements of the same id, where these have the same structure."""
    one, other = (_xml_paragraphs(path) for path in (spanish, english))
    for anchor, paragraphs in one.items():
        if [tag for tag, _ in paragraphs] == [tag for tag, _ in other.get(anchor, [])]:
            yield from ((a, b) for (_, a), (_, b) in zip(paragraphs, other[anchor], strict=True))


def _xml_paragraphs(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Return (tags, text) of the paragraphs by their anchor: the next id above, and the role."""
    text = re.sub(r"&([\w.-]+);", _resolve, path.read_text(encoding="utf-8"))
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    number = 0  # of paragraphs found

    def visit(element: ElementTree.Element, anchor: str, tags: str) -> str:
        """Add the paragraphs in an element; return its text if it is part of a paragraph."""
        nonlocal number
        tag = element.tag.rpartition("}")[2]
        if tag == "math":
            return "".join("".join(element.itertext()).split())
        ids = (value for key, value in element.items() if key.rpartition("}")[2] == "id")
        if identifier := next(ids, ""):
            anchor, tags = identifier, ""
        elif role := element.get("role") if tag.startswith("refsect") else None:
            anchor, tags = f"{anchor} {role}", ""
        if tag in _SKIPPED or element.get("display") == "block":
            return ""
        tags = f"{tags}/{tag}"
        if alternative := element.get("alt"):  # describes a picture
            found[anchor].append((f"{tags}@alt", alternative))
        before, place = number, len(found[anchor])
        parts = [element.text or ""]
        for child in element:
            parts += visit(child, anchor, tags), child.tail or ""
        content = "".join(parts)
        if tag == "link" and not content.strip():
            return MISSING
        if tag in _PARAGRAPHS:
            found[anchor].insert(place, (tags, content))
            number += 1
        return content if number == before else ""

    visit(ElementTree.fromstring(text), "", "")
    return found


def _resolve(entity: re.Match[str]) -> str:
    """Return what stands for an entity: XML's own stay, unknown ones are marked as missing."""
    if entity[1] in ("amp", "lt", "gt", "quot", "apos"):
        return entity[0]
    if f"{entity[1]};" in html.entities.html5:
        return html.entities.html5[f"{entity[1]};"]
    return _PHP_CONSTANTS.get(entity[1], MISSING)


def tico(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Return the pairs of TICO-19's test sets by document, from the archive of its project."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name in ("dev.en-es-LA.tsv", "test.en-es-LA.tsv"):
        with open_member(path, name) as stream:
            lines = (line.decode() for line in stream)
            for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
                document = row["stringID"].partition(":")[0]
                found[document].append((row["targetString"], row["sourceString"]))
    return found


READERS = {
    "po rst": po(plain_rst),
    "po markdown": po(plain_markdown),
    "po plain": po(plain),
    "markdown": markdown,
    "strings": strings,
    "xml": xml,
}

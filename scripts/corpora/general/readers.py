"""Readers of translated files, one for each format; all yield pairs of paragraphs."""

from __future__ import annotations

import csv
import gzip
import html
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polib
import yaml

from corpora.general.text import (
    MISSING,
    markdown_sections,
    plain,
    plain_markdown,
    plain_message,
    plain_rst,
)
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
# HTML: elements that are a paragraph, or end one, and those whose text belongs to one.
_BLOCKS = {
    "blockquote", "body", "br", "center", "dd", "define-tag", "div", "dl", "dt", "form", "h1", "h2",
    "h3", "h4", "h5", "h6", "hr", "html", "li", "ol", "p", "table", "tbody", "td", "th", "thead",
    "title", "tr", "ul",
}  # fmt: skip
_INLINE = {
    "a", "abbr", "acronym", "b", "bdi", "cite", "code", "em", "font", "i", "img", "kbd", "q",
    "samp", "small", "span", "strong", "sub", "sup", "tt", "u", "var",
}  # fmt: skip
_HIDDEN = {"pre", "script", "style"}
_PHP_CONSTANTS = {"true": "true", "false": "false", "null": "null", "php": "PHP"}


def po(clean: Callable[[str], str]) -> Reader:
    """Return a reader of gettext files, text or binary, whose one file has both languages."""

    def read(path: Path, _: Path) -> Pairs:
        is_binary = path.suffix == ".mo"
        for entry in (
            polib.mofile(str(path)) if is_binary else polib.pofile(path.read_text("utf-8"))
        ):
            if isinstance(entry, polib.POEntry):
                is_code = re.match("type: (Fenced|YAML)", entry.comment)  # of po4a
                if entry.obsolete or entry.fuzzy or is_code:
                    continue
            forms = entry.msgstr_plural or {0: entry.msgstr}
            for number, english in enumerate((entry.msgid, entry.msgid_plural)):
                spanish = forms.get(number)
                if spanish and english:
                    yield clean(spanish), clean(english)

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
    # A reference to another key, or a value of the program, is not text.
    texts = (map(_without_references, (one[key], other[key])) for key in one if key in other)
    return ((plain(spanish), plain(english)) for spanish, english in texts)


def _without_references(text: str) -> str:
    return re.sub(r"\$t\([^)]*\)|{{.*?}}", MISSING, text)


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


def cldr(spanish: Path, english: Path) -> Pairs:
    """Yield the names of languages, scripts, countries, currencies and emoji of two locales."""
    one, other = (_cldr_names(path) for path in (spanish, english))
    return ((one[key], other[key]) for key in one if key in other)


def _cldr_names(path: Path) -> dict[tuple[str, ...], str]:
    """Return the names in a file by their element, key, count and variant."""
    root = ElementTree.parse(path).getroot()
    found: dict[tuple[str, ...], str] = {}
    for section in ("languages", "scripts", "territories", "currencies", "annotations"):
        for parent in root.iter(section):
            for element in parent:
                key = element.get("type", "")
                if section != "annotations":
                    names = element.findall("displayName") or [element]
                else:  # the name of an emoji is marked by a type; others are keywords
                    names, key = [element] if key else [], element.get("cp", "")
                for name in names:
                    number, alternative = name.get("count", ""), name.get("alt", "")
                    found[section, key, number, alternative] = name.text or ""
    return found


def dictionary(path: Path, _: Path) -> Pairs:
    """Yield the words of an English-Spanish dictionary of FreeDict in the format of dictd.

    A line `headword /sounds/ <class>` begins an entry. Its translations are on the next line, and
    on lines with a number in front, and other lines are definitions.
    """
    text = gzip.decompress(path.with_suffix(".dict.dz").read_bytes())
    for line in path.read_text(encoding="utf-8").splitlines():
        word, *place = line.split("\t")
        start, size = (_base64(number) for number in place[:2])
        head, *lines = text[start : start + size].decode().splitlines()
        if word.startswith("00"):  # about the dictionary
            continue
        english = re.split(r" [/<]", head)[0]
        for row, content in enumerate(lines):
            numbered = re.match(r"\d+\. ", content)
            if row == 0 or numbered:
                content = re.sub(r"^\d+\. | \d+\.$", "", content)
                # Further translations are rarer words.
                yield from ((spanish.strip(), english) for spanish in content.split(",")[:2])


def _base64(number: str) -> int:
    """Return the value of a number as dictd writes it."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    value = 0
    for digit in number:
        value = 64 * value + digits.index(digit)
    return value


def lines(spanish: Path, english: Path) -> Pairs:
    """Yield the lines of two files; what is before <sep> in a line is its context."""
    sides = [path.read_text(encoding="utf-8").splitlines() for path in (spanish, english)]
    if len(sides[0]) != len(sides[1]):
        raise ValueError(f"{len(sides[0])} lines for {len(sides[1])} of {english.name}")
    return ((a, b.rpartition("<sep>")[2]) for a, b in zip(*sides, strict=True))


def html_ids(spanish: Path, english: Path) -> Pairs:
    """Yield the paragraphs of two HTML pages that have the same id, where both have as many."""
    one, other = (_Page(path).found for path in (spanish, english))
    return (pair for key in one if isinstance(key, str) for pair in _equal(one[key], other[key]))


def wml(spanish: Path, english: Path) -> Pairs:
    """Yield the paragraphs of sections with equal elements, if both pages have equal headings."""
    one, other = (_Page(path) for path in (spanish, english))
    if one.headings == other.headings:
        for key, blocks in one.found.items():
            yield from _equal(blocks, other.found[key])


def _equal(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> Pairs:
    """Yield the texts of two lists of (tag, text) with the same tags."""
    if [tag for tag, _ in one] == [tag for tag, _ in other]:
        yield from ((a, b) for (_, a), (_, b) in zip(one, other, strict=True))


class _Page(HTMLParser):
    """The paragraphs of an HTML or WML file as (tag, text), by their id or the number of headings.

    In WML, lines that begin with # are comments or commands.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: dict[str | int, list[tuple[str, str]]] = defaultdict(list)
        self.headings: list[str] = []
        self._block: tuple[str, str] = ("", "")  # tag and id
        self._text = ""
        self._skipped = 0  # depth of elements without text to translate
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".wml":
            text = re.sub(r"^[ \t]*#.*\n?", "", text, flags=re.MULTILINE)
        self.feed(text)
        self.close()
        self._end()

    def _end(self) -> None:
        tag, identifier = self._block
        if self._text.strip():
            self.found[identifier or len(self.headings)].append((tag, self._text))
        self._text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        is_other = attributes.get("class") == "MAC"  # what other systems show here
        if self._skipped or is_other or tag in _HIDDEN:
            self._skipped += tag in (*_HIDDEN, "span")
        elif tag in _BLOCKS:
            self._end()
            self._block = tag, attributes.get("id") or ""
            if re.fullmatch("h[1-6]", tag):
                self.headings.append(tag)
        elif tag not in _INLINE:  # a command whose text is not here
            self._text += MISSING

    def handle_endtag(self, tag: str) -> None:
        if self._skipped:
            self._skipped -= tag in (*_HIDDEN, "span")
        elif tag in _BLOCKS:
            self._end()
            self._block = ("", "")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._text += data


def lang_history(folder: Path, pattern: str) -> Pairs:
    """Yield the strings that Mozilla's .lang files have had in the history of a clone.

    A line ;English is followed by its translation. Both may change from one commit to the next.
    """
    options = ["-p", "-U1", "--format=", "--no-color", "--no-ext-diff"]
    command = ["git", "-C", str(folder), "log", *options, "--", pattern]
    log = subprocess.run(command, capture_output=True, check=True).stdout.decode(errors="replace")
    english = ""
    for line in log.splitlines():
        content = "" if line.startswith(("+++ ", "--- ")) else line[1:].strip()
        if line[:1] in "+- " and content.startswith(";"):
            english = content[1:]
        elif line[:1] in "+- " and content and not content.startswith("#") and english:
            yield plain(re.sub(r"\s*{ok}$", "", content, flags=re.IGNORECASE)), plain(english)
        else:
            english = ""


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
    "po message": po(plain_message),
    "cldr": cldr,
    "dictionary": dictionary,
    "html": html_ids,
    "lines": lines,
    "markdown": markdown,
    "strings": strings,
    "wml": wml,
    "xml": xml,
}

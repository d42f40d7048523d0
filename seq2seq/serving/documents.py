"""Split texts, HTML and subtitles into parts to translate, and put the translations together.

A text is translated line by line. HTML is translated block by block, with inline tags where their
words went; all tags are kept as they were written. Blocks (paragraphs, list items, line breaks and
every tag that is not inline) are translated on their own. Within a block, a target word belongs to
the elements of the source word that the model attended to most when it produced it. Each element
encloses one stretch of target words, so it appears exactly once. An inline element that is kept
(`code`, or with translate="no") is part of the line that is translated, and then replaces its
stretch. Subtitles are translated as HTML.

Legend: s source words, t target words, of one block
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import regex

from seq2seq.data.tokenizer import normalize_line
from seq2seq.inference.text import Translation
from seq2seq.inference.words import LETTER, Floats, word_weights, words

_INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "img", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
})  # fmt: skip
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
)
# Like script, style and textarea, these are not translated; all but code separate blocks.
_VERBATIM = frozenset({"code", "math", "noscript", "pre", "svg", "template"})
# As browsers split HTML into tokens. A tag that has no end is text.
_TOKEN = re.compile(
    r"""(?P<comment><!--.*?(?:-->|\Z))
    |<(?P<whole>script|style|textarea)(?=[\s/>]).*?(?:</(?P=whole)(?=[\s/>])[^>]*>|\Z)
    |<(?P<end>/?)(?P<name>[a-z][^\s/<>]*)
        (?P<rest>[^<>=]*(?:=\s*(?:"[^"]*"|'[^']*'|(?!["'\s]))[^<>=]*)*)>
    |<(?:[!?]|/(?![a-z]))[^>]*>?
    |(?P<text><?[^<]+|<)""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([^\s=/]+)(?:\s*=\s*("[^"]*"|'[^']*'|\S+))?""")
_EDGE = "\0"  # of an element that is kept
_DEEPEST = 100  # inline elements within each other; blocks end at further ones
_SUBTITLE_HEAD = re.compile(
    r"((?<!\s)(?:\s*(?:^\d+\s*?\n)?^[\d:,. ]+-->.*\n?)+(?:\{\\.*?\})?(?:[-–—]\s*)?"
    r"|\r?\n[-–—]\s*|\s+\Z)", re.MULTILINE
)  # fmt: skip
_NO_SUBTITLE_TAG = re.compile(r"<(?!/?(?:b|i|u|s|font)\b)")


@dataclass
class Line:
    """A line of a text."""

    text: str

    def write(self, translation: Translation) -> str:
        """Return the translation."""
        return translation.text


@dataclass(eq=False)
class _Token:
    """A piece of HTML, as it was written."""

    # text, start, end, mark (an inline tag without text), kept (an inline element that is not
    # translated), or other
    kind: str
    name: str = ""
    text: str = ""  # of kinds text and kept, without character references
    raw: str = ""


@dataclass
class Block:
    """Text of HTML that is translated at once, and its inline tags."""

    tokens: list[_Token]

    @property
    def text(self) -> str:
        """The line to translate; no word is partly in an element that is kept."""
        edges = {"kept": _EDGE}
        texts = (token.text.join([edges.get(token.kind, "")] * 2) for token in self.tokens)
        edges_within_word = rf"(?V1)(?<={LETTER}|'){_EDGE}+(?={LETTER}|')"
        line = regex.sub(edges_within_word, " ", "".join(texts))
        return normalize_line(line.replace(_EDGE, ""))

    def write(self, translation: Translation) -> str:
        """Return the translation with the block's tags and its white space on both ends."""
        text = "".join(token.text for token in self.tokens)
        before = text[: len(text) - len(text.lstrip())]
        after = text[len(text.rstrip()) :]
        elements = _elements(self)
        if elements:
            _place(elements, _weights(translation, len(words(self.text))))
        return before + _render(translation.text, elements) + after


Parts = Sequence[str | Line | Block]  # of a document: parts to translate, and strings between


def read_text(text: str) -> Parts:
    """Return the lines of a text, and the white space around them."""
    parts = re.split(r"(\S(?:.*\S)?)", text)
    return [Line(part) if number % 2 else part for number, part in enumerate(parts)]


def read_html(document: str) -> Parts:
    """Return the blocks of HTML that have text, and the markup between them."""
    found: list[str | Line | Block] = []
    inline: list[_Token] = []
    tokens = _tokens(document)
    _match_tags(tokens)
    for token in (*tokens, _Token("other")):
        if token.kind != "other":
            inline.append(token)
            continue
        if any(token.kind == "text" and normalize_line(token.text) for token in inline):
            found.append(Block(inline))
        else:
            found += [token.raw for token in inline]
        found.append(token.raw)
        inline = []
    return found


def read_subtitles(text: str) -> str:
    """Return subtitles in SubRip's format (.srt) as HTML that keeps tags and line breaks.

    Numbers, times and the dashes of speakers are in elements that are not translated. The lines
    between them are one block, since a sentence may go on in the next line.
    """
    parts = _SUBTITLE_HEAD.split(text)
    parts[1::2] = [f"<template>{part}</template>" for part in parts[1::2]]
    texts = (_NO_SUBTITLE_TAG.sub("&lt;", part.replace("&", "&amp;")) for part in parts[::2])
    parts[::2] = [re.sub(r"\r?\n", " <wbr>", text) for text in texts]
    return "".join(parts)


def write_subtitles(document: str) -> str:
    """Return the subtitles of HTML that `read_subtitles` has made; none has a blank line."""
    end = "\r\n" if "\r\n" in document else "\n"
    parts = re.split("</?template>", document)
    lines = (filter(None, map(str.strip, part.split("<wbr>"))) for part in parts[::2])
    parts[::2] = [html.unescape(end.join(of)) for of in lines]
    return "".join(parts)


def write(parts: Parts, translations: Sequence[Translation]) -> str:
    """Return a document with these translations; those of blocks need attention weights."""
    remaining = iter(translations)
    return "".join(part if isinstance(part, str) else part.write(next(remaining)) for part in parts)


@dataclass(eq=False)
class _Element:
    """An inline element of a block; one that is kept has all of it as its start tag."""

    start_tag: str
    parent: _Element | None
    is_kept: bool
    begin: int  # the number of visible characters of the block before it
    stop: int = 0  # and with it
    end_tag: str = ""
    sources: list[int] = field(
        default_factory=list
    )  # s; of a mark: the one it comes before, if any
    first: int = 0  # t
    last: int = -1  # t
    around: set[_Element] = field(init=False)  # with itself

    def __post_init__(self) -> None:
        self.around = {self} | (self.parent.around if self.parent else set())

    @property
    def is_mark(self) -> bool:
        """Whether it has no visible characters, but a place before a word."""
        return self.begin == self.stop


def _tokens(document: str) -> list[_Token]:
    """Return the tokens of HTML; together they have all of its characters."""
    found: list[_Token] = []
    starts: list[int] = []  # of the tokens in the document
    skipped: list[str] = []  # open elements, within one that is not translated
    for match in _TOKEN.finditer(document):
        name, rest, text = (match["name"] or "").lower(), match["rest"] or "", match["text"] or ""
        attributes = {each.lower(): value for each, value in _ATTRIBUTE.findall(rest)}
        is_end, is_void = bool(match["end"]), name in _VOID or "/" in _ATTRIBUTE.sub("", rest)
        keeps = name in _VERBATIM or attributes.get("translate", "").strip("\"'").lower() == "no"
        kind = "text" if text else "mark" if match["comment"] else "other"
        if name in _INLINE:
            kind = "end" if is_end else "mark" if is_void else "kept" if keeps else "start"
        if not skipped:
            found.append(_Token(kind, name, html.unescape(text)))
            starts.append(match.start())
        elif kind == "other":
            found[-1].kind = "other"
        elif found[-1].kind == "kept":
            found[-1].text += html.unescape(text)
        if name and not is_end and not is_void and (skipped or keeps):
            skipped.append(name)
        elif is_end and name in skipped:
            while skipped.pop() != name:
                pass
    if skipped:  # without an end
        found[-1].kind = "other"
    for token, (start, end) in zip(found, pairwise([*starts, len(document)]), strict=True):
        token.raw = document[start:end]
    return found


def _match_tags(tokens: list[_Token]) -> None:
    """Make inline tags that have no partner in their block ends of blocks."""
    while True:  # a new end of a block may separate two tags
        opened: list[_Token] = []
        matched: set[_Token] = set()
        for token in tokens:
            if token.kind == "other":
                opened = []
            elif token.kind == "start" and len(opened) < _DEEPEST:
                opened.append(token)
            elif token.kind == "end" and token.name in [other.name for other in opened]:
                while (start := opened.pop()).name != token.name:
                    pass
                matched |= {start, token}
        alone = [each for each in tokens if each.kind in ("start", "end") and each not in matched]
        if not alone:
            return
        for token in alone:
            token.kind = "other"


def _elements(block: Block) -> list[_Element]:
    """Return the elements of a block in the order of their start tags, with their source words."""
    found: list[_Element] = []
    opened: list[_Element] = []
    chars = 0
    for token in block.tokens:
        begin = chars
        chars += len("".join(normalize_line(token.text).split()))
        if token.kind == "end":
            element = opened.pop()
            element.end_tag, element.stop = token.raw, chars
        elif token.kind != "text":
            parent = opened[-1] if opened else None
            found.append(_Element(token.raw, parent, token.kind == "kept", begin, chars))
            if token.kind == "start":
                opened.append(found[-1])
    word_of = [number for number, word in enumerate(words(block.text)) for _ in word]
    for element in found:
        stop = element.stop + element.is_mark
        element.sources = list(dict.fromkeys(word_of[element.begin : stop]))
    return found


def _weights(translation: Translation, least: int) -> Floats:
    """Return the weights [t, s] of all parts; a part without attention has a diagonal.

    They have at least as many columns as the block has words; a word that was cut has several.
    """
    shapes = [(len(words(part.text)), len(words(part.source))) for part in translation.parts]
    targets, sources = np.sum(shapes, 0)
    weights_ts: Floats = np.zeros((targets, max(sources, least)))
    t = s = 0
    for part, (targets, sources) in zip(translation.parts, shapes, strict=True):
        part_ts = weights_ts[t : t + targets, s : s + sources]
        if part.weights is not None:
            found_ts = word_weights(part, words)[:targets, :sources]
            part_ts[: found_ts.shape[0], : found_ts.shape[1]] = found_ts
        elif part_ts.size:
            rows = np.arange(targets)
            part_ts[rows, rows * sources // targets] = 1
        t, s = t + targets, s + sources
    return weights_ts


def _place(elements: list[_Element], weights_ts: Floats) -> None:
    """Set the target words of each element: one stretch, within that of its parent."""
    targets = len(weights_ts)
    if not targets:  # all of them are empty
        return
    innermost = {source: e for e in elements if not e.is_mark for source in e.sources}
    around_t = [innermost[s].around if s in innermost else set() for s in weights_ts.argmax(1)]
    for element in elements:
        parent = element.parent
        low, high = (parent.first, parent.last) if parent else (0, targets - 1)
        if element.is_mark:
            # One at the end of the block comes last.
            attention_t = weights_ts[:, element.sources].sum(1)
            at = int(attention_t.argmax()) if element.sources else targets
            at = min(max(at, low), high + 1)
            element.first, element.last = at, at - 1
            continue
        values = []
        for around in around_t[low : high + 1]:
            # A word of a sibling is never enclosed, and one that is not its own never replaced.
            is_free = around <= element.around and not element.is_kept
            values.append(1.0 if element in around else -1.0 if is_free else -np.inf)
        if 1.0 in values:
            first, last = _heaviest(values)
            element.first, element.last = low + first, low + last
            continue
        # No word is its own: it gets the free one that attends most to its words; one that is kept
        # comes before that word.
        attention_t = weights_ts[low : high + 1, element.sources].sum(1)
        if not element.is_kept:
            attention_t[np.isneginf(values)] = -np.inf
        is_free = bool(np.isfinite(attention_t).any())
        at = low + (int(attention_t.argmax()) if is_free else 0)
        element.first, element.last = at, at - 1
        if is_free and not element.is_kept:
            around_t[at], element.last = element.around, at


def _heaviest(values: Sequence[float]) -> tuple[int, int]:
    """Return the first and the last index of the stretch with the greatest sum.

    Of several, it is the last that ends, from its earliest beginning.
    """
    best, chosen, total, start = -np.inf, (0, 0), 0.0, 0
    for index, value in enumerate(values):
        if total < 0:
            total, start = 0.0, index
        total += value
        if total >= best:
            best, chosen = total, (start, index)
    return chosen


def _render(text: str, elements: list[_Element]) -> str:
    """Return escaped text with the tags of elements around their words."""
    targets = words(text)
    children: dict[_Element | None, list[_Element]] = {}
    for element in elements:
        children.setdefault(element.parent, []).append(element)
    before = [""] * (len(targets) + 1)  # the tags before each word, and those of an empty text
    after = [""] * len(targets)
    kept: dict[int, _Element] = {}  # instead of which words

    def add(parent: _Element | None, last: int) -> None:
        """Add the tags of a parent's children; the parent ends after this word."""
        for element in children.get(parent, []):
            if element.first > element.last:  # without words
                space = " " if element.is_kept and not element.is_mark else ""
                if 0 <= last < element.first:
                    after[last] += space + whole(element)
                else:
                    before[element.first] += whole(element) + space
                continue
            if element.is_kept:
                kept.update(dict.fromkeys(range(element.first, element.last + 1), element))
            before[element.first] += element.start_tag
            add(element, element.last)
            after[element.last] += element.end_tag

    def whole(element: _Element) -> str:
        inner = "".join(map(whole, children.get(element, [])))
        return element.start_tag + inner + element.end_tag

    add(None, len(targets) - 1)
    found: list[str] = []
    end = 0
    for place, word in enumerate(targets):
        start = text.index(word, end)
        within = place in kept and kept[place] is kept.get(place - 1)
        gap = "" if within else html.escape(text[end:start], quote=False)
        shown = "" if place in kept else html.escape(word, quote=False)
        found += (gap, before[place], shown, after[place])
        end = start + len(word)
    return "".join(found) + before[-1]

"""Translate the text of HTML: block by block, with inline tags where their words went.

Tags are kept as they were written. Blocks (paragraphs, list items, line breaks and every tag that
is not inline) are translated on their own. Within a block, a target word belongs to the elements of
the source word that the model attended to most when it produced it. Each element encloses one
stretch of target words, so it appears exactly once. An inline element that is kept (`code`, or with
translate="no") is part of the line that is translated, and then replaces its stretch.

Legend: s source words, t target words, of one block
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import accumulate

import numpy as np

from seq2seq.data.tokenizer import normalize_line
from seq2seq.inference.text import Translation
from seq2seq.inference.words import Floats, word_weights, words

_INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "img", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var", "wbr",
})  # fmt: skip
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
)
# What is in these is not translated, and separates blocks.
_VERBATIM = frozenset({
    "code", "math", "noscript", "pre", "script", "style", "svg", "template", "textarea",
})  # fmt: skip
_EDGE = "\0"  # of an element that is kept
_DEEPEST = 100  # inline elements within each other; blocks end at further ones


@dataclass(eq=False)
class Token:
    """A piece of a document, as it was written."""

    # text, start, end, mark (an inline tag without text), kept (an inline element that is not
    # translated), or other
    kind: str
    raw: str
    name: str = ""
    text: str = ""  # of kinds text and kept, without character references


@dataclass
class Block:
    """Text that is translated at once, and its inline tags."""

    tokens: list[Token]

    @property
    def text(self) -> str:
        """The line to translate; no word is partly in an element that is kept."""
        edges = {"kept": _EDGE}
        texts = (token.text.join([edges.get(token.kind, "")] * 2) for token in self.tokens)
        line = re.sub(rf"(?<=[\w']){_EDGE}+(?=[\w'])", " ", "".join(texts))
        return normalize_line(line.replace(_EDGE, ""))


@dataclass(eq=False)
class _Element:
    """An inline element of a block; one that is kept has all of it as its start."""

    start: str
    parent: _Element | None
    place: int  # the visible characters before it
    is_kept: bool
    end: str = ""
    is_mark: bool = True  # has no visible characters, but a place before a word
    sources: list[int] = field(default_factory=list)  # s; of a mark: the one it comes before
    first: int = 0  # t
    last: int = -1  # t


class _Reader(HTMLParser):
    """Split a document into tokens, which together have all of its characters."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tokens: list[Token] = []
        self._starts: list[int] = []  # of the tokens
        self._skipped: list[str] = []  # open elements, within one that is not translated
        lines = document.split("\n")
        self._lines = [0, *accumulate(len(line) + 1 for line in lines)]  # where each begins
        self.feed(document)
        self.close()
        if self._skipped and self.tokens[-1].kind == "kept":  # without an end
            self.tokens[-1].kind = "other"
        self.tokens = self.tokens or [Token("other", "")]
        start = 0
        for token, end in zip(self.tokens, [*self._starts[1:], len(document)], strict=True):
            token.raw, start = document[start:end], end

    def _add(self, kind: str, name: str = "", text: str = "") -> None:
        """Add a token that begins where the parser is."""
        if self._skipped and self.tokens[-1].kind == "kept":
            self.tokens[-1].text += text
            if kind == "other":
                self.tokens[-1].kind = "other"
            return
        line, column = self.getpos()
        self._starts.append(self._lines[line - 1] + column)
        self.tokens.append(Token("other" if self._skipped else kind, "", name, text))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        keeps = tag in _VERBATIM or dict(attrs).get("translate") == "no"
        kind = "mark" if tag in _VOID else "kept" if keeps else "start"
        self._add(kind if tag in _INLINE else "other", tag)
        if (self._skipped or keeps) and tag not in _VOID:
            self._skipped.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("mark" if tag in _INLINE else "other", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("end" if tag in _INLINE else "other", tag)
        if tag in self._skipped:
            while self._skipped.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self._add("text", text=data)

    def handle_comment(self, data: str) -> None:
        self._add("mark")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def parse_html_declaration(self, i: int) -> int:
        # HTML has no marked sections: to browsers they are comments, to HTMLParser assertions.
        if self.rawdata.startswith("<![", i):
            return self.parse_bogus_comment(i)
        return super().parse_html_declaration(i)


def read_html(document: str) -> list[Token | Block]:
    """Return the blocks of a document that have text, and what is between them."""
    tokens = _Reader(document).tokens
    _match_tags(tokens)
    found: list[Token | Block] = []
    inline: list[Token] = []
    for token in (*tokens, Token("other", "")):
        if token.kind != "other":
            inline.append(token)
            continue
        if any(token.kind == "text" and normalize_line(token.text) for token in inline):
            found.append(Block(inline))
        else:
            found += inline
        found.append(token)
        inline = []
    return found


def write_html(tokens: Sequence[Token | Block], translations: Sequence[Translation]) -> str:
    """Return a document with the translations of its blocks, which have attention weights."""
    remaining = iter(translations)
    return "".join(
        _write_block(token, next(remaining)) if isinstance(token, Block) else token.raw
        for token in tokens
    )


def _match_tags(tokens: list[Token]) -> None:
    """Make inline tags that have no partner in their block ends of blocks."""
    while True:  # a new end of a block may separate two tags
        opened: list[Token] = []
        matched: set[Token] = set()
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


def _write_block(block: Block, translation: Translation) -> str:
    """Return the translation with the block's tags and its white space on both ends."""
    text = "".join(token.text for token in block.tokens)
    before = text[: len(text) - len(text.lstrip())]
    after = text[len(text.rstrip()) :]
    elements = _elements(block)
    if elements:
        _place(elements, _weights(translation))
    return before + _render(translation.text, elements) + after


def _elements(block: Block) -> list[_Element]:
    """Return the elements of a block in the order of their start tags, with their source words."""
    found: list[_Element] = []
    opened: list[_Element] = []
    holders: list[list[_Element]] = []  # the elements around each visible character
    for token in block.tokens:
        if token.kind == "end":
            opened[-1].end = token.raw
            opened = opened[:-1]
            continue
        around = opened
        if token.kind != "text":
            parent = opened[-1] if opened else None
            element = _Element(token.raw, parent, len(holders), token.kind == "kept")
            found.append(element)
            around = [*opened, element]
            if token.kind == "start":
                opened = around
        size = len("".join(normalize_line(token.text).split()))
        holders += [around] * size
        for element in around if size else []:
            element.is_mark = False
    word_of = [number for number, word in enumerate(words(block.text)) for _ in word]
    for number, around in zip(word_of, holders, strict=False):
        for element in around:
            if element.sources[-1:] != [number]:
                element.sources.append(number)
    for element in found:
        if element.is_mark:
            element.sources = [*word_of[element.place : element.place + 1], -1][:1]
    return found


def _weights(translation: Translation) -> Floats:
    """Return the weights [t, s] of all parts; a part without attention has a diagonal."""
    shapes = [(len(words(part.text)), len(words(part.source))) for part in translation.parts]
    weights_ts: Floats = np.zeros(np.sum(shapes, 0))
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
    targets, sources = weights_ts.shape
    if not targets:  # all of them are empty
        return
    best_t = weights_ts.argmax(1) if sources else np.zeros(targets, dtype=int)
    innermost = {source: e for e in elements if not e.is_mark for source in e.sources}
    chains_t = [_chain(innermost.get(int(source))) for source in best_t]
    for element in elements:
        parent = element.parent
        low, high = (parent.first, parent.last) if parent else (0, targets - 1)
        if element.is_mark:
            [source] = element.sources
            at = targets if source < 0 or source >= sources else int(weights_ts[:, source].argmax())
            at = min(max(at, low), high + 1)
            element.first, element.last = at, at - 1
            continue
        around = _chain(element)
        values = []
        for chain in chains_t[low : high + 1]:
            # A word of a sibling is never enclosed, and one that is not its own never replaced.
            is_free = chain <= around and not element.is_kept
            values.append(1.0 if element in chain else -1.0 if is_free else -np.inf)
        if 1.0 in values:
            first, last = _heaviest(values)
            element.first, element.last = low + first, low + last
            continue
        # No word is its own: it gets the free one that attends most to its words; one that is kept
        # comes before that word.
        columns = [source for source in element.sources if source < sources]
        attention_t = weights_ts[low : high + 1, columns].sum(1)
        if not element.is_kept:
            attention_t[np.isneginf(values)] = -np.inf
        is_free = bool(np.isfinite(attention_t).any())
        at = low + (int(attention_t.argmax()) if is_free else 0)
        element.first, element.last = at, at - 1
        if is_free and not element.is_kept:
            chains_t[at], element.last = around, at


def _chain(element: _Element | None) -> set[_Element]:
    """Return an element and those around it."""
    found = set()
    while element is not None:
        found.add(element)
        element = element.parent
    return found


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
            before[element.first] += element.start
            add(element, element.last)
            after[element.last] += element.end

    def whole(element: _Element) -> str:
        return element.start + "".join(map(whole, children.get(element, []))) + element.end

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

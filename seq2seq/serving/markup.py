"""Translate the text of HTML: block by block, with inline tags where their words went.

Tags are kept as they were written. Blocks (paragraphs, list items, line breaks and every tag that
is not inline) are translated on their own. Within a block, a target word belongs to the elements of
the source word that the model attended to most when it produced it. Each element encloses one
stretch of target words, so it appears exactly once. An inline element with translate="no" is part
of the line that is translated, and then replaces its stretch.

Legend: s source words, t target words, of one block
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from itertools import accumulate

import numpy as np

from seq2seq.data.tokenizer import normalize_line
from seq2seq.inference.text import Part, Translation
from seq2seq.inference.words import Floats, word_weights, words

_INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike",
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
    partner: Token | None = None  # the end tag of a start tag, and the reverse


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
    """An inline element of a block; a mark holds no words, but has a place before one.

    One that is kept has all of it as its start.
    """

    start: str
    end: str
    parent: _Element | None
    is_mark: bool
    is_kept: bool = False
    sources: list[int] = field(default_factory=list)  # s; of a mark: the one it comes before
    first: int = 0  # t
    last: int = -1  # t


class _Reader(HTMLParser):
    """Split a document into tokens, which together have all of its characters."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tokens: list[Token] = []
        self._skipped: list[str] = []  # open elements, within one that is not translated
        self._document, self._end = document, 0  # of the tokens so far
        lines = document.split("\n")
        self._lines = [0, *accumulate(len(line) + 1 for line in lines)]  # where each begins
        self.feed(document)
        self.close()
        if self._skipped and self.tokens[-1].kind == "kept":  # without an end
            self.tokens[-1].kind = "other"
        self.tokens = self.tokens or [Token("other", "")]
        self._take(len(document))

    def _take(self, end: int) -> None:
        """Give the characters up to here to the last token."""
        if self.tokens:
            self.tokens[-1].raw += self._document[self._end : end]
            self._end = end

    def _add(self, kind: str, name: str = "", text: str = "") -> None:
        """Add a token that begins where the parser is."""
        line, column = self.getpos()
        self._take(self._lines[line - 1] + column)
        if self._skipped and self.tokens[-1].kind == "kept":
            self.tokens[-1].text += text
            if kind == "other":
                self.tokens[-1].kind = "other"
            return
        if self._skipped or kind == "other":
            if self.tokens and self.tokens[-1].kind == "other":
                return
            kind, name, text = "other", "", ""
        self.tokens.append(Token(kind, "", name, text))

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
    """Pair the inline tags of each block; make tags that have no partner in it ends of blocks."""
    alone = True
    while alone:  # a new end of a block may separate two tags
        alone = False
        opened: list[Token] = []
        for token in (*tokens, Token("other", "")):
            if token.kind == "start":
                if len(opened) == _DEEPEST:
                    token.kind, alone = "other", True
                else:
                    opened.append(token)
            elif token.kind == "end":
                names = [other.name for other in opened]
                if token.name not in names:
                    token.kind, alone = "other", True
                    continue
                while (start := opened.pop()).name != token.name:
                    start.kind, alone = "other", True
                start.partner, token.partner = token, start
            elif token.kind == "other":
                alone = alone or bool(opened)
                for start in opened:
                    start.kind = "other"
                opened = []


def _write_block(block: Block, translation: Translation) -> str:
    """Return the translation with the block's tags and its white space on both ends."""
    text = "".join(token.text for token in block.tokens)
    before = text[: len(text) - len(text.lstrip())]
    after = text[len(text.rstrip()) :]
    elements = _elements(block)
    spans, weights_ts = _target(translation)
    if elements:
        _place(elements, weights_ts)
    return before + _render(translation.text, spans, elements) + after


def _elements(block: Block) -> list[_Element]:
    """Return the elements of a block in the order of their start tags, with their source words."""
    found: list[_Element] = []
    opened: list[tuple[_Element, int]] = []  # with the visible characters before
    holders: list[list[_Element]] = []  # the open elements at each visible character
    marks: list[tuple[_Element, int]] = []  # and the visible characters before
    for token in block.tokens:
        if token.kind == "text":
            holders += [[element for element, _ in opened]] * _visible(token)
        elif token.kind == "end":
            element, place = opened.pop()
            if place == len(holders):
                element.is_mark = True
                marks.append((element, len(holders)))
        else:
            assert token.kind in ("start", "mark", "kept")
            parent = opened[-1][0] if opened else None
            end = token.partner.raw if token.partner else ""
            size = _visible(token)
            is_kept = token.kind == "kept"
            is_mark = token.kind == "mark" or (is_kept and not size)
            element = _Element(token.raw, end, parent, is_mark, is_kept)
            found.append(element)
            if is_mark:
                marks.append((element, len(holders)))
            elif is_kept:
                holders += [[*(outer for outer, _ in opened), element]] * size
            else:
                opened.append((element, len(holders)))
    word_of = [number for number, word in enumerate(words(block.text)) for _ in word]
    for number, of in zip(word_of, holders, strict=False):
        for element in of:
            if element.sources[-1:] != [number]:
                element.sources.append(number)
    for element, place in marks:
        element.sources = [word_of[place] if place < len(word_of) else -1]
    return found


def _visible(token: Token) -> int:
    """Return the number of visible characters of a text."""
    return len("".join(normalize_line(token.text).split()))


def _target(translation: Translation) -> tuple[list[tuple[int, int]], Floats]:
    """Return where each target word is in the text, and weights [t, s] of a whole translation."""
    blocks = [_weights(part) for part in translation.parts]
    sizes = np.array([block.shape for block in blocks]).reshape(-1, 2)
    weights_ts: Floats = np.zeros(sizes.sum(0))
    for block, (t, s) in zip(blocks, sizes.cumsum(0) - sizes, strict=True):
        weights_ts[t : t + block.shape[0], s : s + block.shape[1]] = block
    spans, end = [], 0
    for word in words(translation.text):
        start = translation.text.index(word, end)
        end = start + len(word)
        spans.append((start, end))
    rows: Floats = np.zeros((len(spans), weights_ts.shape[1]))
    shared = min(rows.shape[0], weights_ts.shape[0])
    rows[:shared] = weights_ts[:shared]
    return spans, rows


def _weights(part: Part) -> Floats:
    """Return weights [t, s] between the words of a part; without attention, along a diagonal."""
    shape = len(words(part.text)), len(words(part.source))
    found: Floats = np.zeros(shape)
    if part.weights is not None:
        weights_ts = word_weights(part, words)[: shape[0], : shape[1]]
        found[: weights_ts.shape[0], : weights_ts.shape[1]] = weights_ts
    elif found.size:
        rows = np.arange(shape[0])
        found[rows, rows * shape[1] // shape[0]] = 1
    return found


def _place(elements: list[_Element], weights_ts: Floats) -> None:
    """Set the target words of each element: one stretch, within that of its parent."""
    targets, sources = weights_ts.shape
    if not targets:  # all of them are empty
        return
    best_t = weights_ts.argmax(1) if sources else np.zeros(targets, dtype=int)
    innermost = {source: e for e in elements if not e.is_mark for source in e.sources}
    holders_t = [innermost.get(int(source)) for source in best_t]
    chains_t = [set(_chain(holder)) for holder in holders_t]
    for element in elements:
        parent = element.parent
        low, high = (parent.first, parent.last) if parent else (0, targets - 1)
        if element.is_mark:
            [source] = element.sources
            at = targets if source < 0 or source >= sources else int(weights_ts[:, source].argmax())
            at = min(max(at, low), high + 1)
            element.first, element.last = at, at - 1
            continue
        around = {None, *_chain(element)}
        values = []
        for holder, chain in zip(holders_t[low : high + 1], chains_t[low : high + 1], strict=True):
            # A word of a sibling is never enclosed, and one that is not its own never replaced.
            is_free = holder in around and not element.is_kept
            values.append(1.0 if element in chain else -1.0 if is_free else -np.inf)
        if 1.0 not in values and element.is_kept:  # before a word of its parent
            element.first, element.last = _nearest(element, low, high, weights_ts), -1
            continue
        if 1.0 not in values:  # no word: the one that attends most to the element's words
            columns = [source for source in element.sources if source < sources]
            attention_t = weights_ts[low : high + 1, columns].sum(1)
            free_t = np.array(values) > -np.inf
            if not free_t.any():
                element.first, element.last = low, low - 1
                continue
            at = low + int(np.where(free_t, attention_t, -np.inf).argmax())
            holders_t[at], chains_t[at] = element, set(_chain(element))
            element.first = element.last = at
            continue
        first, last = _heaviest(values)
        element.first, element.last = low + first, low + last


def _nearest(element: _Element, low: int, high: int, weights_ts: Floats) -> int:
    """Return the word of a stretch that attends most to the element's words; `low` without one."""
    columns = [source for source in element.sources if source < weights_ts.shape[1]]
    attention_t = weights_ts[low : high + 1, columns].sum(1)
    return low + int(attention_t.argmax()) if attention_t.size else low


def _chain(element: _Element | None) -> Iterator[_Element]:
    """Yield an element and those around it."""
    while element is not None:
        yield element
        element = element.parent


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


def _render(text: str, spans: list[tuple[int, int]], elements: list[_Element]) -> str:
    """Return escaped text with the tags of elements around their words."""
    children: dict[_Element | None, list[_Element]] = {}
    for element in elements:
        children.setdefault(element.parent, []).append(element)
    before = [""] * (len(spans) + 1)  # the tags before each word, and those of an empty text
    after = [""] * len(spans)
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

    add(None, len(spans) - 1)
    found: list[str] = []
    end = 0
    for place, (start, stop) in enumerate(spans):
        within = place in kept and kept[place] is kept.get(place - 1)
        gap = "" if within else html.escape(text[end:start], quote=False)
        word = "" if place in kept else html.escape(text[start:stop], quote=False)
        found += (gap, before[place], word, after[place])
        end = stop
    return "".join(found) + before[-1]

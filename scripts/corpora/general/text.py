"""Markup to plain text, and pairs of paragraphs to pairs of sentences."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

from seq2seq.data.cleaning import fold
from seq2seq.inference.sentences import split_sentences

MISSING = "\ufffc"  # stands for what the text leaves out, such as a figure's number

_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_ROLE = re.compile(r":(?:[\w.+-]+:)*([\w.+-]+):`([^`]*)`")
_REFERENCES = {"pep": "PEP ", "rfc": "RFC "}
_MARKDOWN = MarkdownIt("commonmark").enable("table")
_SENTENCE_END = re.compile(r"[.!?:…][\"'”»)]*$")
_SPANISH = frozenset(
    re.findall(
        r"\w+",
        "al como con cuando de del el en es esta este la las lo los más o para pero por puede que "
        "se si sin son su sus un una y",
    )
)
_ENGLISH = frozenset(
    re.findall(
        r"\w+",
        "an and are as at be by can for from has have if in is it not of on or that the this to "
        "was when which will with you your",
    )
)


def plain(text: str) -> str:
    """Return the text of an HTML fragment."""
    return html.unescape(_TAG.sub("", re.sub(r"<br\s*/?>", " ", text)))


def plain_message(text: str) -> str:
    """Return the text of a program's message; what is filled in later is marked as missing."""
    while (shorter := re.sub(r"<(color|\w+)[^<>]*>([^<>]*)</\1>", r"\2", text)) != text:
        text = shorter
    return re.sub(r"%(?:\d+\$)?[-+.\d]*[a-zA-Z]|<[A-Za-z][^<>]*>", MISSING, text).replace("%%", "%")


def plain_rst(text: str) -> str:
    """Return the text of a paragraph of reStructuredText."""
    text = _ROLE.sub(lambda found: _REFERENCES.get(found[1], "") + _role_text(found[2]), text)
    code = re.findall(r"``(.+?)``", text)
    text = re.sub(r"``.+?``", "\0", text)  # nothing in code is markup
    text = re.sub(r"`([^`<]+?)\s*<[^`>]*>`__?|`([^`]+)`_{0,2}", r"\1\2", text)
    text = re.sub(r"(?<!\w)(\*\*?)(?=\S)(.+?)(?<=\S)\1(?!\w)", r"\2", text)
    text = re.sub(r"\\(.)", lambda found: found[1].strip(), text)
    return re.sub("\0", lambda _: code.pop(0), text)


def _role_text(text: str) -> str:
    titled = re.fullmatch(r"(.+?)\s*<[^>]*>", text, flags=re.DOTALL)
    if titled:
        return titled[1]
    return text.rsplit(".", 1)[-1] if text.startswith("~") else text.lstrip("!.")


def plain_markdown(text: str) -> str:
    """Return the text of a paragraph of Markdown; line breaks stay."""
    return "".join(_inline_text(token) for token in _MARKDOWN.parseInline(text))


def _inline_text(token: Token) -> str:
    children = token.children or []
    if all(child.type == "code_inline" for child in children):
        return ""  # such as a command, in a paragraph of its own
    parts = []
    for child in children:
        if child.type in ("text", "code_inline", "text_special"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
    text = "".join(parts)
    text = re.sub(r"\{/.*?/\}|\{ *#[\w-]+ *\}", "", text)  # names of headings in MDX, MkDocs
    return re.sub(r"\[([^\[\]]+)\]\[[^\[\]]*\]", r"\1", text)  # links whose target is elsewhere


def markdown_sections(text: str) -> list[list[tuple[str, str]]]:
    """Return the blocks of a document as (kind, text), in lists that begin with a heading.

    The text is empty for code and for what only opens or closes a block.
    """
    sections: list[list[tuple[str, str]]] = [[]]
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)  # front matter
    for token in _MARKDOWN.parse(text):
        if token.type == "heading_open":
            sections.append([])
        content = _inline_text(token).strip() if token.type == "inline" else ""
        if content.startswith("///"):  # the name of a box in FastAPI's documentation
            content = ""
        sections[-1].append((f"{token.type} {token.tag}", content))
    return sections


def sentence_pairs(spanish: str, english: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of two paragraphs if both have equally many, else the paragraphs."""
    sides = spanish.splitlines(), english.splitlines()
    if len(sides[0]) == len(sides[1]) and all(
        _SENTENCE_END.search(line.rstrip()) for side in sides for line in side[:-1]
    ):
        rows = list(zip(*sides, strict=True))
    else:
        rows = [(" ".join(sides[0]), " ".join(sides[1]))]
    for one, other in rows:
        parts = split_sentences(one, "es"), split_sentences(other, "en")
        split = list(zip(*parts, strict=True)) if len(parts[0]) == len(parts[1]) else []
        # Where one side joins two sentences and divides another, lengths disagree.
        if not all(0.5 < (len(a) + 10) / (len(b) + 10) < 2 for a, b in split):
            split = []
        yield from split or [(one, other)]


def is_translation(spanish: str, english: str) -> bool:
    """Return whether both sides have words and seem complete and translated."""
    if MISSING in spanish + english or fold(spanish) == fold(english):
        return False
    if not all(re.search(r"[^\W\d_]{2}", side) for side in (spanish, english)):
        return False
    words = re.findall(r"\w+", spanish.lower())
    return sum(word in _ENGLISH for word in words) <= sum(word in _SPANISH for word in words)

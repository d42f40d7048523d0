"""Subtitles in SubRip's format (.srt) as HTML, which keeps tags and line breaks in their places.

Numbers, times and the dashes of speakers are in elements that are not translated. The lines between
them are one block, since a sentence may go on in the next line.
"""

from __future__ import annotations

import html
import re

_VERBATIM = re.compile(
    r"((?<!\s)(?:\s*(?:^\d+\s*?\n)?^[\d:,. ]+-->.*\n?)+(?:\{\\.*?\})?(?:[-–—]\s*)?"
    r"|\r?\n[-–—]\s*|\s+\Z)", re.MULTILINE
)  # fmt: skip
_NO_TAG = re.compile(r"<(?!/?(?:b|i|u|s|font)\b)")


def to_html(text: str) -> str:
    """Return subtitles as HTML."""
    parts = _VERBATIM.split(text)
    parts[1::2] = [f"<template>{part}</template>" for part in parts[1::2]]
    texts = (_NO_TAG.sub("&lt;", part.replace("&", "&amp;")) for part in parts[::2])
    parts[::2] = [re.sub(r"\r?\n", " <wbr>", text) for text in texts]
    return "".join(parts)


def from_html(document: str) -> str:
    """Return the subtitles of HTML that `to_html` has made; none has a blank line."""
    end = "\r\n" if "\r\n" in document else "\n"
    parts = re.split("</?template>", document)
    lines = (filter(None, map(str.strip, part.split("<wbr>"))) for part in parts[::2])
    parts[::2] = [html.unescape(end.join(of)) for of in lines]
    return "".join(parts)

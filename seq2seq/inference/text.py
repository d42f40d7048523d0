"""Text on both sides of search: sentences to translate, and their translations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from seq2seq.data.tokenizer import Tokenizer, bytes_of_piece, normalize_line
from seq2seq.inference.protocol import BeamNode, Floats
from seq2seq.inference.required import Protection, Required, mask, required_of
from seq2seq.inference.sentences import split_sentences
from seq2seq.languages import UNDETERMINED, Language, language
from seq2seq.wings import offered

# Where a long line may be split, best first: sentence ends, clause marks, spaces, anywhere.
_CUTS = (
    r"(?<=[.!?…])(?=\s)|(?<=[。！？])(?![」』）”])",
    r"(?<=[,;:–—])(?=\s)|(?<=[、，；：])",
    r"(?=\s)",
)
# Log probability for each word, the end of sentence included, below which a translation is
# unlikely, and below which a word is uncertain: scripts/release/calibrate.py, docs/serving.md.
UNLIKELY, UNCERTAIN = -1.0, -2.0
_WORD_PIECES = 64  # a "word" of a sentence that is too long is cut after this many
_PIECE_CHARS = 64  # no piece has more: a text that is far too long need not be encoded


# Line ends between sentences, other than \n and \r\n, become spaces.
_OTHER_ENDS = re.compile(r"\r(?!\n)|[\v\f\x1c-\x1f\x85\u2028\u2029]")


@dataclass(frozen=True)
class Sentence:
    """The unit of translation: a normalized sentence, or a part of a long one."""

    text: str
    ids: list[int]
    space: str = ""  # the white space before it, if it is not the first
    required: tuple[Required, ...] = ()  # in the translation; `text` has stand-ins for tokens


def split_text(
    text: str, tokenizer: Tokenizer, max_pieces: int, *, language: str | None, target: Language,
    protect: Protection | None = None, stand_ins: bool = True,
) -> list[list[Sentence]]:  # fmt: skip
    """Return the sentences of a text (split_sentences), each as the parts that are translated.

    A sentence of at most max_pieces is one part. A longer one is cut at sentence ends, then at
    clause marks, then at spaces, as little as needed; only white space is lost. Text that is too
    long and has none of these is cut into parts of at most 64 pieces: the time to translate grows
    with the square of the length, and no word is that long. In a target language without spaces
    between words, only line feeds stay of the white space between sentences. With a glossary and
    the codes of both languages to `protect`, the parts have the texts that are required in their
    translations (seq2seq.inference.required), and with `stand_ins` numbers in place of tokens.
    """
    found: list[list[Sentence]] = []
    space = ""  # before the next sentence
    for raw in split_sentences(text, language):
        sentence = normalize_line(raw)
        if not sentence:
            space += "".join(filter(str.isspace, raw))
            continue
        space += raw[: len(raw) - len(raw.lstrip())]
        tokens: dict[str, Required] | None = None
        if protect and stand_ins:
            sentence, tokens = mask(sentence, protect)
        ids = _encode(sentence, tokenizer, max_pieces)
        parts, encoded = [sentence], [ids or []]
        if ids is None:
            parts = _cut(sentence, tokenizer, max_pieces, _CUTS)
            encoded = list(map(tokenizer.encode_normalized, parts))
        space = _OTHER_ENDS.sub(" ", space)
        if "\n" not in space:
            space = (space or " ") if target.joiners[0] else ""
        spaces = [space if found else "", *target.joiners[1:] * (len(parts) - 1)]
        required = [required_of(part, tokens, protect) if protect else () for part in parts]
        found.append(list(map(Sentence, parts, encoded, spaces, required)))
        space = raw[len(raw.rstrip()) :]
    return found


def _encode(text: str, tokenizer: Tokenizer, most: int) -> list[int] | None:
    """Return the ids of a text, or None if there are too many."""
    if len(text) > _PIECE_CHARS * most:
        return None
    ids = tokenizer.encode_normalized(text)
    return ids if len(ids) <= most else None


def _cut(text: str, tokenizer: Tokenizer, most: int, cuts: Sequence[str]) -> list[str]:
    """Return parts that fit, each as long as the best kind of cut allows."""
    if not cuts:
        return list(_chop(text, tokenizer, min(most, _WORD_PIECES)))
    chunks = [chunk for chunk in re.split(cuts[0], text) if chunk]
    if len(chunks) == 1:
        return _cut(text, tokenizer, most, cuts[1:])
    parts: list[str] = []
    room = 0
    for chunk in chunks:
        words = chunk.lstrip()
        size = len(tokenizer.encode_normalized(words))
        if size > most:
            parts += _cut(words, tokenizer, most, cuts[1:])
            room = 0
        elif size <= room and (words != chunk or _encode(parts[-1] + chunk, tokenizer, most)):
            parts[-1] += chunk
            room -= size
        else:
            parts.append(words)
            room = most - size
    return parts


def _chop(text: str, tokenizer: Tokenizer, most: int) -> Iterator[str]:
    """Yield parts of a text without spaces; each is at least half as long as it could be."""
    start, size = 0, _PIECE_CHARS * most
    while start < len(text):
        while size > 1 and _encode(text[start : start + size], tokenizer, most) is None:
            size = (size + 1) // 2
        yield text[start : start + size]
        start += size
        size *= 2  # the next part may have longer pieces


@dataclass(frozen=True)
class Part:
    """A sentence with one of its translations."""

    source: str
    source_pieces: list[str]  # with EOS
    target_pieces: list[str]  # with EOS
    text: str
    score: float
    log_prob: float
    finished: bool  # false: ended by the length limit
    weights: Floats | None = None  # [target pieces, source pieces]
    log_probs: list[float] = field(default_factory=list)  # of each target piece; sum to log_prob
    tree: list[BeamNode] | None = None  # the beam search that found it
    space: str = " "  # see Sentence
    missing: list[str] = field(default_factory=list)  # required texts that it lacks
    given: frozenset[int] = frozenset()  # the target pieces of required texts
    target: Language = field(default=language(UNDETERMINED), repr=False)

    @property
    def unlikely(self) -> bool:
        """Whether the model finds its own words so unlikely that they are probably wrong."""
        own = self.log_prob - sum(self.log_probs[piece] for piece in self.given)
        text = b"".join(
            b" " if number in self.given else bytes_of_piece(piece)
            for number, piece in enumerate(self.target_pieces)
        )
        return own < UNLIKELY * (self.target.count_words(text.decode(errors="replace")) + 1)

    def as_json(self, *, attention: bool, tree: bool = False) -> dict[str, Any]:
        """Return the part for JSON, on request with the rows of its weights and with its tree."""
        found: dict[str, Any] = {
            "space": self.space,
            "source": self.source,
            "text": self.text,
            "source_tokens": self.source_pieces,
            "tokens": self.target_pieces,
            "log_probs": self.log_probs,
            "score": self.score,
            "log_prob": self.log_prob,
            "finished": self.finished,
            "unlikely": self.unlikely,
            "missing": self.missing,
        }
        if attention:
            found["attention"] = None if self.weights is None else self.weights.tolist()
        if tree:
            found["tree"] = None if self.tree is None else list(map(vars, self.tree))
        return found

    def _repr_html_(self) -> str | None:
        """Return the part for a notebook, with a picture of its attention."""
        return _attention_html([self], **{"log p": self.log_prob})


@dataclass(frozen=True)
class Translation:
    """One of the translations of a text; an empty text has no parts."""

    parts: list[Part] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The whole text, with the white space of the source between sentences.

        White space within a sentence becomes one space, also if a model produces a line break.
        """
        words = "".join(part.space + " ".join(part.text.split()) for part in self.parts)
        return words.strip()

    @property
    def line(self) -> str:
        """The text on one line."""
        return " ".join(filter(None, map(str.strip, self.text.split("\n"))))

    @property
    def score(self) -> float:
        """The mean score of the parts."""
        return sum(part.score for part in self.parts) / max(1, len(self.parts))

    def as_json(self, *, attention: bool = False, tree: bool = False) -> dict[str, Any]:
        """Return text, score and parts for JSON."""
        parts = [part.as_json(attention=attention, tree=tree) for part in self.parts]
        return {"text": self.text, "score": self.score, "parts": parts}

    def _repr_html_(self) -> str | None:
        """Return the translation for a notebook, with a picture of its attention."""
        return _attention_html(self.parts, score=self.score)


def join_parts(parts: Sequence[Sequence[Part]]) -> list[Translation]:
    """Return the translations of a text: the n-th best has the n-th best of each part.

    The last hypothesis of a part takes the place of missing ones.
    """
    if not parts:
        return [Translation()]
    ranks = max(len(hypotheses) for hypotheses in parts)
    return [
        Translation([hypotheses[min(rank, len(hypotheses) - 1)] for hypotheses in parts])
        for rank in range(ranks)
    ]


def _attention_html(parts: Sequence[Part], **numbers: float) -> str | None:
    """Return HTML from the wing seq2seq.analysis; without it None, and the repr is shown."""
    try:
        heatmaps = offered("heatmaps", "seq2seq.analysis")
    except ModuleNotFoundError:
        return None
    html: str = heatmaps.attention_html(parts, **numbers)
    return html

"""Score a run on text as people type it: a test set, changed in common ways.

Each kind of text is made from sentences of the test set and scored beside these unchanged. The
sides of a line are its source and its references.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from seq2seq.data import augmentation
from seq2seq.data.corpus import Pair
from seq2seq.evaluation.evaluate import Evaluation
from seq2seq.evaluation.metrics import score
from seq2seq.inference.text import Translation

Line = tuple[list[str], str, Sequence[Pair]]  # sides; what to copy, or ""; the pairs it is made of

MOST, LEAST = 1000, 20  # lines of a kind
# Half of the names and tokens; training neither draws from this list nor makes most of its forms.
HELD_OUT = {
    "name": "Xóchitl Nguyễn Oluwaseun Siobhán Wójcik Þórdís Yıldırım Kovačević Mwangi Aitziber "
    "Zsófia Dimitrakis Rhiannon Hassanzadeh Bjørnstad Etxeberria Mamani Brânză Xiuying Ouédraogo",
    "number": "1,250,000 3.141.592 0034.915.550.199 2½ 17h45 1939-1945 (52)5550142 60×90 ±0,25",
    "emoji": "🇪🇸 🇲🇽 🇬🇧 👍🏽 🙏🏿 💪🏻 ☎️ ✈️ 1️⃣ 🅰️ ♥️♥️ 🪐 🫶",
    "address": "n.gil+s@correo.example.org ftp://example.org/a.zip 192.0.2.17 sip:ana@voz.example",
    "identifier": r"C:\lista.csv $HOME MAX_VALUE std::vector ISBN-978-3-16-148410-0 0x7fFe f(0,64)",
}


def _without_end(text: str) -> str:
    return text.rstrip(augmentation.FINAL_MARKS + " ")


def _as_in_chats(text: str, rng: random.Random) -> str:
    bare = augmentation.without_accents(_without_end(text)).lower()
    return augmentation.as_in_chats(bare, rng)


_TYPED = {  # what happens to the source
    "no final punctuation": lambda text, _: _without_end(text),
    "no accents": lambda text, _: augmentation.without_accents(text),
    "lower case": lambda text, _: text.lower(),
    "UPPER CASE": lambda text, _: text.upper(),
    "Title Case": lambda text, _: augmentation.title_case(text),
    "one typo": augmentation.with_typo,
    "as in chats": _as_in_chats,
}
_JOINED = {"two sentences a line": 2, "four sentences a line": 4}
_REPLACED = {"unusual name": augmentation.NAME, "another number": augmentation.NUMBER}
_ADDED = {  # the token, and where it stands
    "number or date added": ("number", "{1}: {0}{2}"),
    "emoji added": ("emoji", "{1}{2} {0}"),
    "e-mail address or URL added": ("address", "{1}{2} {0}"),
    "identifier or mention added": ("identifier", "{1}: {0}{2}"),
}
_COMPARED: dict[str, Callable[[str], str]] = {  # of translations and references
    **dict.fromkeys(("lower case", "UPPER CASE", "Title Case"), str.lower),
    "as in chats": lambda text: _without_end(text).lower(),
    "no final punctuation": _without_end,
}
KINDS = (*_TYPED, *_JOINED, *_REPLACED, *_ADDED)


@dataclass(frozen=True)
class KindScores:
    """Scores of a kind in percent; the fields are the keys of its JSON."""

    kind: str
    lines: int
    unchanged: float  # BLEU of the same sentences unchanged, translated one by one
    bleu: float
    lost: float  # the difference
    copied: float | None  # lines with exactly the same name, number or token in the translation


@dataclass(frozen=True)
class Robustness:
    """The scores and translations of each kind, and the kinds with too few lines."""

    kinds: list[KindScores]
    left_out: list[str]
    translations: dict[str, dict[str, str]]

    def as_text(self) -> str:
        """Return a table of the kinds."""
        rows = [f"{'kind of text':28} lines  unchanged   BLEU   lost  copied %"]
        for kind in self.kinds:
            scores = f"{kind.unchanged:11.1f}{kind.bleu:7.1f}{kind.lost:7.1f}"
            copied = "" if kind.copied is None else f"{kind.copied:10.1f}"
            rows.append(f"{kind.kind:28}{kind.lines:6}{scores}{copied}")
        if self.left_out:
            rows.append(f"left out, fewer than {LEAST} lines: {', '.join(self.left_out)}")
        return "\n".join(rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the scores without the translations, as JSON can hold them."""
        return {"kinds": [vars(kind) for kind in self.kinds], "left_out": self.left_out}


def measure_robustness(
    pairs: Sequence[Pair],
    evaluation: Evaluation,
    translate: Callable[[Sequence[Pair]], Sequence[Translation]],
) -> Robustness:
    """Have all kinds of text made from a test set translated, each text once, and score them.

    `evaluation` has the translations of the test set, also made by `translate`.
    """
    lines = {kind: made for kind in KINDS if len(made := lines_of(kind, pairs)) >= LEAST}
    texts = {kind: [sides[0] for sides, *_ in made] for kind, made in lines.items()}
    found = dict(zip([pair.source for pair in pairs], evaluation.hypotheses, strict=True))
    unique = dict.fromkeys(chain.from_iterable(texts.values()))
    if new := [Pair(text, "") for text in unique if text not in found]:
        found |= {p.source: best.line for p, best in zip(new, translate(new), strict=True)}
    scores = [_score(kind, made, found, evaluation.language) for kind, made in lines.items()]
    translations = {kind: {text: found[text] for text in some} for kind, some in texts.items()}
    return Robustness(scores, [kind for kind in KINDS if kind not in lines], translations)


def lines_of(kind: str, pairs: Sequence[Pair]) -> list[Line]:
    """Return the lines of a kind: of the first sentences that it changes, MOST at most."""
    rng, size, lines = random.Random(f"robustness: {kind}"), _JOINED.get(kind, 1), list[Line]()
    if size > 1:
        pairs = [pair for pair in pairs if pair.source.endswith(tuple(augmentation.FINAL_MARKS))]
    for start in range(0, len(pairs) - size + 1, size):
        some = pairs[start : start + size]
        plain = _joined_sides(some)
        sides, token = _changed(kind, plain, rng)
        if sides[0].strip() and (size > 1 or sides != plain):
            lines.append((sides, token, some))
    return lines[:MOST]


def _joined_sides(pairs: Sequence[Pair]) -> list[str]:
    every = [[pair.source, pair.target, *pair.references] for pair in pairs]
    return [" ".join(texts) for texts in zip(*every, strict=False)]  # references that all have


def _changed(kind: str, sides: list[str], rng: random.Random) -> tuple[list[str], str]:
    """Return the sides changed, and the text in all of them that a translation should copy."""
    if kind in _TYPED:
        return [_TYPED[kind](sides[0], rng), *sides[1:]], ""
    if kind in _ADDED:
        form, token = _ADDED[kind][1], _draw(_ADDED[kind][0], rng)
        return [augmentation.with_token(form, token, side) for side in sides], token
    for word in _REPLACED[kind].findall(sides[0]) if kind in _REPLACED else ():
        whole, is_number = re.compile(rf"\b{word}\b"), word.isdecimal()
        if (is_number or word.istitle()) and all(len(whole.findall(side)) == 1 for side in sides):
            token = augmentation.random_digits(rng, len(word)) if is_number else _draw("name", rng)
            return [whole.sub(token, side) for side in sides], token
    return sides, ""


def _draw(kind: str, rng: random.Random) -> str:
    make = augmentation.token_to_copy
    made = augmentation.made_up_name(rng) if kind == "name" else make(rng, kind)
    return rng.choice((made, rng.choice(HELD_OUT[kind].split())))


def _score(
    kind: str, lines: Sequence[Line], translations: dict[str, str], language: str
) -> KindScores:
    def bleu(texts: Sequence[str], references: Sequence[Sequence[str]]) -> float:
        compared = _COMPARED.get(kind, str)
        shown = [[compared(text) for text in refs] for refs in references]
        found = score([compared(text) for text in texts], shown, language, metrics=("bleu",))
        return found["bleu"].score

    found = [translations[sides[0]] for sides, *_ in lines]
    alone = [" ".join(translations[pair.source] for pair in pairs) for *_, pairs in lines]
    unchanged = bleu(alone, [_joined_sides(pairs)[1:] for *_, pairs in lines])
    changed = bleu(found, [sides[1:] for sides, *_ in lines])
    kept = [has(text, token) for text, (_, token, _) in zip(found, lines, strict=True) if token]
    copied = 100 * sum(kept) / len(kept) if kept else None
    return KindScores(kind, len(lines), unchanged, changed, unchanged - changed, copied)


def has(text: str, token: str) -> bool:
    """Return whether a text has a token, and not as part of a longer word or number."""
    return re.search(rf"(?!\B\w){re.escape(token)}(?<!\w\B)", text) is not None

"""Score a run on text as people type it: a test set, changed in common ways.

Each kind of text is made from sentences of the test set and scored beside these unchanged. The
sides of a line are its source and its references.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from seq2seq.data import augmentation
from seq2seq.data.corpus import Pair
from seq2seq.evaluation.evaluate import Evaluation
from seq2seq.evaluation.metrics import score
from seq2seq.inference.text import Translation
from seq2seq.languages import Language, language

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


def _without_end(text: str, language: Language) -> str:
    return text.rstrip(augmentation.final_marks(language) + " ")


def _unchanged(text: str, _: Language) -> str:
    return text


def _as_in_chats(text: str, rng: random.Random, language: Language) -> str:
    bare = augmentation.without_accents(_without_end(text, language), language)
    return augmentation.as_in_chats(language.lower(bare), rng, language)


_TYPED: dict[str, Callable[[str, random.Random, Language], str]] = {  # what happens to the source
    "no final punctuation": lambda text, _, language: _without_end(text, language),
    "no accents": lambda text, _, language: augmentation.without_accents(text, language),
    "lower case": lambda text, _, language: language.lower(text),
    "UPPER CASE": lambda text, _, language: language.upper(text),
    "Title Case": lambda text, _, language: augmentation.title_case(text, language),
    "one typo": augmentation.with_typo,
    "as in chats": _as_in_chats,
}
_LIKE = {  # kinds of augmentation that make sense in the same languages
    **dict.fromkeys(("lower case", "as in chats"), "lower_case"),
    "UPPER CASE": "upper_case",
    "Title Case": "title_case",
    "no accents": "accents",
    "one typo": "typos",
    "unusual name": "names",
}
_JOINED = {"two sentences a line": 2, "four sentences a line": 4}
_REPLACED = {"unusual name": augmentation.NAME, "another number": augmentation.NUMBER}
_ADDED = {  # the token, and where it stands
    "number or date added": ("number", "{1}: {0}{2}"),
    "emoji added": ("emoji", "{1}{2} {0}"),
    "e-mail address or URL added": ("address", "{1}{2} {0}"),
    "identifier or mention added": ("identifier", "{1}: {0}{2}"),
}
_COMPARED: dict[str, Callable[[str, Language], str]] = {  # of translations and references
    **dict.fromkeys(
        ("lower case", "UPPER CASE", "Title Case"), lambda text, language: language.lower(text)
    ),
    "as in chats": lambda text, each: each.lower(_without_end(text, each)),
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
    """The scores and translations of each kind, and the kinds with too few lines.

    Of these, `unfit` are the ones that make no sense in the languages.
    """

    kinds: list[KindScores]
    left_out: list[str]
    unfit: list[str]
    translations: dict[str, dict[str, str]]

    def as_text(self) -> str:
        """Return a table of the kinds."""
        rows = [f"{'kind of text':28} lines  unchanged   BLEU   lost  copied %"]
        for kind in self.kinds:
            scores = f"{kind.unchanged:11.1f}{kind.bleu:7.1f}{kind.lost:7.1f}"
            copied = "" if kind.copied is None else f"{kind.copied:10.1f}"
            rows.append(f"{kind.kind:28}{kind.lines:6}{scores}{copied}")
        few = [kind for kind in self.left_out if kind not in self.unfit]
        for why, kinds in (
            ("not in these languages", self.unfit),
            (f"fewer than {LEAST} lines", few),
        ):
            if kinds:
                rows.append(f"left out, {why}: {', '.join(kinds)}")
        return "\n".join(rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the scores without the translations, as JSON can hold them."""
        kinds = [vars(kind) for kind in self.kinds]
        return {"kinds": kinds, "left_out": self.left_out, "unfit": self.unfit}


def measure_robustness(
    pairs: Sequence[Pair],
    evaluation: Evaluation,
    translate: Callable[[Sequence[Pair]], Sequence[Translation]],
    source: str,
) -> Robustness:
    """Have all kinds of text made from a test set translated, each text once, and score them.

    `evaluation` has the translations of the test set, also made by `translate`; `source` is the
    code of its language.
    """
    both = language(source), language(evaluation.language)
    unfit = [kind for kind in KINDS if not augmentation.applies(_LIKE.get(kind, ""), *both)]
    every = {kind: lines_of(kind, pairs, both) for kind in KINDS if kind not in unfit}
    lines = {kind: made for kind, made in every.items() if len(made) >= LEAST}
    texts = {kind: [sides[0] for sides, *_ in made] for kind, made in lines.items()}
    found = dict(zip([pair.source for pair in pairs], evaluation.hypotheses, strict=True))
    unique = dict.fromkeys(chain.from_iterable(texts.values()))
    if new := [Pair(text, "") for text in unique if text not in found]:
        found |= {p.source: best.line for p, best in zip(new, translate(new), strict=True)}
    scores = [_score(kind, made, found, both[1]) for kind, made in lines.items()]
    translations = {kind: {text: found[text] for text in some} for kind, some in texts.items()}
    return Robustness(scores, [kind for kind in KINDS if kind not in lines], unfit, translations)


def lines_of(kind: str, pairs: Sequence[Pair], languages: tuple[Language, Language]) -> list[Line]:
    """Return the lines of a kind: of the first sentences that it changes, MOST at most."""
    rng, size, lines = random.Random(f"robustness: {kind}"), _JOINED.get(kind, 1), list[Line]()
    if size > 1:
        ends = tuple(augmentation.final_marks(languages[0]))
        pairs = [pair for pair in pairs if pair.source.endswith(ends)]
    for start in range(0, len(pairs) - size + 1, size):
        some = pairs[start : start + size]
        plain = _joined_sides(some, *languages)
        sides, token = _changed(kind, plain, rng, *languages)
        if sides[0].strip() and (size > 1 or sides != plain):
            lines.append((sides, token, some))
    return lines[:MOST]


def _joined_sides(pairs: Sequence[Pair], source: Language, target: Language) -> list[str]:
    every = [[pair.source, pair.target, *pair.references] for pair in pairs]
    first, *rest = zip(*every, strict=False)  # references that all have
    return [source.joiner.join(first), *map(target.joiner.join, rest)]


def _changed(
    kind: str, sides: list[str], rng: random.Random, source: Language, target: Language
) -> tuple[list[str], str]:
    """Return the sides changed, and the text in all of them that a translation should copy."""
    if kind in _TYPED:
        return [_TYPED[kind](sides[0], rng, source), *sides[1:]], ""
    if kind in _ADDED:
        form, token = _ADDED[kind][1], _draw(_ADDED[kind][0], rng)
        added = partial(augmentation.with_token, form, token)
        return [added(sides[0], source), *(added(side, target) for side in sides[1:])], token
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
    kind: str, lines: Sequence[Line], translations: dict[str, str], target: Language
) -> KindScores:
    def bleu(texts: Sequence[str], references: Sequence[Sequence[str]]) -> float:
        compared = _COMPARED.get(kind, _unchanged)
        shown = [[compared(text, target) for text in refs] for refs in references]
        ours = [compared(text, target) for text in texts]
        return score(ours, shown, target.code, metrics=("bleu",))["bleu"].score

    found = [translations[sides[0]] for sides, *_ in lines]
    alone = [target.joiner.join(translations[pair.source] for pair in pairs) for *_, pairs in lines]
    unchanged = bleu(alone, [_joined_sides(pairs, target, target)[1:] for *_, pairs in lines])
    changed = bleu(found, [sides[1:] for sides, *_ in lines])
    kept = [has(text, token) for text, (_, token, _) in zip(found, lines, strict=True) if token]
    copied = 100 * sum(kept) / len(kept) if kept else None
    return KindScores(kind, len(lines), unchanged, changed, unchanged - changed, copied)


def has(text: str, token: str) -> bool:
    """Return whether a text has a token, and not as part of a longer word or number."""
    return re.search(rf"(?!\B\w){re.escape(token)}(?<!\w\B)", text) is not None

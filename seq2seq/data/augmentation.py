"""Training pairs as people type them: without capitals or accents, with typos, names and tokens.

A change that a translator should ignore is made in the source alone, one that a translation should
keep on both sides. OpusTrainer (Jon et al. 2023, arXiv 2311.14838) is similar. Changes that make no
sense in the languages of a pair are left out (seq2seq/languages.py).
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from seq2seq.languages import Language

if TYPE_CHECKING:
    from seq2seq.config import AugmentationConfig

_FINAL_MARKS = ".!?…。！？؟।"  # of any language
_WESTERN = str.maketrans("。।۔։።។။！？؟;", ".......!???")  # marks of the same meaning
NAME = re.compile(r"(?<![\w'-])[^\W\d_]{3,}(?![\w-])")
NUMBER = re.compile(r"(?<![\w.,-])\d+(?!\w|[.,-]*\w*\d)")
_WORD = re.compile(r"[^\W\d_]{2,12}")


Texts = tuple[str, str]  # source, target
Languages = tuple[Language, Language]  # likewise


class Changed(NamedTuple):
    """A changed pair, and the row of the pair that it was made from."""

    row: int
    source: str
    target: str


def augment(
    sources: Sequence[str],
    targets: Sequence[str],
    rows: Sequence[int],
    config: AugmentationConfig,
    generator: np.random.Generator,
    languages: Languages,
    pieces: Sequence[str] = (),
) -> dict[int, Changed]:
    """Return the changed pairs among those in `rows`, by their places in it.

    Each kind of change is made with its own probability, independently of the others; but a source
    with made-up names or tokens gets no errors, as these must be copied. Names are made of pieces
    of a vocabulary, too: a model cannot copy a piece that no name has had.
    """
    kinds = ["joined", *_KINDS]
    unfit = {kind for kind in kinds if not applies(kind, *languages)}
    rates = [getattr(config, kind) for kind in kinds]
    changes = _KINDS | {
        "names": partial(_name, pieces=pieces),
        "copied_tokens": partial(_copied, pieces=pieces),
    }
    chosen = generator.random((len(rows), len(kinds))) < rates
    rng = random.Random(int(generator.integers(1 << 62)))
    found = {}
    for place, hits in groupby(np.argwhere(chosen).tolist(), itemgetter(0)):
        pair = before = sources[rows[place]], targets[rows[place]]
        copies = False
        for _, number in hits:
            kind, unchanged = kinds[number], pair
            if kind == "joined":
                others = [rng.choice(rows) for _ in range(rng.choice((1, 1, 2, 3)))]
                pair = _joined(pair, [(sources[row], targets[row]) for row in others], languages)
            elif kind not in unfit and (kind not in _SOURCE_ONLY or not copies):
                pair = changes[kind](*pair, rng, *languages)
            copies |= kind in _COPYING and pair != unchanged
        if pair != before and all(map(str.strip, pair)):
            found[place] = Changed(rows[place], *pair)
    return found


def applies(kind: str, source: Language, target: Language) -> bool:
    """Return whether a kind of change is known to make sense in these languages."""
    return {
        **dict.fromkeys(("names", "title_case", "upper_case"), source.is_cased and target.is_cased),
        "lower_case": source.is_cased,
        "accents": source.kept is not None or bool(source.respelled),
        "typos": source.is_alphabetic,
    }.get(kind, True)


def final_marks(language: Language) -> str:
    """Return the marks that may end a sentence of a language; those of other scripts do no harm."""
    return _FINAL_MARKS + language.final_marks


def _joined(pair: Texts, others: Sequence[Texts], languages: Languages) -> Texts:
    """Return pairs as one, as far as the ends of their sentences show on both sides."""
    ours, theirs = (each.joiner for each in languages)
    for other in others:
        if not all(map(_has_end, pair, languages)):
            break
        pair = pair[0] + ours + other[0], pair[1] + theirs + other[1]
    return pair


def _has_end(text: str, language: Language) -> bool:
    return text.endswith(tuple(final_marks(language)))


def _name(
    source: str, target: str, rng: random.Random, *both: Language, pieces: Sequence[str] = ()
) -> Texts:
    """Put made-up names, or tokens, in place of names (words with a capital that both sides share).

    Rarely leave one of the names alone: it is its own translation.
    """
    ours, theirs = both
    shared = set(NAME.findall(source)).intersection(NAME.findall(target))
    names, new = sorted(filter(str.istitle, shared)), {}
    if ours.capitalizes_nouns or theirs.capitalizes_nouns:
        names = [each for each in names if not target.startswith(each) | source.startswith(each)]
    if elides := ours.elides or theirs.elides:
        names = [each for each in names if f"’{each}" not in f"{source} {target}"]
    if names and rng.random() < 0.04:
        return (name := rng.choice(names)), name
    for word in names:
        if rng.random() < 0.8:
            new[word] = made_up_name(rng, pieces)
            while elides and new[word][0] not in _CONSONANTS:
                new[word] = made_up_name(rng, pieces)
        else:
            kind = rng.choice(("address", "identifier"))
            new[word] = token_to_copy(rng, kind, _words(source, ours))
    return _replaced(NAME, new, source), _replaced(NAME, new, target)


def _replaced(pattern: re.Pattern[str], new: dict[str, str], text: str) -> str:
    """Return a text with new words in place of those that a pattern finds."""
    return pattern.sub(lambda found: new.get(found[0], found[0]), text)


def _words(text: str, language: Language) -> list[str]:
    """Return the words of a text that can be part of an address."""
    return _WORD.findall(text) if language.script == "Latin" else []


def _digits(source: str, target: str, rng: random.Random, *_: Language) -> Texts:
    """Put other digits in place of the numbers that occur once on both sides."""
    ours, theirs = NUMBER.findall(source), NUMBER.findall(target)
    new = {}
    for number in ours:
        if ours.count(number) == theirs.count(number) == 1:
            size = len(number) if rng.random() < 0.7 else rng.randint(1, 7)
            new[number] = random_digits(rng, size)
    return _replaced(NUMBER, new, source), _replaced(NUMBER, new, target)


def _copied(
    source: str, target: str, rng: random.Random, *both: Language, pieces: Sequence[str] = ()
) -> Texts:
    """Add a token, or a name, at places that correspond on both sides; rarely leave it alone."""
    ours, theirs = both
    kinds = ["number", "emoji", "emoji", "address", "identifier"]
    if ours.script == theirs.script == "Latin":  # made-up names are
        kinds += ["name", "name"]
    kind = rng.choice(kinds)
    is_name = kind == "name"
    token = made_up_name(rng, pieces) if is_name else token_to_copy(rng, kind, _words(source, ours))
    if rng.random() < 0.04:
        return token, token
    forms = {
        "name": ("{0}, {1}{2}", "{1}, {0}{2}", "{1}, {0}{2}", "{0}: {1}{2}", "{1} ({0}){2}"),
        "emoji": ("{1}{2} {0}", "{1}{2} {0}", "{1} {0}", "{1}{2}{0}", "{0} {1}{2}", "{1} {0}{2}"),
    }.get(kind, ("{1}: {0}{2}", "{1}{2} {0}", "{0} {1}{2}", "{1} ({0}){2}", "{0}: {1}{2}"))
    form = rng.choice(forms)
    return with_token(form, token, source, ours), with_token(form, token, target, theirs)


def with_token(form: str, token: str, text: str, language: Language) -> str:
    """Return a form with a token for {0}, a text for {1} and the final marks of it for {2}."""
    form = form.replace(": ", language.colon)
    if not language.joiner:  # these marks take up the place of a space
        form = form.replace(" (", "（").replace(")", "）")
        form = form if token.isascii() else form.replace(" ", "")
    marks = re.search(rf"\s*[{final_marks(language)}]+[\"'»”)」』）]*\Z", text)
    end = marks.start() if marks else len(text)
    return form.format(token, text[:end], text[end:])


def _final_punctuation(source: str, target: str, rng: random.Random, *both: Language) -> Texts:
    """Leave final marks out on both sides, or repeat them."""
    if not all(map(_has_end, (source, target), both)):
        return source, target
    if rng.random() < 0.75:
        ours, theirs = map(final_marks, both)
        return source.rstrip(ours).rstrip(), target.rstrip(theirs).rstrip()
    times, mark, own = rng.randint(1, 3), source[-1], target[-1]
    if mark in both[1].final_marks:
        own = mark
    elif mark.translate(_WESTERN) != own.translate(_WESTERN):
        return source, target
    return source + mark * times, target + own * times


def _typo(source: str, target: str, rng: random.Random, ours: Language, theirs: Language) -> Texts:
    for _ in range(1 + (rng.random() < len(source) / 300)):
        source = with_typo(source, rng, ours)
    return source, target


def _careless(source: str, target: str, rng: random.Random, *both: Language) -> Texts:
    (source, target), ours = _final_punctuation(source, target, rng, *both), both[0]
    source = without_accents(source, ours)
    source = ours.lower(source) if ours.is_cased else source
    if rng.random() < 0.5:
        source = as_in_chats(source, rng, ours)
    return (with_typo(source, rng, ours) if rng.random() < 0.5 else source), target


def as_in_chats(text: str, rng: random.Random, language: Language) -> str:
    """Return a text in lower case with words shortened, drawn out or in capitals, as in chats."""
    if not language.is_cased:
        return text
    if chat := language.chat:
        text = re.sub(
            rf"\b(?:{'|'.join(chat)})\b",
            lambda word: rng.choice(chat[word[0]]) if rng.random() < 0.7 else word[0], text,
        )  # fmt: skip
        text = text.replace("'", "") if rng.random() < 0.5 else text
    words = text.split(" ")
    place, kind = rng.randrange(len(words)), rng.random()
    if kind < 0.2:
        words[place] = language.upper(words[place])
    elif kind < 0.5 and words[place][-1:].isalpha():
        words[place] += words[place][-1] * rng.randint(1, 4)
    return " ".join(words)


# In this order, after `joined`, which needs other pairs; the names are keys of data.augmentation.
_KINDS: dict[str, Callable[[str, str, random.Random, Language, Language], Texts]] = {
    "names": _name,
    "digits": _digits,
    "copied_tokens": _copied,
    "final_punctuation": _final_punctuation,
    "accents": lambda source, target, _, ours, __: (without_accents(source, ours), target),
    "typos": _typo,
    "careless": _careless,
    "lower_case": lambda source, target, _, ours, __: (ours.lower(source), target),
    "title_case": lambda s, t, _, ours, theirs: (title_case(s, ours), title_case(t, theirs)),
    "upper_case": lambda s, t, _, ours, theirs: (ours.upper(s), theirs.upper(t)),
}

_COPYING = {"names", "copied_tokens"}
_SOURCE_ONLY = {"accents", "typos", "careless", "lower_case"}


def without_accents(text: str, language: Language) -> str:
    """Return a text without the accents and opening marks that people leave out, such as ¿."""
    for mark in language.openings:
        text = text.replace(mark, "")
    if language.respelled:
        text = text.translate(language.respelled)
    if text.isascii() or language.kept is None:
        return text
    kept, base = "", ""
    for char in unicodedata.normalize("NFD", text):
        is_accent = unicodedata.category(char) == "Mn"
        base = base if is_accent else char
        whole = unicodedata.normalize("NFC", base + char) if is_accent else ""
        if not is_accent or not base.isascii() or whole in language.kept:
            kept += char
    return unicodedata.normalize("NFC", kept)


def with_typo(text: str, rng: random.Random, language: Language) -> str:
    """Return a text with two characters swapped, one missing or doubled, or a neighbouring key."""
    if len(text) < 4 or not language.is_alphabetic:
        return text
    place = rng.randrange(1, len(text) - 1)
    kind, char = rng.random(), text[place]
    if any(map(unicodedata.combining, text[place : place + 3])):
        return text
    if kind < 0.5:
        return text[:place] + text[place + 1] + char + text[place + 2 :]
    if not char.isalpha():
        return text
    if kind < 0.7:
        other = ""
    elif kind < 0.8:
        other = char * 2
    else:
        near = language.neighbours.get(language.lower(char), "")
        other = rng.choice(near) if near else char
    return text[:place] + other + text[place + 1 :]


def title_case(text: str, language: Language) -> str:
    """Return a text with a capital at the beginning of each word."""
    return " ".join(map(language.capitalize, text.split(" ")))


def random_digits(rng: random.Random, size: int) -> str:
    """Return a number of this many digits, without a leading zero."""
    return "".join([rng.choice("123456789"), *(rng.choice("0123456789") for _ in range(size - 1))])


_CONSONANTS = set("BCDFGJKLMNPQRSTVWXZ")
_SIMPLE = ("", *"bcdfghjklmnprstvzyw")
_STARTS = (
    *_SIMPLE * 6,
    "br", "ch", "cr", "dr", "fr", "gl", "gr", "kh", "kr", "ll", "ph", "pr", "qu", "rh", "sch",
    "sh", "sk", "sl", "sn", "st", "str", "sz", "th", "tr", "ts", "x", "zh",
)  # fmt: skip
_VOWELS = (
    *"aaaaaeeeeeiiiiooooouuuy" * 3,
    "ai", "au", "ea", "ei", "eu", "ia", "ie", "io", "oa", "ou", "ue", "ui", "aa", "ee", "oo",
)  # fmt: skip
_ENDS = (
    *[""] * 28, *"lnrsnrsltdmkzx", "ck", "ll", "nn", "rd", "rt", "rs", "ng", "nd", "sk", "tz",
)  # fmt: skip
_FOREIGN = "áéíóúüñàèìòùâêîôûäëïöåøæœãõçćčşšžźżłńňřťďěůýğıāēīōūąęșțđðþýơưạảấầếễịọốộụữỹ"


def made_up_name(rng: random.Random, pieces: Sequence[str] = ()) -> str:
    """Return a name that nobody has, of one to three words, as it could be from anywhere.

    With pieces of words, some of its words begin or end with one of them.
    """
    number = rng.choice((1, 1, 1, 1, 2, 2, 3))
    words = [_made_up_word(rng, pieces).capitalize() for _ in range(number)]
    if rng.random() < 0.06:
        words[-1] = rng.choice(("O'", "Mc", "D'", "Mac", "Al-", "Ben-", "Saint-")) + words[-1]
    elif rng.random() < 0.04:
        words[-1] += "-" + _made_up_word(rng, pieces).capitalize()
    return " ".join(words)


def _made_up_word(rng: random.Random, pieces: Sequence[str] = ()) -> str:
    word = ""
    for _ in range(rng.choice((1, 2, 2, 2, 2, 3, 3, 4))):
        word += rng.choice(_STARTS) + rng.choice(_VOWELS) + rng.choice(_ENDS)
    if pieces and rng.random() < 0.5:
        piece, half = rng.choice(pieces), len(word) // 2
        word = piece + word[half:] if rng.random() < 0.5 else word[:half] + piece
    if rng.random() < 0.25:
        place = rng.randrange(len(word))
        word = word[:place] + rng.choice(_FOREIGN) + word[place + 1 :]
    return word if len(word) > 2 else word + rng.choice(_SIMPLE) + rng.choice("aeiou")


_BLOCKS = (range(0x1F300, 0x1F650), range(0x1F680, 0x1F6E0), range(0x1F900, 0x1FA00))
_EMOJI = [
    char
    for char in map(chr, chain(*_BLOCKS, range(0x2600, 0x27C0)))
    if unicodedata.category(char) == "So"
]
_COMMON = (
    "😀😂🤣😊😍🥰😘😎🤔😅😭😢😡👍👎👏🙏💪🔥✨🎉❤💔💯✅❌⚠⭐🌟🚀"
    "🎂🐶🐱🌹☀🌈🍕🍺⚽🏠📷📞💡🎶👋👀🤷🙂😉😋😴🤗🤩"
)
_TOP = ("com", "com", "com", "net", "org", "es", "mx", "io", "co.uk", "de", "fr", "edu", "dev")


def token_to_copy(rng: random.Random, kind: str, words: Sequence[str] = ()) -> str:
    """Return a made-up token of a kind: number, emoji, address (e-mail or URL) or identifier.

    Addresses and identifiers may contain some of the words, which are then not to be translated.
    """
    if kind in ("number", "emoji"):
        return (_number if kind == "number" else _emoji)(rng)
    parts = [
        _plain(rng.choice(words)) if words and rng.random() < 0.4 else _plain(_made_up_word(rng))
        for _ in range(3)
    ]
    return (_address if kind == "address" else _identifier)(rng, *(part or "x" for part in parts))


def _number(rng: random.Random) -> str:
    def some(most: int) -> str:
        return random_digits(rng, rng.randint(1, most))

    day, month, year = rng.randint(1, 31), rng.randint(1, 12), rng.randint(1000, 2100)
    return rng.choice((
        some(5), random_digits(rng, rng.randint(4, 12)), random_digits(rng, rng.randint(5, 9)),
        f"{some(3)}.{some(2)}", f"{some(2)}:{rng.randrange(60):02}", f"{day:02}/{month:02}/{year}",
        f"{year}-{month:02}-{day:02}", f"{random_digits(rng, 3)}-{random_digits(rng, 4)}",
        f"+{some(2)} {random_digits(rng, 3)} {random_digits(rng, 3)} {random_digits(rng, 3)}",
        f"{some(2)}%", f"${some(3)}", f"{some(3)} €", f"${some(3)}.{random_digits(rng, 2)}",
        f"{some(2)}/{some(2)}", f"{some(3)} km", f"#{some(4)}",
    ))  # fmt: skip


def _emoji(rng: random.Random) -> str:
    one = rng.choice(_COMMON if rng.random() < 0.4 else _EMOJI)
    if rng.random() < 0.2:  # with what changes how it looks, or a flag
        flag = chr(rng.randint(0x1F1E6, 0x1F1FF)) + chr(rng.randint(0x1F1E6, 0x1F1FF))
        one = rng.choice((one + "\ufe0f", one + chr(rng.randint(0x1F3FB, 0x1F3FF)), flag))
    return rng.choice((one, one, one, one, one * 2, one * 3, one + rng.choice(_EMOJI)))


def _plain(word: str) -> str:
    return unicodedata.normalize("NFD", word.lower()).encode("ascii", "ignore").decode()


def _address(rng: random.Random, one: str, two: str, three: str) -> str:
    digits, top = random_digits(rng, rng.randint(1, 4)), rng.choice(_TOP)
    host = rng.choice((one, f"{one}-{two}", f"{one}{digits}", f"{two}.{one}")) + "." + top
    return rng.choice((
        f"{three}@{host}", f"{three}.{two}@{host}", f"{three}_{digits}@{host}",
        f"{three[0]}{two}@{host}",
        f"www.{host}", host, f"https://{host}", f"https://www.{host}/{three}",
        f"http://{host}/{three}/{digits}", f"https://{host}/{three}-{two}.html",
        f"https://{host}/{three}?{two[0]}={digits}",
    ))  # fmt: skip


def _identifier(rng: random.Random, one: str, two: str, _: str) -> str:
    digits = random_digits(rng, rng.randint(1, 4))
    letters = "".join(rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(1, 4)))
    return rng.choice((
        f"@{one}", f"@{one}_{digits}", f"@{one}{two}", f"#{one}", f"#{one.title()}{two.title()}",
        f"{letters}-{digits}", f"{letters}{digits}", f"{digits}{letters}", f"{one}_{two}",
        f"{one}{two.title()}", f"{one}.{rng.choice(('py', 'txt', 'pdf', 'jpg', 'doc', 'html'))}",
        f"{one}()", f"v{digits[0]}.{digits[-1]}", f"{letters.lower()}{digits}{one[0]}",
        f"/{one}/{two}", f"{one.title()}{two.title()}", letters, f"{one}-{two}",
    ))  # fmt: skip

"""Languages: one table of everything that is particular to some of them, languages.tsv.

docs/languages.md explains its columns. All that is assumed of other languages is that spaces
separate their words; whatever needs to know more, such as changes of case, leaves their text alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from seq2seq.errors import ConfigError

log = logging.getLogger(__name__)

UNDETERMINED = "und"  # the code of ISO 639 for a language that nobody named
_CASED = {"Latin", "Cyrillic", "Greek", "Armenian"}
_ALPHABETS = _CASED | {"Arabic", "Hebrew", "Georgian"}
_UNSPACED = {"Han", "Kana", "Thai", "Lao", "Khmer", "Burmese"}
_BLEU = {"ja": "ja-mecab", "ko": "ko-mecab", "zh": "zh"}
# How chats shorten Spanish and English words; no key is a word of the other language.
_CHAT = dict.fromkeys(
    ("en", "es"),
    "que=q|k|ke porque=xq|pq|porq por=x para=pa|pra tambien=tb|tmb|tbn te=t de=d bien=bn "
    "cuando=cdo|cuand quiero=kiero|qiero quien=kien|qien aqui=aki como=cmo donde=dnd nada=nd "
    "gracias=grax|grcs estoy=toy esta=ta estas=tas hola=ola mensaje=msj tengo=tngo verdad=vdd "
    "siempre=smpre pues=ps todos=tods hasta=asta hacer=acer besos=bss "
    "you=u are=r your=ur please=pls|plz because=cuz|bc|cos thanks=thx|tnx people=ppl see=c "
    "tomorrow=tmrw|tmr tonight=2nite about=abt really=rly great=gr8 before=b4 okay=ok|k "
    "what=wat|wut and=n|& with=w/ have=hv know=kno love=luv for=4 why=y something=smth "
    "message=msg right=rite though=tho",
)


@dataclass(frozen=True, eq=False)
class Language:
    """A row of the table; the defaults are those of an unknown language."""

    code: str  # as it was given
    name: str  # in English; the code if it is not known
    base: str = ""  # the code without region and script
    script: str = ""
    is_cased: bool = False  # the script has capitals
    is_alphabetic: bool = False  # keys type letters: typing errors swap, omit or double some
    is_spaced: bool = True  # spaces separate words
    elides: bool = False  # words lose a vowel before another one, as in l'eau
    capitalizes_nouns: bool = False  # a capital is no sign of a name
    # The white space between two sentences of a line, and between two parts of a sentence.
    joiners: tuple[str, str] = (" ", " ")
    colon: str = ": "
    number: str = ""  # 1,234.5 as this language writes it, if that is certain
    neighbours: Mapping[str, str] = field(default_factory=dict)  # of a key, on the left and right
    chat: Mapping[str, list[str]] = field(default_factory=dict)  # spellings of words
    kept: str | None = None  # letters that keep their accents; None: all
    respelled: Mapping[int, str] = field(default_factory=dict)  # letters (ord), without accents
    openings: str = ""  # marks that begin a sentence, and that people leave out
    final_marks: str = ".!?…"
    date: str = ""  # day {0}, month {1}, and after a bar year {2}
    months: tuple[str, ...] = ()  # in order, if it is known how a date is written
    bleu_tokenizer: str | None = None  # sacreBLEU's; None: its default, 13a

    @property
    def joiner(self) -> str:
        """The white space between two sentences of a line."""
        return self.joiners[0]

    @property
    def decimal_sign(self) -> str:
        """The sign before decimals, or "" if that is not certain."""
        return self.number[-2:-1]

    @property
    def thousands_sign(self) -> str:
        """The sign between thousands, or "" if that is not certain."""
        return self.number[1:2]

    def count_words(self, text: str) -> float:
        """Return the length of a text in words; without spaces, as its characters suggest."""
        if self.is_spaced:
            return len(text.split())
        # As measured on Japanese (1.9 of a word in English); Thai words have twice as many.
        return (len(text) - text.count(" ")) / (4 if self.joiner else 2)

    def lower(self, text: str) -> str:
        """Return a text in lower case."""
        return (text.replace("İ", "i").replace("I", "ı") if self.base == "tr" else text).lower()

    def upper(self, text: str) -> str:
        """Return a text in capitals."""
        text = text.translate(self.respelled) if self.base == "el" else text
        return (text.replace("i", "İ") if self.base == "tr" else text).upper()

    def capitalize(self, word: str) -> str:
        """Return a word with a capital at its beginning."""
        dotted = self.base == "tr" and word.startswith("i")
        return ("İ" if dotted else word[:1].upper()) + word[1:]


@lru_cache
def known_languages() -> dict[str, dict[str, str]]:
    """Return the rows of the table by their codes."""
    path = Path(__file__).with_name("languages.tsv")
    head, *rows = (line.split("\t") for line in path.read_text(encoding="utf-8").splitlines())
    return {row[0]: dict(zip(head, row, strict=True)) for row in rows}


@lru_cache
def language(code: str) -> Language:
    """Return the language with this ISO 639 code, which may have a region or script."""
    base, region = base_of(code), re.split("[-_]", code, maxsplit=1)[1:]
    row = known_languages().get(base)
    if row is None:
        return Language(code, code)
    script, accents = row["script"], row["accents"]
    is_spaced, takes_up_space = script not in _UNSPACED, script in ("Han", "Kana")
    return Language(
        code,
        f"{row['name']} ({region[0]})" if region else row["name"],
        base,
        script,
        is_cased=script in _CASED,
        is_alphabetic=script in _ALPHABETS,
        is_spaced=is_spaced,
        elides=base in ("ca", "fr", "it"),
        capitalizes_nouns=base == "de",
        joiners=("" if takes_up_space else " ", " " if is_spaced else ""),
        colon="：" if takes_up_space else " : " if base == "fr" else ": ",
        number="" if region else row["number"].replace("_", "\xa0"),
        neighbours={
            key: row[place - 1 : place] * (place > 0) + row[place + 1 : place + 2]
            for row in row["keyboard"].split()
            for place, key in enumerate(row)
        },
        chat={w: s.split("|") for w, s in re.findall(r"(\S+)=(\S+)", _CHAT.get(base, ""))},
        kept=accents.removeprefix("all").removeprefix("not ") if accents else None,
        respelled={ord(pair[0]): pair[1:] for pair in row["respelled"].split()},
        openings=row["opening"],
        final_marks=row["final"] or ".!?…",
        date=row["date"],
        months=tuple(row["months"].split()),
        bleu_tokenizer=_BLEU.get(base, None if is_spaced else "char"),
    )


def base_of(code: str) -> str:
    """Return a code without region and script, in lower case."""
    return re.split("[-_]", code.lower(), maxsplit=1)[0]


# The second letters of all two-letter codes, by the first.
_ISO_639_1 = {
    "a": "abefkmnrsvyz", "b": "aegimnors", "c": "aehorsuvy", "d": "aevz", "e": "elnostu",
    "f": "afijory", "g": "adlnuv", "h": "aeiortuyz", "i": "adegikostu", "j": "av",
    "k": "agijklmnorsuvwy", "l": "abginotuv", "m": "ghiklnrsty", "n": "abdeglnorvy", "o": "cjmrs",
    "p": "ailst", "q": "u", "r": "mnouw", "s": "acdegiklmnoqrstuvw", "t": "aeghiklnorstwy",
    "u": "gkrz", "v": "eio", "w": "ao", "x": "h", "y": "io", "z": "ahu",
}  # fmt: skip


def check_code(key: str, code: str) -> None:
    """Raise ConfigError unless a code is one of ISO 639, perhaps with a region or script."""
    base, others = base_of(code), dict[str, str]()
    for known, row in known_languages().items():
        others |= dict.fromkeys([row["name"].lower(), *row["mistaken"].split()], known)
    if len(base) == 2 and base[1] in _ISO_639_1.get(base[0], ""):
        return
    if base in others:
        raise ConfigError(f"{key}: '{code}' is not the code of that language; use {others[base]}")
    if not re.fullmatch("[a-z]{3}", base):
        raise ConfigError(
            f"{key}: '{code}' is not a code of ISO 639; use one such as es, pt-br or zh-Hant"
        )


@lru_cache
def bleu_tokenizer(code: str) -> str:
    """Return the tokenizer that sacreBLEU recommends for BLEU of a language.

    It is `char` where the package of that tokenizer is missing, which is logged once.
    """
    from sacrebleu.metrics.bleu import BLEU  # slow to import

    name = language(code).bleu_tokenizer or BLEU.TOKENIZER_DEFAULT
    try:
        BLEU(tokenize=name)
    except RuntimeError:
        log.warning(
            "BLEU of %s is computed on characters; to compute it on words, as sacreBLEU "
            "recommends, first run: pip install 'attentional-seq2seq[%s]'",
            language(code).name, base_of(code),
        )  # fmt: skip
        return "char"
    return name

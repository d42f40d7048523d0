"""Languages: one table of everything that is particular to some of them.

docs/languages.md shows the table. All that is assumed of other languages is that spaces separate
their words; whatever needs to know more, such as changes of case, leaves their text alone.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from seq2seq.errors import ConfigError

log = logging.getLogger(__name__)

UNDETERMINED = "und"  # the code of ISO 639 for a language that nobody named
# Code: English name, three-letter code, script, and how a number is written, if that is certain.
_TABLE = {
    "am": ("Amharic", "amh", "Ethiopic", ""), "ar": ("Arabic", "ara", "Arabic", ""),
    "bg": ("Bulgarian", "bul", "Cyrillic", ""), "bn": ("Bengali", "ben", "Bengali", ""),
    "ca": ("Catalan", "cat", "Latin", "1.234,5"), "cs": ("Czech", "ces", "Latin", "1\xa0234,5"),
    "da": ("Danish", "dan", "Latin", "1.234,5"), "de": ("German", "deu", "Latin", "1.234,5"),
    "el": ("Greek", "ell", "Greek", "1.234,5"), "en": ("English", "eng", "Latin", "1,234.5"),
    "eo": ("Esperanto", "epo", "Latin", ""), "es": ("Spanish", "spa", "Latin", ""),
    "et": ("Estonian", "est", "Latin", ""), "eu": ("Basque", "eus", "Latin", ""),
    "fa": ("Persian", "fas", "Arabic", ""), "fi": ("Finnish", "fin", "Latin", "1\xa0234,5"),
    "fr": ("French", "fra", "Latin", "1\u202f234,5"), "gl": ("Galician", "glg", "Latin", ""),
    "gu": ("Gujarati", "guj", "Gujarati", ""), "he": ("Hebrew", "heb", "Hebrew", "1,234.5"),
    "hi": ("Hindi", "hin", "Devanagari", ""), "hr": ("Croatian", "hrv", "Latin", "1.234,5"),
    "hu": ("Hungarian", "hun", "Latin", "1\xa0234,5"), "hy": ("Armenian", "hye", "Armenian", ""),
    "id": ("Indonesian", "ind", "Latin", "1.234,5"), "it": ("Italian", "ita", "Latin", "1.234,5"),
    "ja": ("Japanese", "jpn", "Kana", "1,234.5"), "ka": ("Georgian", "kat", "Georgian", ""),
    "km": ("Khmer", "khm", "Khmer", ""), "kn": ("Kannada", "kan", "Kannada", ""),
    "ko": ("Korean", "kor", "Hangul", "1,234.5"), "lo": ("Lao", "lao", "Lao", ""),
    "lt": ("Lithuanian", "lit", "Latin", ""), "lv": ("Latvian", "lav", "Latin", ""),
    "ml": ("Malayalam", "mal", "Malayalam", ""), "mr": ("Marathi", "mar", "Devanagari", ""),
    "my": ("Burmese", "mya", "Burmese", ""), "nb": ("Norwegian Bokmål", "nob", "Latin", ""),
    "ne": ("Nepali", "nep", "Devanagari", ""), "nl": ("Dutch", "nld", "Latin", "1.234,5"),
    "no": ("Norwegian", "nor", "Latin", ""), "pa": ("Punjabi", "pan", "Gurmukhi", ""),
    "pl": ("Polish", "pol", "Latin", "1\xa0234,5"), "pt": ("Portuguese", "por", "Latin", ""),
    "ro": ("Romanian", "ron", "Latin", "1.234,5"),
    "ru": ("Russian", "rus", "Cyrillic", "1\xa0234,5"), "si": ("Sinhala", "sin", "Sinhala", ""),
    "sk": ("Slovak", "slk", "Latin", "1\xa0234,5"),
    "sl": ("Slovenian", "slv", "Latin", "1.234,5"), "sr": ("Serbian", "srp", "Cyrillic", "1.234,5"),
    "sv": ("Swedish", "swe", "Latin", "1\xa0234,5"), "ta": ("Tamil", "tam", "Tamil", ""),
    "te": ("Telugu", "tel", "Telugu", ""), "th": ("Thai", "tha", "Thai", "1,234.5"),
    "tr": ("Turkish", "tur", "Latin", "1.234,5"),
    "uk": ("Ukrainian", "ukr", "Cyrillic", "1\xa0234,5"), "ur": ("Urdu", "urd", "Arabic", ""),
    "vi": ("Vietnamese", "vie", "Latin", "1.234,5"), "zh": ("Chinese", "zho", "Han", "1,234.5"),
}  # fmt: skip
_CASED = {"Latin", "Cyrillic", "Greek", "Armenian"}
_ALPHABETS = _CASED | {"Arabic", "Hebrew", "Georgian"}  # a key types a letter
_UNSPACED = {"Han", "Kana", "Thai", "Lao", "Khmer", "Burmese"}

# Rows of keys, where one layout is the usual one.
_QWERTY = "qwertyuiop asdfghjkl zxcvbnm"
_NORDIC = "qwertyuiopå asdfghjklöä zxcvbnm"
_GAJ = "qwertzuiopšđ asdfghjklčć yxcvbnm"
_KEYBOARDS = {
    "ca": "qwertyuiop asdfghjklñ zxcvbnm", "cs": "qwertzuiopú asdfghjklů yxcvbnm",
    "da": "qwertyuiopå asdfghjklæø zxcvbnm", "de": "qwertzuiopü asdfghjklöä yxcvbnm",
    "el": "ςερτυθιοπ ασδφγηξκλ ζχψωβνμ", "en": "qwertyuiop asdfghjkl; zxcvbnm",
    "es": "qwertyuiop asdfghjklñ zxcvbnm", "et": "qwertyuiopüõ asdfghjklöä zxcvbnm",
    "eu": "qwertyuiop asdfghjklñ zxcvbnm", "fi": _NORDIC, "fr": "azertyuiop qsdfghjklm wxcvbn",
    "gl": "qwertyuiop asdfghjklñ zxcvbnm", "he": "קראטוןםפ שדגכעיחלךף זסבהנמצתץ", "hr": _GAJ,
    "hu": "qwertzuiopőú asdfghjkléáű yxcvbnm", "id": _QWERTY,
    "it": "qwertyuiopè asdfghjklòà zxcvbnm", "nb": "qwertyuiopå asdfghjkløæ zxcvbnm",
    "nl": _QWERTY, "no": "qwertyuiopå asdfghjkløæ zxcvbnm", "pl": _QWERTY,
    "pt": "qwertyuiop asdfghjklç zxcvbnm", "ro": _QWERTY,
    "ru": "йцукенгшщзхъ фывапролджэ ячсмитьбю", "sk": "qwertzuiopú asdfghjklô yxcvbnm",
    "sl": _GAJ, "sv": _NORDIC, "tr": "qwertyuıopğü asdfghjklşi zxcvbnmöç",
    "uk": "йцукенгшщзхї фівапролджє ячсмитьбю",
}  # fmt: skip
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
# Letters that keep their accents when people type without accents, and letters that are then
# replaced. In other languages nobody leaves accents out, or it is not known how.
_KEPT = {
    "cs": "", "de": "", "el": "", "en": "ñÑ", "es": "ñÑ", "fr": "", "gl": "ñÑ", "hu": "",
    "it": "", "nl": "", "pl": "", "pt": "", "ro": "", "sk": "", "tr": "İ", "vi": "",
}  # fmt: skip
_RESPELLED = {
    "ar": "أا إا آا \u064b \u064c \u064d \u064e \u064f \u0650 \u0651 \u0652",
    "de": "äae öoe üue ÄAe ÖOe ÜUe ßss", "el": "άα έε ήη ίι όο ύυ ώω ΆΑ ΈΕ ΉΗ ΊΙ ΌΟ ΎΥ ΏΩ",
    "pl": "łl ŁL", "ru": "ёе ЁЕ", "tr": "ıi", "vi": "đd ĐD",
}  # fmt: skip
_FINAL_MARKS = {  # where they are not . ! ? …
    "am": "።?!…", "ar": ".!؟…", "bn": "।?!…", "el": ".!;…", "fa": ".!؟…", "hi": "।?!…",
    "hy": "։…", "ja": "。！？…", "km": "។?!…", "mr": "।.?!…", "my": "။", "ne": "।?!…", "pa": "।?!…",
    "ur": "۔!؟…", "zh": "。！？…",
}  # fmt: skip
# The months, and a date with the name of its month, the year after a bar.
_DATES = {
    "de": ("{0}. {1}| {2}", "Januar Februar März April Mai Juni Juli August September Oktober "
           "November Dezember"),
    "en": ("{0} {1}| {2}", "January February March April May June July August September October "
           "November December"),
    "es": ("{0} de {1}| de {2}", "enero febrero marzo abril mayo junio julio agosto septiembre "
           "octubre noviembre diciembre"),
    "fr": ("{0} {1}| {2}", "janvier février mars avril mai juin juillet août septembre octobre "
           "novembre décembre"),
    "it": ("{0} {1}| {2}", "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre "
           "ottobre novembre dicembre"),
    "pt": ("{0} de {1}| de {2}", "janeiro fevereiro março abril maio junho julho agosto setembro "
           "outubro novembro dezembro"),
}  # fmt: skip
_BLEU = {"ja": "ja-mecab", "ko": "ko-mecab", "zh": "zh"}


@dataclass(frozen=True, eq=False)
class Language:
    """A row of the table; the defaults are those of an unknown language."""

    code: str  # as it was given
    name: str  # in English; the code if it is not known
    script: str = ""
    number: str = ""  # 1,234.5 as this language writes it
    keyboard: tuple[str, ...] = ()  # rows of keys
    chat: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # spellings of words
    kept: str | None = None  # letters that keep their accents; None: all
    respelled: Mapping[int, str] = field(default_factory=dict)  # letters (ord), without accents
    openings: str = ""  # marks that begin a sentence, and that people leave out
    final_marks: str = ".!?…"
    date: str = ""  # day {0}, month {1}, and after a bar year {2}
    months: tuple[str, ...] = ()  # in order, if it is known how a date is written
    bleu_tokenizer: str | None = None  # sacreBLEU's; None: its default, 13a

    @cached_property
    def base(self) -> str:
        """The code without region and script, in lower case."""
        return base_of(self.code)

    @property
    def is_spaced(self) -> bool:
        """Whether spaces separate words."""
        return self.script not in _UNSPACED

    @property
    def is_cased(self) -> bool:
        """Whether the script has capitals."""
        return self.script in _CASED

    @property
    def is_alphabetic(self) -> bool:
        """Whether each key types a letter, so that typing errors swap, omit or double letters."""
        return self.script in _ALPHABETS

    @property
    def elides(self) -> bool:
        """Whether words lose a vowel before one, as in l'eau, so that a name changes them."""
        return self.base in ("ca", "fr", "it")

    @property
    def capitalizes_nouns(self) -> bool:
        """Whether a capital is no sign of a name."""
        return self.base == "de"

    @property
    def joiners(self) -> tuple[str, str]:
        """The white space between two sentences of a line, and between two parts of a sentence."""
        return "" if self.script in ("Han", "Kana") else " ", " " if self.is_spaced else ""

    @property
    def joiner(self) -> str:
        """The white space between two sentences of a line."""
        return self.joiners[0]

    @property
    def colon(self) -> str:
        """A colon with the spaces around it."""
        return "：" if not self.joiner else " : " if self.base == "fr" else ": "

    @property
    def decimal_sign(self) -> str:
        """The sign before decimals, or "" if that is not certain."""
        return self.number[-2:-1]

    @property
    def thousands_sign(self) -> str:
        """The sign between thousands, or "" if that is not certain."""
        return self.number[1:2]

    @cached_property
    def neighbours(self) -> dict[str, str]:
        """The keys to the left and right of each key."""
        return {
            key: (row[place - 1 : place] if place else "") + row[place + 1 : place + 2]
            for row in self.keyboard
            for place, key in enumerate(row)
        }

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
def language(code: str) -> Language:
    """Return the language with this ISO 639 code, which may have a region or script."""
    base = base_of(code)
    if base not in _TABLE:
        return Language(code, code)
    name, _, script, number = _TABLE[base]
    region = re.split("[-_]", code, maxsplit=1)[1:]
    return Language(
        code,
        f"{name} ({region[0]})" if region else name,
        script,
        "" if region else number,
        tuple(_KEYBOARDS.get(base, "").split()),
        {w: tuple(s.split("|")) for w, s in re.findall(r"(\S+)=(\S+)", _CHAT.get(base, ""))},
        _KEPT.get(base),
        {ord(pair[0]): pair[1:] for pair in _RESPELLED.get(base, "").split()},
        "¿¡" if base in ("es", "gl") else "",
        _FINAL_MARKS.get(base, ".!?…"),
        _DATES.get(base, ("", ""))[0],
        tuple(_DATES.get(base, ("", ""))[1].split()),
        _BLEU.get(base, "char" if script in _UNSPACED else None),
    )


def known_languages() -> list[str]:
    """Return the codes of the table."""
    return list(_TABLE)


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
_MISTAKEN = dict(  # countries and older codes
    re.findall(
        r"(\S+)=(\S+)",
        "jp=ja cn=zh kr=ko gr=el cz=cs dk=da ua=uk vn=vi sp=es iw=he ger=de fre=fr "
        "chi=zh dut=nl gre=el per=fa rum=ro cze=cs slo=sk arm=hy geo=ka baq=eu bur=my",
    )
)


def check_code(key: str, code: str) -> None:
    """Raise ConfigError unless a code is one of ISO 639, perhaps with a region or script."""
    base, listed = base_of(code), {word: known for known, row in _TABLE.items() for word in row[:2]}
    listed = {word.lower(): known for word, known in listed.items()} | _MISTAKEN
    if len(base) == 2 and base[1] in _ISO_639_1.get(base[0], ""):
        return
    if base in listed:
        raise ConfigError(f"{key}: '{code}' is not the code of that language; use {listed[base]}")
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

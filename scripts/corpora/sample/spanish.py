"""Spanish morphology: conjugation, plurals, agreement and the spelling they need."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .tables import read_table

YO, TU, EL, NOSOTROS, VOSOTROS, ELLOS = range(6)
DATIVES = ("me", "te", "le", "nos", "os", "les")
REFLEXIVES = ("me", "te", "se", "nos", "os", "se")

_PRESENT = {
    "ar": ("o", "as", "a", "amos", "áis", "an"),
    "er": ("o", "es", "e", "emos", "éis", "en"),
    "ir": ("o", "es", "e", "imos", "ís", "en"),
}
_PRETERITE = {
    "ar": ("é", "aste", "ó", "amos", "asteis", "aron"),
    "er": ("í", "iste", "ió", "imos", "isteis", "ieron"),
}
_STRONG_PRETERITE = ("e", "iste", "o", "imos", "isteis", "ieron")
_IMPERFECT = {
    "ar": ("aba", "abas", "aba", "ábamos", "abais", "aban"),
    "er": ("ía", "ías", "ía", "íamos", "íais", "ían"),
}
_FUTURE = ("é", "ás", "á", "emos", "éis", "án")
_CONDITIONAL = _IMPERFECT["er"]
_SUBJUNCTIVE = {
    "ar": ("e", "es", "e", "emos", "éis", "en"),
    "er": ("a", "as", "a", "amos", "áis", "an"),
}
_STRESSED = (YO, TU, EL, ELLOS)
_WEAK_VOWEL = {"e>ie": ("e", "i"), "e>i": ("e", "i"), "o>ue": ("o", "u")}
_PLAIN = str.maketrans("áéíóú", "aeiou")


@dataclass(frozen=True)
class Paradigm:
    """The forms of a Spanish verb; finite rows run from yo to ellos."""

    infinitive: str
    gerund: str
    participle: str
    imperative: str
    rows: dict[str, tuple[str, ...]]

    def form(self, tense: str, person: int) -> str:
        """Return the form of a simple tense: pres, pret, imp, fut, cond or subj."""
        return self.rows[tense][person]


def conjugate(lemma: str, marks: str = "") -> Paradigm:
    """Conjugate a verb from its infinitive and the marks of its irregularity.

    Marks are separated by spaces: a stressed vowel change (e>ie, o>ue, e>i, u>ue, i>í, u>ú);
    `zc`; `yo=` (a first person the subjunctive follows); `pret=`/`fut=` (a stem); `ger=`,
    `part=` and `tú=` (a form); or a whole row of six, as in `pres=soy,eres,...`.
    """
    given = dict(mark.split("=") for mark in marks.split() if "=" in mark)
    change = next((mark for mark in marks.split() if ">" in mark), "")
    stem, theme = lemma[:-2], lemma[-2:].translate(_PLAIN)
    if "zc" in marks.split():
        given["yo"] = stem[:-1] + "zco"
    stems = _Stems.of(lemma, stem, theme, change)
    rows = {
        "pres": _present(stems, theme, given),
        "pret": _preterite(stems, theme, given),
        "imp": _row(given, "imp") or _attach(stem, _IMPERFECT[_group(theme)], theme),
        "fut": tuple((given.get("fut") or lemma.translate(_PLAIN)) + e for e in _FUTURE),
        "cond": tuple((given.get("fut") or lemma.translate(_PLAIN)) + e for e in _CONDITIONAL),
    }
    rows["subj"] = _row(given, "subj") or _subjunctive(stems, theme, rows["pres"][YO], given)
    ending = "ando" if theme == "ar" else "iendo"
    return Paradigm(
        infinitive=lemma,
        gerund=given.get("ger") or _join(stems.weak, ending, theme),
        participle=given.get("part") or _join(stem, "ado" if theme == "ar" else "ido", theme),
        imperative=given.get("tú") or rows["pres"][EL],
        rows=rows,
    )


@cache
def _irregular() -> dict[str, str]:
    return dict(read_table("spanish_irregular", "infinitive marks", lambda *fields: fields))


def paradigm(lemma: str) -> Paradigm:
    """Conjugate a verb, with its irregularities from the table."""
    return conjugate(lemma, _irregular().get(lemma, ""))


@dataclass(frozen=True)
class _Stems:
    """The stems of a verb: plain, under stress, and before a stressed i-glide."""

    plain: str
    stressed: str
    weak: str
    soft: str  # nosotros and vosotros of the subjunctive

    @classmethod
    def of(cls, lemma: str, stem: str, theme: str, change: str) -> _Stems:
        if lemma.endswith("uir") and not lemma.endswith("guir"):
            return cls(stem, stem + "y", stem, stem + "y")
        if not change:
            return cls(stem, stem, stem, stem)
        stressed = _replace_last(stem, *change.split(">"))
        weak = stem
        if theme == "ir" and change in _WEAK_VOWEL:
            weak = _replace_last(stem, *_WEAK_VOWEL[change])
        return cls(stem, stressed, weak, weak)


def _group(theme: str) -> str:
    return "ar" if theme == "ar" else "er"


def _row(given: dict[str, str], name: str) -> tuple[str, ...] | None:
    forms = given.get(name, "")
    return tuple(forms.split(",")) if "," in forms else None


def _replace_last(text: str, old: str, new: str) -> str:
    head, _, tail = text.rpartition(old)
    return head + new + tail


def _attach(stem: str, endings: tuple[str, ...], theme: str) -> tuple[str, ...]:
    return tuple(_join(stem, ending, theme) for ending in endings)


def _join(stem: str, ending: str, theme: str) -> str:
    """Add an ending, with the spelling that keeps the sound of the stem."""
    first = ending[0]
    if theme == "ar":
        if first in "eé":
            for old, new in (("c", "qu"), ("g", "gu"), ("z", "c")):
                if stem.endswith(old):
                    return stem[:-1] + new + ending
        return stem + ending
    if first in "aoáó":
        for old, new in (("gu", "g"), ("c", "z"), ("g", "j")):
            if stem.endswith(old):
                return stem[: -len(old)] + new + ending
    vowel_stem = stem[-1:] in tuple("aeou") and not stem.endswith(("gu", "qu"))
    if vowel_stem and first == "i":
        if ending[1] in "eó":
            return stem + "y" + ending[1:]
        if stem[-1] != "u":
            return stem + "í" + ending[1:]
    return stem + ending


def _present(stems: _Stems, theme: str, given: dict[str, str]) -> tuple[str, ...]:
    row = _row(given, "pres")
    if row:
        return row
    forms = [
        _join(stems.stressed if person in _STRESSED else stems.plain, ending, theme)
        for person, ending in enumerate(_PRESENT[theme])
    ]
    forms[YO] = given.get("yo", forms[YO])
    return tuple(forms)


def _preterite(stems: _Stems, theme: str, given: dict[str, str]) -> tuple[str, ...]:
    row = _row(given, "pret")
    if row:
        return row
    strong = given.get("pret")
    if strong:
        endings = _STRONG_PRETERITE
        if strong.endswith("j"):
            endings = (*endings[:-1], "eron")
        return _attach(strong, endings, theme)
    return tuple(
        _join(stems.weak if person in (EL, ELLOS) else stems.plain, ending, theme)
        for person, ending in enumerate(_PRETERITE[_group(theme)])
    )


def _subjunctive(
    stems: _Stems, theme: str, first_person: str, given: dict[str, str]
) -> tuple[str, ...]:
    endings = _SUBJUNCTIVE[_group(theme)]
    if theme == "ar":
        return tuple(
            _join(stems.stressed if person in _STRESSED else stems.plain, ending, theme)
            for person, ending in enumerate(endings)
        )
    irregular = "yo" in given or "pres" in given
    return tuple(
        first_person[:-1] + ending
        if person in _STRESSED or irregular
        else _join(stems.soft, ending, theme)
        for person, ending in enumerate(endings)
    )


def enclitic(infinitive: str, clitics: tuple[str, ...]) -> str:
    """Attach clitic pronouns to an infinitive; two of them require an accent."""
    if len(clitics) < 2:
        return infinitive + "".join(clitics)
    accented = infinitive[-2].translate(str.maketrans("aei", "áéí"))
    return infinitive[:-2] + accented + infinitive[-1] + "".join(clitics)


def direct_clitic(feminine: bool, many: bool) -> str:
    """Return lo, la, los or las."""
    return ("la" if feminine else "lo") + ("s" if many else "")


def plural(word: str) -> str:
    """Return the regular plural of a noun or adjective."""
    last = word[-1]
    if last in "aeioáéóu":
        return word + "s"
    if last == "z":
        return word[:-1] + "ces"
    if len(word) > 2 and last in "ns" and word[-2] in "áéíóú":
        if word[-2] == "í" and word[-3] in "aeo":  # país: the accent marks a hiatus
            return word + "es"
        return word[:-2] + word[-2].translate(_PLAIN) + last + "es"
    if last == "s" and sum(letter in "aeiouáéíóú" for letter in word) > 1:
        return word
    return word + "es"


def adjective_forms(word: str, feminine: str = "", plural_form: str = "") -> tuple[str, ...]:
    """Return an adjective's masculine, feminine, masculine plural and feminine plural."""
    if not feminine:
        if word.endswith("o"):
            feminine = word[:-1] + "a"
        elif word.endswith(("dor", "ol")):
            feminine = word + "a"
        elif word.endswith(("és", "án", "ón")):
            feminine = word[:-2] + word[-2].translate(_PLAIN) + word[-1] + "a"
        else:
            feminine = word
    many = plural_form or plural(word)
    return word, feminine, many, many if feminine == word else plural(feminine)


def conjunction(word: str, following: str) -> str:
    """Return y or o, changed before a word that starts with the same sound."""
    start = following.lower()
    if word == "y" and start.startswith(("i", "í", "hi", "hí")):
        return "y" if start.startswith(("hie", "ia", "ie", "io")) else "e"
    if word == "o" and start.startswith(("o", "ó", "ho", "hó")):
        return "u"
    return word

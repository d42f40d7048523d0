"""Split text into sentences, with sentencex (Wikimedia) and corrections for Spanish and English.

A missed boundary costs less than a wrong one: half a sentence cannot be translated.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache

from sentencex import segment

log = logging.getLogger(__name__)

# Characters that are split at once: unclosed quotes take sentencex quadratic time.
_WINDOW = 20_000
# The languages that sentencex has rules for (its src/languages, 1.0.32).
_LANGUAGES = re.compile(
    "am|ar|bg|bn|ca|da|de|el|en|es|fi|fr|gu|hi|hy|it|ja|kk|kn|ml|mr|my|nl|pa|pl|pt|ru|sk|ta|te|uk"
)
# Abbreviations that it does not know, and words that it takes for abbreviations.
_ABBREVIATIONS = {
    "en": "approx|apt|assoc|dr|eds|eqs?|est|excl|fri|ft|govt|incl|misc|mon|mrs?|ms|mx|prof|srta?|"
    "tel|thurs?|trans|tues?|vols?",
    "es": "aprox|apto|arts|capt|caps|cel|cf|cía|cmdte|cnel|coord|ctra|depto|dñ?as?|dras|dres|edif|"
    "eds|ene|excma|fco|feb|figs|hn[ao]|hrs|ilm[ao]|inc|izda|jr|lc?da|ltda|ma|mons|mrs?|mtr[ao]|"
    "nro|ntra|núms|pbro|pd[at]e?|plza|profa|ptos?|rr|rvd[ao]|sep|sgto|sras|srtas|ss|tlf|trad|tte|"
    "temp|urb|vda",
}
_WORDS = {"en": "art|ill|me|no|ok", "es": "auto|bien|com|contra|entre|ex|extra|mar|mono|no|sobre"}
# Initials, numbers of items, and lone surrogates, which UTF-8 cannot encode.
_ANY = r'(?<![^\s("«“])[^\W\d_]\.(?=\s)|(?:^\s*|(?<=[.!?:])\s+)\d{1,3}\.(?=\s)|[\ud800-\udfff]'
# Without a match there is no boundary: a mark before white space, or a script that may have none.
_BOUNDARY = re.compile(r"[.!?…;][^\w\s]{0,9}\s+\S|[^\0-\u0588\u2000-\u206f\u20a0-\u2bff]")
_VISIBLE = re.compile(r"[^\W_]")
_WESTERN = tuple(".!?…\"'»”’)]")
_QUOTED, _PARTICLES = tuple("」』"), tuple("とっを")


@lru_cache
def language_rules(language: str) -> str:
    """Return the code of the rules for a language; log once if it has none of its own."""
    code = language.lower().replace("_", "-")
    base = code.partition("-")[0]
    if _LANGUAGES.fullmatch(base):
        return base
    log.warning(
        "data.source_language or target_language '%s': sentencex has no rules for it; sentences "
        "are split as in a related language or in English", language,
    )  # fmt: skip
    return code


def split_sentences(text: str, language: str | None) -> list[str]:
    """Return the sentences of a text, each with the white space around it; joined, the text.

    A line feed always ends a sentence; without a language, nothing else does.
    """
    found: list[str] = []
    for line in re.findall(r".*\n(?:[^\S\n]*\n)*|.+", text):
        if language is None or not _BOUNDARY.search(line):
            found.append(line)
        else:
            found += _split_line(line, language_rules(language))
    return found


def _split_line(line: str, language: str) -> list[str]:
    # Each change for sentencex is of one character, so that positions stay the same. White space
    # that is several bytes long makes it panic after an initial.
    spaced = re.sub(r"\s", " ", line.rstrip())
    masked = _mask(language).sub(lambda match: match[0][:-1] + "_", spaced)
    is_cased = any(map(str.isupper, line))
    found, start, is_complete = [""], 0, False
    for window in range(0, len(masked), _WINDOW):
        for piece in segment(language, masked[window : window + _WINDOW]):
            end = start + len(piece)
            first = _VISIBLE.search(line, start, end)
            # Western marks end a sentence only before white space.
            is_apart = found[-1][-1:].isspace() or line[start].isspace()
            is_end = is_complete and (is_apart or not found[-1].endswith(_WESTERN))
            # In text with capitals, no sentence begins with a small letter; after a Japanese
            # quotation, a particle continues its sentence.
            quoted = found[-1].endswith(_QUOTED) and line.startswith(_PARTICLES, start)
            if is_end and first and not quoted and not (is_cased and first[0].islower()):
                found.append(line[start:end])
            else:
                found[-1] += line[start:end]
            is_complete = is_complete or first is not None
            start = end
        is_complete = False  # a sentence may cross the end of a window
    found[-1] += line[start:]
    return found


def rules_json(language: str) -> dict[str, str]:
    """Return the rules of a language for JSON (seq2seq/serving/web/sentences.js)."""
    code = language_rules(language)
    found = {"abbreviations": _ABBREVIATIONS, "words": _WORDS}
    return {"language": code, **{name: words.get(code, "") for name, words in found.items()}}


@lru_cache
def _mask(language: str) -> re.Pattern[str]:
    """Return a pattern of text that misleads sentencex, up to the character to mask."""
    parts = [_ANY]
    if language in _WORDS:
        parts.append(rf"(?<!\w)(?:{_ABBREVIATIONS[language]})\.(?=\s)")
        parts.append(rf"(?<!\w)(?:{_WORDS[language]})(?=\.\s+[^\w\s]*[^\W\d])")
    return re.compile("|".join(parts), re.IGNORECASE)

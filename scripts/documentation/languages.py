"""Fill in the table of docs/languages.md from what seq2seq/languages.py says of each language.

python scripts/documentation/languages.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # scripts/

from documentation.pages import markdown_table, replace_between
from seq2seq.languages import Language, known_languages, language

PAGE = Path(__file__).parents[2] / "docs/languages.md"
BEGIN, END = "<!-- languages: begin -->", "<!-- languages: end -->"
HEAD = (
    "code", "language", "script", "spaces between", "capitals", "typing errors",
    "accents left out", "final marks", "number", "date", "BLEU",
)  # fmt: skip


def table() -> str:
    """Return the table as Markdown."""
    rows = [_row(code, language(code)) for code in known_languages()]
    return markdown_table(HEAD, rows, names=len(HEAD))


def _row(code: str, known: Language) -> tuple[str, ...]:
    spaces = "words" if known.is_spaced else "sentences" if known.joiner else ""
    typos = "also neighbouring keys" if known.neighbours else "yes" if known.is_alphabetic else ""
    date = known.date.replace("|", "").format("3", *known.months[:1], "1999")
    return (
        code, known.name, known.script, spaces, "yes" * known.is_cased, typos, _accents(known),
        " ".join(known.final_marks), known.number, date, known.bleu_tokenizer or "13a",
    )  # fmt: skip


def _accents(known: Language) -> str:
    said = [f"all but {known.kept[0]}" if known.kept else "all"] if known.kept is not None else []
    letters = {chr(code): text for code, text in known.respelled.items()}
    said += [f"{letter} → {text}" for letter, text in letters.items() if not letter.isupper()]
    return ", ".join([*said, *known.openings])


if __name__ == "__main__":
    replace_between(PAGE, BEGIN, END, table())

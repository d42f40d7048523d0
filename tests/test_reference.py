from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from seq2seq.config import Config, Section
from seq2seq.config.reference import reference
from seq2seq.config.section import section_of

PAGE = Path(__file__).parents[1] / "docs/configuration.md"


def keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, str | None]]:
    for name, field in section.model_fields.items():
        child = section_of(field.annotation)
        if child is None or name in ("valid", "test"):
            yield f"{prefix}{name}", field.description
        else:
            yield from keys(child, f"{prefix}{name}." + ("N." if name == "train" else ""))


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "run: seq2seq reference > docs/configuration.md"
    )


def test_every_key_is_documented() -> None:
    page = reference()
    for key, description in keys(Config):
        assert description, key
        assert f"`{key}`" in page


def test_rows_have_four_cells() -> None:
    rows = [line for line in reference().splitlines() if line.startswith("|")]
    assert len(rows) > 60
    for row in rows:
        assert row.replace("\\|", "").count("|") == 5, row
        assert "<" not in row

"""The files of a study's results."""

from __future__ import annotations

from pathlib import Path

from seq2seq.files import write_atomic
from seq2seq.study.export import as_csv, as_json
from seq2seq.study.figures import draw
from seq2seq.study.gathering import Gathered
from seq2seq.study.tables import as_markdown


def write_results(gathered: Gathered) -> Path:
    """Write results.json, results.csv, the pictures and results.md; return the last one's path."""
    directory = gathered.plan.out
    write_atomic(directory / "results.json", as_json(gathered))
    write_atomic(directory / "results.csv", as_csv(gathered))
    figures = draw(gathered, directory)
    page = directory / "results.md"
    write_atomic(page, as_markdown(gathered, figures))
    return page

"""The museum as text, as an HTML page and as pictures."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from seq2seq.diagnosis.museum import LOSS, PADDINGS, Exhibit, Museum
from seq2seq.diagnosis.museum_plots import plot_losses, plot_weights
from seq2seq.errors import DataError
from seq2seq.evaluation.heatmap import heatmap
from seq2seq.evaluation.page import Cell, note, page, section, table, texts
from seq2seq.files import write_atomic


def museum_text(museum: Museum) -> str:
    """Return a line a fault: BLEU, and the checks that catch it."""
    width = max(len(fault.title) for fault in museum.faults.values())
    caught = ", ".join(museum.healthy.caught_by) or "passes all checks"
    lines = [f"{'fault':{width}}   BLEU  caught by",
             f"{'none':{width}}  {museum.healthy.bleu:5.1f}  {caught}"]  # fmt: skip
    for name, exhibit in museum.faulty.items():
        caught = ", ".join(exhibit.caught_by) or "NO CHECK"
        lines.append(f"{museum.faults[name].title:{width}}  {exhibit.bleu:5.1f}  {caught}")
    lines.append(
        f"{museum.sentences} sentences, greedy, batches of 50 in the order of the test set"
    )
    return "\n".join(lines)


def write_museum(folder: Path, museum: Museum, *, run: str, test: str) -> Path:
    """Write faults.html and a picture of each fault; return the page's path.

    Raises DataError where that cannot be.
    """
    path = folder / "faults.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, museum_page(museum, run=run, test=test))
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from None
    plot_weights(museum.healthy.picture, folder / "healthy.png")
    for name, exhibit in museum.faulty.items():
        if name == LOSS:
            plot_losses(museum, folder / f"{name}.png")
        else:
            plot_weights(exhibit.picture, folder / f"{name}.png")
    return path


def museum_page(museum: Museum, *, run: str, test: str) -> str:
    """Return the page; `run` and `test` are the names of what was measured."""
    head = (
        f"Faults that translators have shipped with, each put into a copy of {run}; BLEU on "
        f"{museum.sentences} sentences of {test}, greedy, in batches of 50 as they come."
    )
    body = [
        f"<p>{escape(head)}</p>",
        section("Healthy", _verdict(museum.healthy), *_picture(museum.healthy)),
        *(section(fault.title, *_room(museum, fault.name)) for fault in museum.faults.values()),
        section("All checks", *_matrix(museum)),
    ]
    return page("Museum of faults", "\n".join(body))


def _room(museum: Museum, name: str) -> Iterator[str]:
    fault, exhibit = museum.faults[name], museum.faulty[name]
    yield f"<p>{escape(fault.story)}</p>"
    yield _verdict(exhibit)
    yield note(fault.look)
    yield note(f"One of its kind: {fault.seen}.")
    if name == LOSS:
        yield _losses(museum, exhibit)
    else:
        yield from _picture(exhibit)
    rows = [(check, exhibit.findings[check].found) for check in exhibit.caught_by]
    yield table(["caught by", "found"], rows)


def _verdict(exhibit: Exhibit) -> str:
    passed = not exhibit.caught_by
    verdict = "passes all checks" if passed else f"{len(exhibit.caught_by)} checks fail"
    kind = "good" if passed else "bad"
    return f'<p>BLEU {exhibit.bleu:.1f}, <span class="{kind}">{escape(verdict)}</span></p>'


def _picture(exhibit: Exhibit) -> Iterator[str]:
    found = exhibit.picture
    yield texts([("source", escape(found.source)), ("translation", escape(found.text))])
    yield heatmap(found)


def _losses(museum: Museum, exhibit: Exhibit) -> str:
    rows: list[list[Cell]] = [
        [columns, *(f"{value:.4f}" for value in (*true, *wrong))]
        for columns, true, wrong in zip(
            PADDINGS, museum.healthy.losses, exhibit.losses, strict=True
        )
    ]
    names = ("healthy loss", "its gradient's norm", "faulty loss", "its gradient's norm")
    return table(["more columns of padding", *names], rows)


def _matrix(museum: Museum) -> Iterator[str]:
    exhibits = {"none": museum.healthy} | {
        museum.faults[name].title: exhibit for name, exhibit in museum.faulty.items()
    }
    yield table(
        ["check", *exhibits],
        [
            [check, *(_word(exhibit, check) for exhibit in exhibits.values())]
            for check in museum.healthy.findings
        ],
    )


def _word(exhibit: Exhibit, check: str) -> str:
    return {True: "pass", False: "FAIL", None: "skip"}[exhibit.findings[check].passed]

"""The page of a study's results, in Markdown."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from seq2seq.study.gathering import Gathered
from seq2seq.study.plan import is_of_recipe
from seq2seq.study.spec import Measure, label
from seq2seq.study.statistics import RESAMPLES, Spread

TITLES: dict[Measure, str] = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "alignment_error": "AER %",
    "minutes": "minutes",
    "parameters": "parameters",
}
TEXT_MEASURES: tuple[Measure, ...] = ("bleu", "chrf")
_DIGITS: dict[Measure, int] = {"parameters": 0}

_READING = f"""\
Mean ± sample standard deviation over the seeds (n of them). *Difference* is that of the mean BLEU
to that of {{baseline}}; in brackets, the central 95 % of {RESAMPLES} paired bootstrap resamples.
*p* is the share of resamples whose difference is as far from the observed one as that is from
zero, on either side. Each resample draws as many test sentences as there are, the same for both
cells, and for each cell as many of its seeds as it has, all with replacement. p is not corrected
for the number of comparisons, and with few seeds it is too small rather than too large."""
_ALIGNMENT = """\
AER is the alignment error rate of the attention's links under forced decoding; a cell without
attention has none."""
_LENGTHS = """\
By words of the source sentence, with the number of test sentences of each class in brackets; ± is
the standard deviation over the seeds, as are the bands of the pictures."""


def as_markdown(gathered: Gathered, figures: Sequence[str]) -> str:
    """Return the page of results, with figures by their file names."""
    plan = gathered.plan
    reading = _READING.format(baseline=_baseline(gathered))
    if "alignment_error" in gathered.measures:
        reading += " " + _ALIGNMENT
    parts = [
        f"# Study {plan.study.name}",
        _facts(gathered),
        main_table(gathered),
        reading,
        "## BLEU by length",
        _LENGTHS,
        length_table(gathered),
        *(f"![{name}]({name})" for name in figures),
    ]
    return "\n\n".join(parts) + "\n"


def main_table(gathered: Gathered) -> str:
    """Return a row for each cell: measures, and the difference to the baseline."""
    study = gathered.plan.study
    head = [*study.titles.values(), "n", *(TITLES[m] for m in gathered.measures)]
    rows = []
    for summary in gathered.summaries:
        row = [*summary.cell.levels.values(), str(len(summary.results))]
        row += [_shown(summary.spread(m), _DIGITS.get(m, 1)) for m in gathered.measures]
        difference = summary.difference
        if difference is not None:
            limits = f"[{_signed(difference.low)}, {_signed(difference.high)}]"
            row.append(f"{_signed(difference.value)} {limits}")
            row.append(f"{difference.p_value:.3f}")
        else:
            row += ["baseline" if summary.cell.name == summary.baseline else "", ""]
        rows.append(row)
    return _table([*head, "difference", "p"], rows, names=len(study.grid))


def length_table(gathered: Gathered) -> str:
    """Return BLEU by classes of source lengths, a row for each cell."""
    titles = gathered.plan.study.titles
    head = [*titles.values(), *(f"{c.label} ({len(c.sentences)})" for c in gathered.classes)]
    rows = [
        [*summary.cell.levels.values(), *(_shown(spread, 1) for spread in summary.by_length)]
        for summary in gathered.summaries
    ]
    return _table(head, rows, names=len(titles))


def _facts(gathered: Gathered) -> str:
    """Return what it takes to make these results again."""
    plan = gathered.plan
    study = plan.study
    changes = [f"`{key}: {json.dumps(value)}`" for key, value in study.overrides.items()]
    changes += [f"`{change}`" for change in plan.changes if is_of_recipe(change)]
    result = next(iter(gathered.summaries[0].results.values()))
    search = result.config.inference
    if any(key.partition(".")[0] == "inference" for cell in plan.cells for key in cell.settings):
        searched = "searched as the cell says"
    else:
        searched = f"beam {search.beam_size}, length penalty {search.length_penalty:g}"
    return "\n".join(
        [
            f"- `{shlex.join(['seq2seq', 'study', plan.path, *plan.changes])}`",
            f"- {gathered.finished} of {len(plan.runs)} runs are finished: {len(plan.cells)} "
            f"cells, seeds {', '.join(map(str, study.seeds))}",
            f"- all cells: `{study.base}` with {', '.join(changes) or 'no change'}",
            f"- test set: {gathered.sentences} sentences, {searched}",
            *(f"- {TITLES[name]}: `{result.signatures[name]}`" for name in TEXT_MEASURES),
            f"- torch {result.torch}",
        ]
    )


def _baseline(gathered: Gathered) -> str:
    """Return what the cells are compared with, in words."""
    study = gathered.plan.study
    if study.baseline is None:
        return f"`{gathered.summaries[0].baseline}`, the best of the table"
    levels = ", ".join(
        f"`{study.titles[a]}: {label(level)}`" for a, level in study.baseline.items()
    )
    same = "" if len(study.baseline) == len(study.grid) else " and otherwise its own levels"
    return f"the cell with {levels}{same}"


def _shown(spread: Spread | None, digits: int) -> str:
    if spread is None:
        return ""
    mean = f"{spread.mean:,.{digits}f}"
    if spread.deviation is None or not (digits or spread.deviation):
        return mean
    return f"{mean} ± {spread.deviation:,.{digits}f}"


def _signed(value: float) -> str:
    return f"{round(value, 1) + 0.0:+.1f}"  # without a negative zero


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, names: int) -> str:
    """Return a Markdown table; the columns after the names are numbers."""
    lines = [head, ["---"] * names + ["---:"] * (len(head) - names), *rows]
    shown = [[cell.replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in shown)

"""The results of a study as data: CSV, a line for each cell, and JSON, with every run."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from seq2seq.study.gathering import Gathered, Summary
from seq2seq.study.statistics import RESAMPLES, Difference, Spread


def as_csv(gathered: Gathered) -> str:
    """Return a line for each cell, means and deviations in columns of their own."""
    measures = gathered.measures
    columns = ["cell", *gathered.plan.study.titles.values(), "n"]
    columns += [name for measure in measures for name in (measure, f"{measure}_sd")]
    columns += ["baseline", "difference", "difference_low", "difference_high", "p"]
    for of in gathered.classes:
        columns += [f"bleu {of.label}", f"bleu {of.label}_sd"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for summary in gathered.summaries:
        row: list[Any] = [summary.cell.name, *summary.cell.levels.values(), len(summary.results)]
        for measure in measures:
            row += _numbers(summary.spread(measure))
        row += [summary.baseline, *_compared(summary.difference)]
        for spread in summary.by_length:
            row += _numbers(spread)
        writer.writerow(row)
    return text.getvalue()


def _numbers(spread: Spread | None) -> list[float | None]:
    return [spread.mean, spread.deviation] if spread else [None, None]


def _compared(found: Difference | None) -> list[float | None]:
    return [found.value, found.low, found.high, found.p_value] if found else [None] * 4


def as_json(gathered: Gathered) -> str:
    """Return all numbers, of every run; the translations stay in the runs' own results."""
    plan = gathered.plan
    return (
        json.dumps(
            {
                "study": plan.study.model_dump(mode="json"),
                "changes": plan.changes,
                "test": plan.test.model_dump(mode="json", exclude_none=True),
                "sentences": gathered.sentences,
                "lengths": {c.label: len(c.sentences) for c in gathered.classes},
                "resamples": RESAMPLES,
                "finished": gathered.finished,
                "runs": len(plan.runs),
                "cells": [_cell_json(gathered, summary) for summary in gathered.summaries],
            },
            ensure_ascii=False,
            indent=1,
        )
        + "\n"
    )


def _cell_json(gathered: Gathered, summary: Summary) -> dict[str, Any]:
    spreads = {measure: summary.spread(measure) for measure in gathered.measures}
    labels = [of.label for of in gathered.classes]
    by_length = dict(zip(labels, summary.by_length, strict=True))
    runs = [
        {
            "seed": seed,
            "run_dir": str(summary.runs[seed].path),
            **result.model_dump(mode="json", exclude={"config", "hypotheses"}),
            "bleu_by_length": {label: s.values[n] for label, s in by_length.items()},
        }
        for n, (seed, result) in enumerate(summary.results.items())
    ]
    return {
        "name": summary.cell.name,
        "levels": summary.cell.levels,
        "settings": summary.cell.settings,
        "measures": {measure: _spread_json(spread) for measure, spread in spreads.items()},
        "bleu_by_length": {label: _spread_json(spread) for label, spread in by_length.items()},
        "baseline": summary.baseline,
        "difference": vars(summary.difference) if summary.difference else None,
        "runs": runs,
    }


def _spread_json(spread: Spread | None) -> dict[str, float | None] | None:
    return {"mean": spread.mean, "deviation": spread.deviation} if spread else None

"""An explanation shown to a person: tables in a terminal, or a page to explore.

Legend: S source positions, padding included, N heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seq2seq.errors import DataError
from seq2seq.evaluation.alignment import word_weights
from seq2seq.evaluation.pages import render
from seq2seq.explaining.explanation import (
    AttentionStep,
    Explanation,
    Step,
)
from seq2seq.explaining.formulas import (
    bars,
    heaviest,
    number,
    piece_name,
    shape,
    vector,
)
from seq2seq.files import write_atomic

SHOWN = 16  # rows at most
_HEADS = 8  # columns of several heads at most


@dataclass(frozen=True)
class Columns:
    """A table before it is drawn; a heading that begins with `>` is of numbers."""

    headings: list[str]
    rows: list[list[str]]
    sums: list[str] | None = None


def choose(explanation: Explanation, looked: AttentionStep) -> tuple[list[int], list[int]]:
    """Return the positions that are shown, in their order, and those that are left out.

    Of a long sentence the heaviest are shown, and the first of padding.
    """
    total, real = len(explanation.source.pieces), explanation.source.length
    if total <= SHOWN:
        return list(range(total)), []
    order = looked.mean_weights_S[:real].argsort(descending=True, stable=True).tolist()
    shown = sorted([*order[: SHOWN - 1], real])
    return shown, [place for place in range(total) if place not in set(shown)]


def position_tables(
    explanation: Explanation, looked: AttentionStep, shown: list[int]
) -> Iterator[Columns]:
    """Yield one table of a single head, or one of scores and one of weights of several."""
    names = [
        [str(place + 1), piece_name(explanation.source.pieces[place].piece)] for place in shown
    ]
    bars = ["█" * round(20 * float(looked.mean_weights_S[place])) for place in shown]
    if looked.scores_S.dim() == 1:
        yield _single(explanation, looked, shown, names, bars)
    else:
        yield _scores(explanation, looked, shown, names)
        yield _weights(looked, shown, names, bars)


def _single(
    explanation: Explanation,
    looked: AttentionStep,
    shown: list[int],
    names: list[list[str]],
    bars: list[str],
) -> Columns:
    masked_S = explanation.masked(looked.scores_S)
    rows = [
        [
            *name,
            number(looked.scores_S[place]),
            number(masked_S[place]),
            f"{looked.weights_S[place]:.4f}",
            bar,
        ]
        for place, name, bar in zip(shown, names, bars, strict=True)
    ]
    headings = [">place", "piece", ">score", ">after mask", ">weight", ""]
    total = f"{looked.weights_S.double().sum():.6f}"
    return Columns(headings, rows, ["", "sum", "", "", total, ""])


def _scores(
    explanation: Explanation, looked: AttentionStep, shown: list[int], names: list[list[str]]
) -> Columns:
    scores_NS = looked.scores_S[:_HEADS]
    real = explanation.source.mask_S
    rows = [
        [
            *name,
            *(number(score) if real[place] else f"{number(score)} → -inf"
              for score in scores_NS[:, place]),
        ]
        for place, name in zip(shown, names, strict=True)
    ]  # fmt: skip
    return Columns([">place", "piece", *(f">score {n + 1}" for n in range(len(scores_NS)))], rows)


def _weights(
    looked: AttentionStep, shown: list[int], names: list[list[str]], bars: list[str]
) -> Columns:
    weights_NS = torch.cat([looked.weights_S[:_HEADS], looked.mean_weights_S.unsqueeze(0)])
    rows = [
        [*name, *(f"{weight:.4f}" for weight in weights_NS[:, place]), bar]
        for place, name, bar in zip(shown, names, bars, strict=True)
    ]
    heads = [f">weight {n + 1}" for n in range(len(weights_NS) - 1)]
    sums = [f"{weights_S.double().sum():.6f}" for weights_S in weights_NS]
    return Columns([">place", "piece", *heads, ">mean", ""], rows, ["", "sum", *sums, ""])


def notes(explanation: Explanation, looked: AttentionStep, left: list[int]) -> Iterator[str]:
    """Yield what the tables leave out, and what the mask is for."""
    total, real = len(explanation.source.pieces), explanation.source.length
    scores_NS = looked.scores_S.view(-1, total)
    if left:
        rest = float(looked.mean_weights_S[left].sum())
        few = f"the {SHOWN - 1} heaviest of {real}" if real >= SHOWN else f"all {real}"
        yield (
            f"Shown are {few} pieces and one position of padding; the "
            f"{len(left)} positions left out weigh {rest:.4f} together."
        )
    if len(scores_NS) > _HEADS:
        yield f"Shown are the first {_HEADS} heads of {len(scores_NS)}; the mean is of all."
    unmasked_S = scores_NS.softmax(-1).mean(0)
    yield (
        f"Without the mask the {total - real} positions of padding would take "
        f"{float(unmasked_S[real:].sum()):.4f} of the weight; with it exactly 0."
    )


_PIPE_WIDTH = 110
_BARS = 40  # pieces whose bars have room in a row


def print_explanation(
    explanation: Explanation, file: IO[str], *, number: int | None = None, words: bool = False
) -> None:
    """Print one step in full; without a number, the first step and a row for each one.

    With `words` the rows are of words instead of pieces. `number` is that of a step, from 1.
    """
    # Sentences are full of brackets, which must not be taken for markup.
    console = Console(file=file, markup=False, highlight=False, emoji=False)
    if console.is_terminal:
        _Printer(explanation, console).run(number, words=words)
        return
    console.width = _PIPE_WIDTH
    with console.capture() as captured:
        _Printer(explanation, console).run(number, words=words)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=file)


class _Printer:
    """Writes the parts of an explanation one below the other."""

    def __init__(self, explanation: Explanation, console: Console) -> None:
        self.all, self.source, self.console = explanation, explanation.source, console

    def run(self, number: int | None, *, words: bool) -> None:
        step = self.all.steps[(number or 1) - 1]
        self._head()
        self._memory()
        self._step(step)
        if number is None:
            self._words() if words else self._steps()

    def _head(self) -> None:
        found, config = self.all, self.all.config
        given = "given" if found.forced else "found by the search"
        self._facts(
            ("source", found.part.source),
            ("translation", f"{found.part.text}   ({given}, log p = {found.part.log_prob:.3f})"),
            ("model", f"style {config.style}, score {config.attention.score}"),
        )

    def _memory(self) -> None:
        source, formula = self.source, self.all.formula
        self._title("Once a sentence: pieces, encoder states, keys and values")
        listed = "  ".join(f"{p.piece} {p.id}" for p in source.pieces[: source.length])
        self._facts((f"{source.length} pieces", f"{listed}   (▁ begins a word)"))
        size = source.states_SH.shape[1]
        states = f"encoder states, forward and backward ({size // 2} each)"
        rows = [
            ("H", source.states_SH, states),
            ("K", source.keys_SD, f"keys, what a query is compared with: {self._origin('key')}"),
            ("", source.remembered_SA, f"what the score keeps of K: {formula.remembered}"),
            ("V", source.values_SM, f"values, what the context sums: {self._origin('value')}"),
            ("mask", source.mask_S, f"true at the {source.length} pieces, false at padding"),
            ("Q", self.all.steps[0].query_Q, f"query, one a step: {self.all.query}"),
        ]
        rows += [(letter, self.all.parameters[n], n) for letter, n in formula.letters.items()]
        known = [[name, shape(v), text] for name, v, text in rows if v is not None]
        self._table(Columns(["name", "shape", "what it is"], known))
        # The first, the last, and one of padding, which is zero.
        places = (0, source.length - 1, source.length)
        self._facts(
            *(
                (
                    f"h_{n + 1}",
                    f"{vector(source.states_SH[n])}  {piece_name(source.pieces[n].piece)}",
                )
                for n in places
            )
        )
        padding = len(source.pieces) - source.length
        both = "weights and probabilities" if self.all.part.weights is not None else "probabilities"
        same = f"{self.all.padding_difference:.1e}" if self.all.padding_difference else "the bit"
        self._say(
            f"A longer neighbour in the batch adds {padding} positions of padding; run alone, the "
            f"sentence gets the same {both} to {same}."
        )

    def _origin(self, side: str) -> str:
        """Return whether keys or values are H itself."""
        names = [name for name in (f"{side}.weight", f"{side}.bias") if name in self.all.parameters]
        return f"H by {' and '.join(names)}" if names else "H itself"

    def _step(self, step: Step) -> None:
        self._title(
            f"Step {step.number} of {len(self.all.steps)}: "
            f"reads {piece_name(step.reads.piece)}, writes {piece_name(step.writes.piece)}"
        )
        score = f"{self.all.formula.text}   ({self.all.formula.source})"
        facts = [("query", f"{vector(step.query_Q)}  {self.all.query}"), ("score", score)]
        if step.looked is None:
            facts += self._instead()
        else:
            self._facts(*facts, *self._softmax(step.looked))
            shown, left = choose(self.all, step.looked)
            for columns in position_tables(self.all, step.looked, shown):
                self._table(columns)
            for note in notes(self.all, step.looked, left):
                self._say(note)
            facts = [("context", f"{vector(step.looked.context_M)}  {self._context(step.looked)}")]
        facts += [
            ("residual", self.all.residual),
            ("output", f"{vector(step.output_M)}  a_i, what the decoder gets"),
            ("then", self.all.output_use),
        ]
        self._facts(*facts)
        self._candidates(step)

    def _instead(self) -> list[tuple[str, str]]:
        """Return what a model without attention has in the place of weights."""
        summary = "the summary: the last forward and the first backward state of H"
        return [
            ("weights", "none: nothing says which piece is read"),
            ("instead", f"{vector(self.source.summary_H)}  {summary}, the same at every step"),
        ]

    def _softmax(self, looked: AttentionStep) -> list[tuple[str, str]]:
        formula, total = self.all.formula, len(self.source.pieces)
        number = f"x {formula.scale:.6g}: " if formula.scale is not None else "none: "
        heads = f" in each of {len(looked.scores_S)} heads" if looked.scores_S.dim() > 1 else ""
        axis = (
            f"over the {total} source positions (the last axis of the scores){heads}, never over "
            f"the batch or the steps; the {total - self.source.length} of padding count as -inf"
        )
        return [("scale", number + formula.scale_reason), ("softmax", axis)]

    def _context(self, looked: AttentionStep) -> str:
        if looked.scores_S.dim() == 1:
            return "c_i = weights x V"
        joined = "side by side, by output.weight and output.bias"
        return f"c_i = each head's weights x its part of V, {joined}"

    def _candidates(self, step: Step) -> None:
        rows = [
            [piece_name(c.piece), f"{c.probability:.4f}", "written" * (c.id == step.writes.id)]
            for c in step.candidates
        ]
        if step.writes.id not in [candidate.id for candidate in step.candidates]:
            chosen = f"{math.exp(step.log_prob):.2g}"
            rows.append([piece_name(step.writes.piece), chosen, f"written, rank {step.rank}"])
        self._table(Columns(["next piece", ">probability", ""], rows))

    def _steps(self) -> None:
        """Print a row a step."""
        self._title("All steps")
        names = [piece.piece for piece in self.source.pieces[: self.source.length]]
        headings, rows = [">step", "reads", "writes", ">p"], []
        drawn = len(names) <= _BARS
        if self.all.part.weights is not None:
            headings += [">sum", *["weights by place"] * drawn, "heaviest source pieces"]
        for step in self.all.steps:
            row = [str(step.number), piece_name(step.reads.piece), piece_name(step.writes.piece)]
            row.append(f"{math.exp(step.log_prob):.3f}")
            if step.looked is not None:
                weights_S = step.looked.mean_weights_S
                row.append(f"{weights_S.double().sum():.4f}")
                row += [bars(weights_S[: len(names)])] * drawn + [heaviest(names, weights_S)]
            rows.append(row)
        self._table(Columns(headings, rows))
        self._say(f"--step N shows one of the {len(self.all.steps)} in full.")

    def _words(self) -> None:
        """Print a row a target word."""
        self._title("All words: sums over the pieces of a source word, means over those of a row's")
        if self.all.part.weights is None:
            self._say("Without attention there are no weights between words.")
            return
        source, target = self.all.words
        rows = [
            [word, f"{row.sum():.4f}", bars(row), heaviest(source, row)]
            for word, row in zip(target, torch.from_numpy(word_weights(self.all.part)), strict=True)
        ]
        self._table(Columns(["word", ">sum", "weights by word", "heaviest source words"], rows))
        self._say("What a sum lacks to 1 lies on the end of the sentence, which is no word.")

    def _facts(self, *facts: tuple[str, str]) -> None:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True, min_width=11)
        table.add_column()
        for name, text in facts:
            table.add_row(name, text)
        self.console.print(table)

    def _table(self, columns: Columns) -> None:
        lines = box.SIMPLE_HEAD if self.console.is_terminal else None
        table = Table(box=lines, pad_edge=False, header_style="bold")
        for heading in columns.headings:
            # Where a table is too wide, texts are wrapped and numbers are not.
            right = heading.startswith(">")
            name = heading.removeprefix(">")
            table.add_column(name, justify="right" if right else "left", no_wrap=right)
        for row in columns.rows:
            table.add_row(*row)
        if columns.sums is not None:
            table.add_section()
            table.add_row(*columns.sums)
        self.console.print(table)

    def _title(self, text: str) -> None:
        self.console.print()
        self.console.print(Text(text, style="bold cyan"))

    def _say(self, text: str) -> None:
        self.console.print(text)


def write_page(explanation: Explanation, path: Path, *, words: bool = False) -> None:
    """Write the page; with `words` it begins with words instead of pieces.

    Raises DataError for a model without attention and for a path that cannot be written.
    """
    page = render_page(explanation, words=words)
    try:
        write_atomic(path, page)
    except OSError as error:
        raise DataError(f"{path}: cannot be written ({error.strerror})") from None


def render_page(explanation: Explanation, *, words: bool = False) -> str:
    """Return the page, which holds the same data that `as_json` gives."""
    if explanation.part.weights is None:
        raise DataError("no attention weights to show: the model has attention.score none")
    return render("explanation.html", explanation=explanation.as_json(), words=words)

"""Show an explanation: as tables in a terminal, or as a page to explore.

Legend: S source positions, padding included, N heads.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import IO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from seq2seq.analysis.attribution import MEANINGS
from seq2seq.analysis.explanation import AttentionStep, DecoderStep, Explanation
from seq2seq.analysis.heatmaps import MOST_PIECES, attention_html, escape_text, heaviest
from seq2seq.analysis.pages import render
from seq2seq.data.casing import marks_legend, show_marks
from seq2seq.data.tokenizer import BOS_PIECE, EOS_PIECE, PAD_PIECE
from seq2seq.errors import DataError
from seq2seq.inference.words import word_attention

_MOST_ROWS = 16  # in a table of positions
_MOST_HEADS = 8  # columns
_MOST_BARS = 40  # pieces in a row of all steps
_BARS = " ▁▂▃▄▅▆▇█"
_PIPE_WIDTH = 110


def print_explanation(
    explanation: Explanation, file: IO[str], *, number: int | None = None, words: bool = False
) -> None:
    """Print step `number` (from 1) in full; without it, the first step and a row for each one.

    With `words` the rows are words instead of pieces.
    """
    console = _console(file)
    show = partial(_Printer(explanation, console).run, number, words=words)
    for line in _printed(console, show):
        print(line, file=file)


def notebook_html(explanation: Explanation) -> str:
    """Return the translation, a picture of its attention, and the tables of each step to open.

    Of a very long translation only the first steps are shown.
    """
    # Jupyter sets FORCE_COLOR.
    console = _console(io.StringIO(), force_terminal=False)
    printer = _Printer(explanation, console)

    def details(show: Callable[[], None]) -> str:
        title, _, text = "\n".join(_printed(console, show)).strip("\n").partition("\n")
        return (
            f"<details><summary>{escape_text(title)}</summary>"
            f'<pre style="overflow-x: auto; white-space: pre">{escape_text(text)}</pre></details>'
        )

    steps = explanation.steps
    shown = [details(printer.memory)]
    shown += [details(partial(printer.step, step)) for step in steps[:MOST_PIECES]]
    if len(steps) > MOST_PIECES:
        shown.append(f"<p><small>Shown are {MOST_PIECES} of {len(steps)} steps.</small></p>")
    without = "The model has no attention (attention.score none)."
    part = explanation.part
    picture = attention_html([part], without=without, **{"log p": part.log_prob})
    return f"<div>{picture}{''.join(shown)}</div>"


def _console(file: IO[str], *, force_terminal: bool | None = None) -> Console:
    console = Console(
        file=file,
        # Sentences are full of brackets, which must not be taken for markup.
        markup=False,
        highlight=False,
        emoji=False,
        force_terminal=force_terminal,
        force_jupyter=False,
    )
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


def _printed(console: Console, show: Callable[[], None]) -> list[str]:
    """Return the lines that a function prints, without the spaces that pad them."""
    with console.capture() as captured:
        show()
    return [line.rstrip() for line in captured.get().splitlines()]


class _Printer:
    """Prints the parts of an explanation one below the other."""

    def __init__(self, explanation: Explanation, console: Console) -> None:
        self.found, self.source, self.console = explanation, explanation.source, console
        self.padding = len(self.source.pieces) - self.source.length

    def run(self, number: int | None, *, words: bool) -> None:
        found, part, config = self.found, self.found.part, self.found.config
        self._facts(
            ("source", part.source),
            ("translation", f"{part.text}   ({found.origin}, log p = {part.log_prob:.3f})"),
            ("model", f"style {config.style}, score {config.attention.score}"),
        )
        if found.attribution:
            self._facts((found.attribution, f"{MEANINGS[found.attribution]}; in nats"))
        self.memory()
        self.step(found.steps[(number or 1) - 1])
        if number is None:
            self._words() if words else self._steps()

    def memory(self) -> None:
        """Print what is computed once per sentence."""
        source, formula = self.source, self.found.formula
        self._title("Once per sentence: pieces, encoder states, keys and values")
        listed = "  ".join(f"{p.piece} {p.id}" for p in source.pieces[: source.length])
        legend = f"▁ begins a word{marks_legend(listed)}"
        self._facts((f"{source.length} pieces", f"{show_marks(listed)}   ({legend})"))
        size = source.states_SH.shape[1]
        states = f"encoder states, forward and backward ({size // 2} each)"
        rows = [
            ("H", source.states_SH, states),
            ("K", source.keys_SD, f"keys, what a query is compared with: {self._origin('key')}"),
            ("", source.remembered_SA, f"what the score keeps of K: {formula.remembered}"),
            ("V", source.values_SM, f"values, what the context sums: {self._origin('value')}"),
            ("mask", source.mask_S, f"true at the {source.length} pieces, false at padding"),
            ("Q", self.found.steps[0].query_Q, f"query, one per step: {self.found.query}"),
        ]
        rows += [(letter, self.found.parameters[n], n) for letter, n in formula.letters.items()]
        shapes = [(n, " x ".join(map(str, v.shape)), text) for n, v, text in rows if v is not None]
        self._table(["name", "shape", "what it is"], shapes)
        # The first, the last, and one of padding, which is zero.
        self._facts(
            *(
                (f"h_{n + 1}", f"{_vector(source.states_SH[n])}  {_name(source.pieces[n].piece)}")
                for n in (0, source.length - 1, source.length)
            )
        )
        weights = self.found.part.weights is not None
        both = "weights and probabilities" if weights else "probabilities"
        difference = self.found.padding_difference
        exact = f"{difference:.1e}" if difference else "the bit"
        self.console.print(
            f"A longer neighbor in the batch adds {self.padding} positions of padding; run alone, "
            f"the sentence gets the same {both} to {exact}."
        )

    def _origin(self, side: str) -> str:
        """Return whether keys or values are projections of H, or H itself."""
        parameters = self.found.parameters
        names = [name for name in (f"{side}.weight", f"{side}.bias") if name in parameters]
        return f"H by {' and '.join(names)}" if names else "H itself"

    def step(self, step: DecoderStep) -> None:
        self._title(
            f"Step {step.number} of {len(self.found.steps)}: "
            f"reads {_name(step.reads.piece)}, writes {_name(step.writes.piece)}"
        )
        formula = self.found.formula
        facts = [
            ("query", f"{_vector(step.query_Q)}  {self.found.query}"),
            ("score", f"{formula.text}   ({formula.source})"),
        ]
        if step.attention is None:
            summary = "the summary: the last forward and the first backward state of H"
            facts += [
                ("weights", "none: the model has no attention"),
                ("instead", f"{_vector(self.source.summary_H)}  {summary}, the same at every step"),
            ]
        else:
            self._facts(*facts, *self._softmax(step.attention))
            self._positions(step.attention, step.attribution_S)
            text = "c_i = weights x V"
            if step.attention.scores_S.dim() > 1:
                joined = "side by side, by output.weight and output.bias"
                text = f"c_i = each head's weights x its part of V, {joined}"
            facts = [("context", f"{_vector(step.attention.context_M)}  {text}")]
        self._facts(
            *facts,
            ("residual", self.found.residual),
            ("output", f"{_vector(step.output_M)}  a_i, what the decoder reads"),
            ("then", self.found.output_use),
        )
        rows = [
            [_name(c.piece), f"{c.probability:.4f}", "written" * (c.id == step.writes.id)]
            for c in step.candidates
        ]
        if step.writes.id not in [candidate.id for candidate in step.candidates]:
            chosen = f"{math.exp(step.log_prob):.2g}"
            rows.append([_name(step.writes.piece), chosen, f"written, rank {step.rank}"])
        self._table(["next piece", ">probability", ""], rows)
        if step.attention is None and step.attribution_S is not None:
            values = zip(self.source.pieces, step.attribution_S.tolist(), strict=True)
            rows = [[_name(piece.piece), f"{value:.4f}"] for piece, value in values]
            self._table(["piece", f">{self.found.attribution}"], rows[: self.source.length])

    def _softmax(self, attention: AttentionStep) -> list[tuple[str, str]]:
        if attention.looked:
            return [("weights", "given (--look): they are not the softmax of the scores")]
        formula, total = self.found.formula, len(self.source.pieces)
        scale = f"x {formula.scale:.6g}: " if formula.scale is not None else "none: "
        scores = attention.scores_S
        heads = f" in each of {len(scores)} heads" if scores.dim() > 1 else ""
        axis = (
            f"over the {total} source positions (the last axis of the scores){heads}, never over "
            f"the batch or the steps; the {self.padding} of padding count as -inf"
        )
        return [("scale", scale + formula.scale_reason), ("softmax", axis)]

    def _positions(self, attention: AttentionStep, attribution_S: Tensor | None) -> None:
        """Print scores, weights and attributions by source position.

        Of a long sentence the heaviest positions are shown, and the first one of padding.
        """
        total, real, mean_S = len(self.source.pieces), self.source.length, attention.mean_weights_S
        shown = list(range(total))
        if total > _MOST_ROWS:
            order = mean_S[:real].argsort(descending=True, stable=True).tolist()
            shown = sorted([*order[: _MOST_ROWS - 1], real])
        self._position_tables(attention, attribution_S, shown)
        scores_NS = attention.scores_S.view(-1, total)
        if left := sorted(set(range(total)) - set(shown)):
            few = (
                f"the {_MOST_ROWS - 1} heaviest of {real}" if real >= _MOST_ROWS else f"all {real}"
            )
            self.console.print(
                f"Shown are {few} pieces and one position of padding; the "
                f"{len(left)} positions left out weigh {float(mean_S[left].sum()):.4f} together."
            )
        if len(scores_NS) > _MOST_HEADS:
            self.console.print(
                f"Shown are the first {_MOST_HEADS} heads of {len(scores_NS)}; the mean is of all."
            )
        unmasked_S = scores_NS.softmax(-1).mean(0)
        self.console.print(
            f"Without the mask the {self.padding} positions of padding would take "
            f"{float(unmasked_S[real:].sum()):.4f} of the weight; with it exactly 0."
        )

    def _position_tables(
        self, attention: AttentionStep, attribution_S: Tensor | None, shown: list[int]
    ) -> None:
        """Print one table for a single head; for several, one of scores and one of weights."""
        real, mean_S = self.source.length, attention.mean_weights_S
        names = [[str(place + 1), _name(self.source.pieces[place].piece)] for place in shown]
        scores: dict[str, Tensor] = {}
        if attention.scores_S.dim() == 1:
            scores = {">score": attention.scores_S, ">after mask": attention.masked_scores_S}
            weights = {">weight": attention.weights_S}
        else:
            scores_NS = attention.scores_S[:_MOST_HEADS]
            rows = [
                [*name, *(f"{score:.4f}{' → -inf' * (n >= real)}" for score in scores_NS[:, n])]
                for n, name in zip(shown, names, strict=True)
            ]
            heads = range(1, len(scores_NS) + 1)
            self._table([">place", "piece", *(f">score {head}" for head in heads)], rows)
            weights = {f">weight {head}": attention.weights_S[head - 1] for head in heads}
            weights[">mean"] = mean_S
        if attribution_S is not None:
            weights[f">{self.found.attribution}"] = attribution_S
        columns = scores | weights
        bars = ["█" * round(20 * weight) for weight in mean_S[shown].tolist()]
        rows = [
            [*name, *(f"{column_S[n]:.4f}" for column_S in columns.values()), bar]
            for n, name, bar in zip(shown, names, bars, strict=True)
        ]
        sums = [f"{weights_S.double().sum():.6f}" for weights_S in weights.values()]
        headings = [">place", "piece", *columns, ""]
        self._table(headings, rows, ["", "sum", *[""] * len(scores), *sums, ""])

    def _steps(self) -> None:
        """Print a row for each step."""
        self._title("All steps")
        names = [_name(piece.piece) for piece in self.source.pieces[: self.source.length]]
        headings, rows = [">step", "reads", "writes", ">p"], []
        drawn = len(names) <= _MOST_BARS
        if self.found.part.weights is not None:
            headings += [">sum", *["weights by place"] * drawn, "heaviest source pieces"]
        headings += self._most_by()
        for step in self.found.steps:
            row = [str(step.number), _name(step.reads.piece), _name(step.writes.piece)]
            row.append(f"{math.exp(step.log_prob):.3f}")
            if step.attention is not None:
                weights_S = step.attention.mean_weights_S
                row.append(f"{weights_S.double().sum():.4f}")
                row += [_bars(weights_S[: len(names)])] * drawn
                row.append(heaviest(names, weights_S.numpy()))
            if step.attribution_S is not None:
                row.append(heaviest(names, step.attribution_S.numpy()))
            rows.append(row)
        self._table(headings, rows)
        self.console.print(f"--step N shows one of the {len(self.found.steps)} in full.")

    def _words(self) -> None:
        """Print a row for each target word."""
        self._title("All words: sums over the pieces of a source word, means over those of a row's")
        if self.found.part.weights is None:
            self.console.print("Without attention there are no weights between words.")
            return
        found, added = word_attention(self.found.part), self.found.attributed_words()
        names = list(map(_name, found.source))
        rows = [
            [word, f"{row.sum():.4f}", _bars(row), heaviest(names, row)]
            for word, row in zip(found.target, found.weights, strict=True)
        ]
        if added is not None:
            for row, values in zip(rows, added.weights, strict=True):
                row.append(heaviest(names, values))
        headings = ["word", ">sum", "weights by word", "heaviest source words"]
        self._table([*headings, *self._most_by()], rows)

    def _most_by(self) -> list[str]:
        return [f"most by {self.found.attribution}"] if self.found.attribution else []

    def _facts(self, *facts: tuple[str, str]) -> None:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True, min_width=11)
        table.add_column()
        for name, text in facts:
            table.add_row(name, text)
        self.console.print(table)

    def _table(
        self,
        headings: Sequence[str],
        rows: Sequence[Sequence[str]],
        sums: Sequence[str] | None = None,
    ) -> None:
        """Print a table; `>` before a heading marks a column of numbers."""
        lines = box.SIMPLE_HEAD if self.console.is_terminal else None
        table = Table(box=lines, pad_edge=False, header_style="bold")
        for heading in headings:
            # Where a table is too wide, texts are wrapped and numbers are not.
            right = heading.startswith(">")
            name = heading.removeprefix(">")
            table.add_column(name, justify="right" if right else "left", no_wrap=right)
        for row in rows:
            table.add_row(*row)
        if sums is not None:
            table.add_section()
            table.add_row(*sums)
        self.console.print(table)

    def _title(self, text: str) -> None:
        self.console.print()
        self.console.print(Text(text, style="bold cyan"))


def _name(piece: str) -> str:
    """Return a piece in readable form."""
    names = {EOS_PIECE: "(end)", BOS_PIECE: "(start)", PAD_PIECE: "(padding)"}
    return names.get(piece, show_marks(piece))


def _bars(weights_S: Iterable[float]) -> str:
    """Return a bar of one character for each weight."""
    return "".join(_BARS[round(float(weight) * (len(_BARS) - 1))] for weight in weights_S)


def _vector(values: Tensor) -> str:
    """Return the size of a vector and its first numbers."""
    # Adding 0 turns a negative zero into 0.
    first = ", ".join(f"{value:.3f}" for value in values[:4] + 0.0)
    return f"[{len(values)}]  ({first}{', ...' if len(values) > 4 else ''})"


def render_page(explanation: Explanation, *, words: bool = False) -> str:
    """Return the page, which holds the data of `as_json`; with `words` it first shows words.

    Raises DataError for a model without attention, unless there is an attribution.
    """
    if explanation.part.weights is None and explanation.attribution is None:
        raise DataError("no attention weights to show: the model has attention.score none")
    return render(
        "explanation.html",
        explanation=explanation.as_json(),
        origin=explanation.origin,
        words=words,
    )

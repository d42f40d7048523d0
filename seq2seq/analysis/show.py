"""Show an explanation: as tables in a terminal, or as a page to explore.

Legend: S source positions, padding included, N heads.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
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
from seq2seq.inference.protocol import Floats
from seq2seq.inference.words import word_attention

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
        self._table(
            {"name": name, "shape": " x ".join(map(str, values.shape)), "what it is": text}
            for name, values, text in rows
            if values is not None
        )
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
        attributed: dict[str, Tensor] = {}
        if step.attribution_S is not None:
            attributed[f">{self.found.attribution}"] = step.attribution_S
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
            if attributed:
                self._position_table(attributed)
        else:
            self._facts(*facts, *self._softmax(step.attention))
            self._positions(step.attention, attributed)
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
            (each.piece, f"{each.probability:.4f}", "written" * (each.id == step.writes.id))
            for each in step.candidates
        ]
        if step.writes.id not in [candidate.id for candidate in step.candidates]:
            chosen = f"{math.exp(step.log_prob):.2g}"
            rows.append((step.writes.piece, chosen, f"written, rank {step.rank}"))
        self._table({"next piece": _name(p), ">probability": x, "": note} for p, x, note in rows)

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

    def _positions(self, attention: AttentionStep, added: dict[str, Tensor]) -> None:
        """Print a table of source positions for each head, with the attribution in the last one."""
        mean_S, real = attention.mean_weights_S, self.source.length
        by_head = (attention.scores_S, attention.masked_scores_S, attention.weights_S)
        scores_NS, masked_NS, weights_NS = (values.view(-1, len(mean_S)) for values in by_head)
        tables = [
            {">score": scores_NS[head], ">after mask": masked_NS[head], ">weight": weights_NS[head]}
            for head in range(len(scores_NS))
        ]
        if len(tables) > 1:
            for head, columns in enumerate(tables, start=1):
                self.console.print(f"\nHead {head}")
                self._position_table(columns)
            self.console.print("\nMean of the heads")
            tables = [{">weight": mean_S}]
        self._position_table(tables[0] | added)
        unmasked_S = scores_NS.softmax(-1).mean(0)
        self.console.print(
            f"Without the mask the {self.padding} positions of padding would take "
            f"{float(unmasked_S[real:].sum()):.4f} of the weight; with it exactly 0."
        )

    def _position_table(self, columns: dict[str, Tensor]) -> None:
        """Print a row of numbers for each source position, a bar for the weight, and sums."""
        rows = [
            {">place": str(n + 1), "piece": _name(piece.piece)}
            | {name: f"{values_S[n]:.4f}" for name, values_S in columns.items()}
            | {"": "█" * round(20 * float(columns[">weight"][n])) if ">weight" in columns else ""}
            for n, piece in enumerate(self.source.pieces)
        ]
        summed = columns.keys() - {">score", ">after mask"}
        sums = {name: f"{columns[name].double().sum():.6f}" for name in summed}
        self._table(rows, {"piece": "sum"} | sums)

    def _steps(self) -> None:
        """Print a row for each step."""
        self._title("All steps")
        names = [_name(piece.piece) for piece in self.source.pieces[: self.source.length]]
        self._table(
            {">step": str(step.number), "reads": _name(step.reads.piece)}
            | {"writes": _name(step.writes.piece), ">p": f"{math.exp(step.log_prob):.3f}"}
            | self._attended(
                "piece",
                names,
                None if step.attention is None else step.attention.mean_weights_S.numpy(),
                None if step.attribution_S is None else step.attribution_S.numpy(),
            )
            for step in self.found.steps
        )
        self.console.print(f"--step N shows one of the {len(self.found.steps)} in full.")

    def _words(self) -> None:
        """Print a row for each target word."""
        self._title("All words: sums over the pieces of a source word, means over those of a row's")
        if self.found.part.weights is None:
            self.console.print("Without attention there are no weights between words.")
            return
        found, added = word_attention(self.found.part), self.found.attributed_words()
        names = list(map(_name, found.source))
        attributed = [None] * len(found.target) if added is None else added.weights
        self._table(
            {"word": word} | self._attended("word", names, weights_s, added_s)
            for word, weights_s, added_s in zip(
                found.target, found.weights, attributed, strict=True
            )
        )

    def _attended(
        self, unit: str, names: list[str], weights_S: Floats | None, attribution_S: Floats | None
    ) -> dict[str, str]:
        """Return the last columns of a row: its weights, and what contributes most."""
        columns = {}
        if weights_S is not None:
            columns[">sum"] = f"{weights_S.sum(dtype=float):.4f}"
            bars = [_BARS[round(weight * (len(_BARS) - 1))] for weight in weights_S.tolist()]
            columns[f"weights by {unit}"] = "".join(bars[: len(names)])
            columns[f"heaviest source {unit}s"] = heaviest(names, weights_S)
        if attribution_S is not None:
            columns[f"most by {self.found.attribution}"] = heaviest(names, attribution_S)
        return columns

    def _facts(self, *facts: tuple[str, str]) -> None:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        table.add_column(style="bold", no_wrap=True, min_width=11)
        table.add_column()
        for name, text in facts:
            table.add_row(name, text)
        self.console.print(table)

    def _table(self, rows: Iterable[dict[str, str]], sums: dict[str, str] | None = None) -> None:
        """Print a table; `>` before a heading marks a column of numbers."""
        first, *others = rows
        lines = box.SIMPLE_HEAD if self.console.is_terminal else None
        table = Table(box=lines, pad_edge=False, header_style="bold")
        for heading in first:
            # Where a table is too wide, texts are wrapped and numbers are not.
            right = heading.startswith(">")
            name = heading.removeprefix(">")
            table.add_column(name, justify="right" if right else "left", no_wrap=right)
        for row in (first, *others):
            table.add_row(*row.values())
        if sums is not None:
            table.add_section()
            table.add_row(*(sums.get(heading, "") for heading in first))
        self.console.print(table)

    def _title(self, text: str) -> None:
        self.console.print()
        self.console.print(Text(text, style="bold cyan"))


def _name(piece: str) -> str:
    """Return a piece in readable form."""
    names = {EOS_PIECE: "(end)", BOS_PIECE: "(start)", PAD_PIECE: "(padding)"}
    return names.get(piece, show_marks(piece))


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

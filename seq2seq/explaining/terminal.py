"""An explanation as tables: with colours and lines on a terminal, plain text in a pipe."""

from __future__ import annotations

import math
from typing import IO

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from seq2seq.evaluation.alignment import word_weights
from seq2seq.explaining.explanation import Explanation, Looked, Step
from seq2seq.explaining.positions import Columns, choose, notes, position_tables
from seq2seq.explaining.signs import bars, heaviest, piece_name, shape, vector

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

    def _softmax(self, looked: Looked) -> list[tuple[str, str]]:
        formula, total = self.all.formula, len(self.source.pieces)
        number = f"x {formula.scale:.6g}: " if formula.scale is not None else "none: "
        heads = f" in each of {len(looked.scores_S)} heads" if looked.scores_S.dim() > 1 else ""
        axis = (
            f"over the {total} source positions (the last axis of the scores){heads}, never over "
            f"the batch or the steps; the {total - self.source.length} of padding count as -inf"
        )
        return [("scale", number + formula.scale_reason), ("softmax", axis)]

    def _context(self, looked: Looked) -> str:
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

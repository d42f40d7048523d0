"""Show an explanation: as text, or as a page to explore.

Legend: S source positions, padding included, N heads.
"""

from __future__ import annotations

import math
import shutil
import textwrap
from collections.abc import Iterable, Iterator
from html import escape
from typing import IO

from torch import Tensor

from seq2seq.analysis.attribution import MEANINGS
from seq2seq.analysis.explanation import AttentionStep, DecoderStep, Explanation
from seq2seq.analysis.heatmaps import MOST_PIECES, attention_html, heaviest, pad
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
    width = shutil.get_terminal_size().columns if file.isatty() else _PIPE_WIDTH
    printer = _Printer(explanation, width)
    sections = [
        printer.head(),
        printer.memory(),
        printer.step(explanation.steps[(number or 1) - 1]),
    ]
    if number is None:
        sections.append(printer.words() if words else printer.steps())
    print("\n\n".join("\n".join(section) for section in sections), file=file)


def notebook_html(explanation: Explanation) -> str:
    """Return the translation, a picture of its attention, and the tables of each step to open.

    Of a very long translation only the first steps are shown.
    """
    printer, steps, part = _Printer(explanation, _PIPE_WIDTH), explanation.steps, explanation.part
    shown = [attention_html([part], **{"log p": part.log_prob})]
    for title, *lines in (printer.memory(), *map(printer.step, steps[:MOST_PIECES])):
        text = escape("\n".join(lines))
        shown.append(
            f"<details><summary>{escape(title)}</summary>"
            f'<pre style="overflow-x: auto; white-space: pre">{text}</pre></details>'
        )
    if len(steps) > MOST_PIECES:
        shown.append(f"<p><small>Shown are {MOST_PIECES} of {len(steps)} steps.</small></p>")
    return f"<div>{''.join(shown)}</div>"


class _Printer:
    """Yields the lines of each part of an explanation; the first is its title."""

    def __init__(self, explanation: Explanation, width: int) -> None:
        self.found, self.source, self.width = explanation, explanation.source, width
        self.padding = len(self.source.pieces) - self.source.length

    def head(self) -> Iterator[str]:
        found, part, config = self.found, self.found.part, self.found.config
        yield self._fact("source", part.source)
        log_prob = f"log p = {part.log_prob:.3f}"
        yield self._fact("translation", f"{part.text}   ({found.origin}, {log_prob})")
        yield self._fact("model", f"style {config.style}, score {config.attention.score}")
        if found.attribution:
            yield self._fact(found.attribution, f"{MEANINGS[found.attribution]}; in nats")

    def memory(self) -> Iterator[str]:
        """Yield the part that is computed once per sentence."""
        source, formula = self.source, self.found.formula
        yield "Once per sentence: pieces, encoder states, keys and values"
        listed = "  ".join(f"{p.piece} {p.id}" for p in source.pieces[: source.length])
        legend = f"▁ begins a word{marks_legend(listed)}"
        yield self._fact(f"{source.length} pieces", f"{show_marks(listed)}   ({legend})")
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
        yield self._table(
            {"name": name, "shape": " x ".join(map(str, values.shape)), "what it is": text}
            for name, values, text in rows
            if values is not None
        )
        # The first, the last, and one of padding, which is zero.
        for n in (0, source.length - 1, source.length):
            state = f"{_vector(source.states_SH[n])}  {_name(source.pieces[n].piece)}"
            yield self._fact(f"h_{n + 1}", state)
        weights = self.found.part.weights is not None
        both = "weights and probabilities" if weights else "probabilities"
        difference = self.found.padding_difference
        exact = f"{difference:.1e}" if difference else "the bit"
        yield self._wrap(
            f"A longer neighbor in the batch adds {self.padding} positions of padding; run alone, "
            f"the sentence gets the same {both} to {exact}."
        )

    def _origin(self, side: str) -> str:
        """Return whether keys or values are projections of H, or H itself."""
        parameters = self.found.parameters
        names = [name for name in (f"{side}.weight", f"{side}.bias") if name in parameters]
        return f"H by {' and '.join(names)}" if names else "H itself"

    def step(self, step: DecoderStep) -> Iterator[str]:
        """Yield all of a step, from the query to the next piece."""
        yield (
            f"Step {step.number} of {len(self.found.steps)}: "
            f"reads {_name(step.reads.piece)}, writes {_name(step.writes.piece)}"
        )
        formula, attributed = self.found.formula, dict[str, Tensor]()
        if step.attribution_S is not None:
            attributed[f">{self.found.attribution}"] = step.attribution_S
        yield self._fact("query", f"{_vector(step.query_Q)}  {self.found.query}")
        yield self._fact("score", f"{formula.text}   ({formula.source})")
        if step.attention is None:
            yield self._fact("weights", "none: the model has no attention")
            summary = "the summary: the last forward and the first backward state of H"
            text = f"{_vector(self.source.summary_H)}  {summary}, the same at every step"
            yield self._fact("instead", text)
            if attributed:
                yield self._positions(attributed)
        else:
            yield from self._attention(step.attention, attributed)
        yield self._fact("residual", self.found.residual)
        yield self._fact("output", f"{_vector(step.output_M)}  a_i, what the decoder reads")
        yield self._fact("then", self.found.output_use)
        rows = [
            (each.piece, f"{each.probability:.4f}", "written" * (each.id == step.writes.id))
            for each in step.candidates
        ]
        if step.writes.id not in [candidate.id for candidate in step.candidates]:
            chosen = f"{math.exp(step.log_prob):.2g}"
            rows.append((step.writes.piece, chosen, f"written, rank {step.rank}"))
        yield self._table(
            {"next piece": _name(p), ">probability": x, "": note} for p, x, note in rows
        )

    def _attention(self, attention: AttentionStep, attributed: dict[str, Tensor]) -> Iterator[str]:
        """Yield the softmax, a table for each head, the attribution, and the context."""
        by_head = (attention.scores_S, attention.masked_scores_S, attention.weights_S)
        total = len(self.source.pieces)
        scores_NS, masked_NS, weights_NS = (values.view(-1, total) for values in by_head)
        heads = len(scores_NS)
        if attention.looked:
            yield self._fact("weights", "given (--look): they are not the softmax of the scores")
        else:
            formula = self.found.formula
            scale = f"x {formula.scale:.6g}: " if formula.scale is not None else "none: "
            yield self._fact("scale", scale + formula.scale_reason)
            each = f" in each of {heads} heads" * (heads > 1)
            yield self._fact(
                "softmax",
                f"over the {total} source positions (the last axis of the scores){each}, never "
                f"over the batch or the steps; the {self.padding} of padding count as -inf",
            )
        tables = [
            {">score": scores_NS[head], ">after mask": masked_NS[head], ">weight": weights_NS[head]}
            for head in range(heads)
        ]
        text = "c_i = weights x V"
        if heads > 1:
            for head, columns in enumerate(tables, start=1):
                yield from (f"Head {head}", self._positions(columns))
            yield "Mean of the heads"
            tables = [{">weight": attention.mean_weights_S}]
            joined = "side by side, by output.weight and output.bias"
            text = f"c_i = each head's weights x its part of V, {joined}"
        yield self._positions(tables[0] | attributed)
        on_padding = float(scores_NS.softmax(-1).mean(0)[self.source.length :].sum())
        yield self._wrap(
            f"Without the mask the {self.padding} positions of padding would take "
            f"{on_padding:.4f} of the weight; with it exactly 0."
        )
        yield self._fact("context", f"{_vector(attention.context_M)}  {text}")

    def _positions(self, columns: dict[str, Tensor]) -> str:
        """Return a row of numbers for each source position, a bar for the weight, and sums."""
        rows = [
            {">place": str(n + 1), "piece": _name(piece.piece)}
            | {name: f"{values_S[n]:.4f}" for name, values_S in columns.items()}
            | {"": "█" * round(20 * float(columns[">weight"][n])) if ">weight" in columns else ""}
            for n, piece in enumerate(self.source.pieces)
        ]
        summed = columns.keys() - {">score", ">after mask"}
        sums = {name: f"{columns[name].double().sum():.6f}" for name in summed}
        rows.append(dict.fromkeys(rows[0], "") | {"piece": "sum"} | sums)
        return self._table(rows)

    def steps(self) -> Iterator[str]:
        """Yield a row for each step."""
        yield "All steps"
        names = [_name(piece.piece) for piece in self.source.pieces[: self.source.length]]
        yield self._table(
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
        yield f"--step N shows one of the {len(self.found.steps)} in full."

    def words(self) -> Iterator[str]:
        """Yield a row for each target word."""
        yield "All words: sums over the pieces of a source word, means over those of a row's"
        if self.found.part.weights is None:
            yield "Without attention there are no weights between words."
            return
        found, added = word_attention(self.found.part), self.found.attributed_words()
        names = list(map(_name, found.source))
        attributed = [None] * len(found.target) if added is None else added.weights
        yield self._table(
            {"word": word} | self._attended("word", names, weights_s, added_s)
            for word, weights_s, added_s in zip(
                found.target, found.weights, attributed, strict=True
            )
        )

    def _attended(
        self, unit: str, names: list[str], weights_S: Floats | None, attribution_S: Floats | None
    ) -> dict[str, str]:
        """Return the last columns of a row: its weights, and the largest contributions."""
        columns = {}
        if weights_S is not None:
            columns[">sum"] = f"{weights_S.sum(dtype=float):.4f}"
            bars = [_BARS[round(weight * (len(_BARS) - 1))] for weight in weights_S.tolist()]
            columns[f"weights by {unit}"] = "".join(bars[: len(names)])
            columns[f"heaviest source {unit}s"] = heaviest(names, weights_S)
        if attribution_S is not None:
            columns[f"most by {self.found.attribution}"] = heaviest(names, attribution_S)
        return columns

    def _wrap(self, text: str, indent: int = 0) -> str:
        return textwrap.fill(
            text,
            self.width,
            subsequent_indent=" " * min(indent, self.width // 2),
            break_long_words=False,
        )

    def _fact(self, name: str, text: str) -> str:
        return self._wrap(f"{name:13}{text}", 13)

    def _table(self, rows: Iterable[dict[str, str]]) -> str:
        """Return a table; `>` before a heading marks a column of numbers."""
        headings, *_ = rows = list(rows)
        cells = [[name.removeprefix(">") for name in headings], *(row.values() for row in rows)]
        columns = [
            pad(column, right=name.startswith(">"))
            for name, column in zip(headings, zip(*cells, strict=True), strict=True)
        ]
        last = sum(len(column[0]) + 2 for column in columns[:-1])  # where the last column begins
        lines = ("  ".join(line).rstrip() for line in zip(*columns, strict=True))
        return "\n".join(self._wrap(line, last) for line in lines)


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
    """Return the page; it holds the data of `as_json`. With `words` it first shows words.

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

"""What the page asks of a model, one sentence at a time, in a thread beside the model's worker.

Legend: R rows of hypotheses, T pieces so far
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from seq2seq.analysis import Method, to_json
from seq2seq.data.tokenizer import PAD
from seq2seq.errors import DataError
from seq2seq.inference.protocol import Decoding, Ints, SearchOptions, Step
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import source_words, target_words, word_attention
from seq2seq.serving.models import ServedModel

if TYPE_CHECKING:
    from seq2seq.analysis.explanation import Explanation

# Gets the pieces of sources, and those of their translations so far.
Watch = Callable[[Sequence[list[int]], Sequence[list[int]]], None]


# --- Translating, piece by piece


def translate(
    translator: Translator,
    line: str,
    options: SearchOptions,
    *,
    prefix: str = "",
    show: Callable[[str], None],
) -> list[Translation]:
    """Return what `Translator.translate` does for a text.

    `show` is called at each step of the search with the text of the likeliest unfinished
    hypotheses. What it raises ends the search.
    """
    parts = [part for sentence in translator.split(line, options) for part in sentence]
    texts = dict.fromkeys((tuple(part.ids) for part in parts), "")

    def watch(sources: Sequence[list[int]], pieces: Sequence[list[int]]) -> None:
        texts.update(zip(map(tuple, sources), map(translator.target.decode, pieces), strict=True))
        show("".join(part.space + texts[tuple(part.ids)] for part in parts).strip())

    watched = _WatchedTranslator(translator, watch)
    [found] = watched.translate([line], options, prefixes=[prefix])
    return found


class _WatchedTranslator(Translator):
    """A translator of which the best hypotheses are reported."""

    def __init__(self, other: Translator, watch: Watch) -> None:
        super().__init__(other.backends, other.source, other.target, other.config)
        self._watch = watch

    def decoding(self, source_BS: Ints) -> _WatchedDecoding:
        sources = [row[row != PAD].tolist()[:-1] for row in source_BS]
        return _WatchedDecoding(super().decoding(source_BS), sources, self._watch)


@dataclass(frozen=True)
class _WatchedState:
    """The state of a decoding, and the pieces that each of its rows has read, BOS first."""

    state: Any
    pieces_RT: Ints

    def select(self, rows_R: Ints) -> _WatchedState:
        return _WatchedState(self.state.select(rows_R), self.pieces_RT[rows_R])


@dataclass(frozen=True)
class _WatchedDecoding:
    """Reports at each step the first hypothesis of each sentence, which is the likeliest one."""

    decoding: Decoding
    sources: Sequence[list[int]]
    watch: Watch

    @property
    def source_lengths_B(self) -> Ints:
        return self.decoding.source_lengths_B

    def start(self) -> _WatchedState:
        state = self.decoding.start()
        return _WatchedState(state, np.empty((len(self.sources), 0), np.int64))

    def step(
        self, tokens_R: Ints, state: _WatchedState, *, count: int | None = None,
        weights: bool = False,
    ) -> Step:  # fmt: skip
        pieces_RT = np.concatenate((state.pieces_RT, tokens_R[:, None]), 1)
        width = len(tokens_R) // len(self.sources)
        self.watch(self.sources, pieces_RT[::width, 1:].tolist())
        found = self.decoding.step(tokens_R, state.state, count=count, weights=weights)
        return found._replace(state=_WatchedState(found.state, pieces_RT))

    def select(self, sentences_B: Ints) -> _WatchedDecoding:
        sources = [self.sources[sentence] for sentence in sentences_B.tolist()]
        return replace(self, decoding=self.decoding.select(sentences_B), sources=sources)


def translations_json(found: Sequence[Translation], *, tree: bool) -> dict[str, Any]:
    """Return the translations of a text for JSON, with the words that the weights are between."""
    records = []
    for translation in found:
        # Of several sentences, the weights of further translations would be too many.
        is_first = translation is found[0]
        attention = is_first or len(translation.parts) == 1
        record = translation.as_json(attention=attention, tree=tree and is_first)
        records.append(record)
        for part, of_part in zip(record["parts"], translation.parts, strict=True):
            has_words = attention and of_part.weights is not None
            part["words"] = to_json(word_attention(of_part)) if has_words else None
            part["source_words"] = source_words(of_part).of_pieces
            part["target_words"] = target_words(of_part).of_pieces
    return {"translations": records}


# --- Explaining


def explain(
    model: ServedModel, text: str, *, beam: int, target: str | None, look: dict[int, int],
    attribution: Method | None,
) -> dict[str, Any]:  # fmt: skip
    """Return `seq2seq explain`'s record of a sentence for JSON, but of large matrices only shapes.

    A `target` that differs from what the search finds is forced. With `look`, `next_pieces` has the
    probabilities of the likeliest pieces at its first step, before (without it) and after. Raises
    DataError for a target of more pieces than a source may have, ModuleNotFoundError without
    PyTorch, and as seq2seq.analysis.explain.explain does.
    """
    most = model.translator.config.inference.max_source_length
    size = len(model.translator.target.encode(target or ""))
    if size > most:
        raise DataError(f"target: {size} pieces; give at most {most}")
    # PyTorch, which a server need not have.
    from seq2seq.analysis.explain import explain as explain_sentence

    explained = partial(explain_sentence, model.explainer, text, beam=beam)
    found = explained()
    forced = target if found.part.text != target else None
    if look:
        looked = explained(target=forced, look=look, attribution=attribution)
        before = found if forced is None else explained(target=forced)
        return _without_matrices(looked) | {"next_pieces": _next_pieces(before, looked, min(look))}
    if forced is not None or attribution is not None:
        found = explained(target=forced, attribution=attribution)
    return _without_matrices(found)


def _next_pieces(before: Explanation, after: Explanation, number: int) -> list[dict[str, Any]]:
    """Return the likeliest pieces of a step after or before a change, the former first."""
    steps = [found.steps[number - 1] for found in (after, before)]
    pieces = {each.id: each.piece for step in steps for each in step.candidates}
    before_V, after_V = (found.log_probs_TV[number - 1].exp() for found in (before, after))
    return [
        {"piece": piece, "id": id, "before": float(before_V[id]), "after": float(after_V[id])}
        for id, piece in pieces.items()
    ]


def _without_matrices(explanation: Explanation) -> dict[str, Any]:
    parameters = {name: {"shape": [*p.shape]} for name, p in explanation.parameters.items()}
    record = replace(explanation, parameters={}).as_json() | {"parameters": parameters}
    for name in ("states", "keys", "remembered", "values"):
        if matrix := record["memory"][name]:
            del matrix["data"]
    return record

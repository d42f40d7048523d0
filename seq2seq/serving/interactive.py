"""Work for the page, one sentence at a time, in a thread beside the model's worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from seq2seq.analysis import Method, to_json
from seq2seq.errors import DataError
from seq2seq.inference.protocol import Ints, SearchOptions
from seq2seq.inference.required import show_tokens
from seq2seq.inference.text import Translation
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import (
    source_words,
    target_words,
    uncertain_words,
    word_attention,
)
from seq2seq.serving.served_models import ServedModel

if TYPE_CHECKING:
    from seq2seq.analysis.explanation import Explanation

_MOST_INTEGRATED = 500  # pairs of a source and a target piece, with which their time grows

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

    `show` is called at each step of the search with the text of the most likely unfinished
    hypotheses. What it raises ends the search.
    """
    parts = [part for part, _ in translator.begin(line, prefix, options)]
    texts = dict.fromkeys(range(len(parts)), "")

    def on_step(parts_B: Ints, pieces_BT: Ints) -> None:
        texts.update(zip(parts_B.tolist(), map(translator.target.decode, pieces_BT), strict=True))
        shown = (show_tokens(texts[place], part.required) for place, part in enumerate(parts))
        show("".join(part.space + text for part, text in zip(parts, shown, strict=True)).strip())

    [found] = translator.translate([line], options, prefixes=[prefix], on_step=on_step)
    return found


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
            part["uncertain"] = uncertain_words(of_part)
    return {"translations": records}


# --- Explaining


def explain(
    model: ServedModel, text: str, *, beam: int, target: str | None, look: dict[int, int],
    attribution: Method | None, check: Callable[[], None],
) -> dict[str, Any]:  # fmt: skip
    """Return `seq2seq explain`'s record of a sentence for JSON, but of large matrices only shapes.

    A `target` that differs from what the search finds is forced. With `look`, `next_pieces` has the
    probabilities of the most likely pieces at its first step, before (without it) and after.
    `check` is called before each step of either pass; what it raises ends the explanation. Raises
    DataError for a target of more pieces than a source may have and for sentences that are too long
    for integrated gradients, ModuleNotFoundError without PyTorch, and as
    seq2seq.analysis.explain.explain.
    """
    most = model.translator.config.inference.max_source_length
    size = len(model.translator.target.encode(target or ""))
    if size > most:
        raise DataError(f"target: {size} pieces; give at most {most}")
    # PyTorch, which a server need not have.
    from seq2seq.analysis.explain import explain as explain_sentence

    explained = partial(explain_sentence, model.explainer, text, beam=beam)
    attention = model.explainer.models[0].decoder.attention
    with (
        attention.register_forward_pre_hook(lambda *_: check()),
        attention.register_full_backward_pre_hook(lambda *_: check()),
    ):
        before = explained()
        forced = target if before.part.text != target else None
        if forced is not None:
            before = explained(target=forced)
        pairs = before.source.length * len(before.steps)
        if attribution == "integrated" and pairs > _MOST_INTEGRATED:
            raise DataError(
                f"attribution: integrated gradients for {before.source.length} source and "
                f"{len(before.steps)} target pieces take too long here (at most {_MOST_INTEGRATED} "
                "pairs of them); use occlusion, a shorter sentence, or seq2seq explain"
            )
        after = before
        if look or attribution is not None:
            after = explained(target=forced, look=look, attribution=attribution)
    pieces = {"next_pieces": _next_pieces(before, after, min(look))} if look else {}
    return _without_matrices(after) | pieces


def _next_pieces(before: Explanation, after: Explanation, number: int) -> list[dict[str, Any]]:
    """Return the most likely pieces of a step after or before a change, the former first."""
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

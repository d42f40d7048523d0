"""Follow one sentence through a model: translate it, decode it again, and record every step.

The model runs as in a search: encode, start, step. Forward hooks record the encoder's output and
each call of the attention. Keys, scores, weights, context and residual are then computed by the
attention's own methods from these.

Legend: B sentences of the batch (row 0 is the one that is explained), K queries per sentence (1
here), S source length, T steps, V vocabulary, M value size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from seq2seq.analysis import Method
from seq2seq.analysis.attribution import attribute, forced_batch
from seq2seq.analysis.explanation import (
    AttentionStep,
    Candidate,
    DecoderStep,
    Explanation,
    Piece,
    Source,
    score_formula,
)
from seq2seq.data.tokenizer import BOS, BOS_PIECE, EOS, EOS_PIECE, PAD, PAD_PIECE, normalize_line
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.inference.prefix import forced_pieces
from seq2seq.inference.protocol import Hypothesis, SearchOptions
from seq2seq.inference.search import search
from seq2seq.inference.text import Sentence
from seq2seq.inference.tokens import find_tokens
from seq2seq.inference.torch_backend import log_softmax
from seq2seq.inference.translator import Translator
from seq2seq.inference.words import source_words
from seq2seq.model.attention import Attention, Encoded, Memory
from seq2seq.model.translation_model import TranslationModel

PADDING = 3  # positions by which the neighbor in the batch is longer than the sentence
CANDIDATES = 5

# By step, from 1: the weights [S] of the source pieces, without padding, in place of the model's.
GivenWeights = dict[int, Tensor]


@torch.inference_mode()
def explain(
    translator: Translator,
    sentence: str,
    *,
    beam: int | None = None,
    target: str | None = None,
    look: Mapping[int, int | Sequence[float]] | None = None,
    attribution: Method | None = None,
) -> Explanation:
    """Translate a sentence, or take `target` as its translation, and record every step.

    The model reads tokens themselves, not stand-ins as with Translator.translate.

    The sentence shares its batch with a longer one, so that it has padding for the mask to hide.
    It is also decoded alone; `padding_difference` is the largest difference between the two.

    `look` asks what would follow if the model attended elsewhere. It maps a step (from 1) to the
    position (from 1) of the source piece that gets all the weight, or to one weight for each source
    piece and the end of the sentence; with several heads, each head gets them. The search keeps the
    pieces before the first such step and continues from there.

    With `attribution` each step also has the contributions of the source pieces to its log
    probability (attribution.MEANINGS).

    Raises DataError for an empty sentence or target, for a sentence longer than
    inference.max_source_length, and for a step, position or weights that are out of range;
    ConfigError for an ensemble, for `look` without attention, and for `look` with `attribution`;
    CheckpointError for logits that are not finite.
    """
    if len(translator.models) != 1:
        raise ConfigError("an ensemble has several attentions to explain; give one run")
    if look and attribution:
        raise ConfigError(
            "attribution: it needs the model's own weights; leave it out, or leave out look"
        )
    model = translator.models[0]
    attention = model.decoder.attention
    text = normalize_line(sentence)
    ids = _source_ids(translator, text)
    options = translator.options(beam_size=beam)
    if target is None:
        found = _search(translator, ids, options)
    else:  # its probability is not known yet
        tokens = translator.target.encode(target)
        found = Hypothesis(tokens, score=math.nan, log_prob=math.nan, finished=True)
        if not tokens:
            raise DataError("the translation to explain is empty; give one, or leave it out")
    given = _given_weights(look or {}, model, len(ids) + 1, len(found.tokens) + 1)
    if given:
        with _attending(attention, given):
            found = _search(translator, ids, options, found.tokens[: min(given) - 1])
        _check_step(max(given), len(found.tokens) + 1, "the translation that follows")
    pieces = _pieces([*translator.source.pieces(ids), EOS_PIECE], [*ids, EOS])
    neighbor = (ids * (PADDING + 1))[: len(ids) + PADDING]
    recorded, alone = (
        _record(model, pieces, beside, found.tokens, given) for beside in ([neighbor], [])
    )
    [part] = translator.parts(Sentence(text, ids), [found])
    steps = _steps(translator, recorded, found.tokens, options)
    if attribution:
        of_pieces = source_words(part).of_pieces
        attributed_TS = attribute(model, ids, found.tokens, attribution, of_pieces).cpu()
        rows = nn.functional.pad(attributed_TS, (0, PADDING))
        steps = tuple(replace(s, attribution_S=r) for s, r in zip(steps, rows, strict=True))
    weights = [s.attention.mean_weights_S[: len(pieces)] for s in steps if s.attention is not None]
    return Explanation(
        config=model.config,
        languages=translator.config.data.languages,
        formula=score_formula(model.config.attention.score, attention),
        source=recorded.source,
        part=replace(
            part,
            # The given text may have characters that its pieces cannot reproduce.
            text=part.text if target is None or given else normalize_line(target),
            log_prob=sum(step.log_prob for step in steps),
            log_probs=[step.log_prob for step in steps],
            weights=torch.stack(weights).numpy() if weights else None,
        ),
        forced=target is not None and not given,
        has_tokens=bool(find_tokens(text, *translator.config.data.languages)),
        attribution=attribution,
        parameters={n: p.detach().cpu() for n, p in attention.named_parameters()},
        steps=steps,
        log_probs_TV=recorded.log_probs_TV.cpu(),
        padding_difference=_difference(recorded, alone),
    )


def _source_ids(translator: Translator, text: str) -> list[int]:
    if not text:
        raise DataError("the sentence is empty; give one to explain")
    ids = translator.source.encode(text)
    limit = translator.config.inference.max_source_length
    if len(ids) > limit:
        raise DataError(
            f"the sentence has {len(ids)} pieces, more than the {limit} of "
            "inference.max_source_length, where lines are split; give a part of it"
        )
    return ids


def _search(
    translator: Translator, ids: list[int], options: SearchOptions, kept: Sequence[int] = ()
) -> Hypothesis:
    """Return the best hypothesis that begins with the pieces `kept`."""
    decoding = translator.decoding(np.array([[*ids, EOS]]))
    try:
        return search(decoding, options, [forced_pieces(kept)])[0][0]
    except FloatingPointError as error:
        raise CheckpointError(f"{error}; explain another checkpoint") from None


def _given_weights(
    look: Mapping[int, int | Sequence[float]], model: TranslationModel, length: int, steps: int
) -> GivenWeights:
    """Return the weights of the source pieces that were asked for, by step."""
    if look and model.config.attention.score == "none":
        raise ConfigError("look: the model has no attention (attention.score none)")
    if look:
        _check_step(min(look), steps, "the translation")
    found: GivenWeights = {}
    for step, there in look.items():
        if isinstance(there, int | np.integer):
            if not 1 <= there <= length:
                raise DataError(
                    f"look: there is no position {there}; the source has {length} pieces with the "
                    f"end of sentence, so give 1 to {length}"
                )
            there = [float(place == there) for place in range(1, length + 1)]
        weights_S = torch.tensor(there, dtype=torch.float32)
        legal = weights_S.isfinite().all() and (weights_S >= 0).all()
        if len(weights_S) != length or not legal or abs(float(weights_S.sum()) - 1) > 1e-3:
            raise DataError(
                f"look: step {step}: expected {length} weights, one for each source piece with the "
                "end of sentence, which are 0 or more and sum to 1"
            )
        found[step] = weights_S.to(model.output_bias.device)
    return found


def _check_step(step: int, steps: int, whose: str) -> None:
    if not 1 <= step <= steps:
        raise DataError(f"look: there is no step {step}; {whose} has {steps}, so give 1 to {steps}")


@contextmanager
def _attending(attention: Attention, given: GivenWeights) -> Iterator[list[dict[str, Any]]]:
    """Collect each step's query, attention, residual and output: fields of DecoderStep, of row 0.

    The attention's own methods compute them; at some steps, from given weights.
    """
    calls = list[dict[str, Any]]()

    def attend(
        _: nn.Module, inputs: tuple[Tensor, Memory], output: tuple[Tensor, Tensor | None]
    ) -> tuple[Tensor, Tensor | None]:
        query, memory = inputs
        query_BKQ, step = query.view(len(memory.mask_BS), -1, query.shape[-1]), None
        if output[1] is not None:
            scores = attention.scores(query_BKQ, memory)  # [B, K, S] or, with heads, [B, N, K, S]
            weights, given_S = attention.weights(scores, memory), given.get(len(calls) + 1)
            if given_S is not None:
                padding = scores.shape[-1] - len(given_S)
                weights = nn.functional.pad(given_S, (0, padding)).expand_as(scores)
            context_BKM = attention.context(weights, memory)
            mean_BKS = weights.mean(1) if weights.dim() == 4 else weights
            if given_S is not None:
                output_BKM = attention.add_query(context_BKM, query_BKQ)
                output = output_BKM.view_as(output[0]), mean_BKS.reshape_as(output[1])
            scores_S = scores[0].select(-2, 0).cpu()
            step = AttentionStep(
                scores_S=scores_S,
                masked_scores_S=torch.where(memory.mask_BS[0].cpu(), scores_S, -torch.inf),
                weights_S=weights[0].select(-2, 0).cpu(),
                mean_weights_S=mean_BKS[0, 0].cpu(),
                context_M=context_BKM[0, 0].cpu(),
                looked=given_S is not None,
            )
        query_Q, residual = query_BKQ[0, 0], attention.residual
        residual_M = None if residual is None else residual(query_Q).cpu()
        fields = {"query_Q": query_Q.cpu(), "output_M": output[0][0].cpu()}
        calls.append({**fields, "attention": step, "residual_M": residual_M})
        return output

    with attention.register_forward_hook(attend):
        yield calls


@dataclass(frozen=True)
class Recording:
    """The record of the first sentence of a batch."""

    source: Source
    calls: list[dict[str, Any]]  # see _attending
    log_probs_TV: Tensor


def _record(
    model: TranslationModel,
    pieces: Sequence[Piece],
    neighbors: Sequence[Sequence[int]],
    target: Sequence[int],
    given: GivenWeights,
) -> Recording:
    """Decode the same target, step by step, for a sentence and its neighbors in the batch.

    At the steps of `given`, from 1, all of them attend with these weights. Raises CheckpointError
    for logits that are not finite.
    """
    attention, encoded = model.decoder.attention, list[Encoded]()
    batch = forced_batch(model, [[piece.id for piece in pieces[:-1]], *neighbors], target)
    with model.encoder.register_forward_hook(lambda *call: encoded.append(call[2])):
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
    with _attending(attention, given) as calls:
        logits_TV = torch.stack([logits_BV[0] for logits_BV, _ in decoding.steps(batch.inputs_BT)])
    if not logits_TV.isfinite().all():
        raise CheckpointError("the logits are not finite; explain another checkpoint")
    memory, states_BSH = decoding.memory, encoded[0].states_BSH
    projection = getattr(attention, "key", None)
    keys_BSD = states_BSH if projection is None else projection(states_BSH)
    known = calls[0]["attention"] is not None
    source = Source(
        pieces=(*pieces, *[Piece(PAD_PIECE, PAD)] * (states_BSH.shape[1] - len(pieces))),
        mask_S=memory.mask_BS[0].cpu(),
        states_SH=states_BSH[0].cpu(),
        keys_SD=keys_BSD[0].cpu() if known else None,
        remembered_SA=memory.keys[0].cpu() if known else None,
        values_SM=memory.values_BSM[0].cpu() if known else None,
        summary_H=memory.summary_BH[0].cpu(),
    )
    return Recording(source, calls, log_softmax(logits_TV))


def _difference(padded: Recording, alone: Recording) -> float:
    """Return the largest change of a probability or a weight that padding causes."""
    changes = [(padded.log_probs_TV.exp() - alone.log_probs_TV.exp()).abs().max().cpu()]
    for one, other in zip(padded.calls, alone.calls, strict=True):
        if other["attention"] is not None:
            alone_S = other["attention"].mean_weights_S
            changes.append((one["attention"].mean_weights_S[: len(alone_S)] - alone_S).abs().max())
    return float(torch.stack(changes).max())


def _steps(
    translator: Translator, recorded: Recording, tokens: list[int], options: SearchOptions
) -> tuple[DecoderStep, ...]:
    names = translator.target.pieces(tokens)
    reads = _pieces([BOS_PIECE, *names], [BOS, *tokens])
    writes = _pieces([*names, EOS_PIECE], [*tokens, EOS])
    # The search never writes these.
    forbidden = torch.tensor(options.forbidden, device=recorded.log_probs_TV.device)
    possible_TV = recorded.log_probs_TV.index_fill(1, forbidden, -torch.inf)
    steps = []
    for place, (read, written, call) in enumerate(zip(reads, writes, recorded.calls, strict=True)):
        log_prob = recorded.log_probs_TV[place, written.id]
        best = possible_TV[place].topk(min(CANDIDATES, possible_TV.shape[1]))
        ids, probabilities = best.indices.tolist(), best.values.exp().tolist()
        candidates = zip(translator.target.pieces(ids), ids, probabilities, strict=True)
        steps.append(
            DecoderStep(
                number=place + 1,
                reads=read,
                writes=written,
                log_prob=float(log_prob),
                rank=int((possible_TV[place] > log_prob).sum()) + 1,
                candidates=tuple(Candidate(*candidate) for candidate in candidates),
                **call,
            )
        )
    return tuple(steps)


def _pieces(names: Sequence[str], ids: Sequence[int]) -> list[Piece]:
    return [Piece(name, number) for name, number in zip(names, ids, strict=True)]

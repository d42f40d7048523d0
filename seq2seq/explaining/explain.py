"""Follow one sentence through a model: translate it, decode it again, and record every step.

The model runs as in a search: encode, start, step. Forward hooks record the encoder's output and
each call of the attention. Keys, scores, weights, context and residual are then computed by the
attention's own methods from these.

Legend: B sentences of the batch (row 0 is the one that is explained), K queries per sentence (1
here), S source length, T steps, V vocabulary, M value size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import BOS, EOS, PAD, normalize_line
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.evaluation.alignment import END
from seq2seq.explaining.explanation import (
    AttentionStep,
    Candidate,
    Explanation,
    Piece,
    Source,
    Step,
)
from seq2seq.explaining.formulas import output_use, query_name, residual_name, score_formula
from seq2seq.inference.protocol import Hypothesis, SearchOptions
from seq2seq.inference.search import search
from seq2seq.inference.text import Sentence
from seq2seq.inference.torch_backend import log_softmax
from seq2seq.inference.translator import Translator
from seq2seq.model.attention import Attention, Encoded, Memory
from seq2seq.model.model import TranslationModel

PADDING = 3  # positions by which the neighbor in the batch is longer than the sentence
CANDIDATES = 5


@torch.inference_mode()
def explain(
    translator: Translator,
    sentence: str,
    *,
    beam: int | None = None,
    target: str | None = None,
) -> Explanation:
    """Translate a sentence, or take `target` as its translation, and record every step.

    The sentence shares its batch with a longer one, so that it has padding for the mask to hide;
    it is also decoded alone, and `padding_difference` is what that changes. Raises DataError for
    an empty sentence or target and for a sentence longer than inference.max_source_length (which
    would be split), ConfigError for an ensemble, CheckpointError for logits that are not finite.
    """
    if len(translator.models) != 1:
        raise ConfigError("an ensemble has several attentions to explain; give one run")
    model, data = translator.models[0], translator.config.data
    text = normalize_line(sentence)
    ids = _source_ids(translator, text)
    options = translator.options(beam_size=beam)
    found = _search(translator, ids, options) if target is None else _given(translator, target)
    neighbour = (ids * (PADDING + 1))[: len(ids) + PADDING]
    replayed, alone = (replay(model, s, found.tokens) for s in ([ids, neighbour], [ids]))
    pieces = _pieces([*translator.source.pieces(ids), END], [*ids, EOS])
    steps = _steps(translator, replayed, found.tokens, options)
    [part] = translator.parts(Sentence(text, ids), [found])
    weights = [s.attention.mean_weights_S[: len(pieces)] for s in steps if s.attention is not None]
    return Explanation(
        config=model.config,
        languages=(data.source_language, data.target_language),
        formula=score_formula(model.config.attention.score, replayed.attention),
        query=query_name(model.config),
        residual=residual_name(model.config, replayed.attention),
        output_use=output_use(model.config),
        source=_source(replayed, pieces),
        part=replace(
            part,
            # The given text may have characters that its pieces cannot reproduce.
            text=part.text if target is None else normalize_line(target),
            log_prob=sum(step.log_prob for step in steps),
            log_probs=[step.log_prob for step in steps],
            weights=torch.stack(weights).numpy() if weights else None,
        ),
        forced=target is not None,
        parameters={n: p.detach().cpu() for n, p in replayed.attention.named_parameters()},
        steps=steps,
        padding_difference=_difference(replayed, alone),
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


def _search(translator: Translator, ids: list[int], options: SearchOptions) -> Hypothesis:
    try:
        return search(translator.decoding(np.array([[*ids, EOS]])), options)[0][0]
    except FloatingPointError as error:
        raise CheckpointError(f"{error}; explain another checkpoint") from None


def _given(translator: Translator, target: str) -> Hypothesis:
    """Return a given translation as a hypothesis; its probability is not known yet."""
    tokens = translator.target.encode(normalize_line(target))
    if not tokens:
        raise DataError("the translation to explain is empty; give one, or leave it out")
    return Hypothesis(tokens, score=math.nan, log_prob=math.nan, finished=True)


@dataclass(frozen=True)
class Call:
    """One call of the attention: what it got and what it returned."""

    query_BKQ: Tensor
    output_BKM: Tensor
    weights_BKS: Tensor | None  # None: the model has no attention


@dataclass(frozen=True)
class Replay:
    """What was recorded of a model that decoded a known translation."""

    attention: Attention
    encoded: Encoded
    memory: Memory
    calls: list[Call]  # one per step
    log_probs_TV: Tensor  # of row 0


def replay(
    model: TranslationModel, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> Replay:
    """Decode the same target, step by step, for each of the sources.

    Raises CheckpointError for logits that are not finite.
    """
    batch = make_batch(sources, None, range(len(sources))).to(model.output_bias.device)
    attention = model.decoder.attention
    encoded, calls = list[Encoded](), list[Call]()

    def add(_: nn.Module, inputs: tuple[Tensor, Memory], output: tuple[Tensor, Tensor]) -> None:
        calls.append(Call(inputs[0], *output))

    hooks = [
        model.encoder.register_forward_hook(lambda *call: encoded.append(call[2])),
        attention.register_forward_hook(add),
    ]
    try:
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
        state, steps = decoding.start(), []
        for piece in (BOS, *target):
            tokens_B = torch.full((len(sources),), piece, device=batch.source_BS.device)
            logits_BV, _, state = decoding.step(tokens_B, state)
            if not logits_BV.isfinite().all():
                raise CheckpointError("the logits are not finite; explain another checkpoint")
            steps.append(log_softmax(logits_BV)[0])
    finally:
        for hook in hooks:
            hook.remove()
    return Replay(attention, encoded[0], decoding.memory, calls, torch.stack(steps))


def _difference(padded: Replay, alone: Replay) -> float:
    """Return the largest change of a probability or a weight that padding causes."""
    changes = [(padded.log_probs_TV.exp() - alone.log_probs_TV.exp()).abs().max()]
    for one, other in zip(padded.calls, alone.calls, strict=True):
        if one.weights_BKS is not None and other.weights_BKS is not None:
            alone_S = other.weights_BKS[0, 0]
            changes.append((one.weights_BKS[0, 0, : len(alone_S)] - alone_S).abs().max())
    return float(torch.stack(changes).max())


def _source(replayed: Replay, pieces: Sequence[Piece]) -> Source:
    memory, states_BSH = replayed.memory, replayed.encoded.states_BSH
    projection = getattr(replayed.attention, "key", None)
    keys_BSD = states_BSH if projection is None else projection(states_BSH)
    known = replayed.calls[0].weights_BKS is not None
    padding = [Piece("<pad>", PAD)] * (states_BSH.shape[1] - len(pieces))
    return Source(
        pieces=(*pieces, *padding),
        mask_S=memory.mask_BS[0].cpu(),
        states_SH=states_BSH[0].cpu(),
        keys_SD=keys_BSD[0].cpu() if known else None,
        remembered_SA=memory.keys[0].cpu() if known else None,
        values_SM=memory.values_BSM[0].cpu() if known else None,
        summary_H=memory.summary_BH[0].cpu(),
    )


def _steps(
    translator: Translator, replayed: Replay, tokens: list[int], options: SearchOptions
) -> tuple[Step, ...]:
    names = translator.target.pieces(tokens)
    reads = _pieces(["<s>", *names], [BOS, *tokens])
    writes = _pieces([*names, END], [*tokens, EOS])
    # The search never writes these.
    forbidden = torch.tensor(options.forbidden, device=replayed.log_probs_TV.device)
    possible_TV = replayed.log_probs_TV.index_fill(1, forbidden, -torch.inf)
    residual = replayed.attention.residual
    steps = []
    for place, (read, written) in enumerate(zip(reads, writes, strict=True)):
        log_prob = replayed.log_probs_TV[place, written.id]
        best = possible_TV[place].topk(min(CANDIDATES, possible_TV.shape[1]))
        ids, probabilities = best.indices.tolist(), best.values.exp().tolist()
        candidates = zip(translator.target.pieces(ids), ids, probabilities, strict=True)
        call = replayed.calls[place]
        steps.append(
            Step(
                number=place + 1,
                reads=read,
                writes=written,
                log_prob=float(log_prob),
                rank=int((possible_TV[place] > log_prob).sum()) + 1,
                candidates=tuple(Candidate(*candidate) for candidate in candidates),
                query_Q=call.query_BKQ[0, 0].cpu(),
                attention=_attention_step(replayed, call),
                residual_M=None if residual is None else residual(call.query_BKQ)[0, 0].cpu(),
                output_M=call.output_BKM[0, 0].cpu(),
            )
        )
    return tuple(steps)


def _attention_step(replayed: Replay, call: Call) -> AttentionStep | None:
    """Return what led to the weights of a step; None without attention."""
    if call.weights_BKS is None:
        return None
    attention, memory = replayed.attention, replayed.memory
    scores = attention.scores(call.query_BKQ, memory)  # [B, K, S] or, with heads, [B, N, K, S]
    weights = attention.weights(scores, memory)
    scores_S = scores[0].select(-2, 0).cpu()
    return AttentionStep(
        scores_S=scores_S,
        masked_scores_S=torch.where(memory.mask_BS[0].cpu(), scores_S, -torch.inf),
        weights_S=weights[0].select(-2, 0).cpu(),
        mean_weights_S=call.weights_BKS[0, 0].cpu(),
        context_M=attention.context(weights, memory)[0, 0].cpu(),
    )


def _pieces(names: Sequence[str], ids: Sequence[int]) -> list[Piece]:
    return [Piece(name, number) for name, number in zip(names, ids, strict=True)]

"""Follow one sentence through a model: translate it, decode it again, and record every step.

The model runs as in a search: encode, start, step. Forward hooks record what its modules get and
return. Scores, weights and context are then computed by the attention's own methods from the
recorded query and memory.

Legend: B sentences of the batch (row 0 is the one that is explained), K queries per sentence (1
here), S source length, T steps, V vocabulary, M value size.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
from seq2seq.inference.beam_state import log_softmax
from seq2seq.inference.protocol import Hypothesis, SearchOptions
from seq2seq.inference.search import search
from seq2seq.inference.text import Part
from seq2seq.inference.translator import Translator
from seq2seq.model.attention import Attention, Encoded, Memory
from seq2seq.model.model import TranslationModel

PADDING = 3  # positions by which the neighbour in the batch is longer than the sentence
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
    # The given text may have characters that its pieces cannot reproduce.
    given = None if target is None else normalize_line(target)
    translation = translator.target.decode(found.tokens) if given is None else given
    weights = [s.attention.mean_weights_S[: len(pieces)] for s in steps if s.attention is not None]
    return Explanation(
        config=model.config,
        languages=(data.source_language, data.target_language),
        formula=score_formula(model.config.attention.score, replayed.attention),
        query=query_name(model.config),
        residual=residual_name(model.config, replayed.attention),
        output_use=output_use(model.config),
        source=_source(replayed, pieces),
        part=Part(
            source=text,
            source_pieces=[piece.piece for piece in pieces],
            target_pieces=[step.writes.piece for step in steps],
            text=translation,
            score=found.score,
            log_prob=sum(step.log_prob for step in steps),
            finished=found.finished,
            weights=torch.stack(weights) if weights else None,
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
    batch = make_batch([ids], None, [0]).to(translator.device)
    try:
        return search(translator.decoding(batch.source_BS, batch.source_mask_BS), options)[0][0]
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
    """One call of a module: what it got and what it returned."""

    inputs: tuple[Any, ...]
    output: Any


Recording = dict[nn.Module, list[Call]]


@contextlib.contextmanager
def record(*modules: nn.Module | None) -> Iterator[Recording]:
    """Yield the calls of each module in order, which are added while the context lasts.

    None stands for a module that a model does not have.
    """
    recording: Recording = {module: [] for module in modules if module is not None}

    def add(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        recording[module].append(Call(inputs, output))

    handles = [module.register_forward_hook(add) for module in recording]
    try:
        yield recording
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Replay:
    """The recorded calls of a model that decoded a known translation."""

    model: TranslationModel
    recording: Recording
    memory: Memory
    log_probs_TV: Tensor  # of row 0

    @property
    def attention(self) -> Attention:
        """The attention of the model."""
        return self.model.decoder.attention

    @property
    def attention_calls(self) -> list[Call]:
        """The calls of the attention, one per step."""
        return self.recording[self.attention]

    @property
    def has_weights(self) -> bool:
        """Whether the model has attention at all."""
        return self.attention_calls[0].output[1] is not None


def replay(
    model: TranslationModel, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> Replay:
    """Decode the same target, step by step, for each of the sources.

    Raises CheckpointError for logits that are not finite.
    """
    batch = make_batch(sources, None, range(len(sources))).to(model.output_bias.device)
    attention = model.decoder.attention
    modules = (model.encoder, attention, _key_projection(attention), attention.residual)
    with record(*modules) as recording:
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
        state, steps = decoding.start(), []
        for piece in (BOS, *target):
            tokens_B = torch.full((len(sources),), piece, device=batch.source_BS.device)
            logits_BV, _, state = decoding.step(tokens_B, state)
            if not logits_BV.isfinite().all():
                raise CheckpointError("the logits are not finite; explain another checkpoint")
            steps.append(log_softmax(logits_BV)[0])
    return Replay(model, recording, decoding.memory, torch.stack(steps))


def _key_projection(attention: Attention) -> nn.Module | None:
    """Return the module that projects encoder states to keys; None where they are the keys."""
    projection: nn.Module | None = getattr(attention, "key", None)
    return projection


def _difference(padded: Replay, alone: Replay) -> float:
    """Return the largest change of a probability or a weight that padding causes."""
    changes = [(padded.log_probs_TV.exp() - alone.log_probs_TV.exp()).abs().max()]
    if padded.has_weights:
        for one, other in zip(padded.attention_calls, alone.attention_calls, strict=True):
            weights_S, alone_S = one.output[1][0, 0], other.output[1][0, 0]
            changes.append((weights_S[: len(alone_S)] - alone_S).abs().max())
    return float(torch.stack(changes).max())


def _source(replayed: Replay, pieces: Sequence[Piece]) -> Source:
    memory, recording = replayed.memory, replayed.recording
    encoded: Encoded = recording[replayed.model.encoder][0].output
    projection = _key_projection(replayed.attention)
    states_SH = encoded.states_BSH[0]
    keys_SD = states_SH if projection is None else recording[projection][0].output[0]
    known = replayed.has_weights
    padding = [Piece("<pad>", PAD)] * (len(states_SH) - len(pieces))
    return Source(
        pieces=(*pieces, *padding),
        mask_S=memory.mask_BS[0].cpu(),
        states_SH=states_SH.cpu(),
        keys_SD=keys_SD.cpu() if known else None,
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
        call = replayed.attention_calls[place]
        added_BKM = None if residual is None else replayed.recording[residual][place].output
        steps.append(
            Step(
                number=place + 1,
                reads=read,
                writes=written,
                log_prob=float(log_prob),
                rank=int((possible_TV[place] > log_prob).sum()) + 1,
                candidates=tuple(Candidate(*candidate) for candidate in candidates),
                query_Q=call.inputs[0][0, 0].cpu(),
                attention=_attention_step(replayed.attention, call),
                residual_M=None if added_BKM is None else added_BKM[0, 0].cpu(),
                output_M=call.output[0][0, 0].cpu(),
            )
        )
    return tuple(steps)


def _attention_step(attention: Attention, call: Call) -> AttentionStep | None:
    """Return what led to the weights of a step; None without attention."""
    if call.output[1] is None:
        return None
    query_BKQ, memory = call.inputs
    scores = attention.scores(query_BKQ, memory)  # [B, K, S]; with several heads [B, N, K, S]
    weights = attention.weights(scores, memory)
    scores_S = scores[0].select(-2, 0).cpu()
    return AttentionStep(
        scores_S=scores_S,
        masked_scores_S=torch.where(memory.mask_BS[0].cpu(), scores_S, -torch.inf),
        weights_S=weights[0].select(-2, 0).cpu(),
        mean_weights_S=call.output[1][0, 0].cpu(),
        context_M=attention.context(weights, memory)[0, 0].cpu(),
    )


def _pieces(names: Sequence[str], ids: Sequence[int]) -> list[Piece]:
    return [Piece(name, number) for name, number in zip(names, ids, strict=True)]

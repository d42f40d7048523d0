"""Follow one sentence through a model: translate it, go the way again, and write down all of it.

Legend: B sentences, K queries a sentence (1 here), V vocabulary.

What passes through the modules of a model while it works.

A forward hook is PyTorch's own way to listen: the model runs as it always does, and knows nothing.

A known translation, piece by piece, through the modules that are trained.

The model runs as in a search: encode, start, step. What its modules were given and gave is
heard through hooks; scores, weights and context are asked once more from the attention's own
methods, with the query and the memory that it was given.

Legend: B sentences of the batch (row 0 is the one that is explained), K queries a sentence (1
here), S source length, T steps, V vocabulary, H memory size, D key size.
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


@dataclass(frozen=True)
class Call:
    """One call of a module: what it was given and what it gave."""

    inputs: tuple[Any, ...]
    output: Any


Recording = dict[nn.Module, list[Call]]


@contextlib.contextmanager
def listening(*modules: nn.Module | None) -> Iterator[Recording]:
    """Yield the calls of each module, in their order, which fill while the context lasts.

    A module that a model does not have is given as None and left out.
    """
    heard: Recording = {module: [] for module in modules if module is not None}

    def note(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        heard[module].append(Call(inputs, output))

    handles = [module.register_forward_hook(note) for module in heard]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True)
class Replay:
    """What was heard of a model on its way through a translation."""

    model: TranslationModel
    heard: Recording
    memory: Memory
    log_probs_TV: Tensor  # of row 0

    @property
    def states_SH(self) -> Tensor:
        """Return the encoder's states."""
        encoded: Encoded = self.heard[self.model.encoder][0].output
        return encoded.states_BSH[0]

    @property
    def keys_SD(self) -> Tensor:
        """Return the keys, before the score function keeps what it needs of them."""
        projection = _key(self.attention)
        return self.states_SH if projection is None else self.heard[projection][0].output[0]

    @property
    def attention(self) -> Attention:
        """Return the model's attention."""
        return self.model.decoder.attention

    @property
    def attended(self) -> list[Call]:
        """Return what the attention was given and gave, at each step."""
        return self.heard[self.attention]

    @property
    def has_weights(self) -> bool:
        """Return whether there is attention at all."""
        return self.attended[0].output[1] is not None

    def looked(self, place: int) -> AttentionStep | None:
        """Return what led to the weights of a step, from the attention's own methods."""
        if not self.has_weights:
            return None
        call = self.attended[place]
        query_BKQ, memory = call.inputs
        scores = self.attention.scores(query_BKQ, memory)  # [B, K, S]; of heads [B, N, K, S]
        weights = self.attention.weights(scores, memory)
        return AttentionStep(
            scores_S=scores[0].select(-2, 0).cpu(),
            weights_S=weights[0].select(-2, 0).cpu(),
            mean_weights_S=call.output[1][0, 0].cpu(),
            context_M=self.attention.context(weights, memory)[0, 0].cpu(),
        )

    def added(self, place: int) -> Tensor | None:
        """Return the query as the residual adds it at a step."""
        residual = self.attention.residual
        if residual is None:
            return None
        added_BKM: Tensor = self.heard[residual][place].output
        return added_BKM[0, 0].cpu()


def replay(
    model: TranslationModel, sources: Sequence[Sequence[int]], target: Sequence[int]
) -> Replay:
    """Let the model read sources and, step by step, the target, the same for each source.

    Raises CheckpointError for logits that are not finite.
    """
    batch = make_batch(sources, None, range(len(sources))).to(model.output_bias.device)
    attention = model.decoder.attention
    with listening(model.encoder, attention, _key(attention), attention.residual) as heard:
        decoding = model.decoding(batch.source_BS, batch.source_mask_BS)
        state, steps = decoding.start(), []
        for piece in (BOS, *target):
            tokens_B = torch.full((len(sources),), piece, device=batch.source_BS.device)
            logits_BV, _, state = decoding.step(tokens_B, state)
            if not logits_BV.isfinite().all():
                raise CheckpointError("the logits are not finite; explain another checkpoint")
            steps.append(log_softmax(logits_BV)[0])
    return Replay(model, heard, decoding.memory, torch.stack(steps))


def difference(padded: Replay, alone: Replay) -> float:
    """Return the largest change of a probability or a weight that neighbours make."""
    changes = [(padded.log_probs_TV.exp() - alone.log_probs_TV.exp()).abs().max()]
    if padded.has_weights:
        for one, other in zip(padded.attended, alone.attended, strict=True):
            weights_S, alone_S = one.output[1][0, 0], other.output[1][0, 0]
            changes.append((weights_S[: len(alone_S)] - alone_S).abs().max())
    return float(torch.stack(changes).max())


def _key(attention: Attention) -> nn.Module | None:
    """Return what makes keys of the encoder's states, where they are not the keys themselves."""
    projection: nn.Module | None = getattr(attention, "key", None)
    return projection


PADDING = 3  # positions by which a neighbour is longer than the sentence
CANDIDATES = 5


@torch.inference_mode()
def explain(
    translator: Translator,
    sentence: str,
    *,
    beam: int | None = None,
    target: str | None = None,
) -> Explanation:
    """Translate a sentence, or take `target` for its translation, and record every step.

    The sentence shares its batch with a longer one, so that it has padding for the mask to hide;
    it is also run alone, and `padding_difference` says what that changes. Raises DataError for an
    empty sentence or target and for one that is longer than inference.max_source_length (it would
    be split), ConfigError for an ensemble, CheckpointError for logits that are not finite.
    """
    if len(translator.models) != 1:
        raise ConfigError("an ensemble has no one attention to explain; give one run")
    model, data = translator.models[0], translator.config.data
    text = normalize_line(sentence)
    ids = _source_ids(translator, text)
    options = translator.options(beam_size=beam)
    found = _search(translator, ids, options) if target is None else _given(translator, target)
    neighbour = (ids * (PADDING + 1))[: len(ids) + PADDING]
    replayed = replay(model, [ids, neighbour], found.tokens)
    pieces = _pieces([*translator.source.pieces(ids), END], [*ids, EOS])
    steps = _steps(translator, replayed, found.tokens, options)
    # What is given may have signs that its pieces cannot give back.
    given = None if target is None else normalize_line(target)
    translation = translator.target.decode(found.tokens) if given is None else given
    weights = [s.looked.mean_weights_S[: len(pieces)] for s in steps if s.looked is not None]
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
        padding_difference=difference(replayed, replay(model, [ids], found.tokens)),
    )


def _source_ids(translator: Translator, text: str) -> list[int]:
    if not text:
        raise DataError("the sentence is empty; give one to explain")
    ids = translator.source.encode(text)
    limit = translator.config.inference.max_source_length
    if len(ids) > limit:
        raise DataError(
            f"the sentence has {len(ids)} pieces, more than the {limit} of "
            "inference.max_source_length, after which a line is split; give a part of it"
        )
    return ids


def _search(translator: Translator, ids: list[int], options: SearchOptions) -> Hypothesis:
    batch = make_batch([ids], None, [0]).to(translator.device)
    try:
        return search(translator.decoding(batch.source_BS, batch.source_mask_BS), options)[0][0]
    except FloatingPointError as error:
        raise CheckpointError(f"{error}; explain another checkpoint") from None


def _given(translator: Translator, target: str) -> Hypothesis:
    """Return a translation that was not searched for; its probability is yet to be known."""
    tokens = translator.target.encode(normalize_line(target))
    if not tokens:
        raise DataError("the translation to explain is empty; give one, or leave it out")
    return Hypothesis(tokens, score=math.nan, log_prob=math.nan, finished=True)


def _source(replayed: Replay, pieces: Sequence[Piece]) -> Source:
    memory, states_SH = replayed.memory, replayed.states_SH
    known = replayed.has_weights
    padding = [Piece("<pad>", PAD)] * (len(states_SH) - len(pieces))
    return Source(
        pieces=(*pieces, *padding),
        mask_S=memory.mask_BS[0].cpu(),
        states_SH=states_SH.cpu(),
        keys_SD=replayed.keys_SD.cpu() if known else None,
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
    steps = []
    for place, (read, written) in enumerate(zip(reads, writes, strict=True)):
        log_prob = replayed.log_probs_TV[place, written.id]
        best = possible_TV[place].topk(min(CANDIDATES, possible_TV.shape[1]))
        ids, probabilities = best.indices.tolist(), best.values.exp().tolist()
        candidates = zip(translator.target.pieces(ids), ids, probabilities, strict=True)
        call = replayed.attended[place]
        query_BKQ, output_BKM = call.inputs[0], call.output[0]
        steps.append(
            Step(
                number=place + 1,
                reads=read,
                writes=written,
                log_prob=float(log_prob),
                rank=int((possible_TV[place] > log_prob).sum()) + 1,
                candidates=tuple(Candidate(*candidate) for candidate in candidates),
                query_Q=query_BKQ[0, 0].cpu(),
                looked=replayed.looked(place),
                added_M=replayed.added(place),
                output_M=output_BKM[0, 0].cpu(),
            )
        )
    return tuple(steps)


def _pieces(names: Sequence[str], ids: Sequence[int]) -> list[Piece]:
    return [Piece(name, number) for name, number in zip(names, ids, strict=True)]

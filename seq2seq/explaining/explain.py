"""Follow one sentence through a model: translate it, go the way again, and write down all of it.

Legend: B sentences, K queries a sentence (1 here), V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from seq2seq.data.batching import make_batch
from seq2seq.data.tokenizer import BOS, EOS, PAD
from seq2seq.errors import CheckpointError, ConfigError, DataError
from seq2seq.evaluation.alignment import END
from seq2seq.explaining.explanation import Candidate, Explanation, Piece, Source, Step
from seq2seq.explaining.formulas import output_use, query_name, residual_name, score_formula
from seq2seq.explaining.replay import Replay, difference, replay
from seq2seq.inference.lines import normalize_line
from seq2seq.inference.protocol import Hypothesis, SearchOptions
from seq2seq.inference.search import beam_search, greedy
from seq2seq.inference.translation import Part
from seq2seq.inference.translator import Translator

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
    search = greedy if options.beam_size == 1 else beam_search
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

"""Searches in plain Python, written from the definitions, to test search against."""

from __future__ import annotations

import math

from prefix_model import BOS, EOS, PIECES, TEXTS, PrefixModel

from seq2seq.inference.prefix import Prefix
from seq2seq.inference.protocol import SearchOptions

ANY = Prefix()
TINY = 2.0**-126  # the smallest normal float32


def pieces_after(
    tokens: tuple[int, ...], options: SearchOptions, limit: int, prefix: Prefix
) -> list[int]:
    """Return the legal next pieces."""
    given = pieces_of_prefix(tokens, prefix)
    if given and EOS not in given:
        return given
    if len(tokens) == limit:
        return [EOS]
    allowed = [1, 3, 4, 5, 6] if options.allow_unk else [3, 4, 5, 6]
    size = options.no_repeat_ngram
    seen = {tokens[i : i + size] for i in range(len(tokens) - size + 1)} if size else set()
    allowed = [p for p in allowed if p in given or not given]
    return [p for p in allowed if p == EOS or (*tokens, p)[-size:] not in seen or not size]


def pieces_of_prefix(tokens: tuple[int, ...], prefix: Prefix) -> list[int]:
    """Return the pieces that may follow because of a prefix; none: any."""
    found: set[int] = set()
    for _, forced, rest in prefix.beginnings:
        agrees = [
            piece
            for piece in range(PIECES)
            if _agree((*tokens, piece), list(forced), rest.decode())
        ]
        if len(agrees) == PIECES:
            return []
        found |= {*agrees}
    return sorted(found)


def _agree(tokens: tuple[int, ...], forced: list[int], rest: str) -> bool:
    size = len(forced)
    if [*tokens[:size]] != forced[: len(tokens)]:
        return False
    before, text = ("".join(TEXTS[piece] for piece in tokens[size:end]) for end in (-1, None))
    if len(tokens) <= size or (before.startswith(rest) and len(tokens) > size):
        return True
    if tokens[-1] <= EOS:
        return tokens[-1] == EOS and rest == before + " "
    return rest.startswith(text) or text.startswith(rest)


def length_limit(length: int, options: SearchOptions, prefix: Prefix) -> int:
    limit = math.floor(options.max_length_factor * length) + options.max_length_offset
    return max(limit, prefix.longest)


def log_prob(model: PrefixModel, sentence: int, tokens: tuple[int, ...], piece: int) -> float:
    logits = [float(logit) for logit in model.logits(sentence, (BOS, *tokens))]
    return logits[piece] - math.log(math.fsum(map(math.exp, logits)))


def plain_score(
    model: PrefixModel, sentence: int, length: int, tokens: tuple[int, ...], options: SearchOptions
) -> float:
    """Return equation 14 of Wu et al. (2016)."""
    ended = (*tokens, EOS)
    total = sum(log_prob(model, sentence, ended[:i], ended[i]) for i in range(len(ended)))
    rows = [model.weights(sentence, (BOS, *tokens[:i]), length) for i in range(len(ended))]
    covered = [min(math.fsum(row[s] for row in rows), 1.0) for s in range(length)]
    coverage = sum(math.log(max(share, TINY)) for share in covered)
    norm = ((5 + len(ended)) / 6) ** options.length_penalty
    return total / norm + options.coverage_penalty * coverage


def enumerate_all(
    model: PrefixModel, sentence: int, length: int, options: SearchOptions, prefix: Prefix = ANY
) -> list[tuple[float, tuple[int, ...]]]:
    """Return all sequences up to the limit with their scores, best first."""
    limit = length_limit(length, options, prefix)
    complete: list[tuple[int, ...]] = []
    unfinished: list[tuple[int, ...]] = [()]
    while unfinished:
        tokens = unfinished.pop()
        following = pieces_after(tokens, options, limit, prefix)
        if EOS in following:
            complete.append(tokens)
        unfinished.extend((*tokens, piece) for piece in following if piece != EOS)
    scored = [
        (plain_score(model, sentence, length, tokens, options), tokens) for tokens in complete
    ]
    return sorted(scored, reverse=True)


def plain_beam(
    model: PrefixModel, sentence: int, length: int, options: SearchOptions, prefix: Prefix = ANY
) -> list[tuple[float, tuple[int, ...]]]:
    """Search with a beam that never stops early."""
    limit = length_limit(length, options, prefix)
    found: list[tuple[float, tuple[int, ...]]] = []
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    while beam:
        extended = [
            (total + log_prob(model, sentence, tokens, piece), (*tokens, piece))
            for total, tokens in beam
            for piece in pieces_after(tokens, options, limit, prefix)
        ]
        taken = sorted(extended, reverse=True)[: options.beam_size - len(found)]
        beam = [(total, tokens) for total, tokens in taken if tokens[-1] != EOS]
        for _, (*tokens, last) in taken:
            if last == EOS:
                score = plain_score(model, sentence, length, tuple(tokens), options)
                found.append((score, tuple(tokens)))
    return sorted(found, reverse=True)

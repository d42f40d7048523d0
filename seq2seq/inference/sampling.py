"""Ancestral sampling over a `Decoding`.

R rows, V vocabulary, C candidates a row
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seq2seq.errors import ConfigError
from seq2seq.inference.beam_state import Ints, top
from seq2seq.inference.protocol import Decoding, Hypothesis, SearchOptions, StateT
from seq2seq.inference.search import decode

FEW = 128  # pieces that usually hold the share of nucleus sampling


@torch.inference_mode()
def sample(
    decoding: Decoding[StateT],
    options: SearchOptions,
    *,
    seed: int,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    num_samples: int = 1,
    keys: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Return for each sentence `num_samples` independent samples, in the order of drawing.

    Logits are divided by `temperature`; then only the `top_k` likeliest pieces are kept (0: all),
    of these the fewest that hold a share `top_p` of the probability (Holtzman et al. 2020). What
    is left is renormalised to be drawn from, but `log_prob` and `score` are those of the model
    itself, as in the other searches. The beam of the options is not used.

    `keys` are numbers of the sentences, from 0; by default their places in the batch. What is drawn
    for a sentence depends on the seed, its key and the sample's number, not on the batch and not
    on `num_samples`: give every sentence of a corpus a key of its own.

    Raises ConfigError for values out of range, and as `greedy` does.
    """
    _check(temperature, top_k, top_p, num_samples)
    limits = [options.max_length(length) for length in decoding.source_lengths_B.tolist()]
    uniforms = np.zeros((len(limits), num_samples, max(limits, default=0) + 1))
    for number, (key, limit) in enumerate(
        zip(range(len(limits)) if keys is None else keys, limits, strict=True)
    ):
        generator = np.random.default_rng((seed, key))
        uniforms[number, :, : limit + 1] = generator.random((num_samples, limit + 1))

    def choose(log_probs_RV: Tensor, sentences_R: Ints, copies_R: Ints, step: int) -> Tensor:
        uniforms_R = torch.from_numpy(uniforms[sentences_R, copies_R, step])
        uniforms_R = uniforms_R.to(log_probs_RV.device)
        return draw(log_probs_RV / temperature, uniforms_R, top_k=top_k, top_p=top_p)

    return decode(decoding, options, choose, copies=num_samples)


def draw(logits_RV: Tensor, uniforms_R: Tensor, *, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """Return tokens_R, each where the cumulated probability passes a number in [0, 1)."""
    probs_RC, tokens_RC = logits_RV.softmax(-1), None
    if top_k > 0 or top_p < 1:
        probs_RC, tokens_RC = _likeliest(probs_RC, top_k, top_p)
    cumulated_RC = probs_RC.cumsum(-1)
    # Strictly below the whole mass even after rounding: a piece of probability 0 is never drawn.
    mass_R = cumulated_RC[:, -1]
    drawn_R = (uniforms_R * mass_R).to(mass_R.dtype)
    drawn_R = drawn_R.minimum(mass_R.nextafter(torch.zeros_like(mass_R)))
    places_R1 = torch.searchsorted(cumulated_RC, drawn_R[:, None], right=True)
    places_R1 = places_R1.clamp(max=cumulated_RC.size(1) - 1)  # NaN is past the end
    return (places_R1 if tokens_RC is None else tokens_RC.gather(1, places_R1)).squeeze(1)


def _likeliest(probs_RV: Tensor, top_k: int, top_p: float) -> tuple[Tensor, Tensor]:
    """Return the pieces to draw from, likeliest first; those that are cut have probability 0."""
    size = probs_RV.size(1)
    count = top_k or FEW
    probs_RC, tokens_RC = top(probs_RV, count)
    while not top_k and count < size and bool((probs_RC.sum(1) < top_p).any()):
        count *= 8  # much cheaper than to sort a whole vocabulary where few pieces hold the share
        probs_RC, tokens_RC = top(probs_RV, count)
    probs_RC, order_RC = probs_RC.sort(dim=1, descending=True, stable=True)
    if top_p < 1:
        share_R1 = top_p * (probs_RC.sum(1, keepdim=True) if top_k else 1.0)
        # A piece is kept when those before it do not yet hold the share; the first always is.
        probs_RC = probs_RC.where(probs_RC.cumsum(-1) - probs_RC < share_R1, 0)
    return probs_RC, tokens_RC.gather(1, order_RC)


def _check(temperature: float, top_k: int, top_p: float, num_samples: int) -> None:
    if not temperature > 0:
        raise ConfigError(f"temperature: expected more than 0, found {temperature}")
    if top_k < 0:
        raise ConfigError(f"top_k: expected 0 (all pieces) or more, found {top_k}")
    if not 0 < top_p <= 1:
        raise ConfigError(f"top_p: expected more than 0 and at most 1, found {top_p}")
    if num_samples < 1:
        raise ConfigError(f"num_samples: expected 1 or more, found {num_samples}")

"""The unfinished hypotheses of a batch, and a fast search for their best extensions.

Legend: B sentences, K hypotheses a sentence, R = B * K rows (sentence-major), S source length,
V vocabulary, T pieces so far, N or C candidates, Z blocks of pieces, X places in [K * V]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.errors import ConfigError
from seq2seq.inference.protocol import Decoding, Hypothesis, SearchOptions

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.floating]


class BeamState:
    """Rows of unfinished hypotheses, and everything that is reordered with them.

    Sentences whose search has ended leave the batch. The bookkeeping is NumPy on the host: each
    step of a search transfers its few candidates there at once.
    """

    def __init__(self, decoding: Decoding, options: SearchOptions, *, copies: int = 1) -> None:
        """Start with this many copies of the empty hypothesis for each sentence."""
        self.options = options
        self.decoding = decoding
        self.state = decoding.start()
        self.device = decoding.source_lengths_B.device
        self.source_lengths: list[int] = decoding.source_lengths_B.tolist()
        num_sentences = len(self.source_lengths)
        num_rows = num_sentences * copies
        if copies > 1:
            sentences_B = torch.arange(num_sentences, device=self.device)
            self.state = self.state.select(sentences_B.repeat_interleave(copies))
        limits = [options.max_length(length) for length in self.source_lengths]
        self.limits: Ints = np.array(limits, dtype=np.int64)
        # The sentences that are left, by their index in the batch that was given to search.
        self.sentences: Ints = np.arange(num_sentences)
        self.tokens_R = torch.full((num_rows,), BOS, device=self.device)
        self.log_probs_R = torch.zeros(num_rows, device=self.device)
        self.tokens_RT: Ints = np.empty((num_rows, 0), dtype=np.int64)
        self._origins_RT: Ints = self.tokens_RT  # the row of the weights of each step
        self._weights: list[Tensor | None] = []
        self._coverage_RS: Tensor | None = None
        self._penalty_R: Floats | None = None
        self._cut_R: npt.NDArray[np.bool_] | None = None  # ended by the limit, not by the model
        self._forbidden = torch.tensor(options.forbidden, device=self.device)

    @property
    def length(self) -> int:
        """Return T."""
        return int(self.tokens_RT.shape[1])

    @property
    def width(self) -> int:
        """Return K."""
        return len(self.tokens_RT) // len(self.sentences)

    def step(self) -> Tensor:
        """Return log_probs_RV after the last pieces, -inf for illegal ones.

        Raises ConfigError for a coverage penalty if the model has no attention weights.
        """
        logits_RV, weights_RS, self.state = self.decoding.step(self.tokens_R, self.state)
        if self.options.keep_weights:
            self._weights.append(weights_RS)
        if self.options.coverage_penalty > 0:
            self._cover(weights_RS)
        log_probs_RV = log_softmax(logits_RV)
        self._forbid(log_probs_RV)
        return log_probs_RV

    def scores(self, log_probs_BN: Floats, parents_BN: Ints) -> npt.NDArray[np.float64]:
        """Return the scores of the hypotheses that would result if these rows ended here."""
        scores_BN = log_probs_BN.astype(np.float64) / self.options.length_norm(self.length + 1)
        if self._penalty_R is not None:
            penalty_BK = self._penalty_R.reshape(len(self.sentences), -1)
            scores_BN += np.take_along_axis(penalty_BK, parents_BN, 1)
        return scores_BN

    def close(self, position: int, parent: int, log_prob: float, score: float) -> Hypothesis:
        """Return the hypothesis that results if a row of a sentence ends after this step."""
        row = position * self.width + int(parent)
        return Hypothesis(
            tokens=self.tokens_RT[row].tolist(),
            score=float(score),
            log_prob=float(log_prob),
            finished=self._cut_R is None or not self._cut_R[row],
            weights=self._weights_of(row, self.source_lengths[self.sentences[position]]),
        )

    def extend(
        self, kept_B: Ints, log_probs_BN: Floats, parents_BN: Ints, tokens_BN: Ints
    ) -> tuple[Ints, Ints]:
        """Keep sentences, by their position, and extend the rows `parents` of each by pieces.

        Only candidates with a finite log probability are used. Each sentence gets as many rows as
        the one with the most of them needs. Returns the index of the candidates of each row.
        """
        unused_BN = np.isneginf(log_probs_BN[kept_B])
        width = int((~unused_BN).sum(1).max(initial=0))
        order_BK: Ints = unused_BN.argsort(1, kind="stable")[:, :width]
        chosen = kept_B[:, None], order_BK
        tokens: Ints = tokens_BN[chosen].ravel()
        rows: Ints = (kept_B[:, None] * self.width + parents_BN[chosen]).ravel()
        if len(kept_B) < len(self.sentences):
            self.sentences = self.sentences[kept_B]
            if len(kept_B) == 0:
                return chosen
            self.decoding = self.decoding.select(torch.from_numpy(kept_B).to(self.device))
        if not np.array_equal(rows, np.arange(len(self.tokens_RT))):
            rows_R = torch.from_numpy(rows).to(self.device)
            self.state = self.state.select(rows_R)
            if self._coverage_RS is not None:
                self._coverage_RS = self._coverage_RS[rows_R]
        if self.options.keep_weights:
            self._origins_RT = np.column_stack((self._origins_RT[rows], rows))
        self.tokens_RT = np.column_stack((self.tokens_RT[rows], tokens))
        self.tokens_R = torch.from_numpy(tokens).to(self.device)
        self.log_probs_R = torch.from_numpy(log_probs_BN[chosen].ravel()).to(self.device)
        return chosen

    def _cover(self, weights_RS: Tensor | None) -> None:
        """Add weights to the coverage; compute the penalty of hypotheses that would end here."""
        if weights_RS is None:
            raise ConfigError(
                "coverage_penalty: this model has no attention weights; set coverage_penalty=0"
            )
        size = weights_RS.size(1)
        covered_RS = weights_RS if weights_RS.dtype == torch.float64 else weights_RS.float()
        if self._coverage_RS is not None:
            covered_RS = covered_RS + self._coverage_RS[:, :size]
        lengths_R1 = self.decoding.source_lengths_B.repeat_interleave(self.width)[:, None]
        padded_RS = torch.arange(size, device=self.device) >= lengths_R1
        logs_RS = covered_RS.clamp(torch.finfo(torch.float32).tiny, 1).log()
        penalty_R = logs_RS.masked_fill(padded_RS, 0).sum(1) * self.options.coverage_penalty
        self._coverage_RS = covered_RS
        self._penalty_R = penalty_R.cpu().numpy()

    def _forbid(self, log_probs_RV: Tensor) -> None:
        """Write -inf for illegal pieces; at the length limit only EOS is legal."""
        log_probs_RV.index_fill_(1, self._forbidden, -torch.inf)
        if self.options.no_repeat_ngram > 0:
            rows, pieces = repeated(self.tokens_RT, self.options.no_repeat_ngram)
            places = torch.from_numpy(np.stack((rows, pieces))).to(self.device)
            log_probs_RV[places[0], places[1]] = -torch.inf
        at_limit_B = self.limits[self.sentences] == self.length
        self._cut_R = None
        if at_limit_B.any():
            at_limit_R = at_limit_B.repeat(self.width)
            ends_R = log_probs_RV[:, EOS].clone()
            cut_R = (log_probs_RV.amax(1) > ends_R).cpu().numpy()
            self._cut_R = at_limit_R & cut_R
            log_probs_RV[torch.from_numpy(at_limit_R).to(self.device)] = -torch.inf
            log_probs_RV[:, EOS] = ends_R

    def _weights_of(self, row: int, source_length: int) -> Tensor | None:
        if not self._weights or self._weights[-1] is None:
            return None
        rows = [*self._origins_RT[row].tolist(), row]
        steps = [
            w[r, :source_length] for w, r in zip(self._weights, rows, strict=True) if w is not None
        ]
        return torch.stack(steps).cpu()


def log_softmax(logits_RV: Tensor) -> Tensor:
    """Return log probabilities, in fp32 at least."""
    half = logits_RV.dtype in (torch.bfloat16, torch.float16)
    return logits_RV.log_softmax(-1, dtype=torch.float32 if half else None)


def repeated(tokens_RT: Ints, size: int) -> tuple[Ints, Ints]:
    """Return the rows and pieces that would repeat an n-gram of this size."""
    num_rows, length = tokens_RT.shape
    if length < size:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    starts = length - size + 1
    same = np.ones((num_rows, starts), dtype=np.bool_)
    for offset in range(size - 1):
        last_R1 = tokens_RT[:, starts + offset, None]
        same &= tokens_RT[:, offset : offset + starts] == last_R1
    rows, positions = same.nonzero()
    return rows, tokens_RT[rows, positions + size - 1]


# Pieces in a block. A maximum is fast over multiples of the vector width; torch.topk, which
# compares one number after the other, then reads only the maxima and a few blocks.
_BLOCK = 64


def argmax(scores_RV: Tensor) -> Tensor:
    """Return the index of the largest score of each row; of equal ones the first."""
    if scores_RV.device.type == "cpu":  # NumPy is ten times faster here
        return torch.from_numpy(scores_RV.numpy().argmax(1))
    return scores_RV.argmax(1)


def top(scores_RV: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the largest scores of each row and their indices, in the order of the indices."""
    if count == 1:  # topk does not always take the first of equal scores
        places_R1 = argmax(scores_RV).unsqueeze(1)
        return scores_RV.gather(1, places_R1), places_R1
    scores_RC, places_RC = scores_RV.topk(min(count, scores_RV.size(1)), sorted=False)
    places_RC, order_RC = places_RC.sort()
    return scores_RC.gather(1, order_RC), places_RC


def top_extensions(
    log_probs_RV: Tensor, totals_R: Tensor, num_sentences: int, count: int
) -> tuple[Tensor, Tensor]:
    """Return the largest totals_R + log_probs_RV of each sentence [B, N], and their places.

    A place is an index into [K * V], so it gives row and piece. Equal totals are ordered by place.
    """
    vocab = log_probs_RV.size(1)
    log_probs_BX = log_probs_RV.view(num_sentences, -1)
    totals_BK = totals_R.view(num_sentences, -1)
    if vocab <= 4 * _BLOCK:
        totals_BX = (log_probs_RV + totals_R[:, None]).view(num_sentences, -1)
        totals_BN, places_BN = top(totals_BX, count)
    else:
        rows_BN1, pieces_BNX = _top_blocks(log_probs_RV, totals_BK, count)
        places_BX = (rows_BN1 * vocab + pieces_BNX.clamp(max=vocab - 1)).flatten(1)
        found_BNX = log_probs_BX.gather(1, places_BX).view(pieces_BNX.shape)
        totals_BNX = found_BNX + totals_BK.unsqueeze(2).gather(1, rows_BN1)
        totals_BNX.masked_fill_(pieces_BNX >= vocab, -torch.inf)  # past the last piece
        totals_BN, chosen_BN = top(totals_BNX.flatten(1), count)
        places_BN = places_BX.gather(1, chosen_BN)
    totals_BN, order_BN = totals_BN.sort(dim=1, descending=True, stable=True)
    return totals_BN, places_BN.gather(1, order_BN)


def _top_blocks(log_probs_RV: Tensor, totals_BK: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return rows [B, N, 1] and pieces [B, N, block] of the blocks with the largest maxima."""
    whole = log_probs_RV.size(1) // _BLOCK
    maxima_RZ = log_probs_RV[:, : whole * _BLOCK].view(-1, whole, _BLOCK).amax(2)
    if whole * _BLOCK < log_probs_RV.size(1):
        rest_R1 = log_probs_RV[:, whole * _BLOCK :].amax(1, keepdim=True)
        maxima_RZ = torch.cat((maxima_RZ, rest_R1), 1)
    blocks = maxima_RZ.size(1)
    maxima_BX = (maxima_RZ + totals_BK.view(-1, 1)).view(len(totals_BK), -1)
    _, places_BN = top(maxima_BX, count)
    rows_BN = places_BN.div(blocks, rounding_mode="floor")
    firsts_BN = (places_BN - rows_BN * blocks) * _BLOCK
    pieces_BNX = firsts_BN.unsqueeze(2) + torch.arange(_BLOCK, device=firsts_BN.device)
    return rows_BN.unsqueeze(2), pieces_BNX

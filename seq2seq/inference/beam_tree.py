"""All hypotheses that a beam search ranks, as trees.

Legend: B sentences, K hypotheses a sentence, R = B * K rows, N candidates a sentence
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seq2seq.data.tokenizer import BOS
from seq2seq.inference.beam_state import BeamState, Bools
from seq2seq.inference.protocol import BeamNode, Floats, Ints, Status


class BeamTrees:
    """One tree for each sentence, which grows by a level at each step of the search."""

    def __init__(self, number: int) -> None:
        """Start with the root of this many trees, the empty hypothesis."""
        self.trees = [[BeamNode(None, BOS, 0.0, 0.0, "unfinished")] for _ in range(number)]
        self._last: list[list[int]] = [[0] for _ in range(number)]  # unfinished, in the beam
        self._nodes_R: Ints = np.zeros(number, np.int64)
        self._nodes_BN: Ints = np.zeros((number, 1), np.int64)

    def grow(
        self,
        beams: BeamState,
        log_probs_BN: Floats,
        parents_BN: Ints,
        tokens_BN: Ints,
        taken_BN: Bools,
        ended_BN: Bools,
    ) -> None:
        """Add the candidates of a step; those that are not taken are pruned at once."""
        scores_BN = beams.scores(log_probs_BN, parents_BN)
        nodes_BK = self._nodes_R.reshape(len(beams.sentences), -1)
        self._nodes_BN = np.full(log_probs_BN.shape, -1)
        extended: list[set[int]] = [set() for _ in beams.sentences]
        going_on: list[list[int]] = [[] for _ in beams.sentences]
        for b, n in np.argwhere(np.isfinite(log_probs_BN)).tolist():
            tree, parent = self.trees[beams.sentences[b]], int(nodes_BK[b, parents_BN[b, n]])
            self._nodes_BN[b, n] = len(tree)
            status: Status = "pruned"
            if taken_BN[b, n]:
                extended[b].add(parent)
                status = "finished" if ended_BN[b, n] else "unfinished"
            if status == "unfinished":
                going_on[b].append(len(tree))
            log_prob, score = float(log_probs_BN[b, n]), float(scores_BN[b, n])
            tree.append(BeamNode(parent, int(tokens_BN[b, n]), log_prob, score, status))
        for b, sentence in enumerate(beams.sentences.tolist()):
            tree = self.trees[sentence]
            for node in self._last[sentence]:
                became: Status = "extended" if node in extended[b] else "pruned"
                tree[node] = replace(tree[node], status=became)
            self._last[sentence] = going_on[b]

    def extend(self, chosen: tuple[Ints, Ints]) -> None:
        """Follow the rows of the search; takes what `BeamState.extend` returns."""
        self._nodes_R = self._nodes_BN[chosen].ravel()

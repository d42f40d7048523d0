"""A set of digests for corpora of many millions of pairs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Digests = npt.NDArray[np.uint64]


class DigestSet:
    """A growing set of 64-bit digests, in 8 bytes each (a Python set takes some 100).

    It is kept in sorted runs, each more than twice as long as the next, so that there are few of
    them and each digest is moved few times. Of n pairs, n^2 / 2^65 are taken for another: one in
    92,000 corpora of 20 million pairs has such a pair.
    """

    def __init__(self) -> None:
        self._runs: list[Digests] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, digests: Digests) -> npt.NDArray[np.bool_]:
        """Add digests; return which of them were new, the first of equal ones only."""
        _, first = np.unique(digests, return_index=True)
        new = np.zeros(len(digests), dtype=bool)
        new[first] = True
        for run in self._runs:
            places = np.minimum(run.searchsorted(digests), len(run) - 1)
            new &= run[places] != digests
        if new.any():
            self._runs.append(np.sort(digests[new]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]), kind="stable")]
        return new

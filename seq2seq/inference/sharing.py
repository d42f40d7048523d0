"""How processes share the work of translating: as workers of one, or as torchrun's ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

import torch

from seq2seq.errors import ConfigError, UserError
from seq2seq.training.ranks import Ranks
from seq2seq.workers import Item, Result, ordered_map


@dataclass(frozen=True)
class Sharing:
    """Several `workers`, each with so many CPU `threads`, or several `ranks`; else this process."""

    workers: int = 1
    threads: int = 1
    ranks: Ranks = field(default_factory=Ranks)

    def map(
        self, work: Callable[[Item], Result], items: Iterable[Item], device: torch.device
    ) -> Iterator[Result]:
        """Return an iterator over the results of all items, in order, the same at each rank.

        It has to be read to its end at each rank. This process must not have computed with several
        threads where there are workers (see seq2seq.workers). Raises UserError for both workers
        and ranks, and ConfigError for several workers on a GPU.
        """
        if self.workers > 1 and self.ranks.size > 1:
            raise UserError("torchrun's processes share the work already; leave --workers out")
        if self.workers > 1 and device.type != "cpu":
            raise ConfigError(f"{self.workers} workers cannot share {device}; use --device cpu")
        if self.ranks.size > 1:
            return self.ranks.map(work, items)
        begin = partial(torch.set_num_threads, self.threads)
        return ordered_map(work, items, processes=self.workers, option="--workers", begin=begin)


ALONE = Sharing()

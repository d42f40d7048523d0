"""OpenNMT-py's onmt_train, which SIGINT ends after the present update, with a checkpoint.

OpenNMT-py counts updates, not minutes, and loses what follows the last checkpoint if it is killed.
"""

import signal
from collections.abc import Iterator
from typing import Any

from onmt.bin.train import main  # type: ignore[import-not-found]
from onmt.trainer import Trainer  # type: ignore[import-not-found]

_batches = Trainer._accum_batches
_signals: list[int] = []


def _until_signal(trainer: Any, iterator: Any) -> Iterator[Any]:
    for batches in _batches(trainer, iterator):
        yield batches
        if _signals:
            return


if __name__ == "__main__":
    Trainer._accum_batches = _until_signal
    signal.signal(signal.SIGINT, lambda number, _: _signals.append(number))
    main()

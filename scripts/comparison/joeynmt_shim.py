"""JoeyNMT 2.3.0, with two repairs, and with OpenNMT-py's limit of length when it translates.

PyTorch's ReduceLROnPlateau no longer has `verbose`, which only printed. And `joeynmt translate -o`
reads an attribute of the settings that does not exist. Its limit is either a number of pieces,
which lets a whole batch wait for one translation without end, or 1.5 times the longest source.
"""

import sys
from typing import Any

from joeynmt import builders, config, prediction  # type: ignore[import-not-found]
from joeynmt.__main__ import main  # type: ignore[import-not-found]

_ReduceLROnPlateau, _search = builders.ReduceLROnPlateau, prediction.search


def _without_verbose(*, verbose: bool, **options: Any) -> Any:
    return _ReduceLROnPlateau(**options)


def _limited(**options: Any) -> Any:
    longest = 2 * int(options["batch"].src_length.max()) + 5
    return _search(**options | {"max_output_length": longest})


if __name__ == "__main__":
    builders.ReduceLROnPlateau = _without_verbose
    config.BaseConfig.n_best = 1
    if sys.argv[1] == "translate":
        prediction.search = _limited
    main()

"""JoeyNMT 2.3.0, with two repairs.

PyTorch's ReduceLROnPlateau no longer has `verbose`, which only printed. And `joeynmt translate -o`
reads an attribute of the settings that does not exist.
"""

from typing import Any

from joeynmt import builders, config  # type: ignore[import-not-found]
from joeynmt.__main__ import main  # type: ignore[import-not-found]

_ReduceLROnPlateau = builders.ReduceLROnPlateau


def _without_verbose(*, verbose: bool, **options: Any) -> Any:
    return _ReduceLROnPlateau(**options)


if __name__ == "__main__":
    builders.ReduceLROnPlateau = _without_verbose
    config.BaseConfig.n_best = 1
    main()

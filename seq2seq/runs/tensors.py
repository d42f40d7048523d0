"""The tensors of a checkpoint, in files of safetensors.

Choosing and checking a checkpoint does without this module, and so without torch.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from seq2seq.errors import CheckpointError


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes in the header of a file. Raises CheckpointError for a damaged one.

    The library checks that they fit the file's size.
    """
    with _reading(path), safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file. Raises CheckpointError for a damaged one."""
    with _reading(path):
        return dict(load_file(path))


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors of any device to a file."""
    on_host = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        save_file(on_host, path)
    except SafetensorError as error:
        # The library gives the system error in words only.
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from None


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None

"""The tensors of a checkpoint, in files of safetensors.

The weights for translation are read as NumPy arrays, without torch. They are fp32, or compact:
int8 matrices with a scale for each row, in a tensor of their own (NAME and NAME.row_scale).

Legend: R rows, C columns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seq2seq.errors import CheckpointError

Array = NDArray[Any]

_SCALE = ".row_scale"
_TINY = np.float32(1e-30)


def quantize_rows(weight_RC: Array) -> tuple[Array, Array]:
    """Return int8 weights and the scale [R] of each row."""
    scale_R = np.maximum(np.abs(weight_RC).max(1), _TINY) / 127
    return np.rint(weight_RC / scale_R[:, None]).astype(np.int8), scale_R.astype(np.float32)


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights in a file, from its header.

    Raises CheckpointError for a damaged one. safetensors checks that they fit the file's size.
    """
    with _opened(path) as file:
        return {
            name: tuple(file.get_slice(name).get_shape())
            for name in file.keys()  # noqa: SIM118
            if not name.endswith(_SCALE)
        }


def read_weights(path: Path) -> dict[str, Array]:
    """Return the weights in a file, in fp32. Raises CheckpointError for a damaged one."""
    with _opened(path) as file:
        kinds = {name: file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        for name, kind in kinds.items():
            if kind != ("I8" if f"{name}{_SCALE}" in kinds else "F32"):
                raise CheckpointError(f"{path}: {name} has the type {kind}; training writes F32")
        arrays: dict[str, Array] = {name: file.get_tensor(name) for name in kinds}
    for name in [name for name in arrays if name.endswith(_SCALE)]:
        of, scale_R = name.removesuffix(_SCALE), arrays.pop(name)
        if of not in arrays or arrays[of].ndim != 2 or scale_R.shape != arrays[of].shape[:1]:
            raise CheckpointError(
                f"{path}: {name} does not have one scale for each row of a matrix"
            )
        arrays[of] = arrays[of] * scale_R[:, None]
    return arrays


def compact(weights: Mapping[str, Array]) -> dict[str, Array]:
    """Return weights with int8 matrices and the scales of their rows; vectors stay fp32."""
    found: dict[str, Array] = {}
    for name, array in weights.items():
        if array.ndim == 2:
            found[name], found[f"{name}{_SCALE}"] = quantize_rows(array)
        else:
            found[name] = array
    return found


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the tensors of a file as they are. Raises CheckpointError for a damaged one."""
    with _opened(path) as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays to a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    ordered = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    try:
        save_file(ordered, path, metadata={"format": "pt"})  # as other programs expect
    except SafetensorError as error:
        # safetensors gives the system's error only as text.
        found = re.search(r"os error (\d+)", str(error))
        number = int(found[1]) if found else errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            yield file
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None

"""Choose the device and the precision to compute with.

Functions import torch themselves: on the CPU, translating works without it.
"""

from __future__ import annotations

import functools
import os
import platform
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from seq2seq.errors import ConfigError

if TYPE_CHECKING:
    import torch

_NAME = re.compile(r"auto|(cpu|cuda)(:(0|[1-9][0-9]?))?")
# The device files of the drivers of NVIDIA, WSL and AMD.
_GPU_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")


def is_cpu(name: str) -> bool:
    """Return whether the device with the given name is the CPU.

    Raises ConfigError if the device is not available. Imports torch only if there may be a GPU;
    without torch, auto is the CPU.
    """
    _check_name(name)
    if name.startswith("cpu"):
        return True
    if name == "auto" and (
        find_spec("torch") is None or not any(Path(file).exists() for file in _GPU_FILES)
    ):
        return True
    return choose_device(name).type == "cpu"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ConfigError(f"unknown device '{name}'; use auto, cpu, cuda or cuda:N")


def choose_device(name: str) -> torch.device:
    """Return the device with the given name; raise ConfigError if it is not available."""
    _check_name(name)
    import torch

    if name == "auto":
        return torch.device("cuda" if gpu_for_each_process() else "cpu")
    device = torch.device(name)
    if device.type == "cpu":
        return device
    processes, count = _local_processes(), torch.cuda.device_count()
    if not torch.cuda.is_available():
        raise ConfigError(f"device {name}: torch finds no GPU; use cpu")
    if (device.index or 0) >= count:
        raise ConfigError(f"device {name}: the last GPU is cuda:{count - 1}; use another one")
    if processes > 1 and device.index is not None:
        raise ConfigError(
            f"device {name} is one GPU for {processes} processes; use cuda, so that each process "
            "gets its own"
        )
    if not gpu_for_each_process():
        raise ConfigError(
            f"device {name}: {processes} processes on this machine, but {count} GPUs; use fewer "
            "processes, or cpu"
        )
    return device


def gpu_for_each_process() -> bool:
    """Return whether there is a GPU for each process that torchrun started on this machine."""
    import torch

    return torch.cuda.is_available() and _local_processes() <= torch.cuda.device_count()


def _local_processes() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return the dtype of matrix products; everything else stays in fp32."""
    import torch

    if precision == "auto":
        precision = "bf16" if multiplies_bf16(device) else "fp32"
    return torch.bfloat16 if precision == "bf16" else torch.float32


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether the device has native bf16 matrix products."""
    import torch

    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool({"avx512_bf16", "amx_tile"} & cpu_flags())


def multiplies_int8() -> bool:
    """Return whether the processor multiplies 8-bit integers faster than fp32 numbers.

    ONNX Runtime does with AVX2 on x86 and with the dot products of ARM (docs/speed.md).
    """
    if platform.machine().lower() in ("arm64", "aarch64") and sys.platform == "darwin":
        return True
    return bool({"avx2", "asimddp"} & cpu_flags())


def has_vnni() -> bool:
    """Return whether an x86 processor sums products of signed with unsigned bytes in 32 bits."""
    return bool({"avx512_vnni", "avx_vnni"} & cpu_flags())


def keep_few_kernels() -> None:
    """Limit the kernels that this process keeps for matrix products, each for one shape.

    By default torch (ideep) and oneDNN keep 1,024 of them: hundreds of MB after an hour of batches
    of all shapes. Generating one again costs next to nothing except with AMX, where it takes longer
    than running it. The variables must be set before the first product; those of the caller
    take precedence.
    """
    kernels = 2048 if "amx_tile" in cpu_flags() else 64
    os.environ.setdefault("LRU_CACHE_CAPACITY", "1")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(kernels))


@functools.cache
def cpu_flags() -> frozenset[str]:
    """Return the processor's features, among the words of /proc/cpuinfo; none outside Linux.

    The environment variable SEQ2SEQ_HIDE_CPU_FLAGS names some to leave out, as if the processor
    lacked them: for tests and comparisons.
    """
    hidden = os.environ.get("SEQ2SEQ_HIDE_CPU_FLAGS", "").split()
    try:
        return frozenset(Path("/proc/cpuinfo").read_text().split()).difference(hidden)
    except OSError:
        return frozenset()

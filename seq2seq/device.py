"""Where and how precisely to compute."""

from __future__ import annotations

import os

import torch

from seq2seq.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """Return the device of a name. Raises ConfigError when it is not there."""
    if name == "auto":
        return torch.device("cuda" if gpu_for_each_process() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"device '{name}' is none; use auto, cpu, cuda or cuda:N")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device {name} was asked for, but torch finds no GPU; use cpu")
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ConfigError(f"device {name} was asked for, but the last GPU is cuda:{count - 1}")
    if device.type == "cuda" and _processes() > 1 and device.index is not None:
        raise ConfigError(
            f"device {name} is one GPU for {_processes()} processes; say cuda, so that each takes "
            "its own"
        )
    if device.type == "cuda" and not gpu_for_each_process():
        raise ConfigError(
            f"device {name}: {_processes()} processes on this machine, but {count} GPUs; use fewer "
            "processes, or cpu"
        )
    return device


def gpu_for_each_process() -> bool:
    """Return whether each of the processes that torchrun started on this machine can have a GPU."""
    return torch.cuda.is_available() and _processes() <= torch.cuda.device_count()


def _processes() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return what matrix products are computed in; all else stays in fp32."""
    if precision == "auto":
        precision = "bf16" if multiplies_bf16(device) else "fp32"
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}[precision]


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether the device has instructions for bf16 products."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())

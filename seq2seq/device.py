"""Choose the device and the precision to compute with."""

from __future__ import annotations

import os

import torch

from seq2seq.errors import ConfigError


def choose_device(name: str) -> torch.device:
    """Return the device with the given name; raise ConfigError if it is not available."""
    if name == "auto":
        return torch.device("cuda" if gpu_for_each_process() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"unknown device '{name}'; use auto, cpu, cuda or cuda:N")
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
    return torch.cuda.is_available() and _local_processes() <= torch.cuda.device_count()


def _local_processes() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def choose_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return the dtype of matrix products; everything else stays in fp32."""
    if precision == "auto":
        precision = "bf16" if multiplies_bf16(device) else "fp32"
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "int8": torch.int8}[precision]


def multiplies_bf16(device: torch.device) -> bool:
    """Return whether the device has native bf16 matrix products."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())

"""Which device to compute on."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

from ontodex.errors import ConfigError


def pick(device: str) -> str:
    """'cpu' or 'cuda[:n]'; 'auto' takes a GPU when there is one. torch is loaded only if asked."""
    if device == "cpu":
        return device
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.split(":")[0] != "cuda":
        raise ConfigError(f"--device takes auto, cpu or cuda, not {device!r}")
    if not torch.cuda.is_available():
        raise ConfigError(
            f"--device {device}: this installation of PyTorch sees no GPU",
            hint="install a CUDA build of torch (README, 'On a GPU'), or use --device cpu",
        )
    return device


def give_memory_back() -> None:
    """Let freed blocks of more than a megabyte go back to the system at once.

    Left to itself glibc soon keeps blocks of up to 32 MB for reuse. Batches differ in size, so they
    seldom fit again: thirty epochs over 4,000 documents grew to gigabytes."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        largest_kept = -3  # M_MMAP_THRESHOLD
        set_option(largest_kept, 2**20)


def describe(device: str) -> str:
    """The machine in words: cores and processor, and the GPU where `device` is one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    words = f"{cores} cores of {_processor()}"
    if device == "cpu":
        return words
    import torch

    return f"{words}, {torch.cuda.get_device_name(device)}"


def thread_limit() -> str:
    """What keeps a training from using all of these cores, to be said after them; '' = nothing."""
    limit = os.environ.get("OMP_NUM_THREADS")
    return f", OMP_NUM_THREADS={limit}" if limit else ""


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()

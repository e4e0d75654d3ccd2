"""Choose the device to compute on, and describe the machine."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

from ontodex.errors import ConfigError


def choose_device(device: str) -> str:
    """Return 'cpu' or 'cuda[:n]'; 'auto' takes a GPU if there is one.

    torch is not imported for 'cpu'.
    """
    if device == "cpu":
        return device
    import torch

    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if device.split(":")[0] != "cuda":
        raise ConfigError(f"--device takes auto, cpu or cuda, not {device!r}")
    if not torch.cuda.is_available():
        raise ConfigError(
            f"--device {device}: this installation of PyTorch finds no GPU",
            hint="install a CUDA build of torch (README, 'On a GPU'), or use --device cpu",
        )
    return device


def release_freed_memory() -> None:
    """Return freed blocks of more than a megabyte to the system at once.

    By default glibc keeps blocks of up to 32 MB for reuse. Batches differ in size and seldom fit
    again, so thirty epochs over 4,000 documents grew to gigabytes.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        largest_kept = -3  # M_MMAP_THRESHOLD
        set_option(largest_kept, 2**20)


def describe_machine(device: str) -> str:
    """Return the number of cores, the processor and, if `device` is one, the GPU."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    words = f"{cores} cores of {_processor_name()}"
    if device == "cpu":
        return words
    import torch

    return f"{words}, {torch.cuda.get_device_name(device)}"


def describe_thread_limit() -> str:
    """Return the limit on threads as text to append to `describe_machine`; '' if there is none."""
    limit = os.environ.get("OMP_NUM_THREADS")
    return f", OMP_NUM_THREADS={limit}" if limit else ""


def _processor_name() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()

"""Checkpoints: one safetensors file, written atomically, with a JSON description in its header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ontodex.errors import RunError
from ontodex.io.files import write_tensors

NAME = "checkpoint.safetensors"


def has_checkpoint(folder: Path) -> bool:
    return (folder / NAME).exists()


def write_checkpoint(folder: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Replace the checkpoint of a folder; a kill at any moment leaves the old one or the new."""
    # NumPy has no bf16: the bits are written as integers.
    halves = [name for name, tensor in tensors.items() if tensor.dtype == torch.bfloat16]
    plain = {
        name: (tensor.view(torch.int16) if name in halves else tensor)
        .detach().cpu().contiguous().numpy()
        for name, tensor in tensors.items()
    }  # fmt: skip
    write_tensors(folder / NAME, plain, json.dumps({**about, "bf16": halves}))


def read_checkpoint(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors (on the CPU) and the description of a folder's checkpoint."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / NAME, framework="pt") as file:
            about = json.loads(file.metadata()["about"])
            halves = about.pop("bf16", [])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            tensors |= {name: tensors[name].view(torch.bfloat16) for name in halves}
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        raise RunError(
            f"{folder / NAME}: not a readable checkpoint ({error})",
            hint="remove it to start this training from scratch",
        ) from error
    if not all(bool(torch.isfinite(t).all()) for t in tensors.values() if t.is_floating_point()):
        raise RunError(
            f"{folder / NAME}: holds values that are not finite",
            hint="remove it to start this training from scratch",
        )
    return tensors, about

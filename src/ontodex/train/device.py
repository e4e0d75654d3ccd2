"""Which device to compute on."""

from __future__ import annotations

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

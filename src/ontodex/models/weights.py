"""Save the weights of a PyTorch network in half precision, and check their shapes on loading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ontodex.io.tensors import TensorSpec, load_tensors, save_tensors, weight_spec

SHARD_BYTES = 15 * 2**20  # small enough that files can be sent one by one

Weights = Mapping[str, NDArray[Any]]


def save_network(folder: Path, name: str, network: nn.Module) -> None:
    """Write the weights of a network in half precision, in small files."""
    save_tensors(folder, name, extract_weights(network), shard_bytes=SHARD_BYTES)


def load_network(folder: Path, name: str, network: nn.Module) -> None:
    """Fill a network with the weights that `save_network` wrote; refuse weights of other shapes."""
    set_weights(network, load_tensors(folder, name, weight_specs(network)))


def extract_weights(network: nn.Module) -> dict[str, NDArray[Any]]:
    """Return the weights of a network in half precision; counters of batches are left out."""
    return {
        name: weight.half().cpu().numpy()
        for name, weight in network.state_dict().items()
        if weight.is_floating_point()
    }


def weight_specs(network: nn.Module) -> dict[str, TensorSpec]:
    """Return what the file of a network must hold: one tensor for each weight."""
    return {
        name: weight_spec(tuple(weight.shape))
        for name, weight in network.state_dict().items()
        if weight.is_floating_point()
    }


def set_weights(network: nn.Module, weights: Weights) -> None:
    """Fill a network with weights, in single precision."""
    state = network.state_dict()
    is_meta = any(weight.is_meta for weight in state.values())
    for name, weight in state.items():
        if is_meta and not weight.is_floating_point():
            state[name] = torch.zeros(weight.shape, dtype=weight.dtype)  # counters of batches
    for name in weight_specs(network):
        state[name] = torch.from_numpy(weights[name].astype(np.float32))
    # Parameters on the meta device have no memory to copy into.
    network.load_state_dict(state, assign=is_meta)

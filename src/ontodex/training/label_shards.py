"""Output layers in shards: each process owns the rows of some labels.

    a batch ─ encoder (whole, equal everywhere) ─ output layer (own labels) ─ own logits ─ own loss

Every process reads the whole batch and computes the logits and the loss of its own labels. The loss
is the sum over processes, so the gradients of the encoder are summed, and those of the output layer
stay where they are. Weights, gradients, moments and averages of the output layer, and the logits,
take 1/N of the memory in each of N processes. Ranking exchanges the best labels of each shard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.training.distributed import world


class LabelShards:
    """The labels of each process. `names` are the network's parameters with one row a label."""

    def __init__(self, names: Sequence[str], n_labels: int) -> None:
        self._rank, n_processes = world()
        bounds = [n_labels * i // n_processes for i in range(n_processes + 1)]
        self._sizes = [bounds[i + 1] - bounds[i] for i in range(n_processes)]
        self._names, self._ids = names, set[int]()
        self.columns = slice(bounds[self._rank], bounds[self._rank + 1])

    def cut(self, network: nn.Module) -> None:
        """Keep only the own rows of the output layer."""
        # Copied: a view would keep the memory of the whole.
        self._replace(network, lambda whole: whole[self.columns].clone())

    def join(self, network: nn.Module) -> None:
        """Give every process the whole output layer again."""
        self._replace(network, self._gather_everywhere)

    def owns(self, parameter: Tensor) -> bool:
        """Tell whether a parameter holds the rows of this process's labels."""
        return id(parameter) in self._ids

    def _replace(self, network: nn.Module, change: Callable[[Tensor], Tensor]) -> None:
        self._ids = set()
        for name in self._names:
            path, _, attribute = name.rpartition(".")
            module = network.get_submodule(path)
            parameter = nn.Parameter(change(getattr(module, attribute).detach()))
            setattr(module, attribute, parameter)
            self._ids.add(id(parameter))

    def gather(self, own: Tensor) -> Tensor:
        """Return the rows of all processes on the CPU of rank 0, and the own rows elsewhere."""
        padded = self._pad(own.cpu())
        parts = [torch.empty_like(padded) for _ in self._sizes] if self._rank == 0 else None
        torch.distributed.gather(padded, parts, dst=0)
        return own if parts is None else self._concatenate(parts)

    def _gather_everywhere(self, own: Tensor) -> Tensor:
        padded = self._pad(own)
        parts = [torch.empty_like(padded) for _ in self._sizes]
        torch.distributed.all_gather(parts, padded)
        return self._concatenate(parts)

    def _pad(self, own: Tensor) -> Tensor:
        """Return the rows with zeros below: all processes exchange tensors of one size."""
        fill = max(self._sizes) - len(own)
        return torch.cat([own, own.new_zeros(fill, *own.shape[1:])])

    def _concatenate(self, parts: Sequence[Tensor]) -> Tensor:
        return torch.cat([part[:size] for part, size in zip(parts, self._sizes, strict=True)])

    def merge_best(self, values: Tensor, columns: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return (values, columns), each (n, k), of the best labels of all processes. The arguments
        (n, at most k) are the best of this one, with columns counted from its first label."""
        pad = (0, k - values.shape[1])
        own_values = F.pad(values, pad, value=-1.0)  # below any probability
        own_columns = F.pad(columns + self.columns.start, pad)
        all_values = [torch.empty_like(own_values) for _ in self._sizes]
        all_columns = [torch.empty_like(own_columns) for _ in self._sizes]
        torch.distributed.all_gather(all_values, own_values)
        torch.distributed.all_gather(all_columns, own_columns)
        best, at = torch.cat(all_values, dim=1).topk(k, dim=1)
        return best, torch.cat(all_columns, dim=1).gather(1, at)

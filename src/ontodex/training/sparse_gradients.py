"""Sparse gradients of large tables.

A network declares a table by `nn.Embedding(..., sparse=True)` or a bag of embeddings. The gradient
of such a table holds only the rows that the batch read. Training touches those rows alone, so a
step costs what it reads, however long the table (see
docs/decisions/0007-sparse-updates-of-long-tables.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def find_sparse_tables(network: nn.Module) -> list[Tensor]:
    """Return the parameters of a network whose gradients are sparse."""
    tables = (m for m in network.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag))
    return [table.weight for table in tables if table.sparse]


def coalesce_gradients(parameters: Iterable[Tensor]) -> None:
    """Sum the entries of each row, so that a sparse gradient holds every row once."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()


def clip_grad_norm(parameters: Iterable[Tensor], max_norm: float) -> Tensor:
    """Scale all gradients to a common norm of at most `max_norm`; return the norm they had.

    Like `nn.utils.clip_grad_norm_`, which does not accept sparse gradients.
    """
    gradients = [p.grad for p in parameters if p.grad is not None]
    values = [grad._values() if grad.is_sparse else grad for grad in gradients]
    norm = nn.utils.get_total_norm(values)
    torch._foreach_mul_(values, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def all_reduce_gradients(parameters: Sequence[Tensor], tables: set[int]) -> None:
    """Sum the gradients of all processes; `tables` are the ids of parameters with sparse ones."""
    import torch.distributed as dist

    for parameter in parameters:
        if id(parameter) in tables:
            own = parameter.grad if parameter.grad is not None else _empty_gradient(parameter)
            parameter.grad = _all_reduce_sparse(own)
        elif parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    dense = [p.grad for p in parameters if p.grad is not None and not p.grad.is_sparse]
    flat = torch.cat([grad.reshape(-1) for grad in dense])
    dist.all_reduce(flat)
    start = 0
    for grad in dense:
        grad.copy_(flat[start : start + grad.numel()].view_as(grad))
        start += grad.numel()


def _empty_gradient(table: Tensor) -> Tensor:
    """Return the gradient of a table of which no row was read."""
    rows = torch.zeros(1, 0, dtype=torch.int64, device=table.device)
    values = table.new_zeros(0, table.shape[1])
    return torch.sparse_coo_tensor(rows, values, table.shape, check_invariants=False)


def _all_reduce_sparse(grad: Tensor) -> Tensor:
    """Return the sparse gradient of a table, summed over all processes."""
    import torch.distributed as dist

    grad = grad.coalesce()
    rows, values = grad.indices()[0], grad.values()
    n_processes = dist.get_world_size()
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(n_processes)]
    dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    lengths = [int(count) for count in counts]
    fill = max(lengths) - len(rows)  # all_gather needs tensors of one size
    parts = []
    for own in (torch.cat([rows, rows.new_zeros(fill)]), F.pad(values, (0, 0, 0, fill))):
        gathered = [torch.empty_like(own) for _ in lengths]
        dist.all_gather(gathered, own)
        parts.append(torch.cat([one[:n] for one, n in zip(gathered, lengths, strict=True)]))
    return torch.sparse_coo_tensor(
        parts[0][None], parts[1], grad.shape, check_invariants=False
    ).coalesce()

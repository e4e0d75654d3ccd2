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

from ontodex.training.half_rows import is_half_table


def find_sparse_tables(network: nn.Module) -> list[Tensor]:
    """Return the parameters of a network whose gradients are sparse."""
    tables = (m for m in network.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag))
    return [table.weight for table in tables if table.sparse]


def coalesce_gradients(parameters: Iterable[Tensor]) -> None:
    """Sum the entries of each row, so that a sparse gradient holds every row once. Those of bf16
    tables are summed in fp32."""
    for parameter in parameters:
        grad = parameter.grad
        if grad is not None and grad.is_sparse:
            wide = torch.promote_types(grad.dtype, torch.float32)
            parameter.grad = grad.to(wide).coalesce().to(grad.dtype)


def unscale_gradients(
    scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer, parameters: Iterable[Tensor]
) -> None:
    """Divide all gradients by the scale of the loss.

    PyTorch's scaler refuses bf16 gradients on a GPU, so these are divided here. Where one of them
    is not finite, another gradient becomes so too, by which the scaler skips the step.
    """
    gradients = {p: p.grad for p in parameters if p.grad is not None}
    halves = {p: grad for p, grad in gradients.items() if is_half_table(p)}
    if halves:
        dense = next(grad for grad in gradients.values() if not grad.is_sparse)
        for table, grad in halves.items():
            dense += 0 * grad._values().sum()
            table.grad = None
    scaler.unscale_(optimizer)
    for table, grad in halves.items():
        grad._values().div_(scaler.scale(torch.ones((), device=grad.device)))
        table.grad = grad


def clip_grad_norm(
    parameters: Iterable[Tensor], max_norm: float, sharded: Iterable[Tensor] = ()
) -> Tensor:
    """Scale all gradients to a common norm of at most `max_norm`; return the norm they had.

    `sharded` are further parameters, of which other processes hold other rows: the norm is that of
    all rows. Like `nn.utils.clip_grad_norm_`, which accepts neither these nor sparse gradients.
    """
    values, own = _list_gradients(parameters), _list_gradients(sharded)
    norm = nn.utils.get_total_norm(values)
    if own:
        square = nn.utils.get_total_norm(own).square()
        torch.distributed.all_reduce(square)
        norm = (norm.square() + square).sqrt()
    torch._foreach_mul_(values + own, (max_norm / (norm + 1e-6)).clamp(max=1.0))
    return norm


def _list_gradients(parameters: Iterable[Tensor]) -> list[Tensor]:
    """Return the gradients, of sparse ones the values."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    return [grad._values() if grad.is_sparse else grad for grad in gradients]


def all_reduce_gradients(
    parameters: Sequence[Tensor], tables: set[int], sharded: Iterable[Tensor] = ()
) -> None:
    """Sum the gradients of all processes; `tables` are the ids of parameters with sparse ones.

    The gradients of `sharded` parameters stay as they are. Where one of them is not finite, the
    sums become so too, and all processes skip the step.
    """
    import torch.distributed as dist

    for table in (p for p in parameters if id(p) in tables):
        own = table.grad if table.grad is not None else _empty_gradient(table)
        table.grad = _all_reduce_sparse(own)
    dense = [p for p in parameters if id(p) not in tables]
    missing = [i for i, p in enumerate(dense) if p.grad is None]
    has_gradient = torch.ones(len(dense), device=dense[0].device)
    has_gradient[missing] = 0
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in dense]
    flat = torch.cat([has_gradient, *(grad.reshape(-1) for grad in gradients)])
    for grad in _list_gradients(sharded):
        flat += 0 * grad.sum()
    dist.all_reduce(flat)
    start = len(dense)
    for parameter, grad in zip(dense, gradients, strict=True):
        parameter.grad = grad.copy_(flat[start : start + grad.numel()].view_as(grad))
        start += grad.numel()
    # Adam skips a parameter without a gradient, where zeros would move its averages.
    for i in missing:
        if not flat[i]:
            dense[i].grad = None


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

"""Tables of which a step reads few rows: their gradients, their Adam, their averages.

A network says that a parameter is such a table by `nn.Embedding(..., sparse=True)`, or a bag of
them: its gradient names the rows that the batch read and is empty elsewhere. What is here touches
those rows alone, so that a step costs what it reads, however long the table
(docs/decisions/0007-tables-by-row.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

AT_ONCE = 2**16  # rows: a second copy of a large table would decide what memory a training needs
REACH = 10  # docs/decisions/0012-averages-reach-back-over-a-tenth.md


def pieces(n: int) -> Iterator[slice]:
    """The rows of a table, so many at a time."""
    return (slice(start, start + AT_ONCE) for start in range(0, n, AT_ONCE))


def tables_of(network: nn.Module) -> list[Tensor]:
    """The parameters of a network whose gradients name rows."""
    tables = (m for m in network.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag))
    return [table.weight for table in tables if table.sparse]


def merge_rows(parameters: Iterable[Tensor]) -> None:
    """Let the gradients of tables name each row once."""
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()


def clip_norm(parameters: Iterable[Tensor], greatest: float) -> Tensor:
    """Scale gradients down to a common norm of at most `greatest`; the norm they had."""
    found = [p.grad for p in parameters if p.grad is not None]
    values = [grad._values() if grad.is_sparse else grad for grad in found]
    norm = nn.utils.get_total_norm(values)
    torch._foreach_mul_(values, (greatest / (norm + 1e-6)).clamp(max=1.0))
    return norm


def no_rows(table: Tensor) -> Tensor:
    """The gradient of a table of which nothing was read."""
    rows = torch.zeros(1, 0, dtype=torch.int64, device=table.device)
    values = table.new_zeros(0, table.shape[1])
    return torch.sparse_coo_tensor(rows, values, table.shape, check_invariants=False)


def sum_rows(grad: Tensor) -> Tensor:
    """The gradient of a table summed over all processes."""
    import torch.distributed as dist

    grad = grad.coalesce()
    rows, values = grad.indices()[0], grad.values()
    counts = [torch.zeros(1, dtype=torch.int64, device=rows.device) for _ in range(_world())]
    dist.all_gather(counts, torch.tensor([len(rows)], device=rows.device))
    lengths = [int(count) for count in counts]
    fill = max(lengths) - len(rows)  # all processes send equally much
    parts = []
    for mine in (torch.cat([rows, rows.new_zeros(fill)]), F.pad(values, (0, 0, 0, fill))):
        theirs = [torch.empty_like(mine) for _ in lengths]
        dist.all_gather(theirs, mine)
        parts.append(torch.cat([one[:n] for one, n in zip(theirs, lengths, strict=True)]))
    return torch.sparse_coo_tensor(
        parts[0][None], parts[1], grad.shape, check_invariants=False
    ).coalesce()


def _world() -> int:
    import torch.distributed as dist

    return dist.get_world_size()


class RowAdamW(torch.optim.AdamW):
    """AdamW; of a table, only the rows in its gradient move.

    A row's moments fade, and its bias correction counts, in the steps that read it: a rare row
    takes the same first steps as a frequent one.
    """

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    self._move(parameter, group)
                    parameter.grad = None  # so that AdamW itself passes it over
        return super().step(closure)

    @torch.no_grad()
    def _move(self, table: Tensor, group: dict[str, Any]) -> None:
        assert table.grad is not None
        grad = table.grad.coalesce()
        rows, g = grad.indices()[0], grad.values()
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros(len(table), device=table.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        fade, fade_square = group["betas"]
        step = state["step"][rows] + 1
        mean = state["exp_avg"][rows].lerp_(g, 1 - fade)
        square = state["exp_avg_sq"][rows].mul_(fade_square).addcmul_(g, g, value=1 - fade_square)
        size = (square / _grown(fade_square, step)).sqrt_().add_(group["eps"])
        move = mean / _grown(fade, step) / size
        new = table[rows] * (1 - group["lr"] * group["weight_decay"]) - group["lr"] * move
        # A loss scaler leaves a step out, without asking the GPU, by setting this.
        left_out = getattr(self, "found_inf", None)
        places = (state["step"], state["exp_avg"], state["exp_avg_sq"], table)
        for place, value in zip(places, (step, mean, square, new), strict=True):
            kept = value if left_out is None else torch.where(left_out == 0, value, place[rows])
            place.index_copy_(0, rows, kept)


def _grown(fade: float, step: Tensor) -> Tensor:
    """1 - fade**step by row; where fade is near 1, the difference itself would lose its digits."""
    return -torch.expm1(step * math.log(fade))[:, None]


class RowAverage:
    """The moving average of a table, brought up to date where and when a row is about to change.

    Between two changes of a row w its average only closes in on w: after steps with shares a1, a2,
    ... it is w + (1 - a1)(1 - a2)... (average - w). So each row needs to know only when it was last
    brought up to date, and the result is that of averaging at every step.
    """

    def __init__(self, table: Tensor, value: Tensor, share: float) -> None:
        self.settled = torch.zeros(len(table), dtype=torch.int64, device=table.device)
        self._table, self._value, self._share = table, value, share

    @torch.no_grad()
    def settle(self, step: int, rows: Tensor | None = None) -> None:
        """Bring these rows (None = all) up to date after `step` steps, before they change."""
        now = self._log_kept(torch.full_like(self.settled[:1], step))
        for at in pieces(len(self.settled)) if rows is None else [rows]:
            kept = torch.exp(now - self._log_kept(self.settled[at]))
            current = self._table[at]
            self._value[at] = current + (self._value[at] - current) * kept.to(current)[:, None]
            self.settled[at] = step

    def _log_kept(self, steps: Tensor) -> Tensor:
        """Logarithm of (1 - a0)(1 - a1)... over the first `steps` steps, with the shares of
        `averaging_share`: the early ones leave steps! REACH! / (steps + REACH)!, then all are the
        same."""
        early = max(0, math.ceil(REACH / self._share - REACH - 1))
        steps = steps.double()
        first, later = steps.clamp(max=early), (steps - early).clamp(min=0)
        kept = torch.lgamma(first + 1) + math.lgamma(REACH + 1) - torch.lgamma(first + REACH + 1)
        return later * math.log1p(-self._share) + kept


def averaging_share(share: float, step: int) -> float:
    """How far the average moves towards the weights in this step. Early ones follow closely: the
    average reaches back over 1 / REACH of the steps so far, however few there will be."""
    return max(share, REACH / (step + REACH + 1))

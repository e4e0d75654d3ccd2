"""Exponential moving averages (EMA) of the weights, with which a network is evaluated and saved.

The averages of large tables with sparse gradients are updated by row, at the cost of what a step
reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

ROWS_AT_ONCE = 2**16  # a second copy of a large table would decide the memory a training needs
REACH = 10  # docs/decisions/0012-weight-averages-over-a-tenth-of-training.md


class WeightAverages:
    """The moving averages of a network's parameters; none where the rate is 0."""

    def __init__(self, parameters: Sequence[Tensor], tables: set[int], rate: float) -> None:
        """`tables` are the ids of the parameters with sparse gradients."""
        self._parameters, self._rate = parameters, rate
        self._values = [p.detach().clone() for p in parameters] if rate else []
        self._rows = {
            i: RowAverage(parameters[i], value, rate)
            for i, value in enumerate(self._values)
            if id(parameters[i]) in tables
        }

    def __bool__(self) -> bool:
        return bool(self._values)

    def update_rows_before_step(self, step: int) -> None:
        """Update the averages of the rows in the sparse gradients, before these rows change."""
        for i, average in self._rows.items():
            grad = self._parameters[i].grad
            if grad is not None:
                average.update(step, grad._indices()[0])

    @torch.no_grad()
    def update_after_step(self, step: int) -> None:
        """Move the averages of all other parameters towards the weights."""
        dense = [i for i in range(len(self._values)) if i not in self._rows]
        if dense:
            torch._foreach_lerp_(
                [self._values[i] for i in dense],
                [self._parameters[i] for i in dense],
                ema_weight(self._rate, step),
            )

    def copy_to_parameters(self, step: int) -> None:
        """Replace the weights by their averages."""
        self._update_all_rows(step)
        copy_tensors(self._values, self._parameters)

    @contextmanager
    def swap_in(self, step: int) -> Iterator[None]:
        """Put the averages in place of the weights for a while."""
        if not self._values:
            yield
            return
        self._update_all_rows(step)
        exchange_tensors(self._values, self._parameters)
        try:
            yield
        finally:
            exchange_tensors(self._values, self._parameters)

    def _update_all_rows(self, step: int) -> None:
        for average in self._rows.values():
            average.update(step)

    def state_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of a checkpoint."""
        values = {f"average.{i}": value for i, value in enumerate(self._values)}
        return values | {f"settled.{i}": average.updated for i, average in self._rows.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take the tensors of a checkpoint."""
        copy_tensors([tensors[f"average.{i}"] for i in range(len(self._values))], self._values)
        for i, average in self._rows.items():
            average.updated.copy_(tensors[f"settled.{i}"])


class RowAverage:
    """The moving average of a table, updated row by row just before a row changes.

    Between two changes of a row w its average only approaches w. After steps with EMA weights a1,
    a2, ... it is w + (1 - a1)(1 - a2)... (average - w). So a row needs only the step of its last
    update, and the result is that of an average updated at every step.
    """

    def __init__(self, table: Tensor, value: Tensor, rate: float) -> None:
        self.updated = torch.zeros(len(table), dtype=torch.int64, device=table.device)
        self._table, self._value, self._rate = table, value, rate

    @torch.no_grad()
    def update(self, step: int, rows: Tensor | None = None) -> None:
        """Update these rows (None = all) to their average after `step` steps."""
        now = self._log_decay(torch.full_like(self.updated[:1], step))
        for at in row_slices(len(self.updated)) if rows is None else [rows]:
            decay = torch.exp(now - self._log_decay(self.updated[at]))
            current = self._table[at]
            self._value[at] = current + (self._value[at] - current) * decay.to(current)[:, None]
            self.updated[at] = step

    def _log_decay(self, steps: Tensor) -> Tensor:
        """Return log (1 - a0)(1 - a1)... over the first `steps` steps, with a = `ema_weight`.

        The early steps give steps! REACH! / (steps + REACH)!; all later ones have the same weight.
        """
        early = max(0, math.ceil(REACH / self._rate - REACH - 1))
        steps = steps.double()
        first, later = steps.clamp(max=early), (steps - early).clamp(min=0)
        log_early = (
            torch.lgamma(first + 1) + math.lgamma(REACH + 1) - torch.lgamma(first + REACH + 1)
        )
        return later * math.log1p(-self._rate) + log_early


def ema_weight(rate: float, step: int) -> float:
    """Return the weight of the current weights in the average at this step.

    It is larger than `rate` in early steps: the average then covers the last 1 / REACH of the steps
    so far, however short the training.
    """
    return max(rate, REACH / (step + REACH + 1))


def row_slices(n_rows: int) -> Iterator[slice]:
    """Cut the rows of a table into slices of ROWS_AT_ONCE."""
    return (slice(start, start + ROWS_AT_ONCE) for start in range(0, n_rows, ROWS_AT_ONCE))


@torch.no_grad()
def copy_tensors(sources: Sequence[Tensor], targets: Sequence[Tensor]) -> None:
    """Copy the values of each source to its target."""
    for source, target in zip(sources, targets, strict=True):
        target.copy_(source)


@torch.no_grad()
def exchange_tensors(ones: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Exchange the values of two lists of tensors, a slice of rows at a time."""
    for one, other in zip(map(torch.atleast_1d, ones), map(torch.atleast_1d, others), strict=True):
        for rows in row_slices(len(one)):
            copy = one[rows].clone()
            one[rows] = other[rows]
            other[rows] = copy

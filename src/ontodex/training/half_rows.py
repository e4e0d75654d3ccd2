"""Updates of bf16 tables by row: stochastic rounding, and a second moment of one number a row.

Training an fp32 row with Adam and averages keeps 16 bytes a weight, a bf16 row 2. See
docs/decisions/0034-label-rows-in-bf16.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor

ROWS_AT_ONCE = 2**13  # updated at once: bounds the memory of a step's fp32 copies


def is_half_table(parameter: Tensor) -> bool:
    """Tell whether a parameter is a table in bf16, which is updated here and has no average."""
    return parameter.dtype == torch.bfloat16


def start_row_state(table: Tensor) -> dict[str, Tensor]:
    """Return the state of the optimizer for a table in which no row was read yet."""
    return {
        "step": torch.zeros(len(table), device=table.device),
        "exp_avg_sq": torch.zeros(len(table), device=table.device),
    }


@torch.no_grad()
def update_half_rows(
    table: Tensor,
    grad: Tensor,
    state: Mapping[str, Tensor],
    *,
    lr: float,
    weight_decay: float,
    beta2: float,
    eps: float,
    random: torch.Generator,
    found_inf: Tensor | None = None,
) -> None:
    """Update the rows of a coalesced sparse gradient like Adam without its first moment.

    All weights of a row share one second moment, the mean of those that Adam would keep. The moment
    and its bias correction count the steps that read the row. Rows are rounded up or down at
    random, so that their mean is exact: most updates are smaller than the distance of two bf16
    numbers. Where `found_inf` is not 0, nothing changes.
    """
    parts = grad.indices()[0].split(ROWS_AT_ONCE), grad.values().split(ROWS_AT_ONCE)
    for rows, gradients in zip(*parts, strict=True):
        g = gradients.float()  # (m, w)
        step = state["step"][rows] + 1  # (m,)
        exp_avg_sq = state["exp_avg_sq"][rows].lerp_(g.square().mean(dim=1), 1 - beta2)  # (m,)
        denominator = (exp_avg_sq / bias_correction(beta2, step)).sqrt_().add_(eps)
        new = table[rows].float().mul_(1 - lr * weight_decay)
        new.addcdiv_(g, denominator[:, None], value=-lr)
        targets = (state["step"], state["exp_avg_sq"], table)
        values = (step, exp_avg_sq, round_stochastically(new, random))
        for target, value in zip(targets, values, strict=True):
            target.index_copy_(0, rows, keep_if_finite(value, target[rows], found_inf))


def keep_if_finite(new: Tensor, old: Tensor, found_inf: Tensor | None) -> Tensor:
    """Return the new values of rows, or the old ones where a gradient was infinite."""
    return new if found_inf is None else torch.where(found_inf == 0, new, old)


def round_stochastically(values: Tensor, random: torch.Generator) -> Tensor:
    """Return fp32 values as bf16: one of the two nearest, so that the mean over draws is exact.

    The lower half of the bits of an fp32 number is what bf16 lacks. A random number below 2^16 is
    added to it, and the lower half is cut off: the carry rounds away from zero as often as the
    part that is cut off is large.
    """
    noise = torch.randint(
        2**16, values.shape, generator=random, device=values.device, dtype=torch.int32
    )
    bits = noise.add_(values.view(torch.int32)).bitwise_and_(-(2**16))
    return bits.view(torch.float32).bfloat16()


def bias_correction(beta: float, step: Tensor) -> Tensor:
    """Return 1 - beta**step by row, without the loss of digits where beta is near 1."""
    return -torch.expm1(step * math.log(beta))

"""The optimisers: SGD with momentum, and AdamW with a version for sparse gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ontodex.training.half_rows import (
    bias_correction,
    is_half_table,
    keep_if_finite,
    start_row_state,
    update_half_rows,
)
from ontodex.types.loop_config import LoopConfig

Group = dict[str, Any]  # parameters, and the factor of their learning rate ("rate")


def group_by_rate(named: Iterable[tuple[str, Tensor]], rates: Mapping[str, float]) -> list[Group]:
    """Return groups of parameters with the same factor of the learning rate.

    A parameter whose name begins with a key of `rates` has its value, every other one 1.
    """
    groups: dict[float, list[Tensor]] = {}
    for name, parameter in named:
        rate = next((rate for start, rate in rates.items() if name.startswith(start)), 1.0)
        groups.setdefault(rate, []).append(parameter)
    return [{"params": found, "rate": rate} for rate, found in groups.items()]


def build_optimizer(
    parameters: Sequence[Group], config: LoopConfig, *, fused: bool
) -> torch.optim.Optimizer:
    """Return the optimizer that the settings name, over these groups of parameters."""
    lr, decay = config.lr, config.weight_decay
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters, lr=lr, momentum=config.momentum, weight_decay=decay, fused=fused
        )
    return RowAdamW(parameters, lr=lr, weight_decay=decay, fused=fused)


class RowAdamW(torch.optim.AdamW):
    """AdamW that updates only the rows of a table which its sparse gradient holds.

    Moments and bias correction of a row count the steps that read this row: a rare row takes the
    same first steps as a frequent one. Rows of bf16 tables are updated by half_rows.py; the numbers
    by which they are rounded depend on `rounding_seed` alone, which the training loop sets in every
    step, so that all processes and a resumed training draw the same.
    """

    rounding_seed = 0

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Update tables by row, then everything else as AdamW does."""
        random: dict[torch.device, torch.Generator] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None or not parameter.grad.is_sparse:
                    continue
                if is_half_table(parameter):
                    device = parameter.device
                    if device not in random:
                        random[device] = torch.Generator(device).manual_seed(self.rounding_seed)
                    self._update_half_rows(parameter, group, random[device])
                else:
                    self._update_rows(parameter, group)
                parameter.grad = None  # so that AdamW itself skips it
        return super().step(closure)

    def _update_half_rows(self, table: Tensor, group: Group, random: torch.Generator) -> None:
        assert table.grad is not None
        if not self.state[table]:
            self.state[table].update(start_row_state(table))
        update_half_rows(
            table,
            table.grad.coalesce(),
            self.state[table],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            beta2=group["betas"][1],
            eps=group["eps"],
            random=random,
            found_inf=self._found_inf,
        )

    @property
    def _found_inf(self) -> Tensor | None:
        """A loss scaler sets this to skip a step without a synchronisation with the GPU."""
        return getattr(self, "found_inf", None)

    @torch.no_grad()
    def _update_rows(self, table: Tensor, group: Group) -> None:
        assert table.grad is not None
        grad = table.grad.coalesce()
        rows, g = grad.indices()[0], grad.values()
        state = self.state[table]
        if not state:
            state["step"] = torch.zeros(len(table), device=table.device)
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(table), torch.zeros_like(table)
        beta1, beta2 = group["betas"]
        step = state["step"][rows] + 1
        exp_avg = state["exp_avg"][rows].lerp_(g, 1 - beta1)
        exp_avg_sq = state["exp_avg_sq"][rows].mul_(beta2).addcmul_(g, g, value=1 - beta2)
        denominator = (exp_avg_sq / bias_correction(beta2, step)[:, None]).sqrt_()
        denominator.add_(group["eps"])
        update = exp_avg / bias_correction(beta1, step)[:, None] / denominator
        new = table[rows] * (1 - group["lr"] * group["weight_decay"]) - group["lr"] * update
        targets = (state["step"], state["exp_avg"], state["exp_avg_sq"], table)
        for target, value in zip(targets, (step, exp_avg, exp_avg_sq, new), strict=True):
            target.index_copy_(0, rows, keep_if_finite(value, target[rows], self._found_inf))

"""RowAdamW: the rows that a step read, and no others."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from ontodex.training.optimisers import RowAdamW

N_ROWS = 9


def sparse_grad(rows: list[int], values: torch.Tensor) -> torch.Tensor:
    shape = (N_ROWS, values.shape[1])
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape, check_invariants=True)


def test_rows_read_in_every_step_move_as_under_plain_adam():
    values = [torch.randn(N_ROWS, 3) for _ in range(5)]
    start = torch.randn(N_ROWS, 3)
    by_row, plain = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    mine = RowAdamW([by_row], lr=0.1, weight_decay=0.02)
    theirs = torch.optim.AdamW([plain], lr=0.1, weight_decay=0.02)
    for value in values:
        by_row.grad, plain.grad = sparse_grad(list(range(N_ROWS)), value), value
        mine.step()
        theirs.step()
    torch.testing.assert_close(by_row.detach(), plain.detach(), rtol=1e-5, atol=1e-6)


def test_a_row_that_is_not_read_stays_and_its_first_step_is_as_large_as_any_first_step():
    table = nn.Parameter(torch.zeros(N_ROWS, 1))
    optimizer = RowAdamW([table], lr=0.1, weight_decay=0.0)
    for row in (0, 0, 0, 5):
        table.grad = sparse_grad([row], torch.tensor([[2.0]]))
        optimizer.step()
    moved = table.detach()[:, 0]
    assert moved[5].item() == pytest.approx(-0.1, rel=1e-4)  # Adam's first step is lr
    assert moved[0].item() == pytest.approx(-0.3, rel=1e-4)
    assert torch.count_nonzero(moved) == 2


def test_a_row_named_twice_moves_once_by_the_sum():
    one, two = nn.Parameter(torch.zeros(N_ROWS, 1)), nn.Parameter(torch.zeros(N_ROWS, 1))
    one.grad = sparse_grad([3, 3], torch.tensor([[2.0], [-5.0]]))
    two.grad = sparse_grad([3], torch.tensor([[-3.0]]))
    for table in (one, two):
        RowAdamW([table], lr=0.1).step()
    assert torch.equal(one, two)


@pytest.mark.parametrize(("found", "moves"), [(0.0, True), (1.0, False)])
def test_a_step_that_the_loss_scaler_leaves_out_leaves_rows_and_moments_alone(found, moves):
    table = nn.Parameter(torch.ones(N_ROWS, 1))
    optimizer = RowAdamW([table], lr=0.1)
    optimizer.found_inf = torch.tensor(found)  # type: ignore[attr-defined]
    table.grad = sparse_grad([2], torch.tensor([[float("inf") if found else 1.0]]))
    optimizer.step()
    state = optimizer.state[table]
    assert bool((table[2] != 1).item()) is moves
    assert bool(state["step"][2] == 1) is moves
    assert bool(torch.isfinite(state["exp_avg"]).all())

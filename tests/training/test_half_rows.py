"""bf16 tables: stochastic rounding, and the row-wise optimizer against loops."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from ontodex.training import half_rows
from ontodex.training.half_rows import round_stochastically
from ontodex.training.optimisers import RowAdamW
from ontodex.training.sparse_gradients import coalesce_gradients, unscale_gradients

N_ROWS, WIDTH = 7, 5


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def half_table(values: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(values.bfloat16())


def sparse_grad(rows: list[int], values: torch.Tensor) -> torch.Tensor:
    shape = (N_ROWS, values.shape[1])
    return torch.sparse_coo_tensor(
        torch.tensor([rows]), values.bfloat16(), shape, check_invariants=True
    )


@pytest.mark.parametrize("value", [1.003, -1.003, 3e-5, -7.77, 1e-30, 255.9])
def test_rounding_gives_a_neighbour_and_the_value_itself_on_average(value):
    values = torch.full((40_000,), value)
    rounded = round_stochastically(values, seeded()).double()
    below, above = rounded.min(), rounded.max()
    ulp = 2.0 ** (math.floor(math.log2(abs(value))) - 7)
    exact = float(values[0].double())
    assert below <= exact <= above
    assert float(above - below) == pytest.approx(ulp)
    share = (exact - float(below)) / ulp
    deviation = ulp * math.sqrt(share * (1 - share) / len(values))
    assert abs(float(rounded.mean()) - exact) < 4 * deviation


def test_a_number_that_bf16_holds_stays():
    values = torch.randn(500).bfloat16().float()
    values[0] = 0
    assert torch.equal(round_stochastically(values, seeded()).float(), values)


def test_updates_far_below_the_distance_of_two_numbers_move_the_mean():
    """bf16 has no number between 1 and 1.0078; each update here is 1e-4."""
    table = half_table(torch.ones(N_ROWS, 4000))
    optimizer = RowAdamW([table], lr=1e-4, weight_decay=0.0)
    for step in range(20):
        table.grad = sparse_grad([2], torch.ones(1, 4000))
        optimizer.rounding_seed = step
        optimizer.step()
    assert float(table.detach()[2].double().mean()) == pytest.approx(1 - 20e-4, abs=3e-4)
    assert bool((table[3] == 1).all())


def update_by_loops(
    row: list[float], gradient: list[float], state: dict[str, float]
) -> list[float]:
    """Adam without its first moment, with one second moment for the row; lr 0.1, decay 0.02."""
    state["step"] += 1
    mean = sum(g * g for g in gradient) / len(gradient)
    state["exp_avg_sq"] = 0.999 * state["exp_avg_sq"] + 0.001 * mean
    root = math.sqrt(state["exp_avg_sq"] / (1 - 0.999 ** state["step"]))
    return [
        w * (1 - 0.1 * 0.02) - 0.1 * g / (root + 1e-8) for w, g in zip(row, gradient, strict=True)
    ]


@pytest.mark.parametrize("at_once", [1, 2, 2**13])
def test_a_row_moves_as_in_loops_but_for_its_rounding(at_once, monkeypatch):
    monkeypatch.setattr(half_rows, "ROWS_AT_ONCE", at_once)
    table = half_table(torch.randn(N_ROWS, WIDTH))
    optimizer = RowAdamW([table], lr=0.1, weight_decay=0.02)
    states = [{"step": 0.0, "exp_avg_sq": 0.0} for _ in range(N_ROWS)]
    for step, rows in enumerate([[0, 3, 4], [3], [4, 6, 0], [3, 4, 5], [3]]):
        before = table.detach().clone()
        gradients = torch.randn(len(rows), WIDTH).bfloat16().float()
        table.grad = sparse_grad(rows, gradients)
        optimizer.rounding_seed = step
        optimizer.step()
        expected = before.float()
        for row, gradient in zip(rows, gradients.tolist(), strict=True):
            moved = update_by_loops(before[row].tolist(), gradient, states[row])
            expected[row] = torch.tensor(moved)
        # Between the two neighbours, of which one is nearer than the distance between them.
        distance = 2.0 ** (expected.abs().log2().floor() - 7)
        assert bool(((table.detach().float() - expected).abs() < 1.01 * distance).all())
        others = [row for row in range(N_ROWS) if row not in rows]
        assert torch.equal(table[others], before[others])
    state = optimizer.state[table]
    assert set(state) == {"step", "exp_avg_sq"}
    for name in ("step", "exp_avg_sq"):
        found = torch.tensor([one[name] for one in states])
        torch.testing.assert_close(state[name], found, rtol=1e-5, atol=1e-9)


def test_the_seed_of_the_step_alone_decides_how_rows_are_rounded():
    def update(rounding_seed: int, other_seed: int) -> torch.Tensor:
        torch.manual_seed(other_seed)
        table = half_table(torch.ones(N_ROWS, 200))
        optimizer = RowAdamW([table], lr=1e-3)
        optimizer.rounding_seed = rounding_seed
        table.grad = sparse_grad([1, 5], torch.ones(2, 200))
        optimizer.step()
        return table.detach()

    assert torch.equal(update(7, 0), update(7, 1))
    assert not torch.equal(update(7, 0), update(8, 0))
    found = update(7, 0)
    assert not torch.equal(found[1], found[5])


@pytest.mark.parametrize(("found", "moves"), [(0.0, True), (1.0, False)])
def test_a_step_that_the_loss_scaler_leaves_out_leaves_rows_and_moments_alone(found, moves):
    table = half_table(torch.ones(N_ROWS, 1))
    optimizer = RowAdamW([table], lr=0.1)
    optimizer.found_inf = torch.tensor(found)  # type: ignore[attr-defined]
    table.grad = sparse_grad([2], torch.tensor([[float("inf") if found else 1.0]]))
    optimizer.step()
    state = optimizer.state[table]
    assert bool((table[2] != 1).item()) is moves
    assert bool(state["step"][2] == 1) is moves
    assert bool(torch.isfinite(state["exp_avg_sq"]).all())


def test_a_row_that_many_documents_read_is_summed_in_fp32():
    """256 ones and one more: bf16 has no number between 256 and 258."""
    table = half_table(torch.zeros(N_ROWS, 1))
    values = torch.cat([torch.full((1, 1), 256.0), torch.ones(6, 1)])
    table.grad = sparse_grad([4] * 7, values)
    coalesce_gradients([table])
    assert table.grad is not None
    assert table.grad.dtype == torch.bfloat16
    assert table.grad._values().tolist() == [[262.0]]


@pytest.mark.parametrize("value", [3.0, float("inf"), float("nan")])
def test_a_loss_scaler_divides_gradients_of_tables_and_finds_infinite_ones(value):
    table, layer = half_table(torch.ones(N_ROWS, 2)), nn.Parameter(torch.ones(3))
    optimizer = RowAdamW([table, layer], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.zeros(()))
    table.grad, layer.grad = sparse_grad([1], torch.full((1, 2), 8 * value)), torch.full((3,), 16.0)
    unscale_gradients(scaler, optimizer, [table, layer])
    if math.isfinite(value):
        assert table.grad is not None
        assert table.grad._values().tolist() == [[3.0, 3.0]]
        assert layer.grad.tolist() == [2.0] * 3
    scaler.step(optimizer)
    scaler.update()
    is_skipped = not math.isfinite(value)
    assert (scaler.get_scale() < 8) is is_skipped
    assert bool((layer == 1).all()) is is_skipped
    assert bool((table == 1).all()) is is_skipped

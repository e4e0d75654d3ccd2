"""Tables by row: what a step does to the rows it read, and to no others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.train import rows
from ontodex.train.loop import LoopConfig, State, fit
from ontodex.train.rows import RowAdamW, averaging_share, clip_norm, tables_of

N_ROWS, N_DOCS = 9, 24


class Net(nn.Module):
    """Each document reads two rows of a table and a layer that all share."""

    def __init__(self, *, sparse: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(N_ROWS, 4, sparse=sparse)
        self.layer = nn.Linear(4, 1)
        self.reads = torch.randint(0, N_ROWS - 1, (N_DOCS, 2))  # nobody reads the last row

    def loss(self, rows: np.ndarray) -> torch.Tensor:
        told = self.layer(self.table(self.reads[rows])).sum(dim=(1, 2))
        return (told - torch.from_numpy(rows % 3)).square().mean()


def plan(epoch: int) -> list[np.ndarray]:
    order = np.random.default_rng(epoch).permutation(N_DOCS)
    return [order[i : i + 4] for i in range(0, N_DOCS, 4)] + [order[:1]]


def train(net: Net, config: LoopConfig, folder: Path | None = None, **more: object) -> State:
    options = {"batches": plan, "loss": net.loss, **more}
    return fit(net, config=config, folder=folder, **options)  # type: ignore[arg-type]


def weights(net: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in net.parameters()]


def sparse_grad(rows: list[int], values: torch.Tensor) -> torch.Tensor:
    shape = (N_ROWS, values.shape[1])
    return torch.sparse_coo_tensor(torch.tensor([rows]), values, shape, check_invariants=True)


def test_a_table_is_known_by_its_sparse_gradient():
    assert [len(table) for table in tables_of(Net())] == [N_ROWS]
    assert tables_of(Net(sparse=False)) == []


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


def test_the_norm_is_that_of_the_whole_gradient():
    layer, table = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(N_ROWS, 2))
    layer.grad = torch.tensor([3.0, 0.0])
    table.grad = sparse_grad([1, 7], torch.tensor([[0.0, 4.0], [0.0, 12.0]])).coalesce()
    # sqrt(9 + 16 + 144) = 13; clipped to 6.5, everything is halved.
    assert clip_norm([layer, table], 6.5).item() == pytest.approx(13)
    assert layer.grad.tolist() == pytest.approx([1.5, 0])
    assert table.grad.to_dense()[7].tolist() == pytest.approx([0, 6])


def test_clipping_without_tables_is_that_of_torch_to_the_bit():
    grads = [torch.randn(5, 3), torch.randn(7)]
    mine, theirs = ([nn.Parameter(torch.zeros_like(g)) for g in grads] for _ in range(2))
    for group in (mine, theirs):
        for parameter, grad in zip(group, grads, strict=True):
            parameter.grad = grad.clone()
    assert torch.equal(clip_norm(mine, 0.7), nn.utils.clip_grad_norm_(theirs, 0.7))
    for a, b in zip(mine, theirs, strict=True):
        assert torch.equal(a.grad, b.grad)


@pytest.mark.parametrize("at_once", [1, 4, 2**16])
def test_the_average_of_a_row_is_that_over_all_steps(at_once, monkeypatch):
    """Against an average moved in every step, by hand; the last row is never read."""
    monkeypatch.setattr(rows, "AT_ONCE", at_once)
    net = Net()
    seen: list[torch.Tensor] = []
    before = net.table.weight.detach().clone()
    config = LoopConfig(epochs=3, batch=4, lr=0.05, average=0.4)
    train(net, config, after_step=lambda: seen.append(net.table.weight.detach().clone()))
    average = before.clone()
    for step, now in enumerate(seen):
        average += averaging_share(0.4, step) * (now - average)
    torch.testing.assert_close(net.table.weight.detach(), average, rtol=1e-5, atol=1e-6)
    assert torch.equal(net.table.weight[-1], before[-1])


def test_the_dev_score_sees_the_average_of_rows_and_training_goes_on_from_the_rows():
    seen: list[torch.Tensor] = []
    scored: list[torch.Tensor] = []
    net = Net()
    start = net.table.weight.detach().clone()

    def score() -> float:
        scored.append(net.table.weight.detach().clone())
        return float(len(scored))

    config = LoopConfig(epochs=2, batch=4, lr=0.05, average=0.6, patience=0)
    keep = lambda: seen.append(net.table.weight.detach().clone())  # noqa: E731
    train(net, config, score=score, after_step=keep)
    average = start.clone()
    for step, now in enumerate(seen):
        average += averaging_share(0.6, step) * (now - average)
        if step == 6:  # the last of the first epoch
            torch.testing.assert_close(scored[0], average, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(scored[1], average, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stop_after", [1, 5, 6, 7, 13])
def test_a_stopped_run_with_a_table_goes_on_to_the_same_bits(tmp_path, stop_after):
    config = LoopConfig(epochs=3, batch=4, checkpoint_seconds=0, patience=0, average=0.1)
    whole = Net()
    train(whole, config, score=lambda: 1.0)

    class DiedError(Exception):
        pass

    calls = iter(range(1, 100))

    def die() -> None:
        if next(calls) == stop_after:
            raise DiedError

    with pytest.raises(DiedError):
        train(Net(), config, tmp_path, score=lambda: 1.0, after_step=die)
    resumed = Net()
    train(resumed, config, tmp_path, score=lambda: 1.0)
    for a, b in zip(weights(resumed), weights(whole), strict=True):
        assert torch.equal(a, b)


def test_what_a_system_has_to_tell_is_in_the_log(tmp_path):
    figures = iter([{"recall": 0.5}, {"recall": 0.75}])
    config = LoopConfig(epochs=2, batch=4, patience=0)
    train(Net(), config, tmp_path, figures=lambda: next(figures))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["recall"] for line in lines] == [0.5, 0.75]


@pytest.mark.slow
def test_two_processes_learn_a_table_as_one_does(assert_same_in_two_processes):
    assert_same_in_two_processes(
        """
        from test_rows import LoopConfig, Net, train, weights
        net = Net()
        train(net, LoopConfig(epochs=3, batch=4, patience=0, average=0.1))
        """
    )

"""A training with a table of sparse gradients gives what a dense one would give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.training import averages
from ontodex.training.averages import ema_weight
from ontodex.training.checkpoints import read_checkpoint
from ontodex.training.loop import TrainingState, fit
from ontodex.training.sparse_gradients import find_sparse_tables
from ontodex.types.loop_config import LoopConfig

N_ROWS, N_DOCS = 9, 24


class Net(nn.Module):
    """Each document reads two rows of a table and a layer that all share."""

    def __init__(self, *, sparse: bool = True, half: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(N_ROWS, 4, sparse=sparse)
        if half:
            self.table.bfloat16()
        self.layer = nn.Linear(4, 1)
        self.reads = torch.randint(0, N_ROWS - 1, (N_DOCS, 2))  # nobody reads the last row

    def loss(self, rows: np.ndarray) -> torch.Tensor:
        output = self.layer(self.table(self.reads[rows]).float()).sum(dim=(1, 2))
        return (output - torch.from_numpy(rows % 3)).square().mean()


def plan(epoch: int) -> list[np.ndarray]:
    order = np.random.default_rng(epoch).permutation(N_DOCS)
    return [order[i : i + 4] for i in range(0, N_DOCS, 4)] + [order[:1]]


def train(
    net: Net, config: LoopConfig, folder: Path | None = None, **more: object
) -> TrainingState:
    options = {"batches": plan, "loss": net.loss, **more}
    return fit(net, config=config, folder=folder, **options)  # type: ignore[arg-type]


def weights(net: nn.Module) -> list[torch.Tensor]:
    return [p.detach().clone() for p in net.parameters()]


def test_a_table_is_found_by_its_sparse_gradient():
    assert [len(table) for table in find_sparse_tables(Net())] == [N_ROWS]
    assert find_sparse_tables(Net(sparse=False)) == []


@pytest.mark.parametrize("at_once", [1, 4, 2**16])
def test_the_average_of_a_row_is_that_over_all_steps(at_once, monkeypatch):
    """Against an average moved in every step, by hand; the last row is never read."""
    monkeypatch.setattr(averages, "ROWS_AT_ONCE", at_once)
    net = Net()
    seen: list[torch.Tensor] = []
    before = net.table.weight.detach().clone()
    config = LoopConfig(epochs=3, batch_size=4, lr=0.05, ema_rate=0.4)
    train(net, config, after_step=lambda: seen.append(net.table.weight.detach().clone()))
    average = before.clone()
    for step, now in enumerate(seen):
        average += ema_weight(0.4, step) * (now - average)
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

    config = LoopConfig(epochs=2, batch_size=4, lr=0.05, ema_rate=0.6, patience=0)
    keep = lambda: seen.append(net.table.weight.detach().clone())  # noqa: E731
    train(net, config, score=score, after_step=keep)
    average = start.clone()
    for step, now in enumerate(seen):
        average += ema_weight(0.6, step) * (now - average)
        if step == 6:  # the last of the first epoch
            torch.testing.assert_close(scored[0], average, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(scored[1], average, rtol=1e-5, atol=1e-6)


def test_a_bf16_table_has_no_average_and_one_number_a_row_for_the_optimizer(tmp_path):
    net = Net(half=True)
    seen: list[torch.Tensor] = []
    keep = lambda: seen.append(net.table.weight.detach().clone())  # noqa: E731
    config = LoopConfig(epochs=2, batch_size=4, lr=0.05, ema_rate=0.1, checkpoint_seconds=0)
    train(net, config, tmp_path, after_step=keep)
    assert torch.equal(net.table.weight, seen[-1])
    tensors, _ = read_checkpoint(tmp_path)
    of_table = [name for name, one in tensors.items() if one.shape[:1] == (N_ROWS,)]
    assert of_table == ["optimizer.0.exp_avg_sq", "optimizer.0.step", "weight.0"]
    assert tensors["weight.0"].dtype == torch.bfloat16
    assert tensors["optimizer.0.exp_avg_sq"].shape == (N_ROWS,)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("stop_after", [1, 5, 6, 7, 13])
def test_a_stopped_run_with_a_table_goes_on_to_the_same_bits(tmp_path, stop_after, half):
    config = LoopConfig(epochs=3, batch_size=4, checkpoint_seconds=0, patience=0, ema_rate=0.1)
    whole = Net(half=half)
    train(whole, config, score=lambda: 1.0)

    class DiedError(Exception):
        pass

    calls = iter(range(1, 100))

    def die() -> None:
        if next(calls) == stop_after:
            raise DiedError

    with pytest.raises(DiedError):
        train(Net(half=half), config, tmp_path, score=lambda: 1.0, after_step=die)
    resumed = Net(half=half)
    train(resumed, config, tmp_path, score=lambda: 1.0)
    for a, b in zip(weights(resumed), weights(whole), strict=True):
        assert torch.equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_two_processes_learn_a_table_as_one_does(assert_same_in_two_processes, half):
    assert_same_in_two_processes(
        f"""
        from test_tables_by_row import Net, train, weights
        from ontodex.types.loop_config import LoopConfig
        net = Net(half={half})
        train(net, LoopConfig(epochs=3, batch_size=4, patience=0, ema_rate=0.1))
        """
    )

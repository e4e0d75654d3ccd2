"""Moving averages of the weights against averages updated at every step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ontodex.training import averages
from ontodex.training.averages import WeightAverages, exchange_tensors
from ontodex.training.loop import fit
from ontodex.types.loop_config import LoopConfig


def test_the_moving_average_by_hand():
    """One parameter, constant gradient 1, no decay: w falls by lr a step, the average follows."""
    net = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(net.weight)
    seen: list[float] = []
    fit(
        net,
        batches=lambda epoch: [np.array([0])] * 3,
        loss=lambda rows: net.weight.sum(),
        config=LoopConfig(
            epochs=1,
            batch_size=1,
            lr=0.1,
            warmup_steps=1,
            final_lr_ratio=1.0,
            ema_rate=0.8,
            max_grad_norm=0,
        ),
        after_step=lambda: seen.append(net.weight.item()),
    )
    w = [-0.1, -0.2, -0.3]
    assert seen == pytest.approx(w, rel=1e-4)
    average = 0.0
    for value, share in zip(w, [10 / 11, 10 / 12, 0.8], strict=True):
        average += share * (value - average)
    assert net.weight.item() == pytest.approx(average, rel=1e-4)


@pytest.mark.parametrize("at_once", [1, 2, 5, 100])
def test_weights_and_averages_are_exchanged_whole(at_once, monkeypatch):
    monkeypatch.setattr(averages, "ROWS_AT_ONCE", at_once)
    ones = [torch.arange(15.0).reshape(5, 3), torch.tensor(2.0), torch.zeros(0, 4)]
    others = [-torch.ones(5, 3), torch.tensor(7.0), torch.zeros(0, 4)]
    wanted = [other.clone() for other in others], [one.clone() for one in ones]
    exchange_tensors(ones, others)
    for found, expected in zip((ones, others), wanted, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_averages_hold_no_graph_of_the_steps_behind_them():
    weight = nn.Parameter(torch.ones(2))
    mean = WeightAverages([weight], set(), 0.5)
    mean.update_after_step(0)
    (value,) = mean.state_tensors().values()
    assert not value.requires_grad

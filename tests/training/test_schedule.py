"""The learning rate by hand."""

from __future__ import annotations

import pytest

from ontodex.training.schedule import learning_rate
from ontodex.types.loop_config import LoopConfig


def rates(config: LoopConfig, total_steps: int) -> list[float]:
    return [learning_rate(step, total_steps, config) for step in range(total_steps)]


def test_the_rate_rises_to_its_peak_in_the_warm_up_steps_and_falls_in_a_straight_line():
    """40 steps, 4 of warm-up: 1/4, 2/4, 3/4 of the peak, then 1 - 0.9 step / 40."""
    config = LoopConfig(lr=2.0, warmup_steps=4, final_lr_ratio=0.1)
    found = rates(config, 40)
    assert found[:3] == pytest.approx([2 * 0.25, 2 * 0.5, 2 * 0.75])
    assert found[3] == pytest.approx(2 * (1 - 0.9 * 3 / 40))
    assert found[20] == pytest.approx(2 * 0.55)
    assert found[39] == pytest.approx(2 * (1 - 0.9 * 39 / 40))
    assert max(found) == found[3]


@pytest.mark.parametrize("warmup_steps", [5, 6, 300])
def test_a_warm_up_longer_than_a_tenth_of_the_training_is_cut_to_a_tenth(warmup_steps):
    """50 steps allow 5 of warm-up: the peak comes at the fifth step, whatever was asked for."""
    found = rates(LoopConfig(lr=1.0, warmup_steps=warmup_steps, final_lr_ratio=0.0), 50)
    assert found[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1 - 4 / 50])
    assert found[49] == pytest.approx(1 / 50)


@pytest.mark.parametrize("total_steps", [1, 9])
def test_a_training_of_less_than_ten_steps_has_no_warm_up(total_steps):
    found = rates(LoopConfig(lr=1.0, warmup_steps=300, final_lr_ratio=0.5), total_steps)
    assert found == pytest.approx([1 - 0.5 * step / total_steps for step in range(total_steps)])


@pytest.mark.parametrize("warmup_steps", [0, 1])
def test_without_a_warm_up_and_without_decay_the_rate_is_constant(warmup_steps):
    config = LoopConfig(lr=0.3, warmup_steps=warmup_steps, final_lr_ratio=1.0)
    assert rates(config, 25) == [0.3] * 25

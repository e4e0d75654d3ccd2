from __future__ import annotations

import math

import pytest

from ontodex.types.loop_config import LoopConfig


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("lr", math.nan), ("lr", math.inf), ("weight_decay", math.nan), ("max_grad_norm", -1.0),
        ("max_grad_norm", math.nan), ("warmup_steps", -1), ("patience", -1),
        ("checkpoint_seconds", -1.0), ("seed", -1), ("seed", 2**64), ("final_lr_ratio", 1.5),
    ],
)  # fmt: skip
def test_a_number_that_would_end_a_training_later_is_refused_by_name(name, wrong):
    with pytest.raises(ValueError, match=rf"^{name} must be .*, not {wrong}"):
        LoopConfig(**{name: wrong})

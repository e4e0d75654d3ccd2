"""The learning rate of each step: a linear warm-up to the peak, then a linear decay."""

from __future__ import annotations

from ontodex.types.loop_config import LoopConfig


def learning_rate(step: int, total_steps: int, config: LoopConfig) -> float:
    """Return the learning rate of a step, counted from 0.

    The warm-up takes at most a tenth of the training, so that a short training reaches its peak.
    """
    warmup_steps = max(1, min(config.warmup_steps, total_steps // 10))
    rise = (step + 1) / warmup_steps
    decay = 1 - (1 - config.final_lr_ratio) * step / total_steps
    return config.lr * min(rise, decay)

"""Settings of the training loop, shared by every network.

They are separate from the loop, so that loading a trained run imports no training code.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import ClassVar, Literal

from ontodex.config import check_least, check_range, check_seed, check_shares


@dataclass(frozen=True)
class LoopConfig:
    """Settings of one training, whichever the network."""

    LEAST_EPOCHS: ClassVar[int] = 1
    momentum: ClassVar[float] = 0.9  # of sgd
    epochs: int = 10  # most passes over the training documents
    batch_size: int = 128  # documents per step, over all processes
    optimizer: Literal["adam", "sgd"] = "adam"  # sgd: with momentum 0.9
    lr: float = 2e-3  # peak learning rate
    warmup_steps: int = 300  # steps until the peak; never more than a tenth of all steps
    final_lr_ratio: float = 0.02  # learning rate of the last step / peak; the decay is linear
    weight_decay: float = 0.0  # decoupled, as in AdamW; with sgd a part of the gradient
    max_grad_norm: float = 20.0  # gradients are clipped to this norm; 0 = no clipping
    ema_rate: float = 0.003  # 1 - decay of the moving average of the weights; 0 = no average
    patience: int = 3  # epochs without a better dev score before training stops; 0 = never
    checkpoint_seconds: float = 60.0  # time between checkpoints, where there is a folder for them
    seed: int = 1  # of the initial weights, the order of documents and dropout

    def __post_init__(self) -> None:
        check_least(self, self.LEAST_EPOCHS, "epochs")
        check_least(self, 1, "batch_size")
        check_least(self, 0, "warmup_steps", "weight_decay", "max_grad_norm", "patience")
        check_least(self, 0, "checkpoint_seconds")
        check_seed(self)
        if not 0 < self.lr < math.inf:
            raise ValueError(f"lr must be above 0, not {self.lr}")
        check_range(self, 0, 1, "final_lr_ratio")
        check_shares(self, "ema_rate")

    def to_loop(self) -> LoopConfig:
        """Return the settings of the loop; the shorter tables below have the same method."""
        return LoopConfig(**{one.name: getattr(self, one.name) for one in fields(LoopConfig)})


@dataclass(frozen=True)
class NetworkLoopConfig(LoopConfig):
    """The settings of the loop that users of a network over words choose. No experiment varies the
    others, so they are constants of a system."""

    FORMER: ClassVar[tuple[str, ...]] = ("optimizer", "final_lr_ratio", "max_grad_norm")
    optimizer: ClassVar[Literal["adam", "sgd"]] = "adam"  # type: ignore[misc]
    final_lr_ratio: ClassVar[float] = 0.02  # type: ignore[misc]
    max_grad_norm: ClassVar[float] = 20.0  # type: ignore[misc]


@dataclass(frozen=True)
class ConstantRateConfig(NetworkLoopConfig):
    """Adam with a constant learning rate and early stopping, as the papers train their networks."""

    epochs: int = 50  # most passes over the training documents
    lr: float = 1e-3  # learning rate
    warmup_steps: int = 1  # steps until it is reached; never more than a tenth of all steps
    ema_rate: float = 0.0  # 1 - decay of the moving average of the weights; 0 = no average

    final_lr_ratio: ClassVar[float] = 1.0  # type: ignore[misc]


@dataclass(frozen=True)
class AdamConfig:
    """The settings of the loop that matter to a small network trained by Adam."""

    epochs: int = 10  # most passes over the training documents
    batch_size: int = 128  # documents per step, over all processes
    lr: float = 2e-3  # peak learning rate; it decays linearly
    ema_rate: float = 0.003  # 1 - decay of the moving average of the weights; 0 = no average
    patience: int = 3  # epochs without a better dev score before training stops; 0 = never
    seed: int = 1  # of the initial weights, the order of documents and dropout

    FORMER: ClassVar[tuple[str, ...]] = (
        "optimizer", "warmup", "warmup_steps", "final_lr", "final_lr_ratio", "momentum",
        "weight_decay", "clip", "max_grad_norm", "checkpoint_seconds",
    )  # fmt: skip

    def __post_init__(self) -> None:
        self.to_loop()  # checks the values

    def to_loop(self) -> LoopConfig:
        """Return the settings of the loop."""
        return LoopConfig(**asdict(self))


@dataclass(frozen=True)
class SgdConfig:
    """Plain SGD with momentum 0.9: a fixed learning rate, no average of weights, no clipping."""

    epochs: int = 100  # most passes over the training documents
    batch_size: int = 128  # documents per step, over all processes
    lr: float = 0.01  # fixed
    weight_decay: float = 0.0  # a part of the gradient
    patience: int = 10  # epochs without a better dev score before training stops; 0 = never
    seed: int = 1  # of the initial weights, the order of documents and dropout

    def __post_init__(self) -> None:
        self.to_loop()  # checks the values

    def to_loop(self) -> LoopConfig:
        """Return the settings of the loop."""
        return LoopConfig(
            optimizer="sgd",
            warmup_steps=1,
            final_lr_ratio=1.0,
            max_grad_norm=0.0,
            ema_rate=0.0,
            **asdict(self),
        )

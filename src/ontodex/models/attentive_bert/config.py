"""Settings of `attentive-bert`; the defaults are the first that were trained, not tuned."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from ontodex.config import check_least, check_shares, check_widths
from ontodex.features.languages import OWN
from ontodex.features.word_pieces import WindowConfig
from ontodex.models.attentive.config import CorpusLoopConfig
from ontodex.models.pretrained import NEEDED_ENCODER
from ontodex.models.text_network import ShardedOutputConfig, WordConfig


@dataclass(frozen=True)
class BertLoopConfig(CorpusLoopConfig):
    """Settings of the training of a pretrained encoder with its read-out."""

    FEWEST: ClassVar[int] = 6
    STEPS: ClassVar[int] = 4_000
    batch_size: int = 64  # documents per step, over all processes
    weight_decay: float = 0.01  # decoupled, as in AdamW
    patience: int = 0  # epochs without a better dev score before training stops; 0 = never

    max_grad_norm: ClassVar[float] = 5.0  # type: ignore[misc]


@dataclass(frozen=True)
class EncoderConfig(WindowConfig):
    """Settings of a pretrained encoder that is trained further."""

    encoder: str = field(default="", metadata={"path": True})  # a folder, or hub:user/name
    encoder_lr: float = 1e-4  # peak learning rate of the encoder; [model.train] lr is the rest's

    def __post_init__(self) -> None:
        WindowConfig.__post_init__(self)
        if not 0 < self.encoder_lr < math.inf:
            raise ValueError(f"encoder_lr must be above 0, not {self.encoder_lr}")


@dataclass(frozen=True)
class AttentiveBertConfig(ShardedOutputConfig, EncoderConfig, WordConfig):
    """Settings of `attentive-bert`."""

    encoder: str = field(default="", metadata=NEEDED_ENCODER)  # a folder, or hub:user/name
    value_dim: int = 512  # width of the fully connected layer behind label attention
    dropout: float = 0.2  # of the encoder's states
    bag: int = 1024  # width of the bag of words beside the encoder
    bag_dropout: float = 0.5  # of the bag of words
    max_length: int = 1_500  # words of a document in the bag
    stop_words: str = OWN  # left out of the bag
    train: BertLoopConfig = field(default_factory=BertLoopConfig)

    def __post_init__(self) -> None:
        EncoderConfig.__post_init__(self)
        WordConfig.__post_init__(self)
        check_least(self, 1, "value_dim", "bag")
        check_widths(self, "value_dim", "bag")
        check_shares(self, "dropout", "bag_dropout")

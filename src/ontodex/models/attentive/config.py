"""Settings of `attentive`; the defaults are the best on EURLEX57K dev."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ontodex.config import check_least, check_shares, check_widths
from ontodex.models.text_network import ShardedOutputConfig, TextNetworkConfig
from ontodex.types.loop_config import NetworkLoopConfig

MOST_EPOCHS = 20


@dataclass(frozen=True)
class CorpusLoopConfig(NetworkLoopConfig):
    """Settings of a training whose length follows the corpus."""

    LEAST_EPOCHS: ClassVar[int] = 0
    FEWEST: ClassVar[int] = 8  # epochs of a large corpus
    # 17,000 documents are read 14 times in batches of 128.
    STEPS: ClassVar[int] = 1_860  # a small corpus is read until there are as many
    epochs: int = 0  # most passes over the training documents; 0 = by the size of the corpus

    def fit_to_corpus(self, n_docs: int) -> NetworkLoopConfig:
        """Return the settings with the number of epochs: where it is 0, `FEWEST` or as many as
        `STEPS` steps need, at most 20."""
        if self.epochs:
            return self
        steps = max(1, math.ceil(n_docs / self.batch_size))
        epochs = min(max(self.FEWEST, math.ceil(self.STEPS / steps)), MOST_EPOCHS)
        return replace(self, epochs=epochs)


@dataclass(frozen=True)
class AttentiveConfig(ShardedOutputConfig, TextNetworkConfig):
    """Settings of `attentive`."""

    hidden: int = 512  # LSTM units in each direction
    value_dim: int = 512  # width of the fully connected layer
    bag: int = 1024  # width of the bag of words beside the LSTM
    word_dropout: float = 0.3  # of word vectors
    dropout: float = 0.5  # of the LSTM's states and of the bag
    train: CorpusLoopConfig = field(default_factory=CorpusLoopConfig)

    read_out: ClassVar[str] = "label"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "value_dim", "bag")
        check_widths(self, "hidden", "value_dim", "bag")
        check_shares(self, "word_dropout", "dropout")

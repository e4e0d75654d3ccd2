"""Settings of AttentionXML and XML-RNN."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ontodex.config import check_least, check_shares, check_widths
from ontodex.models.text_network import TextNetworkConfig
from ontodex.types.loop_config import LoopConfig


@dataclass(frozen=True)
class RecurrentConfig(TextNetworkConfig):
    """Settings of networks with a BiLSTM: `xmlrnn` has no others."""

    hidden: int = 512  # LSTM units in each direction
    value_dim: int = 512  # width of the fully connected layer
    word_dropout: float = 0.3  # of word vectors
    dropout: float = 0.5  # of the LSTM's states

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "value_dim")
        check_widths(self, "hidden", "value_dim")
        check_shares(self, "word_dropout", "dropout")


@dataclass(frozen=True)
class AttentionXMLConfig(RecurrentConfig):
    """Settings of `attentionxml`. Defaults are the best on EURLEX57K dev; the paper's are in
    experiments/paper/attentionxml.toml."""

    # An output vector for each label, or one for all (paper).
    read_out: Literal["label", "shared"] = "label"
    bag: int = 1024  # width of the bag of words beside the LSTM; 0 = none (paper)
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=8))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 0, "bag")
        check_widths(self, "bag")

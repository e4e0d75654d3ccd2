"""Settings of AttentionXML and XML-RNN: the values of the paper ("Experimental Settings")."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ontodex.config import MAX_WIDTH, check_least, check_shares, check_widths
from ontodex.models.text_network import ShardedOutputConfig, TextNetworkConfig
from ontodex.types.loop_config import ConstantRateConfig


@dataclass(frozen=True)
class PaperLoopConfig(ConstantRateConfig):
    """Settings of the paper's training: small batches, gradients as they are."""

    batch_size: int = 40  # documents per step, over all processes

    max_grad_norm: ClassVar[float] = 0.0  # type: ignore[misc]


@dataclass(frozen=True)
class AttentionXMLConfig(ShardedOutputConfig, TextNetworkConfig):
    """Settings of `attentionxml` and `xmlrnn`, for the paper's medium-scale corpora. Those for its
    large-scale corpora are in experiments/paper/attentionxml-large.toml."""

    punctuation: bool = True  # the paper reads the raw text
    stop_words: str = ""
    width: int = 300  # of word vectors; pretrained ones may be narrower, the rest is learned
    hidden: int = 256  # LSTM units in each direction
    layers: tuple[int, ...] = (256,)  # widths of the fully connected layers, one or two
    dropout: float = 0.5  # of the LSTM's states
    train: PaperLoopConfig = field(default_factory=PaperLoopConfig)

    FORMER: ClassVar[tuple[str, ...]] = ("word_dropout",)
    read_out: ClassVar[str] = "shared"
    bag: ClassVar[int] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden")
        check_widths(self, "hidden")
        check_layers(self.layers)
        check_shares(self, "dropout")


def check_layers(widths: tuple[int, ...]) -> None:
    """Refuse an empty list of layers, and layers that no machine can hold."""
    if not widths or not 1 <= min(widths) <= max(widths) <= MAX_WIDTH:
        raise ValueError(f"layers must be widths from 1 to {MAX_WIDTH:,}, not {list(widths)}")

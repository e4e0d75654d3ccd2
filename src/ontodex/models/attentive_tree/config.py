"""Settings of `attentive-tree`; the defaults are the best on dev of EURLEX57K and MEDLINE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ontodex.config import check_least, check_shares, check_widths
from ontodex.models.attentionxml.config import check_layers
from ontodex.models.attentive_bert.config import EncoderConfig
from ontodex.models.text_network import TextNetworkConfig
from ontodex.types.loop_config import NetworkLoopConfig


@dataclass(frozen=True)
class AttentiveTreeConfig(EncoderConfig, TextNetworkConfig):
    """Settings of `attentive-tree`. Without an encoder, words are read by an LSTM."""

    hidden: int = 512  # LSTM units in each direction
    layers: tuple[int, ...] = (512,)  # widths of the fully connected layers of labels
    bag: int = 1024  # width of the bag of words beside the LSTM
    dropout: float = 0.5  # of the LSTM's states and of the bags
    candidates: int = 512  # nodes of a level below the top that are scored, about
    beam: int = 0  # nodes of a level whose children these are; 0 = enough for `candidates`
    cluster: int = 8  # most labels below one node; each has half as many or more
    table: Literal["fp32", "bf16"] = "fp32"  # label rows in training; bf16: about an eighth
    train: NetworkLoopConfig = field(default_factory=lambda: NetworkLoopConfig(epochs=8))

    FORMER: ClassVar[tuple[str, ...]] = (
        "train_beam_ratio", "tree", "height", "learned", "word_dropout",
    )  # fmt: skip
    word_dropout: ClassVar[float] = 0.3  # of word vectors
    children: ClassVar[int] = 8  # of an inner node
    generator: ClassVar[str] = "document"
    path_scoring: ClassVar[str] = "alone"
    training: ClassVar[str] = "joint"
    negatives: ClassVar[str] = "dynamic"

    def __post_init__(self) -> None:
        EncoderConfig.__post_init__(self)
        TextNetworkConfig.__post_init__(self)
        check_least(self, 1, "hidden", "bag", "candidates")
        check_least(self, 0, "beam")
        check_least(self, 2, "cluster")
        check_widths(self, "hidden", "bag")
        check_layers(self.layers)
        check_shares(self, "dropout")

"""Settings of LightAttention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ontodex.config import check_least, check_most, check_shares, check_widths
from ontodex.models.text_network import TextNetworkConfig
from ontodex.types.loop_config import LoopConfig


@dataclass(frozen=True)
class LightAttentionConfig(TextNetworkConfig):
    """Settings of `lightattention`. The paper names those of the tree and 3 or 4 layers, no
    others."""

    hidden: int = 512  # LSTM units in each direction
    value_dim: int = 512  # width of the fully connected layer
    word_dropout: float = 0.3  # of word vectors
    dropout: float = 0.5  # of the LSTM's states
    generator: Literal["document", "attention"] = "document"  # how clusters read a text
    # The probability of a label: of its own logit, where clusters only propose candidates (alone);
    # of its logit added to its cluster's (sum); or the product along the path (paper, Eq. 1).
    path_scoring: Literal["alone", "sum", "product"] = "alone"
    layers: int = 1  # fully connected layers of the discriminator; a generator has one
    bag: int = 1024  # width of the bag of words beside the LSTM; 0 = none (paper)
    candidates: int = 512  # nodes of a level below the top that are scored, about
    beam: int = 0  # nodes of a level whose children these are (b); 0 = enough for `candidates`
    train_beam_ratio: float = 1.0  # share of the beam whose children a training step scores
    tree: Literal["cluster", "ontology"] = "cluster"  # source of the label tree
    cluster: int = 8  # most labels below one node (M); each has half as many or more
    children: int = 8  # of an inner node, a power of two (K); the root has the rest
    height: int = 0  # of the tree (H); 0 = the least whose top level can be scored whole
    negatives: Literal["dynamic", "static"] = "dynamic"  # of each step, or once for each document
    training: Literal["joint", "top-down"] = "joint"  # all levels at once, or from the top down
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=8))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "value_dim", "layers", "candidates")
        check_shares(self, "word_dropout", "dropout")
        check_most(self, 64, "layers")
        check_widths(self, "hidden", "value_dim", "bag")
        check_least(self, 0, "bag", "beam", "height")
        check_least(self, 2, "cluster")
        if not 0 < self.train_beam_ratio <= 1:
            raise ValueError(
                f"train_beam_ratio must be above 0 and at most 1, not {self.train_beam_ratio}"
            )
        if self.children < 2 or self.children & (self.children - 1):
            raise ValueError(f"children must be a power of two, not {self.children}")
        if self.negatives == "static" and self.training == "joint":
            raise ValueError(
                'negatives = "static" are drawn once the level above is trained, '
                'so they need training = "top-down"'
            )

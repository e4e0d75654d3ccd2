"""BoW-CNN, a baseline of the Rank-AE paper: a convolution over bags of words.

R. Johnson, T. Zhang, "Effective Use of Word Order for Text Categorization with Convolutional Neural
Networks", NAACL 2015.

    tokens ─ a row of W each ─ sum over regions of r words, ReLU ─ max in p chunks ─ logits
    (n,t)       (n,t,e)               (n, t-r+1, e)                   (n, p·e)        (n,l)

A region is read as its bag of words: the convolution has the same weights at every place of its
window, which is W times the region's word counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_least, check_most, check_shares
from ontodex.models.attentionxml.xmlcnn import pool_chunks
from ontodex.models.layers.words import WordEmbedding
from ontodex.models.text_network import ShardedOutputConfig, TextNetworkConfig, TextNetworkSystem
from ontodex.types.loop_config import NetworkLoopConfig


@dataclass(frozen=True)
class BowCNNConfig(ShardedOutputConfig, TextNetworkConfig):
    """Settings of `bowcnn`; `width` is the number of units that read a region."""

    region: int = 20  # r, words that are one bag
    chunks: int = 8  # p, parts of the text, pooled separately
    word_dropout: float = 0.2  # of word vectors
    dropout: float = 0.5  # of the pooled features
    train: NetworkLoopConfig = field(default_factory=NetworkLoopConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "region", "chunks")
        check_most(self, 10_000, "region", "chunks")
        check_shares(self, "word_dropout", "dropout")


class BowCNN(nn.Module):
    """Features of regions of the text, pooled in chunks of its length."""

    label_parameters: ClassVar[tuple[str, ...]] = ("output.weight", "output.bias")

    def __init__(
        self, config: BowCNNConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.region, self.chunks = config.region, config.chunks
        # These are weights of a convolution, so pretrained word vectors would be no useful start.
        self.words = WordEmbedding(n_words, config.width, config.word_dropout, None)
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.drop = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.chunks * config.width, len(log_odds))
        with torch.no_grad():
            self.output.bias.copy_(log_odds)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        bags = sum_regions(self.words(tokens), self.region)  # (n, places, e)
        h = F.relu(bags + self.bias)
        z = pool_chunks(h, (lengths - self.region + 1).clamp(min=1), self.chunks)  # (n, p, e)
        return self.output(self.drop(z.flatten(1))).float()  # (n, l)  # fmt: skip


def sum_regions(x: Tensor, region: int) -> Tensor:
    """Return (n, t - region + 1, e): the sums over windows of x (n, t, e), whose padding is 0. A
    sequence shorter than the region is one window."""
    x = F.pad(x, (0, 0, 0, max(0, region - x.shape[1])))
    return region * F.avg_pool1d(x.transpose(1, 2), region, stride=1).transpose(1, 2)


class BowCNNSystem(TextNetworkSystem):
    """BoW-CNN as a system."""

    Config = BowCNNConfig
    Network = BowCNN

"""BoW-CNN (Johnson and Zhang 2015), a baseline of paper 004: a convolution over bags of words.

    tokens ─ a row of W each ─ sum over regions of r words, ReLU ─ max in p chunks ─ logits
    (n,t)       (n,t,e)               (n, t-r+1, e)                   (n, p·e)        (n,l)

A region is its bag of words: a convolution whose weights are the same at every place of its window,
and so W times the region's word counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_shares
from ontodex.models.neural import NeuralConfig, NeuralSystem
from ontodex.models.parts import Words
from ontodex.models.xmlcnn import chunk_max
from ontodex.train.loop import LoopConfig


@dataclass(frozen=True)
class BowCNNConfig(NeuralConfig):
    """Settings of `bowcnn`; `width` is the number of units that read a region."""

    region: int = 20  # r, words that are one bag
    chunks: int = 8  # p, parts of the text that are pooled apart
    word_dropout: float = 0.2  # of word vectors
    dropout: float = 0.5  # of what is pooled
    train: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.region, self.chunks) < 1:
            raise ValueError("region and chunks must be at least 1")
        check_shares(self, "word_dropout", "dropout")


class BowCNN(nn.Module):
    """Which words come near each other, and in which part of the text."""

    def __init__(
        self, config: BowCNNConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.region, self.chunks = config.region, config.chunks
        # Rows of a convolution's weights, not meanings of words: pretrained vectors are no start.
        self.words = Words(n_words, config.width, config.word_dropout, None)
        self.bias = nn.Parameter(torch.zeros(config.width))
        self.drop = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.chunks * config.width, len(log_odds))
        with torch.no_grad():
            self.output.bias.copy_(log_odds)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        bags = region_sums(self.words(tokens), self.region)  # (n, places, e)
        h = F.relu(bags + self.bias)
        z = chunk_max(h, (lengths - self.region + 1).clamp(min=1), self.chunks)  # (n, p, e)
        return self.output(self.drop(z.flatten(1))).float()  # (n, l)  # fmt: skip


def region_sums(x: Tensor, region: int) -> Tensor:
    """(n, t - region + 1, e): the sums over windows of x (n, t, e), whose padding is 0; a sequence
    shorter than the region is one window."""
    x = F.pad(x, (0, 0, 0, max(0, region - x.shape[1])))
    return region * F.avg_pool1d(x.transpose(1, 2), region, stride=1).transpose(1, 2)


class BowCNNSystem(NeuralSystem):
    Config = BowCNNConfig
    Network = BowCNN

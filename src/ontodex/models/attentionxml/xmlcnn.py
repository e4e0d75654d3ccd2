"""XML-CNN, a baseline of the AttentionXML paper: convolutions, dynamic max pooling, a bottleneck.

J. Liu, W.-C. Chang, Y. Wu, Y. Yang, "Deep Learning for Extreme Multi-label Text Classification",
SIGIR 2017.

tokens ─ vectors ─ convolutions of width 2, 4, 8 ─ max in 8 chunks each ─ bottleneck ─ logits
(n,t)    (n,t,e)        (n,t,128) each              (n, 3·8·128)          (n,512)     (n,l)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_least, check_shares, check_widths
from ontodex.models.layers.words import WordEmbedding
from ontodex.models.text_network import ShardedOutputConfig, TextNetworkConfig, TextNetworkSystem
from ontodex.types.loop_config import NetworkLoopConfig


@dataclass(frozen=True)
class XMLCNNConfig(ShardedOutputConfig, TextNetworkConfig):
    """Settings of `xmlcnn`: the network is the paper's, the training loop ours."""

    width: int = 300  # of word vectors; pretrained ones may be narrower, the rest is learned
    windows: tuple[int, ...] = (2, 4, 8)  # words that a convolution covers
    maps: int = 128  # feature maps of each
    chunks: int = 8  # parts of the text, pooled separately
    bottleneck: int = 512  # units between pooling and labels
    word_dropout: float = 0.0  # of word vectors; none in the paper
    dropout: float = 0.5  # of the bottleneck
    train: NetworkLoopConfig = field(default_factory=NetworkLoopConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.windows or min(self.windows) < 1:
            raise ValueError(f"windows must be at least 1, not {list(self.windows)}")
        check_least(self, 1, "maps", "chunks", "bottleneck")
        check_widths(self, "maps", "chunks", "bottleneck")
        check_shares(self, "word_dropout", "dropout")


class XMLCNN(nn.Module):
    """One vector a document: features of word windows, pooled in chunks of its length."""

    label_parameters: ClassVar[tuple[str, ...]] = ("output.weight", "output.bias")

    def __init__(
        self, config: XMLCNNConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.chunks = config.chunks
        self.words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        self.convolve = nn.ModuleList(
            nn.Conv1d(config.width, config.maps, window) for window in config.windows
        )
        width = len(config.windows) * config.chunks * config.maps
        self.bottleneck = nn.Linear(width, config.bottleneck)
        self.drop = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.bottleneck, len(log_odds))
        nn.init.zeros_(self.output.bias)  # as in AttentionXML, so that neither has a head start

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        x = self.words(tokens)  # (n, t, e)
        pooled = [self.pool(c, x, lengths) for c in self.convolve]  # (n, chunks, maps) each
        z = torch.cat([p.flatten(1) for p in pooled], dim=1)  # (n, all chunks and maps)
        return self.output(self.drop(F.relu(self.bottleneck(z)))).float()  # (n, l)  # fmt: skip

    def pool(self, convolve: nn.Module, x: Tensor, lengths: Tensor) -> Tensor:
        """Convolve word vectors x (n, t, e) with one window size and pool the result in chunks."""
        assert isinstance(convolve, nn.Conv1d)
        window = convolve.kernel_size[0]
        x = F.pad(x, (0, 0, 0, max(0, window - x.shape[1])))
        maps = F.relu(convolve(x.transpose(1, 2))).transpose(1, 2)  # (n, positions, maps)
        return pool_chunks(maps, (lengths - window + 1).clamp(min=1), self.chunks)  # fmt: skip


def pool_chunks(x: Tensor, lengths: Tensor, chunks: int) -> Tensor:
    """Return (n, chunks, d): the maximum of each near-equal chunk of each sequence's own length.

    x (n, t, d) is not negative. A sequence shorter than `chunks` has empty chunks, which are 0.
    """
    n, t, d = x.shape
    positions = torch.arange(t, device=x.device)
    chunk = positions * chunks // lengths[:, None]  # (n, t): the chunk of a position
    is_inside = (positions < lengths[:, None])[:, :, None]
    out = torch.zeros(n, chunks, d, dtype=x.dtype, device=x.device)
    chunk = chunk.clamp(max=chunks - 1)[:, :, None].expand_as(x)
    return out.scatter_reduce(1, chunk, torch.where(is_inside, x, 0), "amax")  # fmt: skip


class XMLCNNSystem(TextNetworkSystem):
    """XML-CNN as a system."""

    Config = XMLCNNConfig
    Network = XMLCNN

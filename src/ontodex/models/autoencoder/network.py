"""The network of `autoencoder`: several networks of Rank-AE's form that leave out words."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.rankae.network import RankAE


class DroppingRankAE(RankAE):
    """Rank-AE that leaves out some words of a document in each step."""

    def __init__(
        self,
        n_words: int,
        n_labels: int,
        vectors: Tensor | None,
        *,
        word_dropout: float,
        **shape: Any,
    ) -> None:
        super().__init__(n_words, n_labels, vectors, **shape)
        self.word_dropout = word_dropout

    def weigh(self, tokens: Tensor, weights: Tensor) -> Tensor:
        return super().weigh(tokens, F.dropout(weights, self.word_dropout, self.training))


class Ensemble(nn.Module):
    """Networks trained on the same batches from different initial weights; logits are averaged."""

    def __init__(
        self, networks: int, n_words: int, n_labels: int, vectors: Tensor | None, **shape: Any
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            DroppingRankAE(n_words, n_labels, vectors, **shape) for _ in range(networks)
        )

    def forward(self, tokens: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        return torch.stack([part(tokens, lengths, weights) for part in self.parts]).mean(0)

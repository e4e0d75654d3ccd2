"""The network of `graphknn`: several networks of DXML's form, trained on the same targets.

features ─ dropout ─ W1, ReLU ─ W2, dropout ─ L2 norm ─ mean over networks, L2 norm = f_x
 (n, m)               (n, d)      (n, e)       (n, e)                 (n, e)
"""

from __future__ import annotations

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.dxml.network import EmbeddingNetwork


class EmbeddingEnsemble(nn.Module):
    """Networks of different initial weights; f_x is the mean of their embeddings."""

    def __init__(
        self,
        networks: int,
        n_features: int,
        hidden: int,
        size: int,
        *,
        input_norm: float,
        input_dropout: float,
        dropout: float,
        by_row: bool = False,
    ) -> None:
        super().__init__()
        self.size = size
        self.drop_input = nn.Dropout(input_dropout)
        self.parts = nn.ModuleList(
            EmbeddingNetwork(
                n_features, hidden, size, input_norm=input_norm, dropout=dropout, by_row=by_row
            )
            for _ in range(networks)
        )

    def forward(self, columns: Tensor, starts: Tensor, values: Tensor) -> Tensor:
        mean = torch.stack([part(columns, starts, values) for part in self.parts]).mean(0)
        return F.normalize(mean, dim=1)  # (n, e)

    def project_onto(
        self, columns: Tensor, starts: Tensor, values: Tensor, direction: Tensor
    ) -> Tensor:
        """Return the mean component of the embeddings in a direction (1, e)."""
        parts = cast(list[EmbeddingNetwork], list(self.parts))
        return torch.stack(
            [part.project_onto(columns, starts, values, direction) for part in parts]
        ).mean()

    def loss(self, columns: Tensor, starts: Tensor, values: Tensor, target: Tensor) -> Tensor:
        """Return the sum of the networks' losses; each leaves out features of its own choice."""
        parts = cast(list[EmbeddingNetwork], list(self.parts))
        losses = [part.loss(columns, starts, self.drop_input(values), target) for part in parts]
        return torch.stack(losses).sum()

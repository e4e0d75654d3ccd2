"""Token ids to vectors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.errors import ConfigError


class WordEmbedding(nn.Module):
    """Word vectors with dropout; row 0 is padding and stays zero."""

    def __init__(self, n_words: int, width: int, dropout: float, vectors: Tensor | None) -> None:
        super().__init__()
        if vectors is not None and vectors.shape[1] > width:
            raise ConfigError(
                f"model.width is {width}, but the pretrained vectors have {vectors.shape[1]} "
                "dimensions",
                hint=f"--set model.width={vectors.shape[1]}, or prepare shorter vectors",
            )
        self.table = nn.Embedding(n_words, width, padding_idx=0)
        nn.init.normal_(self.table.weight, std=0.1)
        if vectors is not None:  # they may be narrower; the other dimensions are learned
            with torch.no_grad():
                self.table.weight[:, : vectors.shape[1]] = vectors
        with torch.no_grad():
            self.table.weight[0] = 0
        self.dropout = dropout

    def forward(self, tokens: Tensor) -> Tensor:
        return F.dropout(self.table(tokens), self.dropout, self.training)  # (n, t, e)


def token_mask(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return (n, t): True at tokens, False at padding."""
    return torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]

"""The document as a set of words: a layer beside the sequence encoders.

tokens (n,t) ─ distinct words and their weights (n,t) ─ weighted sum of vectors ─ ReLU (n,w)
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.mapped_words import Words

ROWS = 1_000  # documents counted at once


class WordBag(nn.Module):
    """The weighted sum of vectors of a document's words, through ReLU."""

    WORD_DROPOUT = 0.2  # share of a document's words left out in training
    GAIN = 4.0  # scales the sum so that optimizer steps change it as much as an LSTM's states

    idf: Tensor | None  # (words,); None where rare words weigh no more than frequent ones

    def __init__(self, n_words: int, width: int, dropout: float, *, has_idf: bool = False) -> None:
        super().__init__()
        self.register_buffer("idf", torch.ones(n_words) if has_idf else None)
        self.words = nn.Embedding(n_words, width, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.1)
        self.bias = nn.Parameter(torch.zeros(width))
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        words, weights = weigh_words(tokens, self.idf)  # (n, t), (n, t)
        weights = F.dropout(weights, self.WORD_DROPOUT, self.training).to(self.bias.dtype)
        total = F.embedding_bag(words, self.words.weight, mode="sum", per_sample_weights=weights)
        return self.drop(F.relu(self.GAIN * total + self.bias))  # (n, w)

    def explain_logit(self, tokens: Tensor, output: Tensor) -> Tensor:
        """Return (n, t): the contribution of each token to a logit that is the bag times `output`
        (w,). The contribution of a repeated word is divided among its tokens."""
        count = (tokens[:, :, None] == tokens[:, None]).sum(-1)  # (n, t)
        weights = (1 + count.log()) * (tokens != 0)
        if self.idf is not None:
            weights = weights * self.idf[tokens]
        length = (weights.square() / count).sum(1, keepdim=True).sqrt().clamp(min=1e-12)
        added = self.words(tokens) * (self.GAIN * weights / length / count)[..., None]  # (n, t, w)
        is_active = added.sum(1) + self.bias > 0  # (n, w): units that pass the ReLU
        return torch.einsum("ntw,nw->nt", added, is_active * output)


class BagReadOut(nn.Module):
    """One logit a label from the bag of words.

    Attention reads words in context and learns slowly that a single rare word implies a rare label.
    Here each word contributes directly.
    """

    def __init__(
        self, n_words: int, width: int, n_labels: int, dropout: float, *, has_idf: bool = False
    ) -> None:
        super().__init__()
        self.bag = WordBag(n_words, width, dropout, has_idf=has_idf)
        self.output = nn.Linear(width, n_labels, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.bag(tokens)).float()  # (n, l)

    def explain_logit(self, tokens: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        return self.bag.explain_logit(tokens, self.output.weight[column])


def weigh_words(tokens: Tensor, idf: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return (words (n, t), weights (n, t)): each distinct word of a document with weight
    1 + log count, times its `idf` (words,), rows scaled to length 1; repetitions and padding (0)
    have weight 0."""
    words = tokens.sort(dim=1).values
    is_first = F.pad(words[:, 1:] != words[:, :-1], (1, 0), value=True)
    number = is_first.cumsum(dim=1) - 1  # index of the distinct word within its row
    count = torch.zeros(words.shape, device=words.device)
    count.scatter_add_(1, number, torch.ones_like(count))
    weights = (1 + count.gather(1, number).log()) * (is_first & (words != 0))
    if idf is not None:
        weights = weights * idf[words]
    return words, F.normalize(weights, dim=1)


def compute_idf(documents: Words, n_words: int) -> Tensor:
    """Return (words,): the inverse document frequency of each word."""
    frequency = torch.zeros(n_words, device=documents.device)
    for rows in np.array_split(np.arange(len(documents)), -(-len(documents) // ROWS)):
        words, weights = weigh_words(documents.pad(rows)[0])
        frequency += words[weights > 0].bincount(minlength=n_words)
    return ((1 + len(documents)) / (1 + frequency)).log() + 1

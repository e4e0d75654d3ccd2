"""Layers that at least two systems use.

Axes, in every shape comment of the package: n documents, t tokens, l labels, c candidate labels,
e embedding, d hidden, v value width, k ranks.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.errors import ConfigError
from ontodex.models import half_lstm


def token_mask(tokens: Tensor, lengths: Tensor) -> Tensor:
    """(n, t): True where a token is, False where padding is."""
    return torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]


class BiLSTM(nn.Module):
    """Both directions as two one-way LSTMs over unpacked batches; padding is never read.

    Padding stands at the end, so the forward direction meets it last; for the backward direction
    each sequence is turned round within its own length. On a GPU one-way fp16 calls with widths
    that are multiples of 128 reach cuDNN's persistent kernels, several times faster than one
    bidirectional packed call (docs/papers/attentionxml.md).
    """

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.onward = nn.LSTM(width, hidden, batch_first=True)
        self.backward_ = nn.LSTM(width, hidden, batch_first=True)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        turned = turn(x, lengths)  # (n, t, e)
        h, g = _lstm(self.onward, x), _lstm(self.backward_, turned)
        return torch.cat([h, turn(g, lengths)], dim=-1)  # (n, t, 2d)  # fmt: skip


def _lstm(layer: nn.LSTM, x: Tensor) -> Tensor:
    if not x.is_cuda:
        return half_lstm.states(layer, x)
    n = len(x)
    # Persistent kernels take only eights of sequences.
    with torch.autocast("cuda", dtype=torch.float16):
        return layer(F.pad(x, (0, 0, 0, 0, 0, -n % 8)))[0][:n]


def turn(x: Tensor, lengths: Tensor) -> Tensor:
    """Each sequence reversed within its own length; what is past it stays where it is."""
    t = torch.arange(x.shape[1], device=x.device)
    at = torch.where(t < lengths[:, None], lengths[:, None] - 1 - t, t)
    return x.gather(1, at[:, :, None].expand_as(x))


class Words(nn.Module):
    """Word vectors with dropout; row 0 is padding and stays zero."""

    def __init__(self, n_words: int, width: int, dropout: float, vectors: Tensor | None) -> None:
        super().__init__()
        if vectors is not None and vectors.shape[1] > width:
            raise ConfigError(
                f"model.width is {width}, the pretrained vectors have {vectors.shape[1]} numbers",
                hint=f"--set model.width={vectors.shape[1]}, or prepare shorter vectors",
            )
        self.table = nn.Embedding(n_words, width, padding_idx=0)
        nn.init.normal_(self.table.weight, std=0.1)
        if vectors is not None:
            with torch.no_grad():
                self.table.weight[:, : vectors.shape[1]] = vectors
        with torch.no_grad():
            self.table.weight[0] = 0
        self.dropout = dropout

    def forward(self, tokens: Tensor) -> Tensor:
        return F.dropout(self.table(tokens), self.dropout, self.training)  # (n, t, e)


class WordBag(nn.Module):
    """The document as a set of words, told by vectors of their own: (n, t) tokens to (n, width)."""

    LEFT_OUT = 0.2  # share of a document's words, in training
    GAIN = 4.0  # so that steps of one size move this sum as far as they move an LSTM's states

    def __init__(self, n_words: int, width: int, dropout: float) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words, width, padding_idx=0)
        nn.init.normal_(self.words.weight, std=0.1)
        self.bias = nn.Parameter(torch.zeros(width))
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        words, weights = word_weights(tokens)  # (n, t), (n, t)
        weights = F.dropout(weights, self.LEFT_OUT, self.training).to(self.bias.dtype)
        told = F.embedding_bag(words, self.words.weight, mode="sum", per_sample_weights=weights)
        return self.drop(F.relu(self.GAIN * told + self.bias))

    def contributions(self, tokens: Tensor, output: Tensor) -> Tensor:
        """(n, t): what each token adds to a logit that is the bag times `output` (width,). A word
        that stands there several times divides its share among them."""
        count = (tokens[:, :, None] == tokens[:, None]).sum(-1)  # (n, t)
        weights = (1 + count.log()) * (tokens != 0)
        length = (weights.square() / count).sum(1, keepdim=True).sqrt().clamp(min=1e-12)
        told = self.words(tokens) * (self.GAIN * weights / length / count)[..., None]  # (n, t, w)
        passes = told.sum(1) + self.bias > 0  # the ReLU, (n, w)
        return torch.einsum("ntw,nw->nt", told, passes * output)


def word_weights(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """(words (n, t), weights (n, t)): each word of a document once with weight 1 + log count, rows
    of length 1; repetitions and padding (0) have weight 0."""
    words = tokens.sort(dim=1).values
    first = F.pad(words[:, 1:] != words[:, :-1], (1, 0), value=True)
    number = first.cumsum(dim=1) - 1  # which of the row's distinct words
    count = torch.zeros(words.shape, device=words.device)
    count.scatter_add_(1, number, torch.ones_like(count))
    weights = (1 + count.gather(1, number).log()) * (first & (words != 0))
    return words, F.normalize(weights, dim=1)

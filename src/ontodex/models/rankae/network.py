"""The network of Rank-AE (Figures 1 and 2): feature embedding F, label encoder E and decoder D.

    words x weights ─ channel attention ─ pool ─ one layer ─ x_h ┐
        (n,t,e)           (n,t,e)        (n,e)              (n,d) ├ D, two layers ─ logits
    label set ─ E, two layers ───────────────────────────── y_h ┘                   (n,l)

Training pulls x_h and y_h together and D(y_h) towards the labels; the prediction is D(x_h).
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask


class ChannelAttention(nn.Module):
    """Weights of each word's channels, computed from its vector: A = sigmoid(F2 relu(F1 v))
    (Rank-AE, section 2.4, Eq. 5)."""

    def __init__(self, width: int, reduction: int) -> None:
        super().__init__()
        inner = max(1, width // reduction)
        self.squeeze, self.excite = nn.Linear(width, inner), nn.Linear(inner, width)

    def weights(self, v: Tensor) -> Tensor:
        return torch.sigmoid(self.excite(F.relu(self.squeeze(v))))  # (n, t, e)

    def forward(self, v: Tensor) -> Tensor:
        return v * self.weights(v)


class NoAttention(nn.Module):
    """The ablation of the paper: every channel has weight 1."""

    def __init__(self, width: int, reduction: int) -> None:
        super().__init__()

    def forward(self, v: Tensor) -> Tensor:
        return v


ATTENTIONS = {"on": ChannelAttention, "off": NoAttention}
Attention = Literal["on", "off"]
Input = Literal["set", "lstm"]  # words with TF-IDF, or the states of a BiLSTM over them


class NoContext(nn.Module):
    """The words as a set: no vector depends on its neighbours."""

    def forward(self, v: Tensor, lengths: Tensor) -> Tensor:
        return v


class LabelEncoder(nn.Module):
    """E, two layers over the multi-hot labels (Rank-AE, section 2.2). The first is a sum of rows
    for the document's labels, so that its cost does not grow with all labels."""

    def __init__(self, n_labels: int, inner: int, hidden: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(n_labels, inner) / inner**0.5)
        self.bias = nn.Parameter(torch.zeros(inner))
        self.output = nn.Linear(inner, hidden)

    def forward(self, columns: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(columns, lengths).to(self.rows.dtype)  # (n, g)
        y = F.embedding_bag(columns, self.rows, per_sample_weights=mask, mode="sum")  # (n, inner)
        return self.output(F.relu(y + self.bias))  # (n, d)  # fmt: skip


class LabelDecoder(nn.Module):
    """D, two layers back to one logit a label (Rank-AE, section 2.2).

    It starts as the transposed encoder. From a random start all scores are alike, and the gradients
    of the margin loss cancel out: the lowest true label may be any label, which is pushed up as
    often as it is pushed down elsewhere. Training would not leave that point.
    """

    def __init__(self, encode: LabelEncoder, dropout: float) -> None:
        super().__init__()
        n_labels, inner = encode.rows.shape
        self.inner = nn.Linear(encode.output.out_features, inner)
        self.output = nn.Linear(inner, n_labels)
        self.dropout = dropout
        with torch.no_grad():
            nn.init.orthogonal_(encode.output.weight)
            encode.output.bias.zero_()
            self.inner.weight.copy_(encode.output.weight.T)
            self.inner.bias.zero_()
            self.output.weight.copy_(2 * encode.rows)  # ReLU removes about half
            self.output.bias.zero_()

    def forward(self, embedding: Tensor) -> Tensor:
        z = F.relu(self.inner(F.dropout(embedding, self.dropout, self.training)))  # (n, inner)
        return self.output(F.dropout(z, self.dropout, self.training)).float()  # (n, l)


class RankAE(nn.Module):
    """F, E and D; `forward` is the prediction D(F(x))."""

    def __init__(
        self,
        n_words: int,
        n_labels: int,
        vectors: Tensor | None,
        *,
        width: int,
        hidden: int,
        label_hidden: int,
        reduction: int = 4,
        attention: Attention = "on",
        input: Input = "set",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        is_sequence = input == "lstm"
        half = -(-width // 2)  # LSTM units in each direction
        inner = 2 * half if is_sequence else width
        self.words = WordEmbedding(n_words, width, 0.0, vectors)
        self.context = BiLSTM(width, half) if is_sequence else NoContext()
        self.attend = ATTENTIONS[attention](inner, reduction)
        self.embed = nn.Linear(inner, hidden)
        self.encode = LabelEncoder(n_labels, label_hidden, hidden)
        self.decode = LabelDecoder(self.encode, dropout)

    def forward(self, tokens: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        return self.decode(self.embed_words(self.weigh(tokens, weights), lengths))  # (n, l)

    def weigh(self, tokens: Tensor, weights: Tensor) -> Tensor:
        """Return V', the word vectors times their weights (spatial attention)."""
        return self.words(tokens) * weights[:, :, None]  # (n, t, e)

    def embed_words(self, v: Tensor, lengths: Tensor) -> Tensor:
        """Return x_h = F(x) from the weighted word vectors.

        The paper averages over n words. Documents are padded to one n with words of weight 0, so
        the average is the sum over n, a constant that the next layer takes up.
        """
        m = self.attend(self.context(v, lengths))  # (n, t, e)  Eq. 5, M = V' o A
        x = torch.where(token_mask(m, lengths)[:, :, None], m, 0).sum(1)  # (n, e)  padding is 0
        return self.embed(x)  # (n, d)  # fmt: skip

"""The network of Rank-AE (Figures 1 and 2): feature embedding F, label encoder E and decoder D.

    words x weights ─ channel attention ─ pool ─ one layer ─ x_h ┐
        (n,t,e)           (n,t,e)        (n,e)              (n,d) ├ D, two layers ─ logits
    label set ─ E, two layers ───────────────────────────── y_h ┘                   (n,l)

Training pulls x_h and y_h together and D(y_h) towards the labels; the prediction is D(x_h).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_least, check_most, check_shares, check_widths
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.rankae.weighted_words import WeightedWordsConfig
from ontodex.types.loop_config import LoopConfig


@dataclass(frozen=True)
class RankAEConfig(WeightedWordsConfig):
    """Settings of `rankae`. Defaults are the best on dev; the paper's are in
    experiments/paper/rankae.toml."""

    input: Literal["set", "lstm"] = "set"  # words with TF-IDF, or the states of a BiLSTM over them
    width: int = 256  # C, of word vectors; pretrained ones may be narrower, the rest is learned
    attention: Literal["on", "off"] = "on"  # the channel attention A; the weights always stay
    reduction: int = 4  # r: A's inner layer has width / r units
    pool: Literal["sum", "mean"] = "sum"  # of a document's words
    hidden: int = 256  # h, of the common space
    label_hidden: int = 256  # units between the two layers of encoder and of decoder
    loss: Literal["margin", "bce"] = "margin"  # L_ae
    margin: float = 0.2  # m, by which a true label's score should exceed a false one's
    margin_reduction: Literal["mean", "sum"] = "mean"  # of L_P over false, of L_N over true labels
    reconstruction_weight: float = 5.0  # lambda, of L_ae against the distance of the embeddings
    direct_weight: float = 0.1  # of the cross-entropy of the prediction D(x_h); 0 = none (paper)
    networks: int = 4  # trained side by side; a label's logit is the mean of theirs
    word_dropout: float = 0.2  # share of a document's words left out in a step
    dropout: float = 0.2  # in the decoder
    train: LoopConfig = field(
        default_factory=lambda: LoopConfig(epochs=15, batch_size=32, lr=3e-3, patience=5)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "label_hidden", "reduction", "networks")
        check_most(self, 1_000, "networks")
        check_widths(self, "hidden", "label_hidden")
        check_least(self, 0, "reconstruction_weight", "direct_weight")
        if not 0 <= self.margin <= 1:
            raise ValueError(f"margin must be in [0, 1], not {self.margin}")
        check_shares(self, "word_dropout", "dropout")


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
        self, config: RankAEConfig, n_words: int, n_labels: int, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.pool, self.word_dropout = config.pool, config.word_dropout
        is_sequence = config.input == "lstm"
        half = -(-config.width // 2)  # LSTM units in each direction
        width = 2 * half if is_sequence else config.width
        self.words = WordEmbedding(n_words, config.width, 0.0, vectors)
        self.context = BiLSTM(config.width, half) if is_sequence else NoContext()
        self.attend = ATTENTIONS[config.attention](width, config.reduction)
        self.embed = nn.Linear(width, config.hidden)
        self.encode = LabelEncoder(n_labels, config.label_hidden, config.hidden)
        self.decode = LabelDecoder(self.encode, config.dropout)

    def forward(self, tokens: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        return self.decode(self.embed_words(self.weigh(tokens, weights), lengths))  # (n, l)

    def weigh(self, tokens: Tensor, weights: Tensor) -> Tensor:
        """Return V', the word vectors times their weights (spatial attention)."""
        weights = F.dropout(weights, self.word_dropout, self.training)
        return self.words(tokens) * weights[:, :, None]  # (n, t, e)

    def embed_words(self, v: Tensor, lengths: Tensor) -> Tensor:
        """Return x_h = F(x) from the weighted word vectors."""
        mask = token_mask(v, lengths)[:, :, None]  # (n, t, 1)
        m = self.attend(self.context(v, lengths))  # (n, t, e)  Eq. 5, M = V' o A
        x = torch.where(mask, m, 0).sum(1)  # (n, e)
        x = x / lengths.clamp(min=1)[:, None] if self.pool == "mean" else x
        return self.embed(x)  # (n, d)  # fmt: skip


class Ensemble(nn.Module):
    """Networks trained on the same batches from different initial weights; logits are averaged."""

    def __init__(
        self, config: RankAEConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            RankAE(config, n_words, len(log_odds), vectors) for _ in range(config.networks)
        )

    def forward(self, tokens: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        return torch.stack([part(tokens, lengths, weights) for part in self.parts]).mean(0)

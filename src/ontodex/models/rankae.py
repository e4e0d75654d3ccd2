"""Rank-AE: documents and their label sets meet in one space, decoded with a ranking loss (004).

    words x weights ─ channel attention ─ pool ─ one layer ─ x_h ┐
        (n,t,e)           (n,t,e)        (n,e)              (n,d) ├ D, two layers ─ logits
    label set ─ E, two layers ───────────────────────────── y_h ┘                   (n,l)

Training pulls x_h and y_h together and D(y_h) towards the labels; prediction is D(x_h).
Deviations from the paper, with reasons and measured effects: docs/papers/rankae.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.config import check_least, check_shares
from ontodex.features import vectors
from ontodex.models.base import Span
from ontodex.models.neural import NeuralSystem, Ragged, log_odds
from ontodex.models.parts import BiLSTM, Words, token_mask
from ontodex.models.weighted_words import Bags, SequenceInput, SetInput, WeightedWordsConfig
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace


@dataclass(frozen=True)
class RankAEConfig(WeightedWordsConfig):
    """Defaults are what won on dev; the paper's: experiments/paper/rankae.toml."""

    input: Literal["set", "lstm"] = "set"  # words with TF-IDF, or the states of a BiLSTM over them
    width: int = 256  # C, of word vectors; pretrained ones may be narrower, the rest is learned
    attention: Literal["on", "off"] = "on"  # the channel attention A; the weights always stay
    reduction: int = 4  # r: A's inner layer has width / r units
    pool: Literal["sum", "mean"] = "sum"  # of a document's words
    hidden: int = 256  # h, of the common space
    label_hidden: int = 256  # units between the two layers of encoder and of decoder
    loss: Literal["margin", "bce"] = "margin"  # L_ae
    margin: float = 0.2  # m, by which a true label's score should exceed a false one's
    sides: Literal["mean", "sum"] = "mean"  # of the margin loss over false and over true labels
    balance: float = 5.0  # lambda, of L_ae against the distance of the embeddings
    direct: float = 0.1  # weight of the cross entropy of the prediction D(x_h) itself
    networks: int = 4  # trained side by side; a label's logit is the mean of theirs
    word_dropout: float = 0.2  # share of a document's words left out in a step
    dropout: float = 0.2  # in the decoder
    train: LoopConfig = field(
        default_factory=lambda: LoopConfig(epochs=15, batch=32, lr=3e-3, patience=5)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "label_hidden", "reduction", "networks")
        if not 0 <= self.margin <= 1:
            raise ValueError(f"margin must be in [0, 1], not {self.margin}")
        if self.balance < 0 or self.direct < 0:
            raise ValueError("balance and direct must not be negative")
        check_shares(self, "word_dropout", "dropout")


# ------------------------------------------------------------------------------------ the network


class ChannelAttention(nn.Module):
    """Each word's vector excites its own channels: A = sigmoid(F2 relu(F1 v)) (§2.4, Eq. 5)."""

    def __init__(self, width: int, reduction: int) -> None:
        super().__init__()
        inner = max(1, width // reduction)
        self.squeeze, self.excite = nn.Linear(width, inner), nn.Linear(inner, width)

    def weights(self, v: Tensor) -> Tensor:
        return torch.sigmoid(self.excite(F.relu(self.squeeze(v))))  # (n, t, e)

    def forward(self, v: Tensor) -> Tensor:
        return v * self.weights(v)


class NoAttention(nn.Module):
    """The ablation: every channel passes."""

    def __init__(self, width: int, reduction: int) -> None:
        super().__init__()

    def forward(self, v: Tensor) -> Tensor:
        return v


ATTENTIONS = {"on": ChannelAttention, "off": NoAttention}


class AsSet(nn.Module):
    """The words as they are: a set, in which no word knows its neighbours."""

    def forward(self, v: Tensor, lengths: Tensor) -> Tensor:
        return v


class LabelEncoder(nn.Module):
    """E, two layers over the multi-hot labels; the first is a sum of its rows for the labels a
    document has, so that its cost follows them and not all labels (§2.2)."""

    def __init__(self, n_labels: int, inner: int, hidden: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(n_labels, inner) / inner**0.5)
        self.bias = nn.Parameter(torch.zeros(inner))
        self.output = nn.Linear(inner, hidden)

    def forward(self, columns: Tensor, lengths: Tensor) -> Tensor:
        has = token_mask(columns, lengths).to(self.rows.dtype)  # (n, t)
        y = F.embedding_bag(columns, self.rows, per_sample_weights=has, mode="sum")  # (n, inner)
        return self.output(F.relu(y + self.bias))  # (n, d)  # fmt: skip


class LabelDecoder(nn.Module):
    """D, two layers back to a logit for every label (§2.2).

    It starts as the encoder turned round. Started at random, all scores are alike, and there the
    pulls of the margin loss cancel out: the lowest true label, which may be any, is pushed up as
    much as it is pushed down wherever it is false. Training would not leave that place.
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
            self.output.weight.copy_(2 * encode.rows)  # ReLU has taken half
            self.output.bias.zero_()

    def forward(self, embedding: Tensor) -> Tensor:
        d = F.relu(self.inner(F.dropout(embedding, self.dropout, self.training)))  # (n, inner)
        return self.output(F.dropout(d, self.dropout, self.training)).float()  # (n, l)


class RankAE(nn.Module):
    """The network of Figures 1 and 2: F, E and D."""

    def __init__(
        self, config: RankAEConfig, n_words: int, n_labels: int, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.pool, self.word_dropout = config.pool, config.word_dropout
        lstm = config.input == "lstm"
        half = -(-config.width // 2)  # of a state, from each direction
        states = 2 * half if lstm else config.width
        self.words = Words(n_words, config.width, 0.0, vectors)
        self.context = BiLSTM(config.width, half) if lstm else AsSet()
        self.attend = ATTENTIONS[config.attention](states, config.reduction)
        self.embed = nn.Linear(states, config.hidden)
        self.encode = LabelEncoder(n_labels, config.label_hidden, config.hidden)
        self.decode = LabelDecoder(self.encode, config.dropout)

    def forward(self, tokens: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        """The logits of D(F(x)), which is prediction."""
        return self.decode(self.features(self.weighted(tokens, weights), lengths))  # (n, l)

    def weighted(self, tokens: Tensor, weights: Tensor) -> Tensor:
        weights = F.dropout(weights, self.word_dropout, self.training)
        return self.words(tokens) * weights[:, :, None]  # (n, t, e)  spatial attention, V'

    def features(self, v: Tensor, lengths: Tensor) -> Tensor:
        """x_h = F(x) from the weighted word vectors."""
        mask = token_mask(v, lengths)[:, :, None]  # (n, t, 1)
        m = self.attend(self.context(v, lengths))  # (n, t, e)  Eq. 5, M = V' o A
        x = torch.where(mask, m, 0).sum(1)  # (n, e)
        x = x / lengths.clamp(min=1)[:, None] if self.pool == "mean" else x
        return self.embed(x)  # (n, d)  # fmt: skip


class Committee(nn.Module):
    """Several networks that learn from the same batches and differ in how they started."""

    def __init__(
        self, config: RankAEConfig, n_words: int, n_labels: int, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.parts = nn.ModuleList(
            RankAE(config, n_words, n_labels, vectors) for _ in range(config.networks)
        )

    def forward(self, tokens: Tensor, lengths: Tensor, weights: Tensor) -> Tensor:
        return torch.stack([part(tokens, lengths, weights) for part in self.parts]).mean(0)


# --------------------------------------------------------------------------------------- the loss


def margin_loss(scores: Tensor, gold: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """L_P and L_N, each (n,): Eq. 3 and 4, of scores (n, l) in [0, 1] and gold (n, l).

    Of all pairs in them the maximum picks the lowest true and the highest false label, so one pass
    over the labels is enough. Without true (or without false) labels both are 0.
    """
    lowest = scores.masked_fill(~gold, torch.inf).amin(1, keepdim=True)  # of the true labels
    highest = scores.masked_fill(gold, -torch.inf).amax(1, keepdim=True)  # of the false labels
    over_false = F.relu(margin + scores - lowest).masked_fill(gold, 0)
    over_true = F.relu(margin + highest - scores).masked_fill(~gold, 0)
    return over_false.sum(1), over_true.sum(1)


def cross_entropy(logits: Tensor, gold: Tensor) -> Tensor:
    """Summed over labels, the mean over documents."""
    total = F.binary_cross_entropy_with_logits(logits, gold.float(), reduction="sum")
    return total / len(gold)


def reconstruction_loss(logits: Tensor, gold: Tensor, config: RankAEConfig) -> Tensor:
    """The mean over documents of L_ae (Eq. 2), or of the cross entropy it is compared with."""
    if config.loss == "bce":
        return cross_entropy(logits, gold)
    l_p, l_n = margin_loss(logits.sigmoid(), gold, config.margin)
    if config.sides == "sum":
        return (l_p + l_n).mean()
    n_true = gold.sum(1)
    return (l_p / (gold.shape[1] - n_true).clamp(min=1) + l_n / n_true.clamp(min=1)).mean()


def objective(
    network: RankAE,
    words: tuple[Tensor, ...],
    true: tuple[Tensor, ...],
    gold: Tensor,
    config: RankAEConfig,
) -> Tensor:
    """Eq. 1, and the cross entropy of the prediction itself where `direct` is not 0."""
    tokens, lengths, weights = words
    x = network.features(network.weighted(tokens, weights), lengths)  # x_h (n, d)
    y = network.encode(*true)  # y_h (n, d)
    reconstruction = reconstruction_loss(network.decode(y), gold, config)
    total = F.mse_loss(x.float(), y.float()) + config.balance * reconstruction
    if config.direct:
        total = total + config.direct * cross_entropy(network.decode(x), gold)
    return total


# ------------------------------------------------------------------------------------- the system


class RankAESystem(NeuralSystem):
    """Reads text and features alike; `explain` by gradient, `highlight` as in the paper."""

    Config = RankAEConfig
    Network = Committee

    def __init__(self, config: RankAEConfig, *, device: str = "cpu") -> None:
        super().__init__(config, device=device)
        self.settings = config
        self.input = SequenceInput(config) if config.input == "lstm" else SetInput(config)

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """As many epochs as dev found best, on these documents; calibration stays (§3.1)."""
        self.fit(train, train.select([]), labels)

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        data = self.input.fit(train, self.device)
        self.n_labels = labels.n_seen
        torch.manual_seed(self.settings.train.seed)
        self.network = self.build(log_odds(labels), self.word_vectors(train)).to(self.device)
        gold = Ragged.of_gold(labels.gold(train), self.n_labels, self.device)
        self.learn(data.lengths, lambda rows: self.batch_loss(rows, data, gold), dev, labels)

    def batch_loss(self, rows: NDArray[np.int64], data: Ragged, gold: Ragged) -> Tensor:
        """The objective of each network, summed."""
        words, true = data.padded(rows), gold.padded(rows)
        target = gold.multi_hot(rows, self.n_labels).bool()
        with self.precision():
            apart = [objective(part, words, true, target, self.settings) for part in self._parts()]
        return torch.stack(apart).sum()

    def word_vectors(self, train: Corpus) -> Tensor | None:
        """Those that were prepared beside the corpus, where its features are words."""
        words = self.input.vocabulary()
        if words is None:
            return None
        found = vectors.prepared(train, words, seed=self.settings.train.seed)
        return None if found is None else torch.from_numpy(found)

    def build(self, odds: Tensor, aligned: Tensor | None) -> nn.Module:
        return Committee(self.settings, len(self.input), len(odds), aligned)

    def encode(self, corpus: Corpus) -> Bags:
        return self.input.encode(corpus, self.device)

    def save_words(self, folder: Path) -> None:
        self.input.save(folder)

    def load_words(self, folder: Path) -> None:
        self.input.load(folder)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Gradient x input: how the label's logit D(F(x)) moves with each word's vector."""
        parts, pieces = self._parts(), self.input.pieces(doc)
        if column >= self.n_labels or not pieces:
            return []
        words = self.encode(Corpus.of([doc])).padded(np.array([0]))
        speaks = torch.stack([spoken(part, words, column) for part in parts]).mean(0).tolist()
        return [Span(p.start, p.end, p.weight * speaks[p.place]) for p in pieces]

    def highlight(self, doc: Doc) -> Sequence[Span]:
        """What the channel attention lets pass of each word, whatever the label (§3.4, Figure 5):
        the sum of A over channels."""
        parts, pieces = self._parts(), self.input.pieces(doc)
        if self.settings.attention == "off" or not pieces:
            return []
        words = self.encode(Corpus.of([doc])).padded(np.array([0]))
        passed = torch.stack([let_pass(part, words) for part in parts]).mean(0).tolist()
        return [Span(p.start, p.end, passed[p.place]) for p in pieces]

    def _parts(self) -> list[RankAE]:
        network = self.fitted()
        assert isinstance(network, Committee)
        return [part for part in network.parts if isinstance(part, RankAE)]


def spoken(network: RankAE, words: tuple[Tensor, ...], column: int) -> Tensor:
    """(t,): gradient x input of a label's logit at each place of one document, for weight 1."""
    tokens, lengths, weights = words
    with torch.no_grad():
        e = network.words(tokens)  # (1, t, e)
    v = (e * weights[:, :, None]).requires_grad_()
    logit = network.decode(network.features(v, lengths))[0, column]
    (gradient,) = torch.autograd.grad(logit, v)
    return (gradient * e).sum(-1)[0]


@torch.inference_mode()
def let_pass(network: RankAE, words: tuple[Tensor, ...]) -> Tensor:
    """(t,): the sum of A over channels at each place of one document."""
    tokens, lengths, weights = words
    states = network.context(network.weighted(tokens, weights), lengths)
    assert isinstance(network.attend, ChannelAttention)
    return network.attend.weights(states).sum(-1)[0]

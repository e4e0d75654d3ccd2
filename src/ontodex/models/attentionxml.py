"""AttentionXML, the early version without a tree, and XML-RNN, the same with max pooling (002).

    tokens ┬ vectors ─ BiLSTM ─ label attention ─ fully connected, ReLU ─ one logit a label
    (n,t)  │ (n,t,e)  (n,t,2d)     (n,l,v)                                  (n,l)
           └ bag of words ─ ReLU ─ one logit a label, added
              (n,b)                (n,l)

Deviations from the paper, with reasons and measured effects: docs/papers/attentionxml.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.config import check_least, check_shares
from ontodex.models.base import Span
from ontodex.models.label_attention import contributions, label_logits, logits_of, tokens_in
from ontodex.models.neural import NeuralConfig, NeuralSystem
from ontodex.models.parts import BiLSTM, WordBag, Words, token_mask
from ontodex.train.loop import LoopConfig
from ontodex.types import Doc


@dataclass(frozen=True)
class RecurrentConfig(NeuralConfig):
    """What XML-RNN and AttentionXML are told."""

    hidden: int = 512  # LSTM units in each direction
    value: int = 512  # width of the fully connected layer
    word_dropout: float = 0.3  # of word vectors
    dropout: float = 0.5  # of the LSTM's states

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "value")
        check_shares(self, "word_dropout", "dropout")


@dataclass(frozen=True)
class AttentionXMLConfig(RecurrentConfig):
    """Defaults are what won on EURLEX57K dev; the paper's: experiments/paper/attentionxml.toml."""

    # An output vector for each label, or one for all (paper).
    read_out: Literal["label", "shared"] = "label"
    bag: int = 1024  # width of the bag of words beside the LSTM; 0 = none (paper)
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=8))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 0, "bag")


class LabelReadOut(nn.Module):
    """Label attention and what follows it, up to the logits (Eq. 4 and 5)."""

    def __init__(self, config: AttentionXMLConfig, log_odds: Tensor) -> None:
        super().__init__()
        n_labels, width = len(log_odds), 2 * config.hidden
        self.queries = nn.Parameter(torch.empty(n_labels, width))
        nn.init.xavier_uniform_(self.queries)
        self.project = nn.Linear(width, config.value)  # W1, applied to tokens before attention
        # One read-out for all labels lets them differ only in what they attend to, and attention
        # starts uniform, so all labels start with one logit: a vector and a bias each learn faster.
        own = n_labels if config.read_out == "label" else 1
        self.output = nn.Parameter(torch.randn(own, config.value) * 0.05)  # W2
        self.bias = nn.Parameter(log_odds.clone() if own > 1 else torch.zeros(1))

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        values = tokens_in(self.project, h)  # (n, t, v)
        read = label_logits(h, values, self.queries, self.output, mask)  # (n, l)
        return read + self.bias

    def contributions(self, h: Tensor, mask: Tensor, column: int) -> Tensor:
        """(n, t): what each token adds to the logit of a label."""
        output = self.output.expand(len(self.queries), -1)[column]
        query, values = self.queries[column], self.project(h)
        return contributions(h, values, query, mask, lambda m: logits_of(m, output))


class BagReadOut(nn.Module):
    """What the bag of words says of each label. Ours, not the paper's.

    Attention reads words in their context and is slow to learn what a single rare word says of a
    rare label; here each word says it directly.
    """

    def __init__(self, config: AttentionXMLConfig, n_words: int, n_labels: int) -> None:
        super().__init__()
        self.bag = WordBag(n_words, config.bag, config.dropout)
        self.output = nn.Linear(config.bag, n_labels, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.bag(tokens)).float()  # (n, l)

    def contributions(self, tokens: Tensor, column: int) -> Tensor:
        """(n, t): what each token adds to the logit of a label."""
        return self.bag.contributions(tokens, self.output.weight[column])


class NoBag(nn.Module):
    def forward(self, tokens: Tensor) -> float:
        return 0.0

    def contributions(self, tokens: Tensor, column: int) -> float:
        return 0.0


class AttentionXML(nn.Module):
    """The network of Figure 1, and a bag of words beside it."""

    def __init__(
        self, config: AttentionXMLConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = Words(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.read_out = LabelReadOut(config, log_odds)
        self.bag = BagReadOut(config, n_words, len(log_odds)) if config.bag else NoBag()

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)  Eq. 2 and 3
        read = self.read_out(self.drop(h), mask)  # (n, l)          Eq. 4 and 5  # fmt: skip
        return read + self.bag(tokens)  # (n, l)


class XMLRNN(nn.Module):
    """The paper's own ablation: one vector a document, by max pooling."""

    def __init__(
        self, config: RecurrentConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = Words(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.project = nn.Linear(2 * config.hidden, config.value)
        self.output = nn.Linear(config.value, len(log_odds))
        with torch.no_grad():
            self.output.bias.copy_(log_odds)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(tokens, lengths)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        m = h.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)  # (n, 2d)
        return self.output(F.relu(self.project(self.drop(m)))).float()  # (n, l)  # fmt: skip


class AttentionXMLSystem(NeuralSystem):
    """Explains itself by what each word adds to the logit of a label."""

    Config = AttentionXMLConfig
    Network = AttentionXML

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        network: Any = self.fitted()
        spans, tokens, lengths = self.encode_doc(doc)
        if column >= network.read_out.queries.shape[0] or not spans:
            return []
        with torch.no_grad():
            mask = token_mask(tokens, lengths)
            h = network.encode(network.words(tokens), lengths)
            weights = network.read_out.contributions(h, mask, column)
            weights = (weights + network.bag.contributions(tokens, column))[0].tolist()
        return [
            Span(start, end, weight) for (start, end), weight in zip(spans, weights, strict=False)
        ]


class XMLRNNSystem(NeuralSystem):
    Config = RecurrentConfig
    Network = XMLRNN

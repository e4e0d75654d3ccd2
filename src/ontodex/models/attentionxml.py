"""AttentionXML, the early version without a tree, and XML-RNN, the same with max pooling (002).

    tokens ─ vectors ─ BiLSTM ─ label attention ─ fully connected, ReLU ─ one logit a label
    (n,t)    (n,t,e)  (n,t,2d)     (n,l,v)                                  (n,l)

Deviations from the paper, with reasons and measured effects: docs/papers/attentionxml.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.base import Span
from ontodex.models.label_attention import attend, attention
from ontodex.models.neural import NeuralConfig, NeuralSystem
from ontodex.models.parts import BiLSTM, Words, token_mask
from ontodex.train.loop import LoopConfig
from ontodex.types import Doc


@dataclass(frozen=True)
class AttentionXMLConfig(NeuralConfig):
    """Defaults are what won on EURLEX57K dev; the paper's: experiments/paper/attentionxml.toml."""

    hidden: int = 512  # LSTM units in each direction
    value: int = 512  # width of the fully connected layer
    word_dropout: float = 0.3
    dropout: float = 0.5  # of the LSTM's states
    read_out: Literal["label", "shared"] = (
        "label"  # output vector per label, or one for all (paper)
    )
    train: LoopConfig = field(default_factory=LoopConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("word_dropout", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), not {getattr(self, name)}")


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
        m = F.relu(attend(h, self.project(h), self.queries, mask))  # (n, l, v)
        logits = (m * self.output.to(m.dtype)).sum(-1, dtype=torch.float32)
        return logits + self.bias  # (n, l)

    def weights(self, h: Tensor, mask: Tensor, column: int) -> Tensor:
        """(n, t): how much a label attends to each token."""
        return attention(h, self.queries[column : column + 1], mask)[:, 0]


class AttentionXML(nn.Module):
    """The network of Figure 1."""

    def __init__(
        self, config: AttentionXMLConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = Words(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.read_out = LabelReadOut(config, log_odds)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)  Eq. 2 and 3
        return self.read_out(self.drop(h), mask)  # (n, l)      Eq. 4 and 5  # fmt: skip


class XMLRNN(nn.Module):
    """The paper's own ablation: one vector a document, by max pooling."""

    def __init__(
        self, config: AttentionXMLConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
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
    """Explains itself by the attention of a label over the words."""

    Config = AttentionXMLConfig
    Network = AttentionXML

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        network: Any = self.fitted()
        spans, tokens, lengths = self.encode_doc(doc)
        if column >= network.read_out.queries.shape[0] or not spans:
            return []
        with torch.inference_mode():
            mask = token_mask(tokens, lengths)
            h = network.encode(network.words(tokens), lengths)
            weights = network.read_out.weights(h, mask, column)[0].tolist()
        return [
            Span(start, end, weight) for (start, end), weight in zip(spans, weights, strict=False)
        ]


class XMLRNNSystem(NeuralSystem):
    Config = AttentionXMLConfig
    Network = XMLRNN

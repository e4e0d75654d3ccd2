"""The network of AttentionXML (Figure 1).

tokens ─ vectors ─ BiLSTM ─ label attention ─ one or two fully connected layers, ReLU ─ logits
(n,t)    (n,t,e)  (n,t,2d)     (n,l,b)                  (n,l,b)                        (n,l)
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.layers.label_attention import (
    attend,
    compute_attention,
    compute_label_logits,
    compute_logits,
    explain_logit,
    project_tokens,
)
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.stacked import StackedLayers
from ontodex.models.layers.words import WordEmbedding, token_mask


class SharedReadOut(nn.Module):
    """Label attention (Eq. 4), fully connected layers and an output vector that all labels share
    (Eq. 5). Labels differ only in their queries."""

    def __init__(self, config: AttentionXMLConfig, n_labels: int) -> None:
        super().__init__()
        first, *deeper = config.layers
        self.queries = nn.Parameter(torch.empty(n_labels, 2 * config.hidden))
        nn.init.xavier_uniform_(self.queries)
        self.project = nn.Linear(2 * config.hidden, first)  # W1, applied before attention
        self.deeper = StackedLayers(first, deeper)
        self.output = nn.Parameter(torch.randn(1, config.layers[-1]) * 0.05)  # W2
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        values = project_tokens(self.project, h)  # (n, t, b)
        if h.is_cuda and not self.deeper.each:  # the same in one compiled step, read once
            return compute_label_logits(h, values, self.queries, self.output, mask) + self.bias
        m = attend(h, values, self.queries, mask)  # (n, l, b)
        return compute_logits(self.deeper(m), self.output) + self.bias  # (n, l)

    def explain_logit(self, h: Tensor, mask: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        return explain_logit(
            h,
            self.project(h),
            self.queries[column],
            mask,
            lambda m: compute_logits(self.deeper(m), self.output),
        )


class AttentionXML(nn.Module):
    """Words, BiLSTM and label attention (Figure 1). The paper names no initial biases, so the
    log-odds of the labels are not used."""

    label_parameters: ClassVar[tuple[str, ...]] = ("read_out.queries",)

    def __init__(
        self, config: AttentionXMLConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(n_words, config.width, 0.0, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.read_out = SharedReadOut(config, len(log_odds))

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)  Eq. 2 and 3
        return self.read_out(self.drop(h), token_mask(tokens, lengths))  # (n, l)  Eq. 4 and 5

    def explain_logit(self, tokens: Tensor, lengths: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        h = self.encode(self.words(tokens), lengths)
        return self.read_out.explain_logit(h, token_mask(tokens, lengths), column)

    def compute_attention(self, tokens: Tensor, lengths: Tensor, column: int) -> Tensor:
        """Return (n, t): the attention of a label to each token (Figure 2)."""
        h, query = self.encode(self.words(tokens), lengths), self.read_out.queries[column]
        return compute_attention(h, query[None], token_mask(tokens, lengths))[:, 0]

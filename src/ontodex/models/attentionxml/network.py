"""The network of AttentionXML (Figure 1), and a bag of words beside it.

tokens ┬ vectors ─ BiLSTM ─ label attention ─ fully connected, ReLU ─ one logit a label
(n,t)  │ (n,t,e)  (n,t,2d)     (n,l,v)                                  (n,l)
       └ bag of words ─ ReLU ─ one logit a label, added
          (n,w)                (n,l)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.label_attention import (
    compute_label_logits,
    compute_logits,
    explain_logit,
    project_tokens,
)
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask


class LabelReadOut(nn.Module):
    """Label attention, a fully connected layer and the output layer (AttentionXML, Eq. 4 and 5)."""

    def __init__(self, config: AttentionXMLConfig, log_odds: Tensor) -> None:
        super().__init__()
        n_labels, width = len(log_odds), 2 * config.hidden
        self.queries = nn.Parameter(torch.empty(n_labels, width))
        nn.init.xavier_uniform_(self.queries)
        self.project = nn.Linear(width, config.value_dim)  # W1, applied before attention
        # With one output vector for all labels (paper), labels differ only in their attention,
        # which starts uniform, so all start with the same logit. A vector and a bias for each label
        # learn faster.
        n_outputs = n_labels if config.read_out == "label" else 1
        self.output = nn.Parameter(torch.randn(n_outputs, config.value_dim) * 0.05)  # W2
        self.bias = nn.Parameter(log_odds.clone() if n_outputs > 1 else torch.zeros(1))

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        values = project_tokens(self.project, h)  # (n, t, v)
        logits = compute_label_logits(h, values, self.queries, self.output, mask)  # (n, l)
        return logits + self.bias

    def explain_logit(self, h: Tensor, mask: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        output = self.output.expand(len(self.queries), -1)[column]
        query, values = self.queries[column], self.project(h)
        return explain_logit(h, values, query, mask, lambda m: compute_logits(m, output))


class BagReadOut(nn.Module):
    """One logit a label from the bag of words. Ours, not the paper's.

    Attention reads words in context and learns slowly that a single rare word implies a rare label.
    Here each word contributes directly.
    """

    def __init__(self, config: AttentionXMLConfig, n_words: int, n_labels: int) -> None:
        super().__init__()
        self.bag = WordBag(n_words, config.bag, config.dropout)
        self.output = nn.Linear(config.bag, n_labels, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.bag(tokens)).float()  # (n, l)

    def explain_logit(self, tokens: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        return self.bag.explain_logit(tokens, self.output.weight[column])


class NoBag(nn.Module):
    """No bag of words, as in the paper."""

    def forward(self, tokens: Tensor) -> float:
        return 0.0

    def explain_logit(self, tokens: Tensor, column: int) -> float:
        return 0.0


class AttentionXML(nn.Module):
    """Words, BiLSTM and label attention (Figure 1); logits of the bag of words are added."""

    def __init__(
        self, config: AttentionXMLConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.read_out = LabelReadOut(config, log_odds)
        self.bag = BagReadOut(config, n_words, len(log_odds)) if config.bag else NoBag()

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)  Eq. 2 and 3
        logits = self.read_out(self.drop(h), mask)  # (n, l)        Eq. 4 and 5  # fmt: skip
        return logits + self.bag(tokens)  # (n, l)

    def explain_logit(self, tokens: Tensor, lengths: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        h = self.encode(self.words(tokens), lengths)
        added: Tensor = self.read_out.explain_logit(h, token_mask(tokens, lengths), column)
        return added + self.bag.explain_logit(tokens, column)

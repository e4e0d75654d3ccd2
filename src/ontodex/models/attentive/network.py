"""The network of `attentive`: label attention over a BiLSTM, and a bag of words beside it.

tokens ┬ vectors ─ BiLSTM ─ label attention ─ fully connected, ReLU ─ one logit a label
(n,t)  │ (n,t,e)  (n,t,2d)     (n,l,v)                                  (n,l)
       └ bag of words ─ ReLU ─ one logit a label, added
          (n,w)                (n,l)
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.layers.bag import BagReadOut
from ontodex.models.layers.label_attention import LabelReadOut, compute_attention
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask


class AttentiveNetwork(nn.Module):
    """Words, BiLSTM and label attention; the logits of the bag of words are added."""

    label_parameters: ClassVar[tuple[str, ...]] = (
        "read_out.queries", "read_out.output", "read_out.bias", "bag.output.weight",
    )  # fmt: skip

    def __init__(
        self, config: AttentiveConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.read_out = LabelReadOut(2 * config.hidden, config.value_dim, log_odds)
        self.bag = BagReadOut(n_words, config.bag, len(log_odds), config.dropout)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        return self.read_out(self.drop(h), mask) + self.bag(tokens)  # (n, l)

    def explain_logit(self, tokens: Tensor, lengths: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        h = self.encode(self.words(tokens), lengths)
        added: Tensor = self.read_out.explain_logit(h, token_mask(tokens, lengths), column)
        return added + self.bag.explain_logit(tokens, column)

    def compute_attention(self, tokens: Tensor, lengths: Tensor, column: int) -> Tensor:
        """Return (n, t): the attention of a label to each token."""
        h, query = self.encode(self.words(tokens), lengths), self.read_out.queries[column]
        return compute_attention(h, query[None], token_mask(tokens, lengths))[:, 0]

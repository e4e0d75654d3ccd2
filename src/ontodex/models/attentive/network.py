"""The network of `attentive`: label attention over a BiLSTM, and a bag of words beside it.

tokens ┬ vectors ─ BiLSTM ─ label attention ─ fully connected, ReLU ─ one logit a label
(n,t)  │ (n,t,e)  (n,t,2d)     (n,l,v)                                  (n,l)
       └ bag of words ─ ReLU ─ one logit a label, added
          (n,w)                (n,l)
"""

from __future__ import annotations

from torch import Tensor, nn

from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.label_attention import LabelAttention, compute_attention
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask


class LabelReadOut(LabelAttention):
    """Label attention with an output vector and a bias for each label.

    With one output vector for all labels, as in AttentionXML, labels differ only in their
    attention, which starts uniform, so all start with the same logit and learn slowly.
    """

    def __init__(self, config: AttentiveConfig, log_odds: Tensor) -> None:
        super().__init__(2 * config.hidden, config.value_dim, len(log_odds))
        self.bias = nn.Parameter(log_odds.clone())

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        return super().forward(h, mask) + self.bias  # (n, l)


class BagReadOut(nn.Module):
    """One logit a label from the bag of words.

    Attention reads words in context and learns slowly that a single rare word implies a rare label.
    Here each word contributes directly.
    """

    def __init__(self, config: AttentiveConfig, n_words: int, n_labels: int) -> None:
        super().__init__()
        self.bag = WordBag(n_words, config.bag, config.dropout)
        self.output = nn.Linear(config.bag, n_labels, bias=False)
        nn.init.normal_(self.output.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.output(self.bag(tokens)).float()  # (n, l)

    def explain_logit(self, tokens: Tensor, column: int) -> Tensor:
        """Return (n, t): the contribution of each token to the logit of a label."""
        return self.bag.explain_logit(tokens, self.output.weight[column])


class AttentiveNetwork(nn.Module):
    """Words, BiLSTM and label attention; the logits of the bag of words are added."""

    def __init__(
        self, config: AttentiveConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.read_out = LabelReadOut(config, log_odds)
        self.bag = BagReadOut(config, n_words, len(log_odds))

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

"""XML-RNN, the ablation of the AttentionXML paper: its encoder with max pooling.

tokens ─ vectors ─ BiLSTM ─ maximum over tokens ─ fully connected, ReLU ─ one logit a label
(n,t)    (n,t,e)  (n,t,2d)       (n,2d)                 (n,v)                 (n,l)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.attentionxml.config import RecurrentConfig
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.text_network import TextNetworkSystem


class XMLRNN(nn.Module):
    """One vector a document, the same for all labels."""

    def __init__(
        self, config: RecurrentConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        self.words = WordEmbedding(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.project = nn.Linear(2 * config.hidden, config.value_dim)
        self.output = nn.Linear(config.value_dim, len(log_odds))
        with torch.no_grad():
            self.output.bias.copy_(log_odds)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        m = h.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)  # (n, 2d)
        return self.output(F.relu(self.project(self.drop(m)))).float()  # (n, l)  # fmt: skip


class XMLRNNSystem(TextNetworkSystem):
    """XML-RNN as a system."""

    Config = RecurrentConfig
    Network = XMLRNN

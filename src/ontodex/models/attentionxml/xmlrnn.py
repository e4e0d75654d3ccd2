"""XML-RNN, the ablation of the AttentionXML paper: its encoder with max pooling.

tokens ─ vectors ─ BiLSTM ─ maximum over tokens ─ fully connected layers, ReLU ─ one logit a label
(n,t)    (n,t,e)  (n,t,2d)       (n,2d)                   (n,b)                    (n,l)
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.layers.ragged import Ragged
from ontodex.models.layers.recurrent import BiLSTM
from ontodex.models.layers.stacked import StackedLayers
from ontodex.models.layers.words import WordEmbedding, token_mask
from ontodex.models.network_training import Rows
from ontodex.models.readers import Encoded
from ontodex.models.text_network import TextNetworkSystem


class XMLRNN(nn.Module):
    """One vector a document, the same for all labels."""

    label_parameters: ClassVar[tuple[str, ...]] = ("output.weight", "output.bias")

    def __init__(
        self, config: AttentionXMLConfig, n_words: int, log_odds: Tensor, vectors: Tensor | None
    ) -> None:
        super().__init__()
        first, *deeper = config.layers
        self.words = WordEmbedding(n_words, config.width, 0.0, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.project = nn.Linear(2 * config.hidden, first)
        self.deeper = StackedLayers(first, deeper)
        self.output = nn.Linear(config.layers[-1], len(log_odds))
        nn.init.zeros_(self.output.bias)  # as in AttentionXML, so that neither has a head start

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        m = h.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)  # (n, 2d)
        z = self.deeper(self.project(self.drop(m)))  # (n, b)
        return self.output(F.relu(z)).float()  # (n, l)


class XMLRNNSystem(TextNetworkSystem):
    """XML-RNN as a system, with the settings and the loss of AttentionXML."""

    Config = AttentionXMLConfig
    Network = XMLRNN

    def compute_loss(self, rows: Rows, data: Encoded, gold: Ragged) -> Tensor:
        """Return the mean loss over documents and labels (AttentionXML, Eq. 6)."""
        return super().compute_loss(rows, data, gold) / self.n_labels

"""The network of `attentive-bert`: label attention over a pretrained encoder, and a bag of words.

pieces of windows ─ BERT ─ documents ─ label attention ─ fully connected, ReLU ─ one logit a label
      (t,)          (t,d)   (n,t,d)       (n,l,v)                                  (n,l)
words ─ bag of words ─ ReLU ─ one logit a label, added
(n,t)     (n,w)               (n,l)

Windows are encoded separately. Labels attend to the pieces of all windows of a document.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.models.attentive_bert.reader import Documents
from ontodex.models.layers.bag import BagReadOut
from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.layers.label_attention import LabelReadOut, compute_attention
from ontodex.models.layers.packed import Packed, pad_rows


class AttentiveBert(nn.Module):
    """BERT and label attention; the logits of the bag of words are added."""

    label_parameters: ClassVar[tuple[str, ...]] = (
        "read_out.queries", "read_out.output", "read_out.bias", "bag.output.weight",
    )  # fmt: skip

    def __init__(
        self, config: AttentiveBertConfig, shape: BertConfig, n_words: int, log_odds: Tensor
    ) -> None:
        super().__init__()
        self.encode = Bert(shape)
        self.drop = nn.Dropout(config.dropout)
        self.read_out = LabelReadOut(shape.hidden_size, config.value_dim, log_odds)
        self.bag = BagReadOut(n_words, config.bag, len(log_odds), config.bag_dropout, has_idf=True)

    def forward(self, windows: Packed, documents: Documents, words: Tensor) -> Tensor:
        h, mask = encode_windows(self.encode, windows, documents)  # (n, t, d), (n, t)
        return self.read_out(self.drop(h), mask) + self.bag(words)  # (n, l)

    def explain_logit(
        self, windows: Packed, documents: Documents, words: Tensor, column: int
    ) -> tuple[Tensor, Tensor]:
        """Return the contribution to the logit of a label of each piece (n, t), through label
        attention, and of each word (n, t), through the bag."""
        h, mask = encode_windows(self.encode, windows, documents)
        return self.read_out.explain_logit(h, mask, column), self.bag.explain_logit(words, column)

    def compute_attention(
        self, windows: Packed, documents: Documents, words: Tensor, column: int
    ) -> tuple[Tensor]:
        """Return (n, t): the attention of a label to each piece."""
        h, mask = encode_windows(self.encode, windows, documents)
        return (compute_attention(h, self.read_out.queries[column][None], mask)[:, 0],)

    def start_bag(self, idf: Tensor) -> None:
        """Weight the words of the bag by their inverse document frequency (words,)."""
        assert self.bag.bag.idf is not None
        self.bag.bag.idf.copy_(idf)

    @torch.no_grad()
    def start_queries(self, columns: Tensor, names: Packed) -> None:
        """Let these labels attend first to pieces whose states are like those of their names.

        A query is the mean state of a name, less the mean over all names. It is scaled so that
        scores of pieces have a standard deviation of 1.
        """
        h = self.encode(names).float()  # (t, d)
        total = h.new_zeros(len(columns), h.shape[1]).index_add_(0, names.owners(), h)
        mean = total / names.lengths[:, None]
        queries = F.normalize(mean - mean.mean(dim=0), dim=1)
        spread = (h[:: max(1, len(h) // 2_000)] @ queries.T).std().clamp(min=1e-6)
        self.read_out.queries[columns] = queries / spread


def encode_windows(encode: Bert, windows: Packed, documents: Documents) -> tuple[Tensor, Tensor]:
    """Return the states of each document (n, t, d), and where it has pieces (n, t)."""
    h = pad_rows(encode(windows), *documents)
    t = torch.arange(documents.longest, device=h.device)
    return h, t < documents.lengths[:, None]

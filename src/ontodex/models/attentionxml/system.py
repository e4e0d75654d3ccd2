"""AttentionXML: label attention over a recurrent encoder, as in the paper.

R. You, S. Dai, Z. Zhang, H. Mamitsuka, S. Zhu, "AttentionXML: Extreme Multi-Label Text
Classification with Multi-Label Attention Based Recurrent Neural Networks", arXiv:1811.01727 (first
version, without a tree), 2018. Our reading: docs/papers/attentionxml.md; our variant: `attentive`.
"""

from __future__ import annotations

from torch import Tensor

from ontodex.models.attention_system import AttentionSystem
from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.attentionxml.network import AttentionXML
from ontodex.models.layers.ragged import Ragged
from ontodex.models.network_training import Rows
from ontodex.models.readers import Encoded


class AttentionXMLSystem(AttentionSystem):
    """The network of Figure 1, trained with the loss of Eq. 6."""

    Config = AttentionXMLConfig
    Network = AttentionXML

    def compute_loss(self, rows: Rows, data: Encoded, gold: Ragged) -> Tensor:
        """Return the mean loss over documents and labels (Eq. 6, as printed)."""
        return super().compute_loss(rows, data, gold) / self.n_labels

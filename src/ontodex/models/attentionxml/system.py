"""AttentionXML: label attention over a recurrent encoder.

R. You, S. Dai, Z. Zhang, H. Mamitsuka, S. Zhu, "AttentionXML: Extreme Multi-Label Text
Classification with Multi-Label Attention Based Recurrent Neural Networks", arXiv:1811.01727 (first
version, without a tree), 2018. Deviations, their reasons and effects: docs/papers/attentionxml.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ontodex.models.attentionxml.config import AttentionXMLConfig
from ontodex.models.attentionxml.network import AttentionXML
from ontodex.models.text_network import TextNetworkSystem
from ontodex.types import Corpus, Doc
from ontodex.types.answers import Span


class AttentionXMLSystem(TextNetworkSystem):
    """Explains a label by the contribution of each word to its logit."""

    Config = AttentionXMLConfig
    Network = AttentionXML

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        self.check_fitted()
        places = self.reader.locate_words(doc)
        if column >= self.n_labels or not places:
            return []
        tokens, lengths = self.encode(Corpus.of([doc])).pad(np.array([0]))
        with torch.no_grad():
            weights = self.network.explain_logit(tokens, lengths, column)[0].tolist()
        return [
            Span(start, end, weight) for (start, end), weight in zip(places, weights, strict=False)
        ]

"""Systems of a network with label attention over words: `attentionxml` and `attentive`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ontodex.models.interface import Explains
from ontodex.models.text_network import TextNetworkSystem
from ontodex.types import Corpus, Doc
from ontodex.types.answers import Span


class AttentionSystem(TextNetworkSystem, Explains):
    """Shows for a label what each word contributes to its logit, or how much attention it gets.

    The network has `explain_logit` and `compute_attention`, both for one column.
    """

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the contribution of each word to the logit of a label."""
        return self._weigh_words(doc, column, "explain_logit")

    def attend(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the attention of a label to each word; the weights sum to 1."""
        return self._weigh_words(doc, column, "compute_attention")

    def _weigh_words(self, doc: Doc, column: int, method: str) -> list[Span]:
        self.check_fitted()
        if column >= self.n_labels:
            return []
        tokens, lengths = self.encode(Corpus.of([doc])).pad(np.array([0]))
        with torch.no_grad():
            weights: Tensor = getattr(self.network, method)(tokens, lengths, column)
        found: list[Span] = self.reader.place_weights(doc, weights[0].tolist())
        return found

"""`attentive-bert`: label attention over a pretrained encoder, with a bag of words beside it.

Choices, figures and limits: docs/papers/attentive-bert.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.models.attentive_bert.network import AttentiveBert
from ontodex.models.attentive_bert.reader import PieceReader
from ontodex.models.interface import Explains
from ontodex.models.layers.packed import pack
from ontodex.models.layers.ragged import Ragged
from ontodex.models.network_training import compute_log_odds
from ontodex.models.text_network import TextNetworkSystem
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.answers import Span
from ontodex.types.loop_config import LoopConfig

NAME_PIECES = 32  # pieces of a name that are read


class AttentiveBertSystem(TextNetworkSystem, Explains):
    """Trains a pretrained encoder and its read-out together, each at its own learning rate."""

    Config = AttentiveBertConfig
    config: AttentiveBertConfig
    reader: PieceReader

    def create_reader(self) -> PieceReader:
        return PieceReader(self.config)

    def build_network(self, log_odds: Tensor, vectors: Tensor | None) -> AttentiveBert:
        assert self.reader.shape is not None
        return AttentiveBert(self.config, self.reader.shape, len(self.reader), log_odds)

    def start_network(self, labels: LabelSpace, vectors: Tensor | None) -> AttentiveBert:
        network = self.build_network(compute_log_odds(labels), vectors).to(self.device)
        self.reader.start_encoder(network.encode)
        assert self.reader.idf is not None
        network.start_bag(self.reader.idf)
        self._start_queries(network.eval(), labels)
        return network

    def _start_queries(self, network: AttentiveBert, labels: LabelSpace) -> None:
        """Start the query of each label that has a name from that name."""
        ontology = labels.ontology
        named = [
            (column, ontology.name(label))
            for column, label in enumerate(labels.ids[: labels.n_seen])
            if ontology is not None and label in ontology and ontology.name(label) != label
        ]
        if not named:
            return
        assert self.reader.word_pieces is not None
        names = self.reader.word_pieces.encode(
            [name for _, name in named], window=NAME_PIECES, n_windows=1
        )
        packed = pack(Ragged(names, self.device).flatten(np.arange(len(names))), names.lengths)
        columns = torch.tensor([column for column, _ in named], device=self.device)
        network.start_queries(columns, packed)

    def scale_rates(self) -> Mapping[str, float]:
        return {"encode.": self.config.encoder_lr / self.config.train.lr}

    def plan_training(self, n_docs: int) -> LoopConfig:
        return self.config.train.fit_to_corpus(n_docs)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the contribution of each word to the logit of a label, through label attention
        and through the bag of words."""
        self.check_fitted()
        if column >= self.n_labels:
            return []
        pieces, words = self._weigh(doc, column, "explain_logit")
        return self.reader.place_weights(doc, pieces, words)

    def attend(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the attention of a label to each word."""
        self.check_fitted()
        if column >= self.n_labels:
            return []
        (pieces,) = self._weigh(doc, column, "compute_attention")
        return self.reader.place_weights(doc, pieces)

    def _weigh(self, doc: Doc, column: int, method: str) -> list[list[float]]:
        """Return the weights of the document's pieces, and of its words where they have some."""
        batch = self.encode(Corpus.of([doc])).pad(np.array([0]))
        with torch.no_grad():
            weights: Sequence[Tensor] = getattr(self.network, method)(*batch, column)
        return [one[0].tolist() for one in weights]

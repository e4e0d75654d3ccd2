"""`attentive`: label attention over a BiLSTM with a bag of words beside it.

Our variant of AttentionXML; differences and their effects: docs/papers/attentive.md.
"""

from __future__ import annotations

from ontodex.models.attention_system import AttentionSystem
from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.attentive.network import AttentiveNetwork
from ontodex.types.loop_config import LoopConfig


class AttentiveSystem(AttentionSystem):
    """Trains for as many epochs as the size of the corpus asks for."""

    Config = AttentiveConfig
    Network = AttentiveNetwork
    config: AttentiveConfig

    def plan_training(self, n_docs: int) -> LoopConfig:
        return self.config.train.fit_to_corpus(n_docs)

"""`graphknn`: several networks embed documents in the space of label vectors; neighbours vote.

Our variant of DXML (models/dxml): eight networks instead of one, dropout of the input, Adam, votes
weighted by similarity, and as many clusters searched as dev needs. See docs/papers/graphknn.md.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import ClassVar

from scipy.sparse import csr_array

from ontodex.config import check_least, check_most, check_shares, check_widths
from ontodex.models.dxml.network_system import NetworkNeighbourSystem
from ontodex.models.dxml.targets import Floats
from ontodex.models.graphknn.network import EmbeddingEnsemble
from ontodex.models.graphknn.weighted_vote import WeightedVoteConfig, choose_vote_and_probe
from ontodex.models.layers.sparse_input import needs_row_updates
from ontodex.types.loop_config import AdamConfig

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphKnnConfig(WeightedVoteConfig):
    """Settings of `graphknn`."""

    hidden: int = 512  # units of W1
    networks: int = 8  # trained together; the embedding of a document is the mean of theirs
    input_dropout: float = 0.5  # share of a document's features
    dropout: float = 0.5  # after W2
    train: AdamConfig = field(default_factory=lambda: AdamConfig(epochs=30, patience=8))

    FORMER: ClassVar[tuple[str, ...]] = (
        *WeightedVoteConfig.FORMER, "width", "ridge", "landmarks",
    )  # fmt: skip
    embedding: ClassVar[str] = "network"
    activation: ClassVar[str] = "relu"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden", "networks")
        check_most(self, 1_000, "networks")
        check_widths(self, "hidden")
        check_shares(self, "input_dropout", "dropout")


class GraphKnnSystem(NetworkNeighbourSystem):
    """Several networks and their nearest neighbours."""

    Config = GraphKnnConfig
    config: GraphKnnConfig

    def __init__(self, config: GraphKnnConfig, *, device: str = "cpu") -> None:
        super().__init__(config, device=device)
        self.chosen = config.start_choices(self.chosen)

    def build_network(self, n_features: int, size: int, input_norm: float) -> EmbeddingEnsemble:
        config = self.config
        return EmbeddingEnsemble(
            config.networks,
            n_features,
            config.hidden,
            size,
            input_norm=input_norm,
            input_dropout=config.input_dropout,
            dropout=config.dropout,
            by_row=needs_row_updates(n_features, config.train.to_loop()),
        )

    def count_clusters(self) -> int:
        return round(self.gold.shape[0] ** 0.5)

    def choose_on_dev(self, queries: Floats, gold: csr_array) -> None:
        """Choose neighbours and exponent among all documents, then the fewest probes."""
        self.chosen = choose_vote_and_probe(self, queries, gold, *self.config.list_votes())
        chosen = self.chosen
        logger.info(
            "%s epochs, %s neighbours, exponent %s, %s of %s clusters",
            chosen.epochs, chosen.neighbours, chosen.exponent,
            chosen.probe, len(self.memory.centres),
        )  # fmt: skip

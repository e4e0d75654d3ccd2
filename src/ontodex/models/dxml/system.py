"""DXML: embed documents near the mean of their label vectors and ask their nearest neighbours.

W. Zhang, J. Yan, X. Wang, H. Zha, "Deep Extreme Multi-label Learning", ICMR 2018.

    features ─ W1, ReLU ─ W2, dropout ─ L2 norm = f_x ─ nearest cluster ─ k nearest ─ their labels
     (n, m)     (n, d)      (n, e)       (n, e)                            (n, k)        (n, l)
    labels ─ label graph ─ DeepWalk = V ─ mean over a document's labels = f_y
                              (l, e)                 (n, e)

The defaults are the paper's values for small data sets. What it leaves open was settled on dev, and
is listed in docs/papers/dxml.md. Our variants of it are `graphknn` and `landmark`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from itertools import product

from scipy.sparse import csr_array

from ontodex.config import check_least, check_shares, check_widths
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.dxml.clusters import ClusterIndex
from ontodex.models.dxml.neighbour_system import NeighbourConfig
from ontodex.models.dxml.network import Activation, EmbeddingNetwork, start_small
from ontodex.models.dxml.network_system import NetworkNeighbourSystem
from ontodex.models.dxml.targets import Floats
from ontodex.types.loop_config import SgdConfig

logger = logging.getLogger(__name__)

_NEIGHBOURS = (5, 10, 20, 40, 80)  # tried on dev
_CLUSTERS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class DxmlConfig(NeighbourConfig):
    """Settings of `dxml`. For large data sets the paper has label_size 300 and hidden 512."""

    norm: bool = False  # the paper takes features as they are; rows of length 1 learn too slowly
    normalise_sparse: bool = False  # scale the rows of a sparse corpus to length 1
    hidden: int = 256  # units of W1
    activation: Activation = "relu"  # none: the paper's linear ablation
    dropout: float = 0.5  # after W2
    clusters: int = 0  # of the training documents; 0 = the best of a few on dev (1 without dev)
    train: SgdConfig = field(
        default_factory=lambda: SgdConfig(
            epochs=200, batch_size=128, lr=0.015, weight_decay=5e-4, patience=20
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "hidden")
        check_least(self, 0, "clusters")
        check_widths(self, "hidden")
        check_shares(self, "dropout")


class DxmlSystem(NetworkNeighbourSystem):
    """DXML as its paper has it (Algorithms 1 and 2)."""

    Config = DxmlConfig
    config: DxmlConfig
    n_clusters = 1

    def build_network(self, n_features: int, size: int, input_norm: float) -> EmbeddingNetwork:
        config = self.config
        network = EmbeddingNetwork(
            n_features,
            config.hidden,
            size,
            input_norm=input_norm,
            dropout=config.dropout,
            activation=config.activation,
        )
        start_small(network, input_norm)
        return network

    def count_clusters(self) -> int:
        return self.config.clusters or self.n_clusters

    def choose_on_dev(self, queries: Floats, gold: csr_array) -> None:
        """Choose clusters and k together, by the search that prediction uses (Algorithm 2)."""
        config, vectors = self.config, self.memory.vectors
        counts = (config.clusters,) if config.clusters else _CLUSTERS
        ks = (config.neighbours,) if config.neighbours else _NEIGHBOURS
        memories = {
            count: ClusterIndex.fit(vectors, count, seed=self.get_seed(), device=str(self.device))
            for count in counts
        }
        nearest = {count: index.search(queries, max(ks), 1) for count, index in memories.items()}

        def evaluate(choice: tuple[int, int]) -> float:
            return compute_ndcg(gold, nearest[choice[0]].vote(self.gold, choice[1], 0.0, 5))

        self.n_clusters, k = max(product(counts, ks), key=evaluate)
        self.memory, self.chosen = memories[self.n_clusters], replace(self.chosen, neighbours=k)
        logger.info("%s epochs, %s neighbours, %s clusters", self.chosen.epochs, k, self.n_clusters)

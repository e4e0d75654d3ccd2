"""`attentive-tree`: label attention with a bag of words over the candidates of a label tree.

Our variant of LightAttention; differences and their effects: docs/papers/attentive-tree.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor, nn

from ontodex.models.attentive_bert.reader import PieceReader
from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.network import (
    AttentiveTreeNetwork,
    PretrainedTreeNetwork,
    RecurrentTreeNetwork,
)
from ontodex.models.attentive_tree.scorers import DocumentScorer, list_node_vectors
from ontodex.models.lightattention.scorers import NodeVector
from ontodex.models.lightattention.system import TreeSystem
from ontodex.models.lightattention.training import LevelTrainer
from ontodex.models.readers import Reader, WordReader
from ontodex.models.trees.label_tree import LabelTree, compute_height


class AttentiveTreeSystem(TreeSystem):
    """Trains all levels at once; the tree is as low as its top level allows."""

    Config = AttentiveTreeConfig
    given_parent = False

    def create_reader(self) -> Reader:
        return PieceReader(self.config) if self.config.encoder else WordReader(self.config)

    def build_network(
        self, tree: LabelTree, tables: Sequence[nn.Module], vectors: Tensor | None
    ) -> AttentiveTreeNetwork:
        config, n_words = self.config, len(self.reader)
        if config.encoder:
            return PretrainedTreeNetwork(config, n_words, tree, tables, self.reader.shape)
        return RecurrentTreeNetwork(config, n_words, tree, tables, vectors)

    def start_network(
        self, tree: LabelTree, tables: Sequence[nn.Module], vectors: Tensor | None
    ) -> AttentiveTreeNetwork:
        network = self.build_network(tree, tables, vectors)
        if isinstance(network, PretrainedTreeNetwork):
            self.reader.start_encoder(network.encode)
        return network

    def scale_rates(self) -> Mapping[str, float]:
        config = self.config
        return {"encode.": config.encoder_lr / config.train.lr} if config.encoder else {}

    def list_node_vectors(self, height: int) -> list[list[NodeVector]]:
        config = self.config
        width = self.reader.shape.hidden_size if config.encoder else 2 * config.hidden
        return list_node_vectors(width, config, height)

    def compute_height(self, n_labels: int) -> int:
        """Return the least height whose top level can be scored whole."""
        config, most = self.config, DocumentScorer.MAX_TOP_NODES
        return compute_height(n_labels, cluster=config.cluster, children=config.children, most=most)

    def train_levels(self, trainer: LevelTrainer) -> None:
        trainer.train(self.work, trainer.n_levels)

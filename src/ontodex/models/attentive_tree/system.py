"""`attentive-tree`: label attention with a bag of words over the candidates of a label tree.

Our variant of LightAttention; differences and their effects: docs/papers/attentive-tree.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.network import AttentiveTreeNetwork
from ontodex.models.attentive_tree.scorers import DocumentScorer, list_node_vectors
from ontodex.models.lightattention.network import TreeNetwork
from ontodex.models.lightattention.scorers import NodeVector
from ontodex.models.lightattention.system import TreeSystem
from ontodex.models.lightattention.training import LevelTrainer
from ontodex.models.trees.label_tree import LabelTree, compute_height


class AttentiveTreeSystem(TreeSystem):
    """Trains all levels at once; the tree is as low as its top level allows."""

    Config = AttentiveTreeConfig
    given_parent = False

    def build_network(
        self, tree: LabelTree, tables: Sequence[nn.Module], vectors: Tensor | None
    ) -> TreeNetwork:
        return AttentiveTreeNetwork(self.config, len(self.reader), tree, tables, vectors)

    def list_node_vectors(self, height: int) -> list[list[NodeVector]]:
        return list_node_vectors(self.config, height)

    def compute_height(self, n_labels: int) -> int:
        """Return the least height whose top level can be scored whole."""
        config, most = self.config, DocumentScorer.MAX_TOP_NODES
        return compute_height(n_labels, cluster=config.cluster, children=config.children, most=most)

    def train_levels(self, trainer: LevelTrainer) -> None:
        trainer.train(self.work, trainer.n_levels)

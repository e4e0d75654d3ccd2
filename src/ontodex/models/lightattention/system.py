"""LightAttention: label attention over the candidates that a label tree proposes.

D. Zhu, S. Teng, J. Huang, "Multi-Label text classification (MTC)", manuscript, BNU-HKBU United
International College, undated, 2021 or later.

    label vectors ─ label tree ─ network: generators down the tree, a discriminator of labels

The cost of a step or of a prediction grows with the candidates, not with the labels: only the rows
of candidates are read, and only they are trained. Our reading: docs/papers/lightattention.md.
`TreeSystem` is shared with our variant, `attentive-tree`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.decide.calibrate import Calibration
from ontodex.errors import UntrainedError
from ontodex.features.tfidf import Tfidf, TfidfConfig
from ontodex.features.tokens import Tokens
from ontodex.models import weights
from ontodex.models.interface import Explains
from ontodex.models.layers.ragged import Ragged
from ontodex.models.lightattention.config import LightAttentionConfig
from ontodex.models.lightattention.network import (
    LightAttentionNetwork,
    TreeNetwork,
    list_node_vectors,
)
from ontodex.models.lightattention.node_tables import (
    FrozenTable,
    compute_node_log_odds,
    create_half_table,
    create_table,
    freeze_table,
    load_tables,
    row_width,
    save_tables,
)
from ontodex.models.lightattention.scorers import AttentionScorer, NodeVector
from ontodex.models.lightattention.training import LevelTrainer, pick_labels, search_batch
from ontodex.models.network_training import DEV_DEPTH
from ontodex.models.readers import Encoded, Reader, WordReader, find_word_vectors
from ontodex.models.text_network import (
    BestLabels,
    load_description,
    rank_documents,
    save_description,
)
from ontodex.models.trees import label_tree
from ontodex.models.trees.label_tree import LabelTree, compute_height
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

# From this many nodes on, a table below the top level is trained by row: a step reads few of them.
ROW_UPDATE_NODES = 50_000


class TreeSystem(Explains):
    """A system of a network down a label tree, which explains a label by the contribution of each
    word to its logit. A subclass defines:

    Config                settings
    build_network()       an untrained network
    list_node_vectors()   the vectors that the nodes of each level own
    compute_height()      the height of the tree
    train_levels()        the order in which levels are trained
    create_reader()       documents to token ids        (default: words in their order)
    start_network()       the network before training   (default: that of `build_network`)
    scale_rates()         factors of the learning rate  (default: none)
    """

    Config: ClassVar[type[Any]]
    given_parent: ClassVar[bool]  # probabilities of a node are conditional on its parent's

    def __init__(self, config: Any, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.work: Path | None = None  # folder of checkpoints, where training may be resumed
        self.reader: Any = self.create_reader()
        self.tree: LabelTree | None = None
        self.network: TreeNetwork | None = None
        self.n_labels = 0
        self.calibration = Calibration.identity()

    def create_reader(self) -> Reader:
        """Return the reader of documents, before it has learned."""
        return WordReader(self.config)

    def build_network(
        self, tree: LabelTree, tables: Sequence[nn.Module], vectors: Tensor | None
    ) -> TreeNetwork:
        """Return an untrained network; `tables` are those of the nodes of each level."""
        raise NotImplementedError

    def start_network(
        self, tree: LabelTree, tables: Sequence[nn.Module], vectors: Tensor | None
    ) -> TreeNetwork:
        """Return the network with which training starts."""
        return self.build_network(tree, tables, vectors)

    def scale_rates(self) -> Mapping[str, float]:
        """Return factors of the learning rate by the beginning of a parameter's name."""
        return {}

    def list_node_vectors(self, height: int) -> list[list[NodeVector]]:
        """Return, for each level below the root, the vectors that its nodes own besides a bias."""
        raise NotImplementedError

    def compute_height(self, n_labels: int) -> int:
        """Return the height of the tree over so many labels."""
        raise NotImplementedError

    def train_levels(self, trainer: LevelTrainer) -> None:
        """Train the network."""
        raise NotImplementedError

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        settings, self.n_labels = self.config.train, labels.n_seen
        data, tokens = self.reader.fit_with_tokens(train, self.device)
        vectors = find_word_vectors(train, self.reader.vocabulary, seed=settings.seed)
        torch.manual_seed(settings.seed)
        gold = csr_array(labels.gold(train)[:, : self.n_labels])
        self.tree = self.build_tree(tokens, gold)
        tables = self.create_tables(self.tree, gold)
        self.network = self.start_network(self.tree, tables, vectors).to(self.device)
        trainer = LevelTrainer(
            settings,
            self.network,
            data,
            Ragged.of_gold(gold, self.n_labels, self.device),
            self.encode(dev),
            labels.gold(dev),
            self.scale_rates(),
        )
        self.train_levels(trainer)
        if len(dev):
            ranking = self._rank(trainer.dev_data, DEV_DEPTH)
            self.calibration = Calibration.fit(ranking, trainer.dev_gold)
        for scorer in self.network.scorers[1:]:
            scorer.table = freeze_table(scorer.table)

    def build_tree(self, tokens: Tokens, gold: csr_array) -> LabelTree:
        """Build the tree over the labels of the training documents."""
        config = self.config
        seen = TfidfConfig(min_df=config.min_count, max_length=config.max_length)
        features = Tfidf.fit(tokens, seen).transform(tokens)
        return label_tree.build_tree(
            label_tree.build_label_vectors(features, gold),
            seed=config.train.seed,
            cluster=config.cluster,
            children=config.children,
            height=self.compute_height(self.n_labels),
        )

    def create_tables(self, tree: LabelTree, gold: csr_array) -> list[nn.Module]:
        """Return the untrained table of each level below the root."""
        log_odds = compute_node_log_odds(tree, gold, given_parent=self.given_parent)
        levels = zip(self.list_node_vectors(tree.height), log_odds, strict=True)
        tables: list[nn.Module] = []
        for number, (own, odds) in enumerate(levels):
            if number > 0 and self.config.table == "bf16":
                tables.append(create_half_table(own, odds, self.device))
            else:
                by_row = number > 0 and len(odds) >= ROW_UPDATE_NODES
                tables.append(create_table(own, odds, self.device, sparse=by_row))
        return tables

    def _load_tables(self, tree: LabelTree, folder: Path) -> list[nn.Module]:
        """Return the saved table of each level; that of the top level is a part of the network."""
        top, *deeper = self.list_node_vectors(tree.height)
        shapes = {
            f"level-{level}": (tree.count_nodes(level), row_width(vectors))
            for level, vectors in enumerate(deeper, start=2)
        }
        # Filled with the network's weights.
        blank = torch.empty(tree.count_nodes(1), row_width(top), device="meta")
        first = nn.Embedding.from_pretrained(blank, freeze=False)
        return [first, *load_tables(folder, shapes, self.device)]

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        self.check_fitted()
        return self.calibration.apply(self._rank(self.encode(corpus), k))

    def _rank(self, data: Encoded, k: int) -> Ranking:
        """Return the k best labels of encoded documents, not calibrated."""
        network = self.check_fitted()

        def predict(batch: tuple[Tensor, ...], n_best: int) -> BestLabels:
            return pick_labels(network, search_batch(network, batch, len(network.levels)), n_best)

        return rank_documents(predict, data, k, self.n_labels)

    def encode(self, corpus: Corpus) -> Encoded:
        """Return documents as token ids on the device."""
        return self.reader.encode(corpus, self.device)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        network = self.check_fitted()
        if column >= self.n_labels:
            return []
        batch = self.encode(Corpus.of([doc])).pad(np.array([0]))
        with torch.no_grad():
            added = network.explain_logit(*batch, column)
        found: list[Span] = self.reader.place_weights(doc, *(one[0].tolist() for one in added))
        return found

    def check_fitted(self) -> TreeNetwork:
        """Return the trained network; raise an error where there is none yet."""
        if self.network is None:
            raise UntrainedError(type(self).__name__)
        return self.network

    def save(self, folder: Path) -> None:
        network = self.check_fitted()
        assert self.tree is not None
        weights.save_network(folder, "network", network)
        self.tree.save(folder)
        tables = {f"level-{i + 1}": scorer.table for i, scorer in enumerate(network.scorers)}
        save_tables(folder, {n: t for n, t in tables.items() if isinstance(t, FrozenTable)})
        self.reader.save(folder)
        save_description(folder, self.config, self.n_labels, self.calibration)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_description(folder, cls.Config)
        system = cls(about.config, device=device)
        system.n_labels, system.calibration = about.n_labels, about.calibration
        system.reader.load(folder)
        system.tree = tree = LabelTree.load(folder, system.n_labels)
        tables = system._load_tables(tree, folder)
        with torch.device("meta"):  # saves the memory and time of weights that are read next
            network = system.build_network(tree, tables, None)
        weights.load_network(folder, "network", network)
        system.network = network.to(system.device).eval()
        return system


class LightAttentionSystem(TreeSystem):
    """The network of Figure 1, trained level by level from the top (III-C)."""

    Config = LightAttentionConfig
    given_parent = True

    def build_network(
        self, tree: LabelTree, tables: Sequence[nn.Module], vectors: Tensor | None
    ) -> TreeNetwork:
        return LightAttentionNetwork(self.config, len(self.reader), tree, tables, vectors)

    def list_node_vectors(self, height: int) -> list[list[NodeVector]]:
        return list_node_vectors(self.config, height)

    def compute_height(self, n_labels: int) -> int:
        """Return H, or for 0 the least height whose top level can be scored whole."""
        config, most = self.config, AttentionScorer.MAX_TOP_NODES
        return config.height or compute_height(
            n_labels, cluster=config.cluster, children=config.children, most=most
        )

    def train_levels(self, trainer: LevelTrainer) -> None:
        trainer.train_top_down(self.work, static_negatives=self.config.negatives == "static")

"""LightAttention: label attention over the candidates that a label tree leaves (paper 003).

    label vectors ─ label tree ─ network: generators down the tree, a discriminator of labels
                                 (models/tree_network.py)

What a step or an answer costs grows with the candidates, not with the labels: only the rows of
candidates are read, and only they learn. Deviations: docs/papers/lightattention.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.config import check_least
from ontodex.errors import RunError
from ontodex.evaluate.ranking import ndcg_at
from ontodex.features import batches
from ontodex.features.tfidf import Tfidf, TfidfConfig
from ontodex.features.tokens import Tokens
from ontodex.models import label_tree
from ontodex.models.base import Span
from ontodex.models.label_tree import LabelTree, least_height
from ontodex.models.neural import DEV_RANKS, NeuralSystem, Ragged
from ontodex.models.node_tables import (
    HalfTable,
    fresh_table,
    frozen,
    load_tables,
    node_odds,
    row_width,
    save_tables,
)
from ontodex.models.parts import token_mask
from ontodex.models.tree_network import (
    GENERATORS,
    NONE,
    AttentionLevel,
    DocumentLevel,
    Scored,
    TreeNetwork,
    TreeNetworkConfig,
    owned,
)
from ontodex.train import store
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

# Nodes from which on a table below the top learns by row: a step reads few of them.
BY_ROW = 50_000


@dataclass(frozen=True)
class LightAttentionConfig(TreeNetworkConfig):
    """Settings of `lightattention`; the paper names the tree's, its 3 or 4 layers and no others."""

    tree: Literal["cluster", "ontology"] = "cluster"  # what brings labels together
    cluster: int = 8  # most labels below one node (M); each has half as many or more
    children: int = 8  # of an inner node, a power of two (K); the root has the rest
    height: int = 0  # of the tree (H); 0 = the least whose top level can be scored whole
    negatives: Literal["dynamic", "static"] = "dynamic"  # drawn now, or once for each document
    training: Literal["joint", "top-down"] = "joint"  # all levels at once, or from the top down
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=8))

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 2, "cluster")
        check_least(self, 0, "height")
        if self.children < 2 or self.children & (self.children - 1):
            raise ValueError(f"children must be a power of two, not {self.children}")
        if self.negatives == "static" and self.training == "joint":
            raise ValueError(
                'negatives = "static" are drawn when the level above has learned: '
                'they need training = "top-down"'
            )


class LightAttentionSystem(NeuralSystem):
    """Explains itself by the attention of a label over the words."""

    Config = LightAttentionConfig
    Network = TreeNetwork
    config: LightAttentionConfig

    def __init__(self, config: LightAttentionConfig, *, device: str = "cpu") -> None:
        super().__init__(config, device=device)
        self.tree: LabelTree | None = None
        self.tables: list[nn.Module] = []  # of each level, for the network that is built next
        self.documents: Ragged | None = None  # of training, while negatives are drawn from them
        self.drawn: list[Tensor] = []  # (documents, b) parents of levels 2, 3, ..., drawn once
        self.depth = 1  # levels that learn now
        self.columns = self.places = torch.empty(0, dtype=torch.int64)
        self.n_found = self.n_positives = torch.zeros(())
        self.recall: float | None = None  # the generators', on dev

    # -------------------------------------------------------------------------------------- fit

    def prepare(self, tokens: Tokens, gold: csr_array, labels: LabelSpace) -> None:
        config, tree = self.config, self.grow(tokens, gold, labels)
        self.plant(tree)
        levels = zip(owned(config, tree.height), node_odds(tree, gold, config.way), strict=True)
        self.tables = [
            fresh_table(own, odds, self.device, sparse=number > 0 and len(odds) >= BY_ROW)
            for number, (own, odds) in enumerate(levels)
        ]
        if config.negatives == "static":
            assert self.vocabulary is not None
            self.documents = Ragged(self.vocabulary.encode(tokens, config.max_length), self.device)

    def grow(self, tokens: Tokens, gold: csr_array, labels: LabelSpace) -> LabelTree:
        """The tree over the labels of the training documents."""
        config, shape = self.config, self.shape(labels.n_seen)
        if config.tree == "ontology":
            return label_tree.of_ontology(labels, **shape)
        seen = TfidfConfig(min_df=config.min_count, max_length=config.max_length)
        features = Tfidf.fit(tokens, seen).transform(tokens)
        vectors = label_tree.label_vectors(features, gold)
        return label_tree.build(vectors, seed=config.train.seed, **shape)

    def shape(self, n_labels: int) -> dict[str, int]:
        """What `label_tree` is told of the tree over so many labels."""
        config, most = self.config, GENERATORS[self.config.generator].MOST_AT_ONCE
        width = {"cluster": config.cluster, "children": config.children}
        return {**width, "height": config.height or least_height(n_labels, **width, most=most)}

    def plant(self, tree: LabelTree) -> None:
        self.tree, self.depth, self.drawn = tree, tree.height + 1, []
        self.columns = torch.from_numpy(tree.order).to(self.device)
        self.places = torch.from_numpy(tree.places).to(self.device)

    def build(self, odds: Tensor, aligned: Tensor | None) -> nn.Module:
        assert self.tree is not None
        assert self.vocabulary is not None
        tables, self.tables = self.tables, []
        return TreeNetwork(self.config, len(self.vocabulary), self.tree, tables, aligned)

    def learn(
        self,
        lengths: NDArray[np.int64],
        loss: Callable[[NDArray[np.int64]], Tensor],
        dev: Corpus,
        labels: LabelSpace,
    ) -> None:
        """All levels at once, or from the top down: each with those above, which share its words
        and encoder and go on learning."""
        assert self.tree is not None
        whole, work, epochs = self.tree.height + 1, self.work, self.epochs
        for depth in [whole] if self.config.training == "joint" else range(1, whole + 1):
            if self.documents is not None and depth > 1:
                self.drawn.append(self.draw(self.documents, depth - 1, self.drawn))
            self.depth, self.epochs = depth, epochs
            self.work = work / f"level-{depth}" if work is not None and depth < whole else work
            super().learn(lengths, loss, dev, labels)
        self.documents, self.drawn = None, []
        for level in self.levels()[1:]:
            level.table = frozen(cast(nn.Embedding, level.table))

    def batch_loss(self, rows: NDArray[np.int64], data: Ragged, gold: Ragged) -> Tensor:
        """The sum of the levels' losses (Algorithm 2), the mean over documents."""
        network = self.parts()
        total = torch.zeros((), device=self.device)
        with self.precision():
            teach = self.depth <= len(network.beams)
            reads = network.read(*data.padded(rows), generators_teach=teach)
            walk = network.walk(reads, self.truth(rows, gold), self.of_rows(self.drawn, rows))
            for scored in islice(walk, self.depth):
                total = total + F.binary_cross_entropy_with_logits(
                    scored.logits, scored.is_true.float(), scored.weights, reduction="sum"
                )
        self.n_found = self.n_found + scored.in_sight.sum()
        self.n_positives = self.n_positives + int(gold.lengths[rows].sum())
        return total / len(rows)

    def truth(self, rows: NDArray[np.int64], gold: Ragged) -> Tensor:
        """(n, g): the places of the documents' true labels."""
        columns, lengths = gold.padded(rows)
        return torch.where(token_mask(columns, lengths), self.places[columns], NONE)

    def dev_score(self, data: Ragged, gold: csr_array) -> float:
        """nDCG@5; while no labels learn, how many true ones the levels that do keep in sight."""
        assert self.tree is not None
        if self.depth <= self.tree.height:
            self.recall = self.kept_in_sight(data, gold, self.depth)
            return self.recall
        truth = Ragged.of_gold(gold, self.n_labels, self.device)
        found = torch.zeros((), device=self.device)
        columns = np.full((len(data), DEV_RANKS), NONE)
        values = np.zeros(columns.shape, np.float32)
        for rows in batches.by_length(data.lengths, self.rank_batch()):
            labels = self.candidates(data.padded(rows), self.depth, self.truth(rows, truth))
            found += labels.in_sight.sum()
            best, which = self.answers(labels, DEV_RANKS)
            columns[rows], values[rows] = which.cpu().numpy(), best.cpu().numpy()
        self.recall = float(found) / max(1, int(truth.lengths.sum()))
        return float(np.nanmean(ndcg_at(DEV_RANKS, gold, Ranking.sort(columns, values, DEV_RANKS))))

    def figures(self) -> dict[str, float]:
        """The generators' recall: the share of true labels that were among the candidates, in this
        epoch's training batches and on dev. Starts anew."""
        share = float(self.n_found / self.n_positives.clamp(min=1))
        self.n_found = self.n_positives = torch.zeros((), device=self.device)
        known = {} if self.recall is None else {"dev_generator_recall": round(self.recall, 4)}
        return {"generator_recall": round(share, 4), **known}

    def kept_in_sight(self, data: Ragged, gold: csr_array, level: int) -> float:
        """The share of true labels below the best b nodes of a level."""
        assert self.tree is not None
        gold = csr_array(gold[:, : self.n_labels])
        if level == 0 or not gold.nnz:
            return 1.0
        best = self.draw(data, level).numpy()
        document = np.repeat(np.arange(len(data)), np.diff(gold.indptr))
        node = self.tree.node_of(level)[gold.indices]
        return float(np.mean((best[document] == node[:, None]).any(axis=1)))

    def draw(self, data: Ragged, level: int, drawn: Sequence[Tensor] = ()) -> Tensor:
        """(documents, b): the best nodes of a level, as the levels down to it stand now; below the
        nodes that were drawn of the levels above."""
        beam = self.parts().beams[level - 1]
        planned = batches.by_length(data.lengths, self.rank_batch())
        found = []
        for rows in planned:
            above = self.of_rows(drawn, rows)
            scored = self.candidates(data.padded(rows), level, drawn=above)
            found.append(scored.best(beam)[0].cpu())
        best = torch.empty_like(torch.cat(found))
        best[torch.from_numpy(np.concatenate(planned))] = torch.cat(found)
        return best

    def of_rows(self, drawn: Sequence[Tensor], rows: NDArray[np.int64]) -> list[Tensor] | None:
        at = torch.from_numpy(rows)
        return [parents[at].to(self.device) for parents in drawn] or None

    def candidates(
        self,
        batch: tuple[Tensor, ...],
        level: int,
        positives: Tensor | None = None,
        drawn: Sequence[Tensor] | None = None,
    ) -> Scored:
        """The candidates of a level for a batch, scored as the network stands now."""
        tokens, lengths = batch
        network = self.parts().eval()
        with torch.inference_mode(), self.precision():
            walk = network.walk(network.read(tokens, lengths), positives, drawn)
            *_, last = islice(walk, level)
        return last

    # ------------------------------------------------------------------------------------- rank

    def best(self, batch: tuple[Tensor, ...], k: int) -> tuple[Tensor, Tensor]:
        assert self.tree is not None
        return self.answers(self.candidates(batch, self.tree.height + 1), k)

    def answers(self, labels: Scored, k: int) -> tuple[Tensor, Tensor]:
        """Probabilities and columns (n, k) of the best candidate labels."""
        places, log_p = labels.best(k)
        columns = self.columns[places.clamp(min=0)].masked_fill(places == NONE, NONE)
        pad = (0, k - columns.shape[1])
        return F.pad(log_p.exp(), pad), F.pad(columns, pad, value=NONE)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        network = self.parts()
        spans, tokens, lengths = self.encode_doc(doc)
        if column >= self.n_labels or not spans:
            return []
        with torch.no_grad():
            read = network.read(tokens, lengths).labels
            discriminator = cast(AttentionLevel, self.levels()[-1])
            added, of_bag = discriminator.contributions(read, int(self.places[column]))
            weights = (added + network.bag.contributions(tokens, of_bag))[0].tolist()
        return [
            Span(start, end, weight) for (start, end), weight in zip(spans, weights, strict=False)
        ]

    def parts(self) -> TreeNetwork:
        return cast(TreeNetwork, self.fitted())

    def levels(self) -> list[DocumentLevel | AttentionLevel]:
        return cast(list[DocumentLevel | AttentionLevel], list(self.parts().levels))

    # --------------------------------------------------------------------------------- the files

    def save_network(self, folder: Path) -> None:
        assert self.tree is not None
        super().save_network(folder)
        store.save_tensors(folder, "tree", self.tree.arrays())
        tables = {f"level-{i + 1}": level.table for i, level in enumerate(self.levels())}
        save_tables(
            folder, {n: table for n, table in tables.items() if isinstance(table, HalfTable)}
        )

    def load_network(self, folder: Path) -> None:
        tree = LabelTree.of_arrays(store.load_tensors(folder, "tree"))
        if tree.n_labels != self.n_labels:
            raise RunError(
                f"{folder}: its tree has {tree.n_labels:,} labels, not {self.n_labels:,}"
            )
        self.plant(tree)
        top, *deeper = owned(self.config, tree.height)
        shapes = {
            f"level-{level}": (tree.n_nodes(level), row_width(vectors))
            for level, vectors in enumerate(deeper, start=2)
        }
        blank = torch.zeros(tree.n_nodes(1), row_width(top))  # read with the network's own tensors
        at_top = nn.Embedding.from_pretrained(blank, freeze=False)
        self.tables = [at_top, *load_tables(folder, shapes, self.device)]
        super().load_network(folder)

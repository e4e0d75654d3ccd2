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

from ontodex.errors import RunError
from ontodex.features import batches
from ontodex.features.tfidf import Tfidf, TfidfConfig
from ontodex.features.tokens import Tokens
from ontodex.models import label_tree
from ontodex.models.base import Span
from ontodex.models.label_tree import LabelTree
from ontodex.models.neural import NeuralSystem, Ragged
from ontodex.models.node_tables import (
    HalfTable,
    fresh_table,
    frozen,
    load_tables,
    node_odds,
    save_tables,
)
from ontodex.models.parts import token_mask
from ontodex.models.tree_network import NONE, Level, TreeNetwork, TreeNetworkConfig
from ontodex.train import store
from ontodex.train.loop import LoopConfig
from ontodex.types import Corpus, Doc, LabelSpace


@dataclass(frozen=True)
class LightAttentionConfig(TreeNetworkConfig):
    """Settings of `lightattention`; the paper names the tree's, its 3 or 4 layers and no others."""

    tree: Literal["cluster", "ontology"] = "cluster"  # what brings labels together
    cluster: int = 16  # most labels below one node (M); each has more than half as many
    children: int = 8  # of an inner node, a power of two (K); the root has the rest
    height: int = 0  # of the tree (H); 0 = 2 below 50,000 labels, 3 from there on
    negatives: Literal["dynamic", "static"] = "dynamic"  # drawn now, or once for each document
    training: Literal["joint", "top-down"] = "joint"  # all levels at once, or from the top down
    train: LoopConfig = field(default_factory=lambda: LoopConfig(epochs=8))

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("cluster", 2), ("height", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
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
        config = self.config
        shape: dict[str, int] = {
            "cluster": config.cluster, "children": config.children, "height": config.height
        }  # fmt: skip
        if config.tree == "ontology":
            tree = label_tree.of_ontology(labels, **shape)
        else:
            seen = TfidfConfig(min_df=config.min_count, max_length=config.max_length)
            features = Tfidf.fit(tokens, seen).transform(tokens)
            vectors = label_tree.label_vectors(features, gold)
            tree = label_tree.build(vectors, seed=config.train.seed, **shape)
        self.plant(tree)
        # All nodes of the top level are read in every step, of the others few.
        self.tables = [
            fresh_table(config.row_widths, odds, sparse=number > 0)
            for number, odds in enumerate(node_odds(tree, gold))
        ]
        if config.negatives == "static":
            assert self.vocabulary is not None
            self.documents = Ragged(self.vocabulary.encode(tokens, config.max_length), self.device)

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
                self.drawn.append(self.draw(self.documents, depth - 1))
            self.depth, self.epochs = depth, epochs
            self.work = work / f"level-{depth}" if work is not None and depth < whole else work
            super().learn(lengths, loss, dev, labels)
        self.documents, self.drawn = None, []
        for level in self.levels()[1:]:
            level.table = frozen(cast(nn.Embedding, level.table))

    def batch_loss(self, rows: NDArray[np.int64], data: Ragged, gold: Ragged) -> Tensor:
        """The sum of the levels' losses (Algorithm 2), the mean over documents."""
        network = self.parts()
        columns, lengths = gold.padded(rows)
        places = torch.where(token_mask(columns, lengths), self.places[columns], NONE)
        at = torch.from_numpy(rows)
        drawn = [parents[at].to(self.device) for parents in self.drawn] or None
        total = torch.zeros((), device=self.device)
        with self.precision():
            walk = network.walk(network.read(*data.padded(rows)), places, drawn)
            for scored in islice(walk, self.depth):
                total = total + F.binary_cross_entropy_with_logits(
                    scored.logits, scored.is_true.float(), scored.counts.float(), reduction="sum"
                )
        self.n_found = self.n_found + (scored.is_true & (scored.log_p > -torch.inf)).sum()
        self.n_positives = self.n_positives + scored.is_true.sum()
        return total / len(rows)

    def dev_score(self, data: Ragged, gold: csr_array) -> float:
        """nDCG@5; while no labels learn, how many true ones the levels that do keep in sight."""
        assert self.tree is not None
        whole = self.tree.height + 1
        self.recall = self.kept_in_sight(data, gold, min(self.depth, whole - 1))
        return super().dev_score(data, gold) if self.depth == whole else self.recall

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

    def draw(self, data: Ragged, level: int) -> Tensor:
        """(documents, b): the best nodes of a level, as the levels down to it stand now."""
        network = self.parts().eval()
        found: list[Tensor] = []
        planned = batches.by_length(data.lengths, self.rank_batch())
        with torch.inference_mode(), self.precision():
            for rows in planned:
                *_, last = islice(network.walk(network.read(*data.padded(rows))), level)
                found.append(last.best(self.config.beam)[0].cpu())
        drawn = torch.empty_like(torch.cat(found))
        drawn[torch.from_numpy(np.concatenate(planned))] = torch.cat(found)
        return drawn

    # ------------------------------------------------------------------------------------- rank

    def best(self, batch: tuple[Tensor, ...], k: int) -> tuple[Tensor, Tensor]:
        tokens, lengths = batch
        with self.precision():
            places, log_p = self.parts()(tokens, lengths).best(k)
        columns = self.columns[places.clamp(min=0)].masked_fill(places == NONE, NONE)
        pad = (0, k - columns.shape[1])
        return F.pad(log_p.exp(), pad), F.pad(columns, pad, value=NONE)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        network = self.parts()
        spans, tokens, lengths = self.encode_doc(doc)
        if column >= self.n_labels or not spans:
            return []
        with torch.inference_mode():
            read = network.read(tokens, lengths)
            weights = self.levels()[-1].weights(read, int(self.places[column]))[0].tolist()
        return [
            Span(start, end, weight) for (start, end), weight in zip(spans, weights, strict=False)
        ]

    def parts(self) -> TreeNetwork:
        return cast(TreeNetwork, self.fitted())

    def levels(self) -> list[Level]:
        return cast(list[Level], list(self.parts().levels))

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
        widths = self.config.row_widths
        shapes = {
            f"level-{level}": (tree.n_nodes(level), sum(widths))
            for level in range(2, tree.height + 2)
        }
        top = fresh_table(widths, torch.zeros(tree.n_nodes(1)), sparse=False)
        self.tables = [top, *load_tables(folder, shapes, self.device)]
        super().load_network(folder)

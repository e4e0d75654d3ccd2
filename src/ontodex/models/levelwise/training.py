"""Training the networks of all levels together (Deep Level-wise XMLC, section 2.1.2).

    pass 1   words and keywords
    pass 2   words, keywords, and the labels that pass 1 predicts at the levels above and below

cross_fitting.py makes the predictions of pass 1 for the training documents.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.evaluation.ranking import ndcg, score_documents
from ontodex.features import batches
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.levels import Level
from ontodex.models.levelwise.network import LevelNetworks, Tables
from ontodex.models.levelwise.pass_data import Targets
from ontodex.models.levelwise.prediction import Batch, autocast, predict
from ontodex.models.levelwise.stage_cache import Arrays
from ontodex.models.levelwise.streams import Rows, Streams
from ontodex.models.network_training import DEV_RANKS

NORM_BATCHES = 20  # batches over which the statistics of batch norm are measured again


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains the networks of one pass; the networks of all folds share its data."""

    config: LevelwiseConfig
    levels: Sequence[Level]
    tables: Tables
    data: Streams
    targets: Targets
    dev: Streams
    dev_targets: Targets
    device: torch.device

    def make_network(self, rows: Rows) -> LevelNetworks:
        """Return untrained networks, with the log-odds of these documents as initial logits."""
        torch.manual_seed(self.config.train.seed)
        start = self.targets.initial_logits(rows)
        return LevelNetworks(self.config, self.levels, self.tables, start).to(self.device)

    def fit(
        self, rows: Rows, folder: Path | None, title: str, earlier: Arrays | None = None
    ) -> LevelNetworks:
        """Train the networks of all levels on these documents, `earlier` the weights to continue
        from."""
        from ontodex.training import loop  # predicting needs no training code

        network = self.make_network(rows)
        settings = self.config.train
        if earlier is not None:
            network.continue_from(earlier)
            settings = dataclasses.replace(
                settings,
                epochs=self.config.pass2_epochs,
                lr=settings.lr * self.config.pass2_lr_factor,
            )

        def score() -> float:
            self.measure_batch_norms(network, rows)
            return self.score_dev(network)

        def limit_row_norms() -> None:
            if self.config.max_norm:
                network.limit_row_norms(self.config.max_norm)

        has_dev = any(gold.nnz for gold in self.dev_targets.local)
        loop.fit(
            network,
            batches=partial(self.plan_batches, rows),
            loss=self.make_loss(network),
            config=settings,
            score=score if has_dev else None,
            folder=folder,
            after_step=limit_row_norms,
            title=title,
        )
        self.measure_batch_norms(network, rows)
        network.half().float().eval()  # the weights that are saved in half precision predict
        return network

    def plan_batches(self, rows: Rows, epoch: int) -> list[Rows]:
        """Return the batches of these documents in an epoch."""
        settings, lengths = self.config.train, self.data.words.lengths[rows]
        planned = batches.plan(lengths, settings.batch_size, seed=settings.seed, epoch=epoch)
        return [rows[batch] for batch in planned]

    def make_loss(self, network: LevelNetworks) -> Callable[[Rows], Tensor]:
        """Return the loss of some documents, summed over all levels, as a function (Eq. 1)."""
        gold = self.targets.to_device(self.device)

        def loss(rows: Rows) -> Tensor:
            # In a batch without a document of any level, all gradients are 0.
            parts = [0 * network.level(0).bias.sum()]
            with autocast(self.device):
                batch = Batch(network, self.data, rows)
            for index, level in enumerate(self.levels):
                inside = np.flatnonzero(self.targets.is_used[index][rows])
                if len(inside):
                    with autocast(self.device):
                        logits = batch.compute_logits(index, inside)
                        target = gold[index].to_multi_hot(rows[inside], len(level))
                        parts.append(
                            F.binary_cross_entropy_with_logits(logits, target, reduction="sum")
                        )
            return torch.stack(parts).sum() / len(rows)  # mean over documents

        return loss

    def measure_batch_norms(self, network: LevelNetworks, rows: Rows) -> None:
        """Measure the statistics of batch norm again, with the current weights.

        Those gathered in training belong to earlier weights. Each level is measured with its own
        training documents; batches of all documents may have none of a rare level.
        """
        norms = [
            m for m in network.modules() if isinstance(m, torch.nn.BatchNorm1d) and m.num_features
        ]
        network.eval()
        if not norms:
            return
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over the batches
            norm.train()
        with torch.no_grad(), autocast(self.device):
            for indices, used in self.group_levels_by_documents(rows):
                for some in self.plan_batches(used, 0)[:NORM_BATCHES]:
                    batch = Batch(network, self.data, some)
                    for index in indices:
                        batch.compute_logits(index, np.arange(len(some)))
        for norm in norms:
            norm.momentum = 0.1  # the plain mean reads its counter of batches from the device
        network.eval()

    def group_levels_by_documents(self, rows: Rows) -> list[tuple[list[int], Rows]]:
        """Return groups of levels (by index) with the same training documents among `rows`."""
        found: dict[bytes, list[int]] = {}
        for index, is_used in enumerate(self.targets.is_used):
            found.setdefault(is_used[rows].tobytes(), []).append(index)
        return [(indices, rows[np.frombuffer(key, bool)]) for key, indices in found.items()]

    def score_dev(self, network: LevelNetworks) -> float:
        """Return nDCG@5 on dev, averaged over the levels; over documents with a label there."""
        rankings = predict(network, self.levels, self.dev, None, DEV_RANKS, self.device)
        scores = []
        for gold, level, ranking in zip(self.dev_targets.local, self.levels, rankings, strict=True):
            has_label = np.diff(gold.indptr) > 0
            if has_label.any():
                wide = csr_array(
                    (gold.data, level.columns[gold.indices], gold.indptr),
                    shape=(gold.shape[0], int(level.columns[-1]) + 1),
                )
                own = csr_array(wide[has_label])
                found = score_documents(ndcg, DEV_RANKS, own, ranking.take(has_label))
                scores.append(found.mean())
        return float(np.mean(scores))

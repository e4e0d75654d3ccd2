"""Training the networks of all levels together (Deep Level-wise XMLC, section 2.1.2).

    pass 1   words and keywords
    pass 2   words, keywords, and the labels that pass 1 predicts at the levels above and below

cross_fitting.py makes the predictions of pass 1 for the training documents.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.evaluation.ranking import ndcg, score_documents
from ontodex.features import batches
from ontodex.models.levelwise.config import LevelsConfig
from ontodex.models.levelwise.levels import Level
from ontodex.models.levelwise.network import LevelNetworks, PooledLevels, Tables
from ontodex.models.levelwise.pass_data import Targets
from ontodex.models.levelwise.prediction import Batch, predict
from ontodex.models.levelwise.stage_cache import Arrays
from ontodex.models.levelwise.streams import Rows, Streams
from ontodex.models.network_training import DEV_RANKS, autocast

logger = logging.getLogger(__name__)

NORM_BATCHES = 20  # batches over which the statistics of batch norm are measured again


class StartOfPass(NamedTuple):
    """The networks of pass 2 before training, which predict as pass 1: nDCG@5 on dev, weights."""

    score: float
    weights: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Trainer:
    """Trains the networks of one pass; the networks of all folds share its data."""

    config: LevelsConfig
    network_class: type[LevelNetworks]
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
        return self.network_class(self.config, self.levels, self.tables, start).to(self.device)

    def fit(
        self, rows: Rows, folder: Path | None, title: str, earlier: Arrays | None = None
    ) -> LevelNetworks:
        """Train the networks of all levels on these documents, `earlier` the weights to continue
        from."""
        from ontodex.training import loop  # predicting needs no training code

        network, settings = self.make_network(rows), self.config.train
        if earlier is not None:
            cast(PooledLevels, network).continue_from(earlier)
            settings = dataclasses.replace(
                settings,
                epochs=self.config.pass2_epochs,
                lr=settings.lr * self.config.pass2_lr_factor,
            )

        def score() -> float:
            self.measure_batch_norms(network, rows)
            return self.score_dev(network)

        has_dev = any(gold.nnz for gold in self.dev_targets.local)
        start = None
        if earlier is not None and has_dev:
            start = StartOfPass(score(), copy.deepcopy(network.state_dict()))
        loop.fit(
            network,
            batches=partial(self.plan_batches, rows),
            loss=self.make_loss(network),
            config=settings,
            score=score if has_dev else None,
            folder=folder,
            after_step=network.after_step,
            title=title,
        )
        self.measure_batch_norms(network, rows)
        if start is not None and self.score_dev(network) < start.score:
            logger.warning("%s: ended below pass 1 on dev, so its start is kept", title)
            network.load_state_dict(start.weights)
        network.half().float().eval()  # the weights that are saved in half precision predict
        return network

    def time_step(self) -> float:
        """Return the seconds of one training step, without the optimizer; 0 without documents."""
        rows = np.arange(len(self.data.words))
        if not len(rows):
            return 0.0
        network = self.make_network(rows).train()
        loss, batch = self.make_loss(network), self.plan_batches(rows, 0)[0]
        loss(batch).backward()  # the first step compiles and allocates
        began = time.perf_counter()
        loss(batch).backward()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

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


def announce_training(trainer: Trainer, n_passes: int) -> None:
    """Log how long training may take; warn where it starts from random vectors."""
    config, rows = trainer.config, np.arange(len(trainer.data.words))
    # A pass trains on all documents, then on all but each fold.
    n_steps = n_passes * config.folds * config.train.epochs * len(trainer.plan_batches(rows, 0))
    logger.info(
        "%d levels, %d passes of %d trainings: at most %.0f min on this machine, without the "
        "pointer generator",
        len(trainer.levels),
        n_passes,
        1 + config.folds,
        max(1, n_steps * trainer.time_step() / 60),
    )
    if trainer.tables.words is None and config.warns_of_random_vectors:
        logger.warning(
            "words start from random vectors, where the paper has trained ones: run ontodex "
            "prepare with prepare.vectors=FILE (or train) and prepare.set_vectors=true"
        )

"""Cross-fitting: predictions for training documents by networks that never saw them.

    all documents ─ network of the pass
    documents without fold k ─ network ─ predictions for fold k

Pass 2, OFO and the pointer generator learn from these out-of-fold predictions, so that no later
stage learns from labels that a network has memorised. The paper does not say which networks predict
the training documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ontodex.io.tensors import check_tensors
from ontodex.models.levelwise.network import LevelNetworks
from ontodex.models.levelwise.prediction import predict
from ontodex.models.levelwise.stage_cache import Arrays, StageCache
from ontodex.models.levelwise.thresholds import DEPTH, average_logits
from ontodex.models.levelwise.training import Trainer
from ontodex.models.weights import extract_weights, set_weights, weight_specs
from ontodex.types import Ranking


@dataclass(frozen=True, eq=False)
class CrossFitResult:
    """The trained networks of a pass, and their out-of-fold predictions."""

    network: LevelNetworks  # trained on all documents
    out_of_fold: list[Ranking]  # one per level, for all training documents
    # Weights of the network of all documents, then of the network of each fold if they are kept.
    weights: Sequence[Arrays]


@dataclass(frozen=True, eq=False)
class PassPredictions:
    """The predictions of a pass for each level, and the weights that pass 2 may continue from."""

    train: Sequence[Ranking]  # out-of-fold
    dev: Sequence[Ranking]
    weights: Sequence[Arrays]

    def average_with(self, other: PassPredictions) -> PassPredictions:
        """Return the mean logits of both passes, with the weights of the other."""
        train, dev = average_logits(self.train, other.train), average_logits(self.dev, other.dev)
        return PassPredictions(train, dev, other.weights)


def assign_folds(n_docs: int, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each document; folds have near-equal sizes."""
    order = np.random.default_rng(seed).permutation(n_docs)
    fold = np.empty(n_docs, dtype=np.int64)
    fold[order] = np.arange(n_docs) % folds
    return fold


def cross_fit(
    trainer: Trainer,
    stages: StageCache,
    name: str,
    earlier: Sequence[Arrays] = (),
    *,
    keep_weights: bool,
) -> CrossFitResult:
    """Train a pass on all documents and on all but each fold.

    `earlier` are the weights of pass 1 that pass 2 continues from. With `keep_weights` the result
    has the weights of the folds' networks, so that pass 2 can continue from them.
    """
    config, n_docs = trainer.config, len(trainer.data.words)
    everything, fold = np.arange(n_docs), assign_folds(n_docs, config.folds, config.train.seed)
    starts: Sequence[Arrays | None] = earlier or [None] * (1 + config.folds)
    shown = f"{name}, levels {trainer.levels[0].number} to {trainer.levels[-1].number}"

    def train_on_all(folder: Path | None) -> Arrays:
        title = stages.format_title(f"{shown}, all documents")
        return extract_weights(trainer.fit(everything, folder, title, starts[0]))

    weights = [stages.get_or_train(name, train_on_all)]
    network = load_weights(trainer.make_network(everything), weights[0])

    def predict_fold(number: int, folder: Path | None) -> Arrays:
        """Train without a fold and predict it."""
        title = stages.format_title(f"{shown}, fold {number + 1} of {config.folds}")
        inside, outside = np.flatnonzero(fold == number), np.flatnonzero(fold != number)
        own = network  # a corpus of one document has nothing outside its fold
        if len(outside):
            own = trainer.fit(outside, folder, title, starts[number + 1])
        found = predict(own, trainer.levels, trainer.data, inside, DEPTH, trainer.device)
        return {**_to_arrays(found), **(extract_weights(own) if keep_weights else {})}

    parts = [
        stages.get_or_train(f"{name} fold {number + 1}", partial(predict_fold, number))
        for number in np.unique(fold).tolist()
    ]
    return CrossFitResult(network, _join_folds(parts, fold, len(trainer.levels)), weights + parts)


def _to_arrays(rankings: Sequence[Ranking]) -> Arrays:
    return {
        f"{kind}.{index}": array
        for index, ranking in enumerate(rankings)
        for kind, array in (("columns", ranking.columns), ("p", ranking.probabilities))
    }


def _join_folds(parts: Sequence[Arrays], fold: NDArray[np.int64], n_levels: int) -> list[Ranking]:
    """Return the predictions of all folds in the order of the corpus, one ranking per level."""
    back = np.argsort(np.argsort(fold, kind="stable"))
    return [
        Ranking(
            np.concatenate([part[f"columns.{index}"] for part in parts])[back],
            np.concatenate([part[f"p.{index}"] for part in parts])[back],
        )
        for index in range(n_levels)
    ]


def load_weights(network: LevelNetworks, weights: Arrays) -> LevelNetworks:
    """Return the network with the weights of a training stage, ready to predict."""
    check_tensors("weights of a training stage", weights, weight_specs(network))
    set_weights(network, weights)
    return network.eval()

"""One linear classifier per label (one-vs-rest) on TF-IDF or any other features.

    documents ─ features ─ w_l · x + b_l ─ 1 / (1 + exp(-2 score)) ─ calibrated on dev
      (n)        (n, d)        (n, l)                  (n, k)

Each classifier is liblinear's L2-regularised squared-hinge SVM. Solving it on every document for
every label would take most of an hour: see `fit_labels` for the way around it, and
docs/papers/linear.md for what that costs (nothing measurable) and brings.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from ontodex.config import build, check_seed
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError, require
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.models.base import Span
from ontodex.models.sparse_rows import (
    all_scores,
    as_rows,
    blocks,
    by_feature,
    calibrated,
    cores,
    in_threads,
    load_about,
    load_rows,
    save_about,
    save_rows,
    spans,
    training_gold,
    with_bias,
)
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

logger = logging.getLogger(__name__)

Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]

_LABELS_TOGETHER = 128  # labels of one piece of work
_SCORES_TOGETHER = 2**21  # of one thread when ranking (8 MiB)
_SMALL = 2**19  # values in the matrix up to which liblinear on all documents is faster
_FIRST_NEGATIVES = 100  # documents without the label to start from, at least
_ROUNDS = 8
_TOLERANCE = 0.1  # liblinear's own stopping tolerance for this solver


@dataclass(frozen=True)
class LinearConfig(MatrixConfig):
    """Settings of `linear`; the features' settings are among them."""

    cost: float = 1.0  # liblinear's C: how much an error weighs against the length of w
    prune: float = 0.05  # weights nearer to 0 are dropped
    workers: int = 0  # processes that train; 0 = one a core, for a small corpus one
    seed: int = 0  # order in which liblinear visits documents

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost <= 0:
            raise ValueError(f"cost must be above 0, not {self.cost}")
        if self.prune < 0 or self.workers < 0:
            raise ValueError("prune and workers must not be negative")
        check_seed(self)


class Linear:
    """One-vs-rest. The judge of everything more expensive."""

    Config = LinearConfig

    def __init__(self, config: LinearConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.weights: csr_array | None = None  # (features + bias, labels)
        self.calibration = Calibration.none()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.refit(train, labels)
        self.calibration = calibrated(self._rank, dev, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        rows = as_rows(self.features.fit(train))
        gold = training_gold(train, labels)
        self.weights = by_feature(fit_all(rows, gold, self.config))
        logger.info("%s classifiers, %s weights", f"{len(labels):,}", f"{self.weights.nnz:,}")

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        weights = self._fitted()
        rows = with_bias(as_rows(self.features.transform(corpus)))
        size = min(_SCORES_TOGETHER // weights.shape[1], -(-rows.shape[0] // cores()))

        def rank(part: slice) -> Ranking:
            return Ranking.top(1 / (1 + np.exp(-2 * all_scores(rows[part], weights))), k)

        return Ranking.join(list(in_threads(rank, blocks(rows.shape[0], size))), k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Value x weight of every word the label's classifier knows."""
        weights = self._fitted()
        if column >= weights.shape[1]:
            return []
        return spans(self.features, doc, csr_array(weights[:, [column]].T))

    def save(self, folder: Path) -> None:
        save_rows(folder, "weights", self._fitted())
        self.features.save(folder)
        save_about(folder, self.config, self.calibration)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_about(folder)
        model = cls(build(LinearConfig, about["config"], "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        model.weights, _ = load_rows(folder, "weights")
        model.calibration = about["calibration"]
        if model.weights.shape != (model.features.n_features + 1, labels.n_seen):
            raise RunError(f"{folder}: the weights do not fit the labels and features beside them")
        return model

    def _fitted(self) -> csr_array:
        if self.weights is None:
            raise RunError("linear was asked before it was fitted")
        return self.weights


# ---------------------------------------------------------------------------------------- training


def fit_all(rows: csr_array, gold: csr_array, config: LinearConfig) -> csr_array:
    """(labels, features + bias) for all labels, in as many processes as there are cores; starting
    more than one takes longer than a small corpus does."""
    svm = require("sklearn.svm", extra="learn", purpose="the system `linear`")
    joblib = require("joblib", extra="learn", purpose="training `linear` in several processes")
    by_label = gold.tocsc()
    # Every n-th label, so that no piece of work holds all the frequent ones.
    order = np.argsort(-np.diff(by_label.indptr), kind="stable")
    parts = max(1, -(-gold.shape[1] // _LABELS_TOGETHER))
    chosen = [order[part::parts] for part in range(parts)]
    workers = min(config.workers or (1 if rows.nnz <= _SMALL else cores()), parts)
    with joblib.parallel_config("loky", idle_worker_timeout=10):  # done workers free their memory
        found = joblib.Parallel(n_jobs=workers)(
            joblib.delayed(fit_labels)(rows, csr_array(by_label[:, labels]), config, svm.LinearSVC)
            for labels in chosen
        )
    back = np.argsort(np.concatenate(chosen))
    return csr_array(vstack(found, format="csr")[back])


def fit_labels(rows: csr_array, gold: csr_array, config: LinearConfig, svc: Any) -> csr_array:
    """Classifiers of some labels (labels, features + bias), solved on active sets.

    Almost every document without a label scores below -1 and does not touch its classifier. So a
    classifier is solved on the documents that have the label and the most similar ones that have
    not; all documents are scored, those that come out within its margin join, and it is solved
    again, until none is missing. One heavy row, the mean document, stands for those left out.
    """
    has = gold.toarray().astype(bool)  # (n, l)
    mean = csr_array(rows.mean(axis=0)[None, :].astype(np.float32))
    mean.data[mean.data < 1e-3] = 0
    mean.eliminate_zeros()
    active = np.ones_like(has) if rows.nnz <= _SMALL else has | _most_similar(rows, gold, has)
    weights = np.zeros((gold.shape[1], rows.shape[1] + 1), dtype=np.float32)
    unsolved = np.arange(gold.shape[1])
    for _ in range(_ROUNDS):
        for label in unsolved:
            weights[label] = _solve(rows, has[:, label], active[:, label], mean, config, svc)
        scores = rows @ np.ascontiguousarray(weights[unsolved, :-1].T) + weights[unsolved, -1]
        missed = ~active[:, unsolved] & (scores > -1 + _TOLERANCE)
        again = missed.any(axis=0)
        if not again.any():
            break
        unsolved, missed, scores = unsolved[again], missed[:, again], scores[:, again]
        active[:, unsolved] |= _largest(scores, missed, active[:, unsolved].sum(axis=0))
    weights[:, :-1][np.abs(weights[:, :-1]) < config.prune] = 0
    return csr_array(weights)


def _solve(
    rows: csr_array, has: Mask, active: Mask, mean: csr_array, config: LinearConfig, svc: Any
) -> NDArray[np.float32]:
    """One classifier from the active documents and the mean one."""
    left_out = int(np.count_nonzero(~active))
    if has.all():
        return np.eye(1, rows.shape[1] + 1, rows.shape[1], dtype=np.float32)[0]  # always 1
    chosen = [rows[active], mean] if left_out else [rows[active]]
    targets = np.append(has[active], [False] if left_out else [])
    weight = np.append(np.ones(np.count_nonzero(active)), [left_out] if left_out else [])
    small = vstack(chosen, format="csr")
    small.has_sorted_indices = True  # as `rows` and `mean` have; saves liblinear's wrapper a sort
    solver = _solver(small, targets.astype(bool), weight, config, svc)
    return np.append(solver.coef_[0], solver.intercept_[0]).astype(np.float32)


def _solver(small: csr_array, targets: Mask, weight: Floats, config: LinearConfig, svc: Any) -> Any:
    """liblinear's dual solver; the primal one, slower but sure, where that does not converge."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return svc(C=config.cost, tol=_TOLERANCE, dual=True, random_state=config.seed).fit(
                small, targets, sample_weight=weight
            )
        except ConvergenceWarning:
            return svc(C=config.cost, tol=1e-3, dual=False).fit(
                small, targets, sample_weight=weight
            )


def _most_similar(rows: csr_array, gold: csr_array, has: Mask) -> Mask:
    """For each label as many documents without it as with it, nearest to the centroid."""
    centroids = (rows.T @ gold.astype(np.float32)).toarray()
    return _largest(rows @ centroids, ~has, has.sum(axis=0))


def _largest(scores: NDArray[np.float32], allowed: Mask, count: NDArray[np.int64]) -> Mask:
    """Where the largest allowed scores of each column are: `count` of them, or the usual few."""
    chosen = np.zeros(scores.shape, dtype=bool)
    for column, wanted in enumerate(np.maximum(count, _FIRST_NEGATIVES).tolist()):
        docs = np.flatnonzero(allowed[:, column])
        if wanted < len(docs):
            docs = docs[np.argpartition(-scores[docs, column], wanted)[:wanted]]
        chosen[docs, column] = True
    return chosen

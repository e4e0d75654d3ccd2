"""One linear classifier per label (one-vs-rest) on TF-IDF or any other features.

    documents ─ features ─ w_l · x + b_l ─ 1 / (1 + exp(-2 score)) ─ calibrated on dev
      (n)        (n, d)        (n, l)                  (n, k)

Each classifier is liblinear's L2-regularised squared-hinge SVM. Solving every classifier on all
documents would take most of an hour. `fit_labels` solves it on active sets instead, with the same
accuracy (docs/papers/linear.md).
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import build, check_seed
from ontodex.decide.calibrate import Calibration
from ontodex.errors import UntrainedError, require
from ontodex.features.matrix import LemmaConfig, MatrixFeatures
from ontodex.features.token_config import describe_tokens
from ontodex.io.temporary import temporary_folder
from ontodex.io.tensors import load_csr, save_csr
from ontodex.io.threads import count_cores, make_blocks, map_in_threads
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json
from ontodex.models.baselines.sparse_rows import (
    add_bias,
    calibrate_on_dev,
    score_all,
    select_seen_labels,
    to_csr,
    weigh_spans,
)
from ontodex.models.baselines.weight_shards import join_shards, write_shard
from ontodex.models.interface import Explains
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

logger = logging.getLogger(__name__)

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]

_JOB_LABELS = 128  # labels of one job of a worker process
_BLOCK_SCORES = 2**21  # of one thread when ranking (8 MiB)
_SMALL = 2**19  # up to so many values in the matrix, liblinear on all documents is faster
_FIRST_NEGATIVES = 100  # documents without the label nearest to its centroid, at least
_RANDOM_NEGATIVES = 200
_ROUNDS = 8
_TOLERANCE = 0.1  # liblinear's own stopping tolerance for this solver


@dataclass(frozen=True)
class LinearConfig(LemmaConfig):
    """Settings of `linear`, including those of its features."""

    cost: float = 1.0  # liblinear's C: weight of errors against the length of w
    prune: float = 0.05  # weights closer to 0 are dropped
    workers: int = 0  # processes that train; 0 = one for each core, or one for a small corpus
    seed: int = 0  # of the order in which liblinear visits documents

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cost <= 0:
            raise ValueError(f"cost must be above 0, not {self.cost}")
        if self.prune < 0 or self.workers < 0:
            raise ValueError("prune and workers must not be negative")
        check_seed(self)


class LinearSystem(Explains):
    """One-vs-rest linear classifiers: the baseline of the networks."""

    Config = LinearConfig

    def __init__(self, config: LinearConfig, *, device: str = "cpu") -> None:
        self.config = config
        self.features = MatrixFeatures(config)
        self.weights: csr_array | None = None  # (features + bias, labels)
        self.calibration = Calibration.identity()
        self.work: Path | None = None  # folder for the temporary files of a training

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.refit(train, labels)
        self.calibration = calibrate_on_dev(self._rank, dev, labels.gold(dev))

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        rows = to_csr(self.features.fit(train))
        gold = select_seen_labels(train, labels)
        self.weights = fit_classifiers(rows, gold, self.config, self.work)
        logger.info("%s classifiers, %s weights", f"{len(labels):,}", f"{self.weights.nnz:,}")

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return self.calibration.apply(self._rank(corpus, k))

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        weights = self._require_weights()
        rows = add_bias(to_csr(self.features.transform(corpus)))
        size = min(_BLOCK_SCORES // weights.shape[1], -(-rows.shape[0] // count_cores()))

        def rank(block: slice) -> Ranking:
            return Ranking.top(1 / (1 + np.exp(-2 * score_all(rows[block], weights))), k)

        return Ranking.join(list(map_in_threads(rank, make_blocks(rows.shape[0], size))), k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return value x weight for every word of the label's classifier."""
        weights = self._require_weights()
        if column >= weights.shape[1]:
            return []
        return weigh_spans(self.features, doc, csr_array(weights[:, [column]].T))

    def to_onnx(self) -> bytes:
        from ontodex.models.baselines.linear_onnx import build_model

        return build_model(self.features.require_tfidf(), self._require_weights(), self.calibration)

    def token_settings(self) -> dict[str, Any]:
        return describe_tokens(self.config)

    def save(self, folder: Path) -> None:
        save_csr(folder, "weights", self._require_weights())
        self.features.save(folder)
        save_model_json(folder, self.config, self.calibration)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_model_json(folder, ModelJson)
        model = cls(build(LinearConfig, about.config, "model"), device=device)
        model.features = MatrixFeatures.load(folder)
        shape = (model.features.n_features + 1, labels.n_seen)
        model.weights, _ = load_csr(folder, "weights", shape)
        model.calibration = about.calibration
        return model

    def _require_weights(self) -> csr_array:
        if self.weights is None:
            raise UntrainedError("linear")
        return self.weights


def fit_classifiers(
    rows: csr_array, gold: csr_array, config: LinearConfig, work: Path | None = None
) -> csr_array:
    """Fit all classifiers (features + bias, labels), in one process for each core.

    A small corpus is fitted in one process: starting more would take longer than the fit. Each job
    writes its classifiers to a temporary file, in `work` or else in the system's folder for them,
    and the result is memory-mapped: memory does not grow with the number of labels.
    """
    svm = require("sklearn.svm", extra="learn", purpose="the system `linear`")
    joblib = require("joblib", extra="learn", purpose="training `linear` in several processes")
    by_label = gold.tocsc()
    # A job takes every n-th label, so that no job has all the frequent ones.
    order = np.argsort(-np.diff(by_label.indptr), kind="stable")
    n_jobs = max(1, -(-gold.shape[1] // _JOB_LABELS))
    jobs = [order[job::n_jobs] for job in range(n_jobs)]
    workers = min(config.workers or (1 if rows.nnz <= _SMALL else count_cores()), n_jobs)
    shape = rows.shape[1] + 1, gold.shape[1]
    with temporary_folder((work or Path(tempfile.gettempdir())) / "ontodex-linear") as folder:
        shards = [folder / f"{job}.safetensors" for job in range(n_jobs)]
        with joblib.parallel_config("loky", idle_worker_timeout=10):  # idle workers free memory
            joblib.Parallel(n_jobs=workers)(
                joblib.delayed(_fit_shard)(
                    rows, csr_array(by_label[:, labels]), labels, config, svm.LinearSVC, path
                )
                for labels, path in zip(jobs, shards, strict=True)
            )
        return join_shards(shards, shape)


def _fit_shard(
    rows: csr_array, gold: csr_array, labels: Ints, config: LinearConfig, svc: Any, path: Path
) -> None:
    write_shard(path, fit_labels(rows, gold, config, svc), labels)


def fit_labels(rows: csr_array, gold: csr_array, config: LinearConfig, svc: Any) -> csr_array:
    """Fit the classifiers of some labels (labels, features + bias) on active sets.

    Almost every document without a label scores below -1 and does not change its classifier. So a
    classifier is first solved on the documents with the label, the most similar others, and some at
    random, which keep the bias near its place. Then all documents are scored, those within the
    margin are added, and it is solved again until none is missing.
    """
    has = gold.T.toarray().astype(bool)  # (l, n)
    active = np.ones_like(has) if rows.nnz <= _SMALL else _select_first(rows, gold, has, config)
    weights = np.zeros((gold.shape[1], rows.shape[1] + 1), dtype=np.float32)
    unsolved = np.arange(gold.shape[1])
    for _ in range(_ROUNDS):
        for label in unsolved:
            weights[label] = _solve(rows, has[label], np.flatnonzero(active[label]), config, svc)
        scores = _score(rows, weights[unsolved, :-1]) + weights[unsolved, -1:]
        is_missing = [
            _add_missing(active[label], score)
            for label, score in zip(unsolved, scores, strict=True)
        ]
        unsolved = unsolved[is_missing]
        if not len(unsolved):
            break
    weights[:, :-1][np.abs(weights[:, :-1]) < config.prune] = 0
    return csr_array(weights)


def _select_first(rows: csr_array, gold: csr_array, has: Mask, config: LinearConfig) -> Mask:
    """Return the first active sets (labels, documents): those with the label, as many that are
    nearest to its centroid, and the same random ones for every label."""
    # With `gold.T` as it is, by column, scipy would convert all documents for every job.
    centroids = (csr_array(gold.T) @ rows).toarray()
    active = has.copy()
    for label, score in enumerate(_score(rows, centroids)):
        others = np.flatnonzero(~has[label])
        wanted = max(len(score) - len(others), _FIRST_NEGATIVES)
        active[label, _select_largest(others, score, wanted)] = True
    count = min(_RANDOM_NEGATIVES, rows.shape[0])
    active[:, np.random.default_rng(config.seed).choice(rows.shape[0], count, replace=False)] = True
    return active


def _add_missing(active: Mask, score: NDArray[np.float32]) -> bool:
    """Add the documents within the margin to a label's active set, the worst first, at most
    doubling it; tell whether there was any."""
    missing = np.flatnonzero(~active & (score > -1 + _TOLERANCE))
    active[_select_largest(missing, score, int(active.sum()))] = True
    return len(missing) > 0


def _select_largest(docs: NDArray[np.int64], score: NDArray[np.float32], count: int) -> Ints:
    """Return the `count` documents with the largest scores, or all if they are fewer."""
    if count >= len(docs):
        return docs
    return docs[np.argpartition(-score[docs], count)[:count]]


def _score(rows: csr_array, weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scores (labels, documents), those of a label side by side."""
    return np.ascontiguousarray((rows @ np.ascontiguousarray(weights.T)).T)


def _solve(
    rows: csr_array, has: Mask, active: Ints, config: LinearConfig, svc: Any
) -> NDArray[np.float32]:
    """Fit one classifier on the active documents."""
    if has.all():
        return np.eye(1, rows.shape[1] + 1, rows.shape[1], dtype=np.float32)[0]  # always 1
    small = rows[active]
    small.has_sorted_indices = True  # as `rows` has; saves liblinear's wrapper a sort
    solver = _run_liblinear(small, has[active], config, svc)
    return np.append(solver.coef_[0], solver.intercept_[0]).astype(np.float32)


def _run_liblinear(small: csr_array, targets: Mask, config: LinearConfig, svc: Any) -> Any:
    """Run liblinear's dual solver, or the slower primal one where the dual does not converge."""
    from sklearn import config_context
    from sklearn.exceptions import ConvergenceWarning

    # Checking settings and values would take a tenth of the time of a small problem.
    with (
        warnings.catch_warnings(),
        config_context(assume_finite=True, skip_parameter_validation=True),
    ):
        warnings.simplefilter("error", ConvergenceWarning)
        try:
            return svc(C=config.cost, tol=_TOLERANCE, dual=True, random_state=config.seed).fit(
                small, targets
            )
        except ConvergenceWarning:
            return svc(C=config.cost, tol=1e-3, dual=False).fit(small, targets)

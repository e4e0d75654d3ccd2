"""`landmark`: kernel regression embeds documents in the space of label vectors; neighbours vote.

    document ─ kernel with landmarks ─ weights ─ L2 norm = f_x ─ clusters ─ k nearest ─ their labels
     (n, d)            (n, m)           (m, e)      (n, e)                    (n, k)       (n, l)

Our variant of DXML (models/dxml): the regression of `kernel` (baselines/landmarks.py) replaces its
network, and is fitted to the same targets. `kernel` itself regresses onto the labels and has no
neighbours. The two make different errors, so that their consensus is better than either.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array

from ontodex.config import check_seed
from ontodex.errors import UntrainedError
from ontodex.io.progress import track
from ontodex.models.baselines.landmarks import RIDGES, LandmarkConfig, Landmarks
from ontodex.models.baselines.neighbours import Neighbours, choose_vote, compute_ndcg
from ontodex.models.dxml.clusters import search_all
from ontodex.models.dxml.neighbour_system import NeighbourSystem
from ontodex.models.dxml.targets import Floats, scale_to_unit
from ontodex.models.graphknn.weighted_vote import (
    NEIGHBOURS,
    WeightedVoteConfig,
    choose_vote_and_probe,
)
from ontodex.types import Corpus, LabelSpace

logger = logging.getLogger(__name__)

_SHARES = (0.0, 0.25, 0.5)  # of f_y in the vector of a training document
_EVALUATED = 2_000  # training documents whose leave-one-out predictions are evaluated


@dataclass(frozen=True)
class LandmarkSystemConfig(WeightedVoteConfig, LandmarkConfig):
    """Settings of `landmark`."""

    seed: int = 1  # of the draw of landmarks and of the clusters

    FORMER: ClassVar[tuple[str, ...]] = (
        *WeightedVoteConfig.FORMER, "hidden", "networks", "activation", "input_dropout", "dropout",
        "train",
    )  # fmt: skip
    embedding: ClassVar[str] = "kernel"

    def __post_init__(self) -> None:
        WeightedVoteConfig.__post_init__(self)
        LandmarkConfig.__post_init__(self)
        check_seed(self)


class LandmarkSystem(NeighbourSystem):
    """Kernel regression onto label vectors, and nearest neighbours."""

    Config = LandmarkSystemConfig
    config: LandmarkSystemConfig

    def __init__(self, config: LandmarkSystemConfig, *, device: str = "cpu") -> None:
        super().__init__(config, device=device)
        self.landmarks: Landmarks | None = None
        self.weights: Floats = np.empty((0, 0), np.float32)  # (landmarks, e)
        # By leave-one-out predictions: ridge, target share, neighbours, exponent.
        self.has_chosen = False
        started = config.start_choices(self.chosen)
        self.chosen = replace(started, ridge=config.ridge or 0.3, share=0.25)

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.has_chosen = False
        super().fit(train, dev, labels)

    def learn_embedding(
        self, rows: csr_array, targets: Floats, dev: Corpus, dev_gold: csr_array
    ) -> Floats:
        """Fit the regression.

        The vector of a training document lies between its target and its leave-one-out prediction,
        because new documents have predictions only. Where every document is a landmark, all
        leave-one-out predictions are known. They choose ridge, target share, neighbours and
        exponent; otherwise dev does.
        """
        config, weigh, n = self.config, self.features.kind == "sparse", rows.shape[0]
        landmarks = Landmarks.of(rows, config, weigh_by_count=weigh, seed=config.seed)
        self.landmarks, equations = landmarks, landmarks.build_equations(rows, targets)
        is_full = len(landmarks) == n
        some = np.random.default_rng(config.seed).permutation(n)[:_EVALUATED]

        def predict(ridge: float) -> Floats:
            factor = equations.factorise(ridge)
            self.weights = factor.solve()
            if not is_full:
                return self.embed_rows(rows)
            return scale_to_unit(factor.predict_left_out(self.weights))

        def search(predicted: Floats, vectors: Floats) -> tuple[Neighbours, csr_array]:
            if not is_full:
                return search_all(self.embed(dev), vectors, max(NEIGHBOURS), self.device), dev_gold
            found = search_all(predicted[some], vectors, max(NEIGHBOURS) + 1, self.device)
            return found.drop_self(some), csr_array(self.gold[some])

        def evaluate(ridge: float) -> Iterator[tuple[float, tuple[float, float, int, float]]]:
            predicted = predict(ridge)
            for share in _SHARES:
                nearest, gold = search(predicted, interpolate(predicted, targets, share))
                k, exponent = choose_vote(nearest, self.gold, gold, *config.list_votes())
                ndcg = compute_ndcg(gold, nearest.vote(self.gold, k, exponent, 5))
                yield ndcg, (ridge, share, k, exponent)

        if not self.has_chosen and (is_full or dev_gold.nnz):
            ridges = (config.ridge,) if config.ridge else RIDGES
            tracked = track(ridges, "solving", len(ridges))
            _, best = max(result for ridge in tracked for result in evaluate(ridge))
            ridge, share, k, exponent = best
            self.chosen = replace(
                self.chosen, ridge=ridge, share=share, neighbours=k, exponent=exponent
            )
            self.has_chosen = True
        ridge, share = self._get_regression()
        return interpolate(predict(ridge), targets, share)

    def _get_regression(self) -> tuple[float, float]:
        assert self.chosen.ridge is not None
        assert self.chosen.share is not None
        return self.chosen.ridge, self.chosen.share

    def embed_rows(self, rows: csr_array) -> Floats:
        landmarks = self._require_landmarks()
        blocks = landmarks.make_blocks(rows.shape[0])
        found = [landmarks.compute_kernel(rows[block]) @ self.weights for block in blocks]
        return scale_to_unit(np.concatenate(found))

    def differentiate(self, row: csr_array, direction: Floats) -> csr_array:
        landmarks = self._require_landmarks()
        f = landmarks.compute_kernel(row) @ self.weights  # (1, e)
        direction = direction / max(float(np.linalg.norm(f)), 1e-12)
        return landmarks.compute_gradient(row, (self.weights @ direction.T)[:, 0])

    def count_clusters(self) -> int:
        return round(self.gold.shape[0] ** 0.5)

    def get_seed(self) -> int:
        return self.config.seed

    def choose_on_dev(self, queries: Floats, gold: csr_array) -> None:
        """Choose how many clusters are searched; the rest too where it is not chosen yet."""
        chosen, votes = self.chosen, self.config.list_votes()
        if self.has_chosen:
            votes = (chosen.neighbours,), (chosen.exponent,)
        self.chosen = choose_vote_and_probe(self, queries, gold, *votes)
        chosen = self.chosen
        logger.info(
            "ridge %s, %s of f_y, %s neighbours, exponent %s, %s of %s clusters",
            chosen.ridge, chosen.share, chosen.neighbours, chosen.exponent,
            chosen.probe, len(self.memory.centres),
        )  # fmt: skip

    def save_embedding(self, folder: Path) -> None:
        self._require_landmarks().save(folder, self.weights)

    def load_embedding(self, folder: Path) -> None:
        shape = (self.features.n_features, self.memory.vectors.shape[1])
        self.landmarks, self.weights = Landmarks.load(folder, self.config, shape)

    def _require_landmarks(self) -> Landmarks:
        if self.landmarks is None:
            raise UntrainedError("landmark")
        return self.landmarks


def interpolate(embedded: Floats, targets: Floats, share: float) -> Floats:
    """Return the unit vectors between embeddings and targets; `share` is the share of targets."""
    return scale_to_unit((1 - share) * embedded + share * targets)

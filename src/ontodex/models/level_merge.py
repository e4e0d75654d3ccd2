"""From what the levels say of a document to one label set and one ranking (paper 000, section 2.2).

levels' rankings ─ above OFO's thresholds ─ pointer generator (or sampling, or all) ─ label set
label set, levels' rankings calibrated ─ one score for all labels ─ ranking
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.evaluate.sets import count_by_document, micro
from ontodex.models.base import Ranked, SetAttention
from ontodex.models.level_decide import (
    DEPTH,
    Sampling,
    Thresholds,
    against,
    in_ranking,
    refine,
)
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.level_pieces import Arrays, Pieces
from ontodex.models.level_plan import gold_of, side_by_side
from ontodex.models.neural import SHARD_BYTES
from ontodex.models.pointer import Hierarchy, Pointer, Predicted
from ontodex.train import store
from ontodex.types import PADDING, Ranking

logger = logging.getLogger(__name__)

WORTH_SAYING = 0.003  # of micro-F on dev; less is chance

Rankings = Sequence[Ranking]  # one a level


class Judged(NamedTuple):
    """What the levels say of documents, and the labels that are true of them."""

    rankings: Rankings
    gold: csr_array


class Merge:
    """Merges what the levels say in the last pass. OFO's thresholds come with every call: curators
    move them."""

    def __init__(self, config: LevelwiseConfig, hierarchy: Hierarchy, device: str) -> None:
        self.config, self.hierarchy, self.device = config, hierarchy, device
        self.sampling: Sampling | None = None
        self.pointer: Pointer | None = None
        self.level_calibration: list[Calibration] = []
        self.calibration = Calibration.none()

    # -------------------------------------------------------------------------------------- fit

    def fit(
        self,
        train: Judged,
        dev: Judged,
        thresholds: Thresholds,
        pieces: Pieces,
        label_vectors: NDArray[Any] | None,
    ) -> None:
        """Learn from what the levels say of training documents out of fold."""
        gold = gold_of(train.gold, np.arange(self.hierarchy.n_answers))
        self.sampling = Sampling.fit(self.answers(self.union(train.rankings, thresholds)), gold)
        if self.config.merge == "pointer":
            pointer = Pointer(self.config.pointer, self.hierarchy, self.device)

            def learn(folder: Path | None) -> Arrays:
                pointer.fit(
                    self.predicted(train.rankings, thresholds),
                    gold,
                    self.predicted(dev.rankings, thresholds),
                    dev.gold,
                    folder,
                    label_vectors,
                    pieces.title("pointer generator"),
                )
                return pointer.tensors()

            self._take(pieces.get("pointer", learn))
        self._calibrate(dev, thresholds)

    def _take(self, pointer: Arrays) -> None:
        self.pointer = Pointer.load(
            self.config.pointer, self.hierarchy, pointer, device=self.device
        )

    def _calibrate(self, dev: Judged, thresholds: Thresholds) -> None:
        self.level_calibration = [
            Calibration.fit(ranking, dev.gold) if len(ranking) else Calibration.none()
            for ranking in dev.rankings
        ]
        if dev.gold.shape[0]:
            merged = self._chosen(dev.rankings, thresholds)
            self.calibration = Calibration.fit(self._scored(dev.rankings, merged), dev.gold)
            if self.config.merge == "pointer":
                self._advise(dev, merged, thresholds)

    def _advise(self, dev: Judged, merged: Ranking, thresholds: Thresholds) -> None:
        """Say so where what the pointer generator was told is better than what it makes of it."""
        union = self.answers(self.union(dev.rankings, thresholds))
        own, plain = (micro(count_by_document(dev.gold, sets))["MiF"] for sets in (merged, union))
        if plain - own >= WORTH_SAYING:
            logger.warning(
                "micro-F on dev is %.1f with the pointer generator and %.1f with all that the "
                "levels' thresholds keep: --set model.merge=threshold would choose better sets",
                100 * own,
                100 * plain,
            )

    # ------------------------------------------------------------------------------------ answer

    def ranked(self, rankings: Rankings, thresholds: Thresholds, k: int) -> Ranked:
        """The ranking, the merged set, and what the levels say of each label."""
        merged = self._chosen(rankings, thresholds)
        scored = self._scored(rankings, merged)
        chosen = scored.keep(in_ranking(scored, merged)).cut(merged.k)
        return Ranked(
            self.calibration.apply(scored.cut(k)),
            self.calibration.apply(chosen),
            self._apart(rankings).cut(k),
        )

    def union(self, rankings: Rankings, thresholds: Thresholds, share: float = 1.0) -> Ranking:
        """The predictions of all levels that OFO keeps, or that reach a share of its thresholds."""
        cut = [ranking.cut(DEPTH) for ranking in rankings]
        return side_by_side(refine(cut, share * thresholds))

    def predicted(self, rankings: Rankings, thresholds: Thresholds) -> Predicted:
        """What the pointer generator is told."""
        union = self.union(rankings, thresholds, self.config.pointer.share)
        told = union.probabilities
        if self.config.pointer.odds == "threshold":
            told = against(union, thresholds)
        return Predicted.of(union.columns, told, self.hierarchy.level)

    def _chosen(self, rankings: Rankings, thresholds: Thresholds) -> Ranking:
        """The label set of each document."""
        if self.config.merge == "pointer":
            assert self.pointer is not None
            return self.pointer.decode(self.predicted(rankings, thresholds))
        union = self.answers(self.union(rankings, thresholds))
        if self.config.merge == "threshold":
            return union
        assert self.sampling is not None
        return self.sampling.merge(union)

    def answers(self, ranking: Ranking) -> Ranking:
        """The ranking without clusters, which no document can be told to have."""
        if not self.hierarchy.n_clusters:
            return ranking
        return ranking.keep(ranking.columns < self.hierarchy.n_answers)

    def _apart(self, rankings: Rankings) -> Ranking:
        """All answers of the levels, calibrated within their level."""
        levels = zip(rankings, self.level_calibration, strict=True)
        calibrated = [calibration.apply(ranking) for ranking, calibration in levels]
        return self.answers(side_by_side(calibrated))

    def _scored(self, rankings: Rankings, merged: Ranking) -> Ranking:
        """All answers by one score: what the pointer decoded in the upper half, the rest in the
        lower."""
        union = self._apart(rankings)
        if self.config.merge != "pointer":
            return union
        # Labels that no level had among its best, whatever depth was asked for.
        best = side_by_side([ranking.cut(DEPTH) for ranking in rankings])
        generated = merged.keep(~in_ranking(merged, best))
        union = union.keep(~in_ranking(union, generated))
        columns = np.hstack([union.columns, generated.columns])
        p = np.hstack([union.probabilities, generated.probabilities])
        decoded = np.hstack([in_ranking(union, merged), generated.columns != PADDING])
        return Ranking.sort(columns, (p + decoded) / 2, columns.shape[1])

    def attention(self, rankings: Rankings, thresholds: Thresholds) -> SetAttention:
        """How the pointer generator came to the set of the one document of these rankings."""
        if self.pointer is None:
            raise RunError(
                f"this run merges its levels by {self.config.merge!r}, which attends to nothing",
                hint='name a --label, or train with --set model.merge="pointer"',
            )
        seen = self.pointer.attention(self.predicted(rankings, thresholds))
        union = self.union(rankings, thresholds, self.config.pointer.share)
        said = union.scores(len(self.hierarchy.level)).toarray()[0, seen.predicted]
        # Clusters are read and may be chosen, but nobody knows them by name.
        n_answers = self.hierarchy.n_answers
        told, chosen = seen.predicted < n_answers, seen.chosen < n_answers
        return SetAttention(
            predicted=seen.predicted[told],
            predicted_probabilities=said[told],
            predicted_levels=seen.predicted_levels[told],
            chosen=seen.chosen[chosen],
            chosen_probabilities=seen.chosen_probabilities[chosen],
            generated=seen.generated[chosen],
            attention=seen.attention[np.ix_(chosen, told)],
            level_attention=seen.level_attention[chosen],
            coverage=seen.coverage[chosen],
        )

    # --------------------------------------------------------------------------------- the files

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the pointer generator; the rest is what is returned."""
        assert self.sampling is not None
        if self.pointer is not None:
            store.save_tensors(folder, "pointer", self.pointer.tensors(), shard_bytes=SHARD_BYTES)
        return {
            "sampling": self.sampling.to_json(),
            "level_calibration": [one.to_json() for one in self.level_calibration],
            "calibration": self.calibration.to_json(),
        }

    def load(self, folder: Path, about: Mapping[str, Any]) -> Self:
        """Take back what `save` wrote and returned."""
        self.sampling = Sampling.from_json(about["sampling"])
        self.level_calibration = [Calibration.from_json(t) for t in about["level_calibration"]]
        self.calibration = Calibration.from_json(about["calibration"])
        if self.config.merge == "pointer":
            self._take(store.load_tensors(folder, "pointer"))
        return self

"""From the predictions of the levels to one label set and one ranking (section 2.2).

rankings of levels ─ OFO thresholds ─ pointer generator, sampling or union ─ label set
label set, calibrated rankings ─ one score for all labels ─ ranking
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.calibrate import Calibration
from ontodex.evaluation.sets import count_by_document, micro
from ontodex.io.tensors import read_tensors, save_tensors
from ontodex.models.levelwise.config import LevelsConfig
from ontodex.models.levelwise.levels import join_levels, select_gold
from ontodex.models.levelwise.pointer import CandidateLabels, Hierarchy, Pointer
from ontodex.models.levelwise.stage_cache import Arrays, StageCache
from ontodex.models.levelwise.thresholds import (
    DEPTH,
    Sampling,
    Thresholds,
    apply_thresholds,
    is_in_ranking,
)
from ontodex.models.weights import SHARD_BYTES
from ontodex.types import PADDING, Ranking
from ontodex.types.answers import PredictionResult, SetAttention

logger = logging.getLogger(__name__)

MIN_GAIN = 0.003  # of micro-F on dev; smaller differences are chance

RULES = ("pointer", "sampling", "threshold")  # the first of equals wins

Rankings = Sequence[Ranking]  # one per level


class Predictions(NamedTuple):
    """The predictions of all levels for some documents, and their gold labels."""

    rankings: Rankings
    gold: csr_array


@dataclass(frozen=True, kw_only=True)
class MergeJson:
    """The values that `Merge.save` returns."""

    sampling: Sampling
    level_calibration: tuple[Calibration, ...]
    calibration: Calibration
    merge: Literal["", "pointer", "sampling", "threshold"] = ""  # the rule that dev chose
    micro_f: dict[str, float] = field(default_factory=dict)  # of each rule on dev, where compared
    # False where the untrained network was better on dev; None without a pointer generator, and
    # in runs of version 0.1.
    pointer_is_trained: bool | None = None


class Merge:
    """Merges the predictions of all levels in the last pass.

    Every call takes the OFO thresholds, because decisions of curators change them.
    """

    def __init__(self, config: LevelsConfig, hierarchy: Hierarchy, device: str) -> None:
        self.config, self.hierarchy, self.device = config, hierarchy, device
        self.rule = config.merge  # "auto" until dev has chosen
        self.micro_f: dict[str, float] = {}  # of each rule on dev, where they were compared
        self.sampling: Sampling | None = None
        self.pointer: Pointer | None = None
        self.pointer_is_trained: bool | None = None  # kept where dev chose another rule too
        self.level_calibration: list[Calibration] = []
        self.calibration = Calibration.identity()

    def fit(
        self,
        train: Predictions,
        dev: Predictions,
        thresholds: Thresholds,
        stages: StageCache,
        label_vectors: NDArray[Any] | None,
    ) -> None:
        """Learn to merge from the out-of-fold predictions for the training documents."""
        gold = select_gold(train.gold, np.arange(self.hierarchy.n_answers))
        self.sampling = Sampling.fit(self.join_predictions(train.rankings, thresholds), gold)
        if self.rule in ("auto", "pointer"):

            def train_pointer(folder: Path | None) -> Arrays:
                pointer = Pointer(
                    self.config.pointer, self.hierarchy, self.device, loop=self.config.train
                )
                pointer.fit(
                    self.make_candidates(train.rankings, thresholds),
                    gold,
                    self.make_candidates(dev.rankings, thresholds),
                    dev.gold,
                    folder,
                    label_vectors,
                    stages.format_title("pointer generator"),
                )
                return pointer.to_tensors()

            self._load_pointer(
                stages.get_or_train("pointer", train_pointer), "the training stage of the pointer"
            )
        if self.rule == "auto":
            self._choose_rule(dev, thresholds)
        self._calibrate(dev, thresholds)

    def _choose_rule(self, dev: Predictions, thresholds: Thresholds) -> None:
        """Choose the rule with the highest micro-F on dev; without labels on dev, the pointer."""
        rules = {rule: self._choose_sets(dev.rankings, thresholds, rule) for rule in RULES}
        self.micro_f = {
            rule: round(micro(count_by_document(dev.gold, sets))["MiF"], 5)
            for rule, sets in rules.items()
            if dev.gold.nnz
        }
        self.rule = max(self.micro_f, key=self.micro_f.__getitem__, default="pointer")
        names = {} if self.pointer_is_trained else {"pointer": "pointer (untrained)"}
        found = ", ".join(
            f"{names.get(rule, rule)} {100 * value:.1f}" for rule, value in self.micro_f.items()
        )
        logger.info("merge: %s; micro-F on dev: %s", self.rule, found or "no labels")
        if self.rule != "pointer":
            self.pointer = None

    def _calibrate(self, dev: Predictions, thresholds: Thresholds) -> None:
        self.level_calibration = [
            Calibration.fit(ranking, dev.gold) if len(ranking) else Calibration.identity()
            for ranking in dev.rankings
        ]
        if dev.gold.shape[0]:
            label_sets = self._choose_sets(dev.rankings, thresholds)
            self.calibration = Calibration.fit(self._score_all(dev.rankings, label_sets), dev.gold)
            if self.config.merge == "pointer":
                self._warn_if_pointer_loses(dev, label_sets, thresholds)

    def _warn_if_pointer_loses(
        self, dev: Predictions, label_sets: Ranking, thresholds: Thresholds
    ) -> None:
        """Warn where the union of the levels has a higher micro-F on dev."""
        union = self.join_predictions(dev.rankings, thresholds)
        own, plain = (
            micro(count_by_document(dev.gold, sets))["MiF"] for sets in (label_sets, union)
        )
        if plain - own >= MIN_GAIN:
            logger.warning(
                "micro-F on dev is %.1f with the pointer generator and %.1f with all labels above "
                "their thresholds; --set model.merge=threshold would predict better label sets",
                100 * own,
                100 * plain,
            )

    def predict(self, rankings: Rankings, thresholds: Thresholds, k: int) -> PredictionResult:
        """Return the ranking, the label sets and the standalone probabilities of the levels."""
        merged = self._choose_sets(rankings, thresholds)
        scored = self._score_all(rankings, merged)
        label_sets = scored.keep(is_in_ranking(scored, merged)).cut(merged.k)
        return PredictionResult(
            self.calibration.apply(scored.cut(k)),
            self.calibration.apply(label_sets),
            self._calibrate_levels(rankings).cut(k),
        )

    def join_predictions(self, rankings: Rankings, thresholds: Thresholds) -> Ranking:
        """Return the labels of all levels above their OFO thresholds, without clusters."""
        return self.drop_clusters(self._join_above(rankings, thresholds))

    def join_candidates(self, rankings: Rankings, thresholds: Thresholds) -> Ranking:
        """Return the labels and clusters that the pointer generator reads: those that reach
        `candidate_threshold_ratio` of their OFO threshold."""
        ratio = self.config.pointer.candidate_threshold_ratio
        return self._join_above(rankings, ratio * thresholds)

    def make_candidates(self, rankings: Rankings, thresholds: Thresholds) -> CandidateLabels:
        """Return the input of the pointer generator."""
        joined = self.join_candidates(rankings, thresholds)
        return CandidateLabels.of(joined.columns, joined.probabilities, self.hierarchy.level)

    def drop_clusters(self, ranking: Ranking) -> Ranking:
        """Return the ranking without clusters, which are never part of a label set."""
        if not self.hierarchy.n_clusters:
            return ranking
        return ranking.keep(ranking.columns < self.hierarchy.n_answers)

    def _join_above(self, rankings: Rankings, thresholds: Thresholds) -> Ranking:
        best = [ranking.cut(DEPTH) for ranking in rankings]
        return join_levels(apply_thresholds(best, thresholds))

    def _choose_sets(
        self, rankings: Rankings, thresholds: Thresholds, rule: str | None = None
    ) -> Ranking:
        """Return the label set of each document, by the rule of the run or by another one."""
        rule = rule or self.rule
        if rule == "pointer":
            assert self.pointer is not None
            return self.pointer.decode(self.make_candidates(rankings, thresholds))
        union = self.join_predictions(rankings, thresholds)
        if rule == "threshold":
            return union
        assert self.sampling is not None
        return self.sampling.merge(union)

    def _calibrate_levels(self, rankings: Rankings) -> Ranking:
        """Return the labels of all levels, each calibrated within its level."""
        levels = zip(rankings, self.level_calibration, strict=True)
        calibrated = [calibration.apply(ranking) for ranking, calibration in levels]
        return self.drop_clusters(join_levels(calibrated))

    def _score_all(self, rankings: Rankings, label_sets: Ranking) -> Ranking:
        """Return all labels with one score.

        Labels that the pointer generator decoded have scores in the upper half of [0, 1], the
        others in the lower half.
        """
        union = self._calibrate_levels(rankings)
        if self.rule != "pointer":
            return union
        # Labels that no level has among its best, for any depth of the ranking.
        best = join_levels([ranking.cut(DEPTH) for ranking in rankings])
        generated = label_sets.keep(~is_in_ranking(label_sets, best))
        union = union.keep(~is_in_ranking(union, generated))
        columns = np.hstack([union.columns, generated.columns])
        p = np.hstack([union.probabilities, generated.probabilities])
        is_decoded = np.hstack([is_in_ranking(union, label_sets), generated.columns != PADDING])
        return Ranking.sort(columns, (p + is_decoded) / 2, columns.shape[1])

    def explain_set(self, rankings: Rankings, thresholds: Thresholds) -> SetAttention:
        """Return the steps of the pointer generator for the one document of these rankings."""
        assert self.pointer is not None
        steps = self.pointer.explain_set(self.make_candidates(rankings, thresholds))
        joined = self.join_candidates(rankings, thresholds)
        probabilities = joined.scores(len(self.hierarchy.level)).toarray()[0, steps.predicted]
        # The pointer generator reads and emits clusters too, but they have no name to show.
        n_answers = self.hierarchy.n_answers
        predicted, chosen = steps.predicted < n_answers, steps.chosen < n_answers
        return SetAttention(
            predicted=steps.predicted[predicted],
            predicted_probabilities=probabilities[predicted],
            predicted_levels=steps.predicted_levels[predicted],
            chosen=steps.chosen[chosen],
            chosen_probabilities=steps.chosen_probabilities[chosen],
            generated=steps.generated[chosen],
            attention=steps.attention[np.ix_(chosen, predicted)],
            level_attention=steps.level_attention[chosen],
            coverage=steps.coverage[chosen],
        )

    def save(self, folder: Path) -> dict[str, Any]:
        """Write the pointer generator; return everything else as JSON values."""
        assert self.sampling is not None
        if self.pointer is not None:
            save_tensors(folder, "pointer", self.pointer.to_tensors(), shard_bytes=SHARD_BYTES)
        return {
            "sampling": self.sampling.to_json(),
            "level_calibration": [one.to_json() for one in self.level_calibration],
            "calibration": self.calibration.to_json(),
            "merge": self.rule,
            "micro_f": self.micro_f,
            "pointer_is_trained": self.pointer_is_trained,
        }

    def load(self, folder: Path, about: MergeJson) -> Self:
        """Read what `save` wrote and returned."""
        self.sampling, self.calibration = about.sampling, about.calibration
        self.level_calibration = list(about.level_calibration)
        self.rule, self.micro_f = about.merge or self.config.merge, about.micro_f
        self.pointer_is_trained = about.pointer_is_trained
        if self.rule == "pointer":
            self._load_pointer(read_tensors(folder, "pointer"), folder / "pointer.safetensors")
        return self

    def _load_pointer(self, pointer: Arrays, source: Path | str) -> None:
        self.pointer = Pointer.load(
            self.config.pointer, self.hierarchy, pointer, source=source, device=self.device
        )
        self.pointer_is_trained = self.pointer.is_trained

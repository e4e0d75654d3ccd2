"""Combine several trained runs: a label is probable if any run predicts it (AttentionXML, Eq. 9).

    documents ─ each member's ranking ─ columns by concept id ─ 1 - prod (1 - P_i)^w_i ─ P(label)

w_i = 1 is the paper's equation. Other joins take a mean, so that all members count (joins.py).
Weights, and which runs become members, can be chosen on dev (member_selection.py). Members may have
different label spaces: labels are matched by concept id. A label that a member does not rank has
P_i = 0. In a mean, members that do not have the concept are left out. The run folder holds copies
of its members, so it is complete.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import check_least
from ontodex.decide.calibrate import Calibration
from ontodex.errors import ConfigError, DataError, RunError, UntrainedError
from ontodex.io.counts import format_count
from ontodex.io.files import write_text
from ontodex.io.json_schema import load_json
from ontodex.io.tensors import MAX_WEIGHT
from ontodex.models.consensus.joins import JOINS, Join, compute_evidence, compute_probability
from ontodex.models.consensus.member_selection import (
    MIN_GAIN,
    CandidateTable,
    JoinedScores,
    Selection,
    measure_latency,
    measure_ndcg,
    select_members,
    tune_weights,
)
from ontodex.models.consensus.members import (
    FittedMember,
    Member,
    copy_member,
    find_system,
    read_member,
)
from ontodex.models.consensus.reranker import FIRST, LabelCounts, Reranker
from ontodex.models.interface import Describes, Explains
from ontodex.ontology.levels import compute_label_levels
from ontodex.runs.folder import load_config, verify_folder
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Illustration, Span

logger = logging.getLogger(__name__)

EXPONENTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # tried for each member on dev
# Only training reads the paths; the folders are copied, so paths are not stored.
_READ_IN_TRAINING = {"stored": False, "path": True}


@dataclass(frozen=True)
class ConsensusConfig:
    """Settings of `consensus`: the runs, the rule that combines them, and their weights."""

    members: tuple[str, ...] = field(default=(), metadata=_READ_IN_TRAINING)  # run folders
    # any: 1 - prod (1 - P_i), the paper; odds: the mean of log-odds; mean: the mean of
    # probabilities; best: with weights = "select", the best of the three on dev
    join: Join | Literal["best"] = "any"
    # equal: 1 each (the paper); dev: chosen on dev; select: members and weights chosen on dev
    weights: Literal["equal", "dev", "select"] = "equal"
    max_latency: float = 0.0  # select: ms for one document, all members together; 0 = any
    rerank: bool = True  # select: a model fitted on dev ranks the first labels again, if it helps
    depth: int = 100  # ranks taken from each member

    def __post_init__(self) -> None:
        check_least(self, 1, "depth")
        check_least(self, 0, "max_latency")
        if self.weights != "select" and (self.join == "best" or self.max_latency):
            raise ValueError('join = "best" and max_latency need weights = "select"')


@dataclass(frozen=True)
class _ConsensusJson:
    """The fields of consensus.json."""

    depth: int
    weights: tuple[float, ...]
    calibration: Calibration
    join: Join = "any"
    rerank: Calibration | None = None  # of the reranker, where there is one

    def __post_init__(self) -> None:
        if self.depth < 1 or not self.weights:
            raise ValueError("a consensus has a depth of at least 1 and one weight for each member")
        if not all(0 <= weight <= MAX_WEIGHT for weight in self.weights):
            raise ValueError(f"weights must be in [0, {MAX_WEIGHT:g}]")


class Consensus(Explains):
    """Several runs combined into one ranking; explanations add up over the members."""

    Config: ClassVar[type[ConsensusConfig]] = ConsensusConfig

    def __init__(self, config: ConsensusConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, device
        self.join: Join = "any" if config.join == "best" else config.join
        self.members: Sequence[Member] = ()
        self.weights: NDArray[np.float64] = np.empty(0)
        self.calibration = Calibration.identity()
        self.reranker: Reranker | None = None
        self._labels: LabelSpace | None = None
        self._columns: list[NDArray[np.int64]] = []  # each member's columns in our label space
        self._has_label: NDArray[np.bool_] = np.empty((0, 0), np.bool_)  # (members, our columns)

    @classmethod
    def of(
        cls,
        members: Sequence[Member],
        labels: LabelSpace,
        *,
        weights: Sequence[float] = (),
        join: Join | Literal["best"] = "any",
        rerank: bool = True,
    ) -> Self:
        """Combine loaded runs; without `weights` and `join`, as the paper does.

        `join` = "best" and `rerank` are for `select`.
        """
        rule: Literal["select", "equal"] = "select" if join == "best" else "equal"
        model = cls(ConsensusConfig(join=join, weights=rule, rerank=rerank))
        model._set_members(members, labels, np.array(weights or [1.0] * len(members)))
        return model

    def _set_members(
        self, members: Sequence[Member], labels: LabelSpace, weights: NDArray[np.float64]
    ) -> None:
        if len(weights) != len(members) or not np.all(np.isfinite(weights) & (weights >= 0)):
            raise RunError(
                f"a consensus needs a weight of 0 or more for each member ({len(members)}), "
                f"not {weights.tolist()}"
            )
        self.members, self.weights, self._labels = members, weights, labels
        self._columns = [
            np.array([labels.column.get(label, -1) for label in member.labels.ids], np.int64)
            for member in members
        ]
        self._has_label = np.zeros((len(members), len(labels)), np.bool_)
        for number, (member, columns) in enumerate(zip(members, self._columns, strict=True)):
            self._has_label[number, columns[columns >= 0]] = True
            if missing := int((columns < 0).sum()):
                logger.info("%s: labels that are not in the consensus: %d", member.folder, missing)

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Load the members; choose their weights on dev, or some of them, where asked to."""
        folders = [Path(folder) for folder in self.config.members]
        if len(folders) < 2:
            raise ConfigError(
                f"[model] members: a consensus needs two runs or more, not {len(folders)}",
                hint='--set \'model.members=["runs/one", "runs/two"]\'',
            )
        for folder in folders:
            manifest = verify_folder(folder)
            if manifest.get("refit", load_config(folder).get("train", {}).get("refit")):
                logger.warning(
                    "%s was also trained on its dev documents (train.refit); thresholds chosen on "
                    "them are too high: name other documents with --dev",
                    folder,
                )
        members = [read_member(folder, device=self.device) for folder in folders]
        self._set_members(members, labels, np.ones(len(members)))
        gold = labels.gold(dev)
        has_labels = np.diff(gold.indptr) > 0
        dev, gold = dev.select(has_labels), csr_array(gold[has_labels])
        if self.config.weights == "dev":
            self.fit_weights(dev, gold)
        elif self.config.weights == "select":
            self.select(dev, gold, LabelCounts.of(labels, labels.gold(train)))

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        found = self._collect(corpus, max(k, self.config.depth))
        if self.reranker is None:
            return self.calibration.apply(self._combine(found, self.weights, k))
        ranking = self.calibration.apply(self._combine(found, self.weights, max(k, FIRST)))
        return self.reranker.rank(ranking, found).cut(k)

    def _collect(self, corpus: Corpus, depth: int) -> list[csr_array]:
        """Return each member's probabilities (documents, our columns)."""
        if self._labels is None:
            raise UntrainedError("consensus")
        shape = (len(corpus), len(self._labels))
        found = []
        for member, columns in zip(self.members, self._columns, strict=True):
            ranking = member.model.rank(corpus, min(depth, len(member.labels)))
            ours = np.append(columns, -1)[ranking.columns]  # padding (-1) stays padding
            rows, ranks = np.nonzero(ours >= 0)
            values = ranking.probabilities[rows, ranks].astype(np.float64)
            found.append(csr_array((values, (rows, ours[rows, ranks])), shape=shape))
        return found

    def _combine(self, found: Sequence[csr_array], weights: NDArray[np.float64], k: int) -> Ranking:
        """Return the k best labels by the weighted sum of the members' evidence."""
        total = csr_array(found[0].shape, dtype=np.float64)
        for matrix, weight in zip(found, weights, strict=True):
            if weight > 0:
                evidence = matrix.copy()
                evidence.data = compute_evidence(matrix.data, self.join)
                total = total + weight * evidence
        # Total weight of the members that have a column.
        column_weight = (weights @ self._has_label)[total.indices]
        total.data = compute_probability(total.data, column_weight, self.join)
        return Ranking.of_sparse(total, k)

    def fit_weights(self, dev: Corpus, gold: csr_array) -> None:
        """Choose the weights with the highest nDCG@5 on dev, by coordinate ascent; then calibrate.

        With weights other than 1 the result is no probability without a calibration.
        """
        if not len(dev):
            return
        found = self._collect(dev, self.config.depth)
        scores = JoinedScores(CandidateTable.of(found, gold, self._has_label), self.join)
        self.weights, _ = tune_weights(scores, np.ones(len(self.members)), EXPONENTS)
        self.calibrate(found, gold)

    def select(self, dev: Corpus, gold: csr_array, counts: LabelCounts) -> Selection:
        """Keep the members that help on dev, with their weights; log and return what each adds.

        `counts` are those of the training documents.
        """
        if not len(dev):
            raise DataError(
                "no dev document has a label, so members cannot be chosen",
                hint="give labelled documents with --dev, or --set model.weights=equal",
            )
        found = self._collect(dev, self.config.depth)
        limit = self.config.max_latency / 1000
        latencies = [measure_latency(one.model, dev) for one in self.members] if limit else []
        joins = JOINS if self.config.join == "best" else (self.join,)
        selection = select_members(
            CandidateTable.of(found, gold, self._has_label),
            joins=joins,
            latencies=latencies,
            max_latency=limit,
        )
        for line in selection.describe([str(member.folder) for member in self.members]):
            logger.info("%s", line)
        logger.info(
            "%d of %s chosen on %s, join %s: nDCG@5 %.2f",
            len(selection.chosen), format_count(len(self.members), "run"),
            format_count(len(dev), "dev document"), selection.join,
            100 * selection.score,
        )  # fmt: skip
        self._keep(selection)
        self.calibrate(
            [found[member] for member in selection.chosen],
            gold,
            counts if self.config.rerank else None,
        )
        return selection

    def _keep(self, selection: Selection) -> None:
        """Keep only the chosen members, with the chosen join and weights."""
        assert self._labels is not None
        self.join = selection.join
        members = [self.members[member] for member in selection.chosen]
        weights = np.array([selection.weights[member] for member in selection.chosen])
        self._set_members(members, self._labels, weights)

    def calibrate(
        self, found: Sequence[csr_array], gold: csr_array, counts: LabelCounts | None = None
    ) -> Ranking:
        """Calibrate on the members' probabilities (documents, our columns) for documents that they
        were not trained on; return the calibrated ranking of these documents.

        With the counts of the training documents, a model that ranks the first labels again is
        fitted too, and kept if cross-validation says that it helps.
        """
        ranking = self._combine(found, self.weights, self.config.depth)
        self.calibration = Calibration.fit(ranking, gold)
        ranking = self.calibration.apply(ranking)
        if counts is None or not gold.nnz:
            return ranking
        reranker, ranked = Reranker.fit(ranking, found, gold, counts)
        before, after = (measure_ndcg(gold, one) for one in (ranking, ranked))
        is_kept = after >= before + MIN_GAIN
        outcome = "kept" if is_kept else "not kept: it does not help here"
        figures = 100 * after, 100 * before, outcome
        logger.info("ranking the first labels again: nDCG@5 %.2f instead of %.2f, %s", *figures)
        if not is_kept:
            return ranking
        self.reranker = reranker
        return ranked

    def replace_members(
        self, members: Sequence[Member], labels: LabelSpace, counts: LabelCounts
    ) -> None:
        """Take other trainings of the same systems; weights and calibration stay.

        `counts` are those of the documents that the members have learned now.
        """
        self._set_members(members, labels, self.weights)
        if self.reranker is not None:
            self.reranker = replace(self.reranker, counts=counts)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the spans of all members that explain, scaled to the weights of the members."""
        if self._labels is None:
            raise UntrainedError("consensus")
        label = self._labels.ids[column]
        explaining = [
            (member.model, member.labels.column[label], weight)
            for member, weight in zip(self.members, self.weights, strict=True)
            if isinstance(member.model, Explains) and label in member.labels.column and weight > 0
        ]
        if not explaining:
            raise RunError(f"no member of this consensus can explain {label!r}")
        spans: list[Span] = []
        for model, own_column, weight in explaining:
            found = model.explain(doc, own_column)
            strongest = max((abs(span.weight) for span in found), default=0.0) or 1.0
            spans += [Span(s.start, s.end, weight * s.weight / strongest) for s in found]
        return merge_spans(spans)

    def save(self, folder: Path) -> None:
        """Write the weights and copies of the members."""
        table = {
            "depth": self.config.depth,
            "join": self.join,
            "weights": self.weights.tolist(),
            "calibration": self.calibration.to_json(),
        }
        if self.reranker is not None:
            table["rerank"] = self.reranker.calibration.to_json()
            self.reranker.save(folder)
        write_text(folder / "consensus.json", json.dumps(table) + "\n")
        for number, member in enumerate(self.members):
            copy = folder / "members" / str(number)
            if isinstance(member, FittedMember):
                member.write(copy)
            else:
                copy_member(member.folder, copy)

    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        """Return True if a member was trained on authors' keywords."""
        systems = {member: find_system(member) for member in (folder / "members").iterdir()}
        return any(
            issubclass(system, Describes) and system.reads_keywords(member / "model")
            for member, system in systems.items()
        )

    def label_levels(self, labels: LabelSpace) -> NDArray[np.int32]:
        """Return the level of every column in the ontology; members may use others."""
        return compute_label_levels(labels)

    def illustrations(self) -> Sequence[Illustration]:
        """Return no plots: those of the members are in their own reports."""
        return ()

    def report_pages(self) -> dict[str, str]:
        return {}

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_json(folder / "consensus.json", _ConsensusJson)
        weights = np.array(about.weights, dtype=np.float64)
        model = cls(ConsensusConfig(depth=about.depth, join=about.join), device=device)
        members = [
            read_member(folder / "members" / str(number), device=device, ontology=labels.ontology)
            for number in range(len(weights))
        ]
        model._set_members(members, labels, weights)
        model.calibration = about.calibration
        if about.rerank is not None:
            model.reranker = Reranker.load(folder, labels, len(weights), about.rerank)
        return model


def merge_spans(spans: Sequence[Span]) -> list[Span]:
    """Return spans that do not overlap; where spans overlapped, their weights add up."""
    starts = np.array([span.start for span in spans], dtype=np.int64)
    ends = np.array([span.end for span in spans], dtype=np.int64)
    weights = np.array([span.weight for span in spans], dtype=np.float64)
    borders, places = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    first, last, n = places[: len(spans)], places[len(spans) :], len(borders)
    weight = np.cumsum(np.bincount(first, weights, n) - np.bincount(last, weights, n))
    covering = np.cumsum(np.bincount(first, minlength=n) - np.bincount(last, minlength=n))
    return [
        Span(int(borders[i]), int(borders[i + 1]), float(weight[i]))
        for i in np.flatnonzero(covering)
    ]

"""Several trained runs as one: a label is likely when any of them says so (paper 002, Eq. 9).

    documents ─ each member's ranking ─ columns by concept id ─ 1 - prod (1 - P_i)^w_i ─ P(label)

w_i = 1 is the paper's equation; `join = "odds"` takes the mean of the members' log-odds instead, so
that a label also needs the others not to speak against it. Members may have other label spaces
than the consensus and than each other: labels meet by concept id. A label that a member does not
rank has P_i = 0; to the mean, a member that does not know the concept adds nothing. The run folder
holds copies of its members, so it stands on its own.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import expit, logit

from ontodex.decide.calibrate import Calibration
from ontodex.errors import ConfigError, RunError
from ontodex.evaluate.ranking import ndcg_at
from ontodex.files import write_text
from ontodex.models import find
from ontodex.models.base import Explains, Model, ReadsKeywords, Span
from ontodex.ontology import read_ontology
from ontodex.train import store
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

logger = logging.getLogger(__name__)

Join = Literal["any", "odds"]
FLOOR = 0.01  # of a probability whose log-odds are taken: below it members guess
FLOOR_ODDS = float(logit(FLOOR))
EXPONENTS = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)  # tried for each member on dev
# What a member's folder must hold to be loaded again; the rest of a run is about its training.
PARTS = ("config.toml", "labels.tsv", "ontology.json", "model")


@dataclass(frozen=True)
class ConsensusConfig:
    """Which runs, how their probabilities meet, and how much each counts."""

    # Nothing but the training reads the paths, and none is kept: the folders are copied.
    members: tuple[str, ...] = field(default=(), metadata={"stored": False})  # run folders
    join: Join = "any"  # 1 - prod (1 - P_i) (the paper); odds: the mean of log-odds
    # 1 each (the paper), or chosen and calibrated on dev.
    weights: Literal["equal", "dev"] = "equal"
    depth: int = 100  # ranks asked of each member

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth must be at least 1, not {self.depth}")


class Member(Protocol):
    """A trained system in its run folder, with its own label space."""

    @property
    def folder(self) -> Path: ...
    @property
    def labels(self) -> LabelSpace: ...
    @property
    def model(self) -> Model: ...


@dataclass(frozen=True, eq=False)
class Stored:
    """A member read from a folder."""

    folder: Path
    labels: LabelSpace
    model: Model


def system_of(folder: Path) -> type[Model]:
    """Which system a run folder, or a copy inside a consensus, is of."""
    name = store.load_config(folder).get("model", {}).get("name")
    if not isinstance(name, str):
        raise RunError(f"{folder}/config.toml: [model] has no name")
    return find(name)


def read_member(folder: Path, *, device: str) -> Stored:
    """The system of a run folder, or of a copy inside a consensus."""
    vocabulary = folder / "ontology.json"
    ontology = read_ontology(vocabulary, "json") if vocabulary.exists() else None
    labels = store.load_labels(folder / "labels.tsv", ontology)
    return Stored(folder, labels, system_of(folder).load(folder / "model", labels, device=device))


class Consensus:
    """What the members say, as one; it `Explains` with the words of all members that do."""

    Config: ClassVar[type[ConsensusConfig]] = ConsensusConfig

    def __init__(self, config: ConsensusConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, device
        self.members: Sequence[Member] = ()
        self.weights: NDArray[np.float64] = np.empty(0)
        self.calibration = Calibration.none()
        self._labels: LabelSpace | None = None
        self._columns: list[NDArray[np.int64]] = []  # each member's columns in our label space
        self._knows: NDArray[np.bool_] = np.empty((0, 0), np.bool_)  # (members, our columns)

    @classmethod
    def of(
        cls,
        members: Sequence[Member],
        labels: LabelSpace,
        *,
        weights: Sequence[float] = (),
        join: Join = "any",
    ) -> Self:
        """A consensus of loaded runs, as it is the paper's."""
        model = cls(ConsensusConfig(join=join))
        model._join(members, labels, np.array(weights or [1.0] * len(members)))
        return model

    def _join(
        self, members: Sequence[Member], labels: LabelSpace, weights: NDArray[np.float64]
    ) -> None:
        if len(weights) != len(members) or not np.all(np.isfinite(weights) & (weights >= 0)):
            raise RunError(f"{len(members)} members need as many exponents of 0 or more")
        self.members, self.weights, self._labels = members, weights, labels
        self._columns = [
            np.array([labels.column.get(label, -1) for label in member.labels.ids], np.int64)
            for member in members
        ]
        self._knows = np.zeros((len(members), len(labels)), np.bool_)
        for number, (member, columns) in enumerate(zip(members, self._columns, strict=True)):
            self._knows[number, columns[columns >= 0]] = True
            if lost := int((columns < 0).sum()):
                logger.info("%s: %d of its labels are not in the consensus", member.folder, lost)

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Load the members; nothing is trained but, where asked, the exponents on dev."""
        folders = [Path(folder) for folder in self.config.members]
        if len(folders) < 2:
            raise ConfigError(
                f"[model] members: a consensus needs two runs or more, not {len(folders)}",
                hint='--set \'model.members=["runs/one", "runs/two"]\'',
            )
        for folder in folders:
            store.verify(folder)
            if store.load_config(folder).get("train", {}).get("refit"):
                logger.warning(
                    "%s learned from its dev documents too (train.refit): decided by those, "
                    "thresholds come out too high; --dev names others",
                    folder,
                )
        members = [read_member(folder, device=self.device) for folder in folders]
        self._join(members, labels, np.ones(len(members)))
        if self.config.weights == "dev" and len(dev):
            gold = labels.gold(dev)
            known = np.diff(gold.indptr) > 0
            self.learn(dev.select(known), csr_array(gold[known]))

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        evidence = self._evidence(corpus, max(k, self.config.depth))
        return self.calibration.apply(self._combine(evidence, self.weights, k))

    def _evidence(self, corpus: Corpus, depth: int) -> list[csr_array]:
        """What each member says, (documents x our columns); 0 where it ranks nothing."""
        if self._labels is None:
            raise RunError("consensus was asked to rank before it was fitted")
        n_labels = len(self._labels)
        spoken = {"any": _doubts, "odds": _odds}[self.config.join]
        evidence = []
        for member, columns in zip(self.members, self._columns, strict=True):
            ranking = member.model.rank(corpus, depth)
            ours = np.append(columns, -1)[ranking.columns]  # padding (-1) stays padding
            rows, ranks = np.nonzero(ours >= 0)
            values = spoken(ranking.probabilities[rows, ranks].astype(np.float64))
            shape = (len(corpus), n_labels)
            evidence.append(csr_array((values, (rows, ours[rows, ranks])), shape=shape))
        return evidence

    def _combine(
        self, evidence: Sequence[csr_array], weights: NDArray[np.float64], k: int
    ) -> Ranking:
        """The k best of what all say together."""
        total = csr_array(evidence[0].shape, dtype=np.float64)
        for said, weight in zip(evidence, weights, strict=True):
            if weight > 0:
                total = total + weight * said
        if self.config.join == "odds":
            asked = weights @ self._knows  # of each column, the weight of those who know it
            total.data = expit(total.data / asked[total.indices] + FLOOR_ODDS)
        else:
            total.data = -np.expm1(total.data)
        return Ranking.of_sparse(total, k)

    def learn(self, dev: Corpus, gold: csr_array) -> None:
        """The exponents with the highest nDCG@5 on dev, one member at a time until none moves.

        Exponents other than 1 leave nothing of what the members' probabilities meant, so what comes
        out is calibrated.
        """
        if not len(dev):
            return
        evidence = self._evidence(dev, self.config.depth)

        def score(weights: NDArray[np.float64]) -> float:
            return float(ndcg_at(5, gold, self._combine(evidence, weights, 5)).mean())

        best = np.ones(len(self.members))
        reached = score(best)
        moved = True
        while moved:
            moved = False
            for member in range(len(best)):
                for exponent in EXPONENTS:
                    tried = best.copy()
                    tried[member] = exponent
                    value = score(tried)
                    if value > reached:
                        best, reached, moved = tried, value, True
        self.weights = best
        self.calibration = Calibration.fit(self._combine(evidence, best, self.config.depth), gold)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """The spans of all members that explain; each member's strongest weighs its exponent."""
        if self._labels is None:
            raise RunError("consensus was asked to explain before it was fitted")
        label = self._labels.ids[column]
        able = [
            (member.model, member.labels.column[label], weight)
            for member, weight in zip(self.members, self.weights, strict=True)
            if isinstance(member.model, Explains) and label in member.labels.column and weight > 0
        ]
        if not able:
            raise RunError(f"no member of this consensus can explain {label!r}")
        spans: list[Span] = []
        for model, own_column, weight in able:
            found = model.explain(doc, own_column)
            strongest = max((abs(span.weight) for span in found), default=0.0) or 1.0
            spans += [Span(s.start, s.end, weight * s.weight / strongest) for s in found]
        return merged(spans)

    def save(self, folder: Path) -> None:
        """Exponents, and a copy of what each member needs to be loaded."""
        about = {
            "depth": self.config.depth,
            "join": self.config.join,
            "weights": self.weights.tolist(),
            "calibration": self.calibration.to_json(),
        }
        write_text(folder / "consensus.json", json.dumps(about) + "\n")
        for number, member in enumerate(self.members):
            copy = folder / "members" / str(number)
            copy.mkdir(parents=True, exist_ok=True)
            for part in PARTS:
                source = member.folder / part
                if source.is_dir():
                    shutil.copytree(source, copy / part, dirs_exist_ok=True)
                elif source.exists():
                    shutil.copyfile(source, copy / part)

    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        """Whether a member has learned from authors' keywords."""
        systems = {member: system_of(member) for member in (folder / "members").iterdir()}
        return any(
            issubclass(system, ReadsKeywords) and system.reads_keywords(member / "model")
            for member, system in systems.items()
        )

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        try:
            about = json.loads((folder / "consensus.json").read_text(encoding="utf-8"))
            config = ConsensusConfig(depth=int(about["depth"]), join=about.get("join", "any"))
            weights = np.array(about["weights"], dtype=np.float64)
            calibration = Calibration.from_json(about["calibration"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{folder}: not a consensus as training writes it ({error})") from error
        model = cls(config, device=device)
        members = [
            read_member(folder / "members" / str(number), device=device)
            for number in range(len(weights))
        ]
        model._join(members, labels, weights)
        model.calibration = calibration
        return model


def _doubts(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """log(1 - P); a certain member leaves no doubt: log 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log1p(-p))


def _odds(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-odds above those of the floor, which is what an unranked label has."""
    return np.asarray(logit(np.clip(p, FLOOR, 1 - 1e-6)) - FLOOR_ODDS)


def merged(spans: Sequence[Span]) -> list[Span]:
    """Spans that may overlap as spans that do not: where some overlap, their weights add up."""
    starts = np.array([span.start for span in spans], dtype=np.int64)
    ends = np.array([span.end for span in spans], dtype=np.int64)
    weights = np.array([span.weight for span in spans], dtype=np.float64)
    borders, places = np.unique(np.concatenate([starts, ends]), return_inverse=True)
    opened, closed, n = places[: len(spans)], places[len(spans) :], len(borders)
    weight = np.cumsum(np.bincount(opened, weights, n) - np.bincount(closed, weights, n))
    covering = np.cumsum(np.bincount(opened, minlength=n) - np.bincount(closed, minlength=n))
    return [
        Span(int(borders[i]), int(borders[i + 1]), float(weight[i]))
        for i in np.flatnonzero(covering)
    ]

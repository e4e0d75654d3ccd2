"""Trials: a system with settings, trained and measured on the splits of a rung.

A finished trial is a folder of the work folder. After a kill it is read instead of run again.

    trial.json   what was tried and what it gave      columns.npy, probabilities.npy   its ranking
    model/       the trained system, where it has learned all of train
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ontodex.config import Table, build, merge_tables
from ontodex.errors import OntodexError
from ontodex.evaluation.ranking import Metric, f1, ndcg, score_documents
from ontodex.io.files import replace_folder, write_text
from ontodex.models import find_model
from ontodex.models.auto.rungs import Rung, Split
from ontodex.models.consensus.member_selection import measure_latency
from ontodex.models.interface import Model
from ontodex.types import Corpus, LabelSpace, Ranking

_CUT = 5
_WARM_DOCUMENTS = 20
NO_RANKING = Ranking(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))


@dataclass(frozen=True)
class Trial:
    """One trial and its scores."""

    system: str
    settings: Table  # those that differ from the defaults
    rung: str
    documents: int  # learned in each split
    splits: int = 1
    ndcg: float = 0.0  # nDCG@5
    f1: float = 0.0  # F1@5
    fit_seconds: float = 0.0
    rank_seconds: float = 0.0
    latency: float = 0.0  # seconds for one document
    reused_seconds: float = 0.0  # of these, what a trial on fewer folds has spent
    failure: str = ""  # the message of a trial that failed
    folder: str = field(default="", compare=False)

    @property
    def seconds(self) -> float:
        return self.fit_seconds + self.rank_seconds

    @property
    def spent_seconds(self) -> float:
        """The seconds of this trial itself, without the folds of an earlier one."""
        return self.seconds - self.reused_seconds

    @property
    def name(self) -> str:
        """The system with its settings, for people."""
        return " ".join([self.system, *(f"{k}={v}" for k, v in self.settings.items())])

    def to_json(self) -> Table:
        return {k: v for k, v in dataclasses.asdict(self).items() if k != "folder"}


def nest_settings(settings: Mapping[str, Any]) -> Table:
    """Return a table of settings; those with dotted names become inner tables."""
    table: Table = {}
    for name, value in settings.items():
        inner: Any = value
        for step in reversed(name.split(".")):
            inner = {step: inner}
        table = merge_tables(table, inner)
    return table


def make_model(
    system: str, settings: Mapping[str, Any], device: str, shared: Mapping[str, Any] | None = None
) -> Model:
    """Return an untrained system with these settings, and of `shared` those that it has."""
    model_class = find_model(system)
    table = nest_settings(settings)
    known = {field.name for field in dataclasses.fields(model_class.Config)}
    table = {name: value for name, value in (shared or {}).items() if name in known} | table
    return model_class(build(model_class.Config, table, "model"), device=device)


class TrialRunner:
    """Run trials in a work folder, each at most once."""

    def __init__(
        self,
        folder: Path,
        labels: LabelSpace,
        *,
        device: str,
        depth: int,
        languages: Sequence[str] = (),
        encoder: str = "",
    ) -> None:
        self.folder, self.labels = folder, labels
        self.device, self.depth, self.languages = device, depth, languages
        shared = {"languages": list(languages), "encoder": encoder}
        self._shared = {name: value for name, value in shared.items() if value}
        self._warm: set[str] = set()  # systems whose libraries are loaded

    def find(self, system: str, settings: Table, rung: Rung) -> Trial | None:
        """Return a trial that was finished earlier."""
        folder = self._locate(system, settings, rung)
        if not (folder / "trial.json").exists():
            return None
        table = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
        return Trial(**table, folder=str(folder))

    def find_part(self, system: str, settings: Table, rung: Rung) -> Trial | None:
        """Return a finished trial on the first splits of the rung, that with the most of them."""
        part = rung.part
        while part is not None:
            trial = self.find(system, settings, part)
            if trial is not None and not trial.failure:
                return trial
            part = part.part
        return None

    def run(self, system: str, settings: Table, rung: Rung) -> Trial:
        """Train and rank on every split of the rung; keep the ranking and the figures.

        Splits that an earlier trial has ranked are not trained again.
        """
        folder = self._locate(system, settings, rung)
        splits = len(rung.splits)
        trial = Trial(system, settings, rung.name, rung.documents, splits, folder=str(folder))
        with replace_folder(folder) as temporary:
            try:
                self._warm_up(system, rung.splits[0])
                ranking, figures = self._measure(system, settings, rung, temporary)
            except OntodexError as error:
                shutil.rmtree(temporary / "model", ignore_errors=True)
                ranking, figures = NO_RANKING, {"failure": str(error)}
            trial = dataclasses.replace(trial, **figures)
            np.save(temporary / "columns.npy", ranking.columns, allow_pickle=False)
            np.save(temporary / "probabilities.npy", ranking.probabilities, allow_pickle=False)
            write_text(temporary / "trial.json", json.dumps(trial.to_json()) + "\n")
        return trial

    def _warm_up(self, system: str, split: Split) -> None:
        """Load the libraries of a system by a tiny training: no trial is timed with that."""
        if system not in self._warm:
            few = split.train.select(np.arange(min(_WARM_DOCUMENTS, len(split.train))))
            labels = LabelSpace.of(few, split.labels.ontology)
            with suppress(OntodexError):  # so few documents may lack what it needs
                self._make_model(system, {}).fit(few, few, labels)
            self._warm.add(system)

    def _make_model(self, system: str, settings: Table) -> Model:
        return make_model(system, settings, self.device, self._shared)

    def _locate(self, system: str, settings: Table, rung: Rung) -> Path:
        plan = json.dumps([system, sorted(settings.items()), rung.name])
        return self.folder / f"{system}-{hashlib.sha256(plan.encode()).hexdigest()[:16]}"

    def _measure(
        self, system: str, settings: Table, rung: Rung, folder: Path
    ) -> tuple[Ranking, dict[str, Any]]:
        rankings, fit_seconds, rank_seconds, latencies = [], 0.0, 0.0, []
        part = self.find_part(system, settings, rung)
        reused = 0.0
        if part is not None:
            rankings.append(self.load_ranking(part))
            fit_seconds, rank_seconds, reused = part.fit_seconds, part.rank_seconds, part.seconds
            latencies = [part.latency] * part.splits
            if (kept := Path(part.folder) / "model").exists():
                shutil.move(kept, folder / "model")
        for split in rung.splits[0 if part is None else part.splits :]:
            model = self._make_model(system, settings)
            started = time.monotonic()
            model.fit(split.train, split.held_out, split.labels)
            fitted = time.monotonic()
            ranking = model.rank(split.held_out, self.depth)
            rank_seconds += time.monotonic() - fitted
            fit_seconds += fitted - started
            rankings.append(self._translate(ranking, split))
            latencies.append(measure_latency(model, split.held_out))
            if split.labels is self.labels:  # what may be chosen later has learned all of train
                (folder / "model").mkdir()
                model.save(folder / "model")
        joined = Ranking.join(rankings, self.depth)
        return joined, {
            "ndcg": average_score(ndcg, rung.gold, joined),
            "f1": average_score(f1, rung.gold, joined),
            "fit_seconds": fit_seconds,
            "rank_seconds": rank_seconds,
            "latency": float(np.mean(latencies)),
            "reused_seconds": reused,
        }

    def _translate(self, ranking: Ranking, split: Split) -> Ranking:
        """Return the ranking in the columns of the final labels."""
        if split.labels is self.labels:
            return ranking
        column = [self.labels.column.get(label, -1) for label in split.labels.ids]
        columns = np.array([*column, -1])[ranking.columns]
        return Ranking.sort(columns, ranking.probabilities, ranking.k)

    def load_ranking(self, trial: Trial) -> Ranking:
        """Return what a trial ranked."""
        folder = Path(trial.folder)
        columns, probabilities = (
            np.load(folder / f"{name}.npy", allow_pickle=False)
            for name in ("columns", "probabilities")
        )
        return Ranking(columns, probabilities)

    def load_model(self, trial: Trial, train: Corpus, dev: Corpus) -> Model:
        """Return the system of a trial, trained on train; where it was not kept, train it."""
        folder = Path(trial.folder) / "model"
        if folder.exists():
            return find_model(trial.system).load(folder, self.labels, device=self.device)
        model = self._make_model(trial.system, trial.settings)
        model.fit(train, dev, self.labels)
        return model


def average_score(metric: Metric, gold: csr_array, ranking: Ranking) -> float:
    """Return a metric at 5 over the documents that have gold labels; 0 where none has."""
    has_gold = np.diff(gold.indptr) > 0
    return float(score_documents(metric, _CUT, gold, ranking)[has_gold].mean()) if gold.nnz else 0.0

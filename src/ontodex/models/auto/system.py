"""The system `auto`: a consensus whose members, settings and weights a search has found.

    documents ─ search on dev or folds (search.py) ─ chosen members ─ consensus ─ P(label)

The members are ordinary systems. Refitting trains each of them again on train and dev together,
with what the search has decided.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import Table
from ontodex.errors import UntrainedError
from ontodex.io.files import replace_folder, write_text
from ontodex.io.json_schema import read_table
from ontodex.models.auto.budget import Budget, estimate_seconds
from ontodex.models.auto.candidates import check_systems, choose_systems
from ontodex.models.auto.config import AutoConfig
from ontodex.models.auto.page import make_page
from ontodex.models.auto.record import describe_choice, make_record
from ontodex.models.auto.rungs import Rung, make_rungs
from ontodex.models.auto.search import Search, SearchResult, quiet_logs
from ontodex.models.auto.trials import TrialRunner
from ontodex.models.consensus.members import FittedMember, read_member
from ontodex.models.consensus.reranker import LabelCounts
from ontodex.models.consensus.system import Consensus
from ontodex.models.interface import Explains, Refits
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Illustration, Span

logger = logging.getLogger(__name__)

_RECORD = "auto.json"
_OVERRUN = 0.1  # of the budget, for learning dev: a run that wastes it is the worse surprise


class AutoSystem(Explains):
    """Search for the best systems within a budget, and join them."""

    Config: ClassVar[type[AutoConfig]] = AutoConfig

    def __init__(self, config: AutoConfig, *, device: str = "cpu") -> None:
        check_systems(config.systems)
        self.config, self.device = config, device
        self.work: Path | None = None  # trials are kept here; None: in a temporary folder
        self.record: Table = {}  # what was tried, for auto.json and auto.html
        self._consensus: Consensus | None = None
        self._budget = Budget(config.seconds)
        self._result: SearchResult | None = None
        self._ranked: dict[str, Ranking] = {}  # dev, as the trials have ranked it, by corpus key

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        """Search; the chosen members are those trained on train."""
        self._budget = Budget(self.config.seconds)
        with ExitStack() as stack:
            work = self.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            runner = TrialRunner(
                work / "trials",
                labels,
                device=self.device,
                depth=self.config.depth,
                languages=self.config.languages,
                encoder=self.config.encoder,
            )
            rungs = make_rungs(train, dev, labels, folds=self.config.folds, seed=self.config.seed)
            reasons = choose_systems(
                train, labels, self.device, self.config.encoder, seconds=self.config.seconds
            )
            systems = self.config.systems or [name for name in reasons if not reasons[name]]
            search = Search(
                runner,
                rungs,
                self._budget,
                documents=len(train) + len(dev),
                final_fits=1 if rungs[-1].splits[0].train is train else 2,
                max_latency=self.config.latency,
            )
            self._result = search.run(systems)
            last = search.rungs[-1]
            joined = self._join(runner, train, dev, last)
        reasons = {name: why for name, why in reasons.items() if why and name not in systems}
        self.record = make_record(
            self._result,
            joined,
            last,
            left_out=reasons,
            budget=self.config.seconds,
            seconds=self._budget.spent,
        )
        for line in describe_choice(self.record):
            logger.info("%s", line)

    def _join(self, runner: TrialRunner, train: Corpus, dev: Corpus, rung: Rung) -> Ranking:
        """Join the chosen members, calibrated on the held-out documents; return their ranking."""
        result, labels = self._require_result(), runner.labels
        weights = [result.selection.weights[member] for member in result.selection.chosen]
        with quiet_logs():
            members = [
                FittedMember(
                    labels, runner.load_model(trial, train, dev), trial.system, trial.settings
                )
                for trial in result.chosen
            ]
        consensus = Consensus.of(members, labels, weights=weights, join=result.selection.join)
        rankings = [runner.load_ranking(trial) for trial in result.chosen]
        found = [csr_array(r.scores(len(labels)).astype(np.float64)) for r in rankings]
        joined = consensus.calibrate(found, rung.gold, LabelCounts.of(labels, labels.gold(train)))
        if rung.splits[0].train is train:  # the members are the systems that ranked dev
            self._ranked = {dev.key: joined.take(slice(len(dev)))}
        self._consensus = consensus
        return joined

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        """Train the members again on all documents, as far as the budget goes, the best first."""
        consensus, result = self._require_consensus(), self._require_result()
        self._ranked = {}
        members = list(consensus.members)
        remarks = []
        for number in np.argsort(-consensus.weights, kind="stable").tolist():
            trial = result.chosen[number]
            seconds = estimate_seconds(result.trials, trial.system, trial.settings, len(train))
            if not isinstance(members[number].model, Refits):
                remarks.append(f"{trial.system} cannot be refitted: it has not learned dev")
            elif seconds > 1.15 * self._budget.left + _OVERRUN * self.config.seconds:
                remarks.append(f"{trial.system} has not learned dev: no time was left")
            else:
                with quiet_logs():
                    members[number] = self._refit_member(number, members[number], train, labels)
        for remark in remarks:
            logger.info("%s", remark)
        self.record |= {"remarks": remarks, "seconds": round(self._budget.spent, 1)}
        consensus.replace_members(members, labels, LabelCounts.of(labels, labels.gold(train)))

    def _refit_member(
        self, number: int, member: Any, train: Corpus, labels: LabelSpace
    ) -> FittedMember:
        """Refit a member; after a kill, take the one that was refitted before."""
        kept = None if self.work is None else self.work / "members" / str(number)
        name, settings = member.name, member.settings
        if kept is not None and kept.exists():
            stored = read_member(kept, device=self.device, ontology=labels.ontology)
            return FittedMember(stored.labels, stored.model, name, settings)
        member.model.refit(train, labels)
        refitted = FittedMember(labels, member.model, name, settings)
        if kept is not None:
            with replace_folder(kept) as temporary:
                refitted.write(temporary)
        return refitted

    def report_pages(self) -> dict[str, str]:
        """Return the page about the search, by file name."""
        return {"auto.html": make_page(self.record)}

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        consensus = self._require_consensus()
        if self._ranked and k <= self.config.depth and corpus.key in self._ranked:
            return self._ranked[corpus.key].cut(k)
        return consensus.rank(corpus, k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the spans of all members that explain, scaled to their weights."""
        return self._require_consensus().explain(doc, column)

    def label_levels(self, labels: LabelSpace) -> NDArray[np.int32]:
        """Return the level of every column in the ontology."""
        return self._require_consensus().label_levels(labels)

    def illustrations(self) -> Sequence[Illustration]:
        return ()

    @classmethod
    def reads_keywords(cls, folder: Path) -> bool:
        return Consensus.reads_keywords(folder)

    def save(self, folder: Path) -> None:
        """Write the members and their weights, and what was tried."""
        self._require_consensus().save(folder)
        text = json.dumps(self.record, indent=1, ensure_ascii=False)
        write_text(folder / _RECORD, text + "\n")

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        record = read_table(folder / _RECORD)
        model = cls(AutoConfig(), device=device)
        model.record = record
        model._consensus = Consensus.load(folder, labels, device=device)
        return model

    def _require_consensus(self) -> Consensus:
        if self._consensus is None:
            raise UntrainedError("auto")
        return self._consensus

    def _require_result(self) -> SearchResult:
        if self._result is None:
            raise UntrainedError("auto")
        return self._result

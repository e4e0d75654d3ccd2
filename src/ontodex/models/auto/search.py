"""The search: which trials, in which order, and what they decide.

probe    every candidate with its defaults on the first rung: what it gives, what it costs; then
         on the second and the third: how its cost grows with the documents
plan     the candidates that can be trained in full, and refitted, within the budget
tune     alternatives of their settings, one at a time, on the largest rung that leaves time
finish   the planned candidates on the last rung, then others that still fit
         (tuned and finished again while time is left: now all costs are known)
select   the members of the consensus and their weights, from the rankings of the last rung
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ontodex.config import Table
from ontodex.errors import RunError
from ontodex.io.durations import format_clock
from ontodex.io.progress import Bar
from ontodex.models.auto.budget import Budget, estimate_seconds
from ontodex.models.auto.candidates import FAMILIES, list_alternatives
from ontodex.models.auto.rungs import Rung
from ontodex.models.auto.trials import Trial, TrialRunner
from ontodex.models.consensus.member_selection import CandidateTable, Selection, select_members

logger = logging.getLogger(__name__)

MIN_GAIN = 0.001  # of nDCG@5: a setting that gives less is not changed
_RESERVE = 0.05  # of the budget: for thresholds, saving and loading
_SAFETY = 1.25  # estimates may be too low by this factor: other work slows a machine down
_FURTHER_PROBES = 2  # rungs above the first on which the growth of the cost is measured
_PROBE_SHARE = 0.25  # of the usable time, at most, for such a trial of a system
_TUNED_DOCUMENTS = 1_000  # at least, to judge a setting: fewer have another vocabulary
_TUNED_HELD_OUT = 300  # documents ranked, at least: on fewer chance decides


@dataclass(frozen=True)
class SearchResult:
    """The trials of a search, and what was chosen of them."""

    trials: tuple[Trial, ...]
    candidates: tuple[Trial, ...]  # the best trial of each system on the last rung
    selection: Selection  # weights of the candidates
    left_out: Mapping[str, str]  # systems without a trial on the last rung, with the reason

    @property
    def chosen(self) -> list[Trial]:
        return [self.candidates[member] for member in self.selection.chosen]


class Search:
    """One search. `documents` is what a chosen member learns in the end, `final_fits` times."""

    def __init__(
        self,
        runner: TrialRunner,
        rungs: Sequence[Rung],
        budget: Budget,
        *,
        documents: int,
        final_fits: int,
        max_latency: float = 0.0,
    ) -> None:
        self.runner, self.rungs, self.budget = runner, rungs, budget
        self.documents, self.final_fits, self.max_latency = documents, final_fits, max_latency
        train = rungs[-1].splits[0].train
        self.kind, self._n_fields = train.kind, len(train.field_names())
        self.trials: list[Trial] = []
        self.left_out: dict[str, str] = {}
        self.best: dict[str, Table] = {}  # settings of each planned system
        self._bar: Bar | None = None

    def run(self, systems: Sequence[str]) -> SearchResult:
        """Search within the budget; at least one candidate is trained in full."""
        self._bar = Bar("searching, in seconds", math.ceil(self.budget.seconds))
        try:
            self._probe(systems)
            planned = self._plan()
            self._tune(planned)
            finished = self._finish(planned)
            while self._tune(finished):
                finished = self._finish(finished)
            return self._select()
        finally:
            self._bar.close()

    def try_settings(self, system: str, settings: Table, rung: Rung) -> Trial:
        """Run a trial, or take it from an earlier start of this search; log its figures."""
        trial = self.runner.find(system, settings, rung)
        if trial is not None and trial in self.trials:
            return trial
        if trial is not None:
            self.budget.spend(trial.spent_seconds)
        else:
            if self._bar is not None:
                self._bar.set_status(f"{system} on {rung.name}")
            with quiet_logs():
                trial = self.runner.run(system, settings, rung)
        self.trials.append(trial)
        outcome = trial.failure or (
            f"nDCG@5 {100 * trial.ndcg:.2f}  F1@5 {100 * trial.f1:.2f}  {trial.seconds:.1f} s"
        )
        clock = f"{format_clock(self.budget.spent)} of {format_clock(self.budget.seconds)}"
        logger.info("[%s] %s on %s: %s", clock, trial.name, rung.name, outcome)
        if self._bar is not None:
            self._bar.move_to(round(self.budget.spent))
        return trial

    def _probe(self, systems: Sequence[str]) -> None:
        """Try the defaults of every candidate on the first rung, cheapest families first."""
        for number, system in enumerate(systems):
            if number and self.budget.left < self.budget.seconds / 2:
                self.left_out[system] = "no time was left to try it"
            else:
                self.try_settings(system, {}, self.rungs[0])
        best_first = sorted(self.trials, key=lambda trial: -trial.ndcg)
        for rung in self.rungs[1 : 1 + _FURTHER_PROBES]:
            if rung.documents > self.rungs[0].documents:  # folds are all of one size
                for trial in best_first:
                    # A part of the cost of many systems is fixed. The larger growth that a plan
                    # assumes would keep such a system from the probe that shows it.
                    cost = estimate_seconds(
                        self.trials, trial.system, {}, rung.documents, exponent=1.0
                    )
                    if not trial.failure and cost <= _PROBE_SHARE * self.usable:
                        self.try_settings(trial.system, {}, rung)

    def _plan(self) -> list[str]:
        """Return the systems to train in full, the best of each family first."""
        probes = sorted(
            (t for t in self.trials if not t.failure and t.rung == self.rungs[0].name),
            key=lambda trial: -trial.ndcg,
        )
        self.left_out |= {t.system: t.failure for t in self.trials if t.failure}
        if not probes:
            raise RunError(
                "no candidate could be trained: "
                + "; ".join(f"{name}: {reason}" for name, reason in self.left_out.items())
            )
        seen: set[str] = set()
        first, others = list[Trial](), list[Trial]()
        for trial in probes:
            family = FAMILIES.get(trial.system, trial.system)
            (others if family in seen else first).append(trial)
            seen.add(family)
        self._drop_folds([trial.system for trial in first])
        planned: list[str] = []
        for trial in [*first, *others]:
            if self.estimate_rest([*planned, trial.system]) <= self.usable / _SAFETY:
                planned.append(trial.system)
            else:
                self.left_out[trial.system] = "training it in full would take longer than is left"
        if not planned:
            cheapest = min((t.system for t in probes), key=lambda name: self.estimate_rest([name]))
            logger.warning(
                "the budget of %s is too short: %s alone will take about %s",
                format_clock(self.budget.seconds), cheapest,
                format_clock(self.estimate_rest([cheapest])),
            )  # fmt: skip
            planned = [cheapest]
        self.best = {system: {} for system in planned}
        return planned

    def _drop_folds(self, systems: Sequence[str]) -> None:
        """Measure on fewer folds where all of them would take longer than is left."""
        while len(self.rungs[-1].splits) > 1 and self.estimate_rest(systems) > self.usable:
            self.rungs = self.rungs[:-1]

    @property
    def usable(self) -> float:
        """Seconds that are left for trials and for training what is chosen."""
        return self.budget.left - _RESERVE * self.budget.seconds

    def estimate_rest(
        self, systems: Sequence[str], settings_of: Mapping[str, Table] | None = None
    ) -> float:
        """Return the time to train these systems on the last rung, unless done, and to refit."""
        total = 0.0
        for system in systems:
            settings = (settings_of or self.best).get(system, {})
            total += self.estimate_final(system, settings)
            if self.runner.find(system, settings, self.rungs[-1]) is None:
                total += self.estimate(system, settings, self.rungs[-1])
        return total

    def estimate_final(self, system: str, settings: Table) -> float:
        """Return the time to train what was chosen on all documents."""
        seconds = estimate_seconds(self.trials, system, settings, self.documents)
        return seconds * self.final_fits

    def estimate(self, system: str, settings: Table, rung: Rung) -> float:
        """Return what a trial will take, without the splits that have been ranked."""
        part = self.runner.find_part(system, settings, rung)
        splits = len(rung.splits) - (part.splits if part else 0)
        return estimate_seconds(self.trials, system, settings, rung.documents, splits)

    def _tune(self, planned: Sequence[str]) -> bool:
        """Try one alternative after the other, in turn for each system, while time is left.

        Return whether any was new.
        """
        n_before = len(self.trials)
        queues = {
            name: list(
                list_alternatives(
                    name, self.kind, languages=self.runner.languages, n_fields=self._n_fields
                )
            )
            for name in planned
        }
        rung_of: dict[str, Rung] = {}
        while any(queues.values()):
            for system in planned:
                if not queues[system]:
                    continue
                time_left = self.usable - _SAFETY * self.estimate_rest(planned)
                if system not in rung_of:
                    share = time_left / sum(1 + len(queue) for queue in queues.values())
                    rung_of[system] = self._choose_rung(system, share)
                name, value = queues[system].pop(0)
                settings = {**self.best[system], name: value}
                is_new = all((t.system, t.settings) != (system, settings) for t in self.trials)
                cost = 2 * self.estimate(system, settings, rung_of[system])
                if is_new and cost <= time_left:
                    self._try_alternative(system, settings, rung_of[system], planned)
        return len(self.trials) > n_before

    def _choose_rung(self, system: str, share: float) -> Rung:
        """Return the largest rung on which a trial takes at most this time."""
        enough = [rung for rung in self.rungs if rung.documents >= _TUNED_DOCUMENTS] or self.rungs
        enough = [rung for rung in enough if rung.gold.shape[0] >= _TUNED_HELD_OUT] or enough
        fitting = [rung for rung in enough if self.estimate(system, {}, rung) <= share]
        return fitting[-1] if fitting else enough[0]

    def _try_alternative(
        self, system: str, settings: Table, rung: Rung, planned: Sequence[str]
    ) -> None:
        """Keep the settings if they are better and leave time for everything that is planned."""
        before = self.try_settings(system, self.best[system], rung)
        after = self.try_settings(system, settings, rung)
        is_better = not after.failure and after.ndcg >= before.ndcg + MIN_GAIN
        rest = self.estimate_rest(planned, {**self.best, system: settings})
        if is_better and _SAFETY * rest <= self.usable:
            self.best[system] = settings

    def _finish(self, planned: Sequence[str]) -> list[str]:
        """Train on the last rung what is planned, then what was left out and still fits.

        The cheapest come first: together they cost little, and each is of a kind of its own. What
        was left out need not leave time for learning dev too.
        """
        last = self.rungs[-1]
        done = list[str]()
        planned = sorted(planned, key=lambda name: self.estimate_rest([name]))
        rest = [t.system for t in self.trials if t.system not in planned and not t.failure]
        for system in [*planned, *dict.fromkeys(rest)]:
            settings = self.best.setdefault(system, {})
            cost = self.estimate_rest([*done, system])
            if system not in planned:
                cost -= self.estimate_final(system, settings)
            if not done or cost <= self.usable:
                if not self.try_settings(system, settings, last).failure:
                    done.append(system)
                    self.left_out.pop(system, None)
            else:
                self.left_out[system] = "training it in full would take longer than is left"
        return done

    def _select(self) -> SearchResult:
        last = self.rungs[-1]
        candidates: dict[str, Trial] = {}
        for trial in self.trials:
            known = candidates.get(trial.system)
            is_last = trial.rung == last.name and not trial.failure
            if is_last and (known is None or trial.ndcg > known.ndcg):
                candidates[trial.system] = trial
        found = tuple(candidates.values())
        n_labels = len(self.runner.labels)
        rankings = [self.runner.load_ranking(trial).scores(n_labels) for trial in found]
        selection = select_members(
            CandidateTable.of(rankings, last.gold),
            latencies=[trial.latency for trial in found],
            max_latency=self.max_latency,
        )
        return SearchResult(tuple(self.trials), found, selection, self.left_out)


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep the systems' own messages back, except warnings."""
    log = logging.getLogger("ontodex")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)

"""`ontodex learn RUN`: adapt a run to the decisions of curators.

    decisions ─ hold out a fifth of the documents ─ learn from the others ─ measure both
              └ unless F fell: learn from all documents, and replace the run in one step

`learn` changes thresholds, in the decision rule or in a system that decides by itself, and gives
documents that are done to systems that can update. A document is ranked before it is stored;
otherwise its thresholds would be learned from its own labels. `retrain` trains the system again on
its training corpus and on the documents that are done.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.decide.decision import Decision
from ontodex.decide.rules import OnlineRule
from ontodex.errors import RunError
from ontodex.io.counts import format_count
from ontodex.io.files import replace_folder
from ontodex.io.tables import align_columns
from ontodex.io.temporary import temporary_folder
from ontodex.models.interface import Decides, Model, Updates
from ontodex.runs.folder import write_manifest
from ontodex.runs.retrain import open_sources, retrain_run
from ontodex.runs.run import Run, load
from ontodex.runs.update import add_documents, has_documents
from ontodex.runs.versions import replace_run
from ontodex.serve.database.database import Database
from ontodex.serve.decided_documents import (
    DocumentDecisions,
    Quality,
    find_project,
    make_corpus,
    make_done_corpus,
    make_matrices,
    measure,
    read_new_decisions,
    split_held_out,
)

# An evaluation describes the run before it learned, so its files are not copied.
_EVALUATION_FILES = ("metrics.json", "report.html", "label_metrics.tsv")

# Writes a run that has learned from documents into a folder, and loads it.
Teach = Callable[[Path, Sequence[DocumentDecisions]], Run]


@dataclass(frozen=True)
class LearnResult:
    """The changes of a run, and their effect on the held-out documents."""

    n_documents: int = 0
    n_accepted: int = 0
    n_rejected: int = 0
    n_held_out: int = 0
    before: Quality | None = None
    after: Quality | None = None
    n_thresholds: int = 0  # columns whose threshold changed
    n_stored: int = 0  # documents that the system stored
    is_applied: bool = False  # False: F fell on the held-out documents, the run is unchanged
    is_retrained: bool = False

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def render_text(self) -> str:
        """Return the result as text for the terminal."""
        if not self.n_documents:
            return "no new decisions: decide in the page, or name another --database"
        thresholds = format_count(self.n_thresholds, "threshold")
        changes = f"{thresholds} changed, {format_count(self.n_stored, 'document')} stored"
        if self.is_retrained:
            changes = f"trained again with {format_count(self.n_stored, 'decided document')}"
        lines = [
            f"{format_count(self.n_documents, 'document')} with {self.n_accepted:,} accepted and "
            f"{format_count(self.n_rejected, 'rejected label')}",
            changes
            if self.is_applied
            else "nothing was learned: the label sets would have become worse",
        ]
        if self.before is None or self.after is None:
            return "\n".join([*lines, "too few decisions to hold some out and measure the effect"])
        title = f"on {format_count(self.n_held_out, 'held-out document')}"
        rows = [[title, "precision", "recall", "F"]]
        rows += [
            [name, f"{quality.precision:.3f}", f"{quality.recall:.3f}", f"{quality.f:.3f}"]
            for name, quality in (("before", self.before), ("after", self.after))
        ]
        return "\n".join([*lines, align_columns(rows)])


def list_abilities(decision: Decision, model: type[Model] | Model) -> list[str]:
    """Return what a run learns from decisions without training: thresholds, documents."""
    kind = model if isinstance(model, type) else type(model)
    has_thresholds = issubclass(kind, Decides) or isinstance(decision.rule, OnlineRule)
    found = {"thresholds": has_thresholds, "documents": issubclass(kind, Updates)}
    return [name for name, is_able in found.items() if is_able]


def describe_abilities(decision: Decision, model: type[Model] | Model) -> str:
    """Return one sentence about what a run learns from decisions, for before they are made."""
    abilities = list_abilities(decision, model)
    if abilities:
        return f"learns {' and '.join(abilities)} from decisions (ontodex learn)"
    return (
        f"the rule {decision.config.rule!r} has no thresholds, so decisions are learned only by "
        "training again (ontodex learn --retrain)"
    )


def learn(folder: Path, database: Database, *, device: str = "cpu") -> LearnResult:
    """Adapt a run to the decisions that it has not learned yet."""
    run = load(folder, device=device)
    if not list_abilities(run.decision, run.model):
        raise RunError(
            f"{folder}: the rule {run.decision.config.rule!r} has no thresholds, and "
            f"{run.settings.name!r} takes no documents without training",
            hint="ontodex learn --retrain trains it again with the decisions",
        )
    learned: dict[str, int] = run.about.get("learned", {})
    decided, last = read_new_decisions(
        database, find_project(run, database), learned.get(database.id, 0)
    )
    learned = {**learned, database.id: last}

    def teach(out: Path, documents: Sequence[DocumentDecisions]) -> Run:
        ignore = shutil.ignore_patterns(*_EVALUATION_FILES, ".*")
        shutil.copytree(folder, out, ignore=ignore, dirs_exist_ok=True)
        return _apply_decisions(out, documents, learned, device)

    return _learn(run, database, decided, teach)


def retrain(
    folder: Path, database: Database, *, train: str | Path | None = None, device: str = "auto"
) -> LearnResult:
    """Train a run again on its training corpus and on all documents that are done.

    `train` is the training corpus where the run does not record its path.
    """
    run = load(folder, device="cpu" if device == "auto" else device)
    sources = open_sources(run, train)
    decided, last = read_new_decisions(database, find_project(run, database), 0)
    done = [one for one in decided if one.is_done]
    learned = {**run.about.get("learned", {}), database.id: last}

    def teach(out: Path, documents: Sequence[DocumentDecisions]) -> Run:
        trained = retrain_run(run, out, sources, make_done_corpus(documents), device=device)
        _record_learned(trained, learned)
        return trained

    result = _learn(run, database, done, teach)
    n_stored = len(done) if result.is_applied else 0
    return dataclasses.replace(result, is_retrained=True, n_thresholds=0, n_stored=n_stored)


def _learn(
    run: Run, database: Database, decided: Sequence[DocumentDecisions], teach: Teach
) -> LearnResult:
    """Measure the effect on held-out documents; unless F fell, replace the run."""
    if not decided:  # no error: a nightly job may find nothing new
        return LearnResult()
    folder, place = run.folder, run.folder.resolve()
    others, held_out = split_held_out(database, decided)
    before = after = None
    if held_out and others:
        before = measure(run, held_out)
        with temporary_folder(place.with_name(f"{place.name}.trial")) as trial:
            after = measure(teach(trial / folder.name, others), held_out)
    is_applied = before is None or after is None or after.f >= before.f
    learned = run
    if is_applied:
        with replace_run(folder) as new:
            learned = teach(new, decided)
    return LearnResult(
        len(decided),
        sum(len(one.accepted) for one in decided),
        sum(len(one.rejected) for one in decided),
        len(held_out),
        before,
        after,
        _count_changed_thresholds(run, learned),
        learned.n_updated - run.n_updated,
        is_applied,
    )


def _apply_decisions(
    folder: Path, decided: Sequence[DocumentDecisions], learned: dict[str, int], device: str
) -> Run:
    """Change the run in `folder`, a copy, by these decisions and load it again."""
    run = load(folder, device=device)
    decision, corpus = run.decision, make_corpus(decided)
    ranking = run.rank(corpus)
    accepted, rejected = make_matrices(decided, run.labels, ranking.scores(len(run.labels)))
    if isinstance(run.model, Decides):
        run.model.learn_from_decisions(corpus, accepted, rejected)
        run.model.save(folder / "model")
    elif isinstance(decision.rule, OnlineRule):
        decision = decision.update(ranking, accepted, rejected)
    decision.save(folder / "decision.json")
    run = dataclasses.replace(run, decision=decision)
    done = make_done_corpus(decided)
    if len(done) and isinstance(run.model, Updates) and not has_documents(run, done):
        with replace_folder(folder) as new:
            add_documents(run, done, new)
        run = load(folder, device=device)
    _record_learned(run, learned)
    return load(folder, device=device)


def _record_learned(run: Run, learned: dict[str, int]) -> None:
    """Write into the manifest which decisions of which databases the run has learned."""
    about = {key: value for key, value in run.about.items() if key not in ("format", "files")}
    write_manifest(run.folder, {**about, "learned": learned})


def _count_changed_thresholds(before: Run, after: Run) -> int:
    old, new = _get_thresholds(before), _get_thresholds(after)
    if old is None or new is None:
        return 0
    n = min(len(old), len(new))
    return int(np.count_nonzero(new[:n] != old[:n]))


def _get_thresholds(run: Run) -> NDArray[np.float64] | None:
    """Return the thresholds that learn from decisions: the system's own, else the rule's."""
    if isinstance(run.model, Decides):
        return run.model.label_thresholds()
    rule = run.decision.rule
    return rule.thresholds if isinstance(rule, OnlineRule) else None

"""`ontodex learn RUN`: thresholds and memory from what curators decided.

    new decisions ─ a fifth of the documents held out ─ learn from the others ─ measure both
                  └ unless it got worse: learn from all of them, replace the run in one step

Thresholds learn where the rule is OFO, and where a system has such thresholds of its own: each
accepted or rejected label moves its own threshold.
Systems that take updates remember the documents that are done. A document is ranked before it is
remembered, or its thresholds would be learned from an answer it gave itself.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.ofo import OFO
from ontodex.errors import RunError
from ontodex.files import atomic_folder, digest
from ontodex.models.base import LearnsJudged, Updates
from ontodex.recipe import has_taken
from ontodex.recipe import update as remember
from ontodex.run import Run, load
from ontodex.serve.database import Database, Row, doc_of
from ontodex.train import store
from ontodex.types import Corpus, Doc, LabelSpace

HELD_OUT = 5  # one document in so many is measured on, not learned from
PAGE = 1000
# What an evaluation wrote is about the run as it was.
_MEASURED = ("metrics.json", "report.html", "label_metrics.tsv")


@dataclass(frozen=True)
class Judged:
    """A document with the labels that were accepted (or added) and rejected."""

    number: int
    doc: Doc
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]
    is_done: bool


@dataclass(frozen=True)
class Quality:
    """The run's label sets against the judgements; labels that nobody judged do not count."""

    precision: float
    recall: float
    f: float


@dataclass(frozen=True)
class Lesson:
    """What was learned, and what it changed on the documents that were held out."""

    documents: int
    accepted: int
    rejected: int
    held_out: int
    before: Quality | None
    after: Quality | None
    thresholds: int  # columns whose threshold moved
    remembered: int  # documents
    taken: bool  # False: F fell on what was held out, and the run is as it was

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def text(self) -> str:
        """For people."""
        if not self.documents:
            return "no decisions that it has not learned: decide in the page, or name --database"
        lines = [
            f"{self.documents:,} documents with {self.accepted:,} accepted and "
            f"{self.rejected:,} rejected labels",
            f"{self.thresholds:,} thresholds moved, {self.remembered:,} documents remembered"
            if self.taken
            else "nothing was learned: it would have made the label sets worse",
        ]
        if self.before is None or self.after is None:
            return "\n".join([*lines, "too few decisions to hold some out and show the effect"])
        lines.append(f"on {self.held_out:,} documents held out   precision   recall       F")
        for name, one in (("before", self.before), ("after", self.after)):
            lines.append(f"{name:>24} {one.precision:15.3f} {one.recall:8.3f} {one.f:7.3f}")
        return "\n".join(lines)


def learn(folder: Path, database: Database, *, device: str = "cpu") -> Lesson:
    """Teach a run the decisions that it has not learned yet."""
    manifest = digest(folder / "manifest.json") if store.is_finished(folder) else ""
    run = load(folder, device=device)
    learned: dict[str, int] = run.about.get("learned", {})
    _check(run)
    judged, last = new_judgements(database, learned.get(database.id, 0))
    if not judged:  # as every night on which nobody decided anything: no error
        return Lesson(0, 0, 0, 0, None, None, 0, 0, taken=False)
    learned = {**learned, database.id: last}
    held: list[Judged] = []
    others: list[Judged] = []
    for one in judged:
        (held if _is_held_out(database.id, one.number) else others).append(one)
    before = after = None
    if held and others:
        before = measure(run, held)
        with tempfile.TemporaryDirectory(dir=folder.resolve().parent, prefix=".learn-") as trial:
            copy = Path(trial) / folder.name
            _copy(folder, copy)
            after = measure(_taught(copy, others, learned, device), held)
    taken = before is None or after is None or after.f >= before.f
    taught = _replaced(folder, manifest, judged, learned, device) if taken else run
    return Lesson(
        len(judged),
        sum(len(one.accepted) for one in judged),
        sum(len(one.rejected) for one in judged),
        len(held),
        before,
        after,
        _moved(run, taught),
        taught.n_taken - run.n_taken,
        taken,
    )


def _replaced(
    folder: Path, manifest: str, judged: Sequence[Judged], learned: dict[str, int], device: str
) -> Run:
    """The run after all judgements, in the place of the old one."""
    with atomic_folder(folder) as new:
        _copy(folder, new)
        taught = _taught(new, judged, learned, device)
        if digest(folder / "manifest.json") != manifest:
            raise RunError(
                f"{folder}: was changed by another process meanwhile", hint="start again"
            )
    return taught


def _check(run: Run) -> None:
    if _thresholds(run) is None and not isinstance(run.model, Updates):
        raise RunError(
            f"{run.folder}: the rule {run.decision.config.rule!r} does not learn from decisions, "
            f"and {run.settings.name!r} takes no documents without training",
            hint="train with --set decide.rule=ofo",
        )


def new_judgements(database: Database, since: int) -> tuple[list[Judged], int]:
    """The standing verdicts that came after decision `since`, by document in the order in which
    these were taken up; and the last decision's id."""
    numbers: dict[int, None] = {}
    last = since
    for row in _log(database, since):
        numbers[row["document"]] = None
        last = row["id"]
    found = []
    for number in numbers:
        verdicts = [v for v in database.verdicts([number])[number] if v["id"] > since]
        if verdicts:
            document = database.document(number)
            accepted = tuple(v["label"] for v in verdicts if v["verdict"] != "reject")
            rejected = tuple(v["label"] for v in verdicts if v["verdict"] == "reject")
            is_done = document["state"] == "done" and bool(accepted)
            found.append(Judged(number, doc_of(document), accepted, rejected, is_done))
    return found, last


def _log(database: Database, since: int) -> Iterator[Row]:
    while rows := database.decisions(after=since, limit=PAGE):
        yield from rows
        since = rows[-1]["id"]


def _is_held_out(database: str, number: int) -> bool:
    """The same documents every time, whatever the order of the decisions."""
    value = hashlib.sha256(f"{database}/{number}".encode()).digest()
    return int.from_bytes(value) % HELD_OUT == 0


def measure(run: Run, judged: Sequence[Judged]) -> Quality:
    """How the run's label sets agree with the judgements."""
    corpus = _corpus(judged)
    chosen = run.decide(corpus).scores(len(run.labels)) > 0
    accepted, rejected = _matrices(judged, run.labels)
    n_accepted = sum(len(one.accepted) for one in judged)  # also those it does not know
    hits = int((chosen.multiply(accepted)).sum())
    wrong = int((chosen.multiply(rejected)).sum())
    precision = hits / (hits + wrong) if hits + wrong else 0.0
    recall = hits / n_accepted if n_accepted else 0.0
    total = hits + wrong + n_accepted
    return Quality(precision, recall, 2 * hits / total if total else 0.0)


def _taught(folder: Path, judged: Sequence[Judged], learned: dict[str, int], device: str) -> Run:
    """The run in `folder`, a copy, after these judgements."""
    run = load(folder, device=device)
    decision = run.decision
    if isinstance(run.model, LearnsJudged):
        run.model.learn_judged(_corpus(judged), *_matrices(judged, run.labels))
        run.model.save(folder / "model")
    elif isinstance(decision.rule, OFO):
        ranking = run.rank(_corpus(judged))
        decision = decision.update(ranking, *_matrices(judged, run.labels))
    done = Corpus.of(
        dataclasses.replace(one.doc, labels=one.accepted) for one in judged if one.is_done
    )
    if len(done) and isinstance(run.model, Updates) and not has_taken(run, done):
        run = remember(folder, done, device=device)
        decision = decision.for_labels(run.labels)
    decision.save(folder / "decision.json")
    about = {key: value for key, value in run.about.items() if key not in ("format", "files")}
    store.finish(folder, {**about, "learned": learned})
    return load(folder, device=device)


def _corpus(judged: Sequence[Judged]) -> Corpus:
    return Corpus.of(one.doc for one in judged)


def _matrices(judged: Sequence[Judged], labels: LabelSpace) -> tuple[csr_array, csr_array]:
    """(documents x columns) accepted and rejected; labels the run does not know are left out."""

    def matrix(rows: Sequence[Sequence[str]]) -> csr_array:
        columns = [
            [labels.column[label] for label in row if label in labels.column] for row in rows
        ]
        indptr = np.cumsum([0, *map(len, columns)])
        indices = np.array([column for row in columns for column in row], dtype=np.int32)
        ones = np.ones(len(indices), dtype=np.int8)
        return csr_array((ones, indices, indptr), shape=(len(rows), len(labels)))

    return matrix([one.accepted for one in judged]), matrix([one.rejected for one in judged])


def _moved(before: Run, after: Run) -> int:
    """Columns whose threshold is another one now."""
    old, new = _thresholds(before), _thresholds(after)
    if old is None or new is None:
        return 0
    return int(np.count_nonzero(new[: len(old)] != old))


def _thresholds(run: Run) -> NDArray[np.float64] | None:
    """Those that learn from decisions: of the system itself, else of the rule."""
    if isinstance(run.model, LearnsJudged):
        return run.model.thresholds
    rule = run.decision.rule
    return rule.thresholds if isinstance(rule, OFO) else None


def _copy(folder: Path, target: Path) -> None:
    ignore = shutil.ignore_patterns(*_MEASURED, ".*")
    shutil.copytree(folder, target, ignore=ignore, dirs_exist_ok=True)

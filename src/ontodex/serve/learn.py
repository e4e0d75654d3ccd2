"""`ontodex learn RUN`: adapt thresholds and memory to the decisions of curators.

    new decisions ─ hold out a fifth of the documents ─ learn from the others ─ measure both
                  └ unless F fell: learn from all documents, and replace the run in one step

Thresholds are adapted by OFO, in a rule or in a system that decides by itself: each accepted or
rejected label changes the threshold of its column. Systems that can update also store the documents
that are done. A document is ranked before it is stored; otherwise its thresholds would be learned
from its own labels.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.decide.ofo import OFO
from ontodex.errors import RunError
from ontodex.io.files import hash_file, replace_folder
from ontodex.io.temporary import temporary_folder
from ontodex.models.interface import Decides, Updates
from ontodex.runs.folder import is_finished, write_manifest
from ontodex.runs.run import Run, load
from ontodex.runs.update import has_documents, update_run
from ontodex.serve.database import Database
from ontodex.serve.database_tables import Row, build_doc
from ontodex.serve.stored_rows import DamagedRowError
from ontodex.types import Corpus, Doc, LabelSpace

logger = logging.getLogger(__name__)

HELD_OUT = 5  # one document in five is held out
PAGE_SIZE = 1000  # decisions read from the database at a time
# An evaluation describes the run before it learned, so its files are not copied.
_EVALUATION_FILES = ("metrics.json", "report.html", "label_metrics.tsv")


@dataclass(frozen=True)
class DocumentDecisions:
    """A document with its accepted (or added) labels and its rejected labels."""

    number: int
    doc: Doc
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]
    is_done: bool


@dataclass(frozen=True)
class Quality:
    """Agreement of label sets with decisions; labels without a decision do not count."""

    precision: float
    recall: float
    f: float


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

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def render_text(self) -> str:
        """Return the result as text for the terminal."""
        if not self.n_documents:
            return "no new decisions: decide in the page, or name another --database"
        lines = [
            f"{self.n_documents:,} documents with {self.n_accepted:,} accepted and "
            f"{self.n_rejected:,} rejected labels",
            f"{self.n_thresholds:,} thresholds changed, {self.n_stored:,} documents stored"
            if self.is_applied
            else "nothing was learned: the label sets would have become worse",
        ]
        if self.before is None or self.after is None:
            return "\n".join([*lines, "too few decisions to hold some out and measure the effect"])
        lines.append(f"on {self.n_held_out:,} held-out documents   precision   recall       F")
        for name, quality in (("before", self.before), ("after", self.after)):
            lines.append(
                f"{name:>24} {quality.precision:15.3f} {quality.recall:8.3f} {quality.f:7.3f}"
            )
        return "\n".join(lines)


def learn(folder: Path, database: Database, *, device: str = "cpu") -> LearnResult:
    """Adapt a run to the decisions that it has not learned yet."""
    manifest = hash_file(folder / "manifest.json") if is_finished(folder) else ""
    run = load(folder, device=device)
    learned: dict[str, int] = run.about.get("learned", {})
    _check_can_learn(run)
    decided, last = read_new_decisions(database, learned.get(database.id, 0))
    if not decided:  # no error: a nightly job may find nothing new
        return LearnResult()
    learned = {**learned, database.id: last}
    held_out = [one for one in decided if is_held_out(database.id, one.number)]
    others = [one for one in decided if not is_held_out(database.id, one.number)]
    before = after = None
    if held_out and others:
        before = measure(run, held_out)
        after = measure_after(folder, others, held_out, learned, device)
    is_applied = before is None or after is None or after.f >= before.f
    new = _replace_run(folder, manifest, decided, learned, device) if is_applied else run
    return LearnResult(
        len(decided),
        sum(len(one.accepted) for one in decided),
        sum(len(one.rejected) for one in decided),
        len(held_out),
        before,
        after,
        _count_changed_thresholds(run, new),
        new.n_updated - run.n_updated,
        is_applied,
    )


def _check_can_learn(run: Run) -> None:
    if _get_thresholds(run) is None and not isinstance(run.model, Updates):
        raise RunError(
            f"{run.folder}: the rule {run.decision.config.rule!r} does not learn from decisions, "
            f"and {run.settings.name!r} takes no documents without training",
            hint="train with --set decide.rule=ofo",
        )


def read_new_decisions(database: Database, since: int) -> tuple[list[DocumentDecisions], int]:
    """Return the valid decisions after decision `since`, by document in the order of the first of
    them, and the id of the last decision."""
    numbers: dict[int, None] = {}
    last = since
    for row in _read_log(database, since):
        numbers[row["document"]] = None
        last = row["id"]
    found = []
    for number in numbers:
        verdicts = [v for v in database.find_verdicts([number])[number] if v["id"] > since]
        if verdicts:
            try:
                row = database.get_document(number)
            except DamagedRowError as error:
                logger.warning("%s; its decisions are not learned", error)
                continue
            accepted = tuple(v["label"] for v in verdicts if v["verdict"] != "reject")
            rejected = tuple(v["label"] for v in verdicts if v["verdict"] == "reject")
            is_done = row["state"] == "done" and bool(accepted)
            found.append(DocumentDecisions(number, build_doc(row), accepted, rejected, is_done))
    return found, last


def _read_log(database: Database, since: int) -> Iterator[Row]:
    while rows := database.list_decisions(after=since, limit=PAGE_SIZE):
        yield from rows
        since = rows[-1]["id"]


def is_held_out(database: str, number: int) -> bool:
    """Return whether a document is held out: always the same ones, in any order of decisions."""
    value = hashlib.sha256(f"{database}/{number}".encode()).digest()
    return int.from_bytes(value) % HELD_OUT == 0


def measure(run: Run, decided: Sequence[DocumentDecisions]) -> Quality:
    """Compare the run's label sets with the decisions."""
    predicted = run.decide(_make_corpus(decided)).scores(len(run.labels)) > 0
    accepted, rejected = _make_matrices(decided, run.labels)
    n_accepted = sum(len(one.accepted) for one in decided)  # includes labels without a column
    hits = int((predicted.multiply(accepted)).sum())
    wrong = int((predicted.multiply(rejected)).sum())
    precision = hits / (hits + wrong) if hits + wrong else 0.0
    recall = hits / n_accepted if n_accepted else 0.0
    total = hits + wrong + n_accepted
    return Quality(precision, recall, 2 * hits / total if total else 0.0)


def measure_after(
    folder: Path,
    others: Sequence[DocumentDecisions],
    held_out: Sequence[DocumentDecisions],
    learned: dict[str, int],
    device: str,
) -> Quality:
    """Let a copy of the run learn from `others`, and measure it on `held_out`."""
    place = folder.resolve()
    with temporary_folder(place.with_name(f"{place.name}.trial")) as trial:
        copy = trial / folder.name
        _copy_run(folder, copy)
        return measure(_apply_decisions(copy, others, learned, device), held_out)


def _replace_run(
    folder: Path,
    manifest: str,
    decided: Sequence[DocumentDecisions],
    learned: dict[str, int],
    device: str,
) -> Run:
    """Apply all decisions to a copy of the run and put it in the place of the old one."""
    with replace_folder(folder) as new:
        _copy_run(folder, new)
        run = _apply_decisions(new, decided, learned, device)
        if hash_file(folder / "manifest.json") != manifest:
            raise RunError(
                f"{folder}: another process changed the run in the meantime",
                hint="run the command again",
            )
    return run


def _apply_decisions(
    folder: Path, decided: Sequence[DocumentDecisions], learned: dict[str, int], device: str
) -> Run:
    """Change the run in `folder`, a copy, by these decisions and load it again."""
    run = load(folder, device=device)
    decision = run.decision
    corpus, matrices = _make_corpus(decided), _make_matrices(decided, run.labels)
    if isinstance(run.model, Decides):
        run.model.learn_from_decisions(corpus, *matrices)
        run.model.save(folder / "model")
    elif isinstance(decision.rule, OFO):
        decision = decision.update(run.rank(corpus), *matrices)
    done = Corpus.of(
        dataclasses.replace(one.doc, labels=one.accepted) for one in decided if one.is_done
    )
    if len(done) and isinstance(run.model, Updates) and not has_documents(run, done):
        run = update_run(folder, done, device=device)
        decision = decision.for_labels(run.labels)
    decision.save(folder / "decision.json")
    about = {key: value for key, value in run.about.items() if key not in ("format", "files")}
    write_manifest(folder, {**about, "learned": learned})
    return load(folder, device=device)


def _make_corpus(decided: Sequence[DocumentDecisions]) -> Corpus:
    return Corpus.of(one.doc for one in decided)


def _make_matrices(
    decided: Sequence[DocumentDecisions], labels: LabelSpace
) -> tuple[csr_array, csr_array]:
    """Return (documents x columns) accepted and rejected; labels without a column are omitted."""
    return (
        _make_matrix([one.accepted for one in decided], labels),
        _make_matrix([one.rejected for one in decided], labels),
    )


def _make_matrix(rows: Sequence[Sequence[str]], labels: LabelSpace) -> csr_array:
    columns = [[labels.column[label] for label in row if label in labels.column] for row in rows]
    indptr = np.cumsum([0, *map(len, columns)])
    indices = np.array([column for row in columns for column in row], dtype=np.int32)
    ones = np.ones(len(indices), dtype=np.int8)
    return csr_array((ones, indices, indptr), shape=(len(rows), len(labels)))


def _count_changed_thresholds(before: Run, after: Run) -> int:
    old, new = _get_thresholds(before), _get_thresholds(after)
    if old is None or new is None:
        return 0
    return int(np.count_nonzero(new[: len(old)] != old))


def _get_thresholds(run: Run) -> NDArray[np.float64] | None:
    """Return the thresholds that learn from decisions: the system's own, else the rule's."""
    if isinstance(run.model, Decides):
        return run.model.label_thresholds()
    rule = run.decision.rule
    return rule.thresholds if isinstance(rule, OFO) else None


def _copy_run(folder: Path, target: Path) -> None:
    ignore = shutil.ignore_patterns(*_EVALUATION_FILES, ".*")
    shutil.copytree(folder, target, ignore=ignore, dirs_exist_ok=True)

"""Use a database of decisions without a running service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ontodex.errors import ConfigError, require
from ontodex.runs.migrate import Migration
from ontodex.runs.run import Run, load, locate_run
from ontodex.runs.vocabulary import get_vocabulary_key

if TYPE_CHECKING:
    from ontodex.serve.database.database import Database
    from ontodex.serve.learn import LearnResult


def learn(
    run: Run | str | Path,
    database: str | Path = "decisions.sqlite",
    *,
    retrain: bool = False,
    train: str | Path | None = None,
    device: str = "cpu",
) -> LearnResult:
    """Learn from curators' decisions; return the changes, and their effect on held-out documents.

    database    file or URL of the decisions
    retrain     train again, on the training corpus and the decided documents; else thresholds are
                adapted, and systems that can update take the documents
    train       the training corpus for `retrain`, if not the recorded one

    A run whose label sets would become worse stays as it is. The version before is kept.

    >>> ontodex.learn("runs/floor", "decisions.sqlite").n_documents
    0
    """
    if train is not None and not retrain:
        raise ConfigError("--train needs --retrain", hint="ontodex learn RUN --retrain --train C")
    folder = locate_run(run)
    with _open(database, purpose="reading decisions") as opened:
        from ontodex.serve import learn as decisions

        if retrain:
            return decisions.retrain(folder, opened, train=train, device=device)
        return decisions.learn(folder, opened, device=device)


def migrate_decisions(
    database: str | Path, old: Run | str | Path, migration: Migration
) -> dict[str, int]:
    """Move the decisions and the queue of a vocabulary to its newer version.

    `old` is the run that was migrated. The answer has the numbers of decisions that moved, and of
    those that could not. Those of other vocabularies stay.

    >>> migration = ontodex.migrate("runs/floor", "newer.json", "runs/moved")
    >>> ontodex.migrate_decisions("decisions.sqlite", "runs/floor", migration)
    {'moved': 0, 'stuck': 0}
    """
    old = old if isinstance(old, Run) else load(old)
    with _open(database, purpose="moving decisions") as opened:
        from ontodex.serve.decided_documents import find_project

        project = find_project(old, opened)
        if project is None:
            return {"moved": 0, "stuck": 0}
        new = migration.run
        opened.projects.replace_vocabulary(project, get_vocabulary_key(new.about, new.labels))
        moved = opened.replace_labels(migration.successors, project=project)
        return {"moved": moved, "stuck": opened.count_labels(migration.lost, project=project)}


@contextmanager
def _open(location: str | Path, *, purpose: str) -> Iterator[Database]:
    require("sqlalchemy", extra="serve", purpose=purpose)
    from ontodex.serve.database.database import Database

    opened = Database.open(location, create=False)
    try:
        yield opened
    finally:
        opened.close()

"""Projects: a vocabulary, its queue of documents, and the people who decide.

Runs with the same vocabulary share a project, so concepts of two vocabularies never meet on one
document. Nothing is kept in memory: another replica may change a project at any time.

Databases of format 1 had one queue for all: `adopt` gives each of its documents to the project of
the run that was used for it. A document with decisions of two vocabularies becomes two.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from ontodex.io.counts import format_count
from ontodex.serve.database.connection import begin_alone, begin_write
from ontodex.serve.database.tables import (
    HIDDEN,
    ConflictError,
    Row,
    UnknownRowError,
    decisions,
    documents,
    get_time,
    projects,
    select_all_documents,
    suggestions,
)

logger = logging.getLogger(__name__)


class Projects:
    """The projects of a database; every method is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def open(self, vocabulary: str, name: str) -> int:
        """Return the project of a vocabulary, by its digest; a new one gets this name."""
        found = self.find(vocabulary)
        if found is not None:
            return found
        query = _select_project(vocabulary)
        with begin_alone(self._engine) as connection:
            found = connection.execute(query).scalar()  # another replica may have been first
            if found is not None:
                return int(found)
            row = {"vocabulary": vocabulary, "name": name, "time": get_time()}
            insert = projects.insert().values(row).returning(projects.c.id)
            return int(connection.execute(insert).scalar_one())

    def find(self, vocabulary: str) -> int | None:
        """Return the project of a vocabulary, by its digest; None if there is none."""
        with self._engine.begin() as connection:
            found: int | None = connection.execute(_select_project(vocabulary)).scalar()
            return found

    def count_without_project(self) -> int:
        """Return how many documents of an older database belong to no project yet."""
        query = sa.select(sa.func.count()).where(documents.c.project.is_(None))
        with self._engine.begin() as connection:
            return int(connection.execute(query).scalar_one())

    def list_all(self) -> list[Row]:
        """Return the projects with their people and the counts of their documents."""
        n_open = sa.func.count().filter(documents.c.state == "open").label("n_open")
        n_done = sa.func.count().filter(documents.c.state == "done").label("n_done")
        counts = sa.select(documents.c.project, n_open, n_done).group_by(documents.c.project)
        own = documents.c.number == decisions.c.document
        n_decisions = sa.func.count().label("n_decisions")
        people = (
            sa.select(documents.c.project, decisions.c.user, n_decisions)
            .join(documents, own)
            .group_by(documents.c.project, decisions.c.user)
            .order_by(n_decisions.desc())
        )
        with self._engine.begin() as connection:
            rows = connection.execute(sa.select(projects).order_by(projects.c.id)).mappings().all()
            count_of = {row.project: row for row in connection.execute(counts)}
            users: dict[int, list[Row]] = {}
            for project, user, n in connection.execute(people):
                users.setdefault(project, []).append({"user": user, "n_decisions": n})
        return [
            {
                **row,
                "n_open": count_of[row["id"]].n_open if row["id"] in count_of else 0,
                "n_done": count_of[row["id"]].n_done if row["id"] in count_of else 0,
                "people": users.get(row["id"], []),
            }
            for row in rows
        ]

    def rename(self, id_: int, name: str) -> None:
        """Give a project another name."""
        with begin_write(self._engine) as connection:
            _update(connection, id_, {"name": name})

    def replace_vocabulary(self, id_: int, vocabulary: str) -> None:
        """Give a project a newer version of its vocabulary, by its digest.

        An empty project of that version is removed; one with documents is a conflict.
        """
        with begin_alone(self._engine) as connection:
            is_other = (projects.c.vocabulary == vocabulary) & (projects.c.id != id_)
            query = sa.select(projects.c.id).where(is_other)
            other = connection.execute(query.with_for_update()).scalar()  # see _hold_project
            if other is not None:
                own = sa.select(sa.func.count()).where(documents.c.project == other)
                if connection.execute(own).scalar_one():
                    raise ConflictError(f"project {other} has documents with this vocabulary")
                connection.execute(projects.delete().where(projects.c.id == other))
            _update(connection, id_, {"vocabulary": vocabulary})

    def find_vocabulary(self, number: int) -> tuple[int | None, str | None] | None:
        """Return the project of a document and its vocabulary; None if there is no document."""
        own = projects.c.id == documents.c.project
        query = sa.select(documents.c.project, projects.c.vocabulary).where(
            documents.c.number == number, documents.c.state.not_in(HIDDEN)
        )
        with self._engine.begin() as connection:
            found = connection.execute(query.select_from(documents.outerjoin(projects, own)))
            row = found.first()
        return None if row is None else (row.project, row.vocabulary)

    def adopt(self, project_of_run: Mapping[str, int]) -> None:
        """Give every document without a project to that of the runs that were used for it.

        One that no known run was used for goes to the project of the first run.
        """
        first = next(iter(project_of_run.values()))
        with begin_alone(self._engine) as connection:
            query = sa.select(documents.c.number).where(documents.c.project.is_(None))
            numbers = list(connection.execute(query).scalars())
            for number in numbers:
                used = _count_projects(connection, number, project_of_run)
                main, *others = [project for project, _ in used.most_common()] or [first]
                for other in others:
                    runs = [run for run, project in project_of_run.items() if project == other]
                    _split(connection, number, other, runs)
                own = documents.c.number == number
                connection.execute(documents.update().where(own).values(project=main))
        if numbers:
            count = format_count(len(numbers), "document")
            logger.warning("given to projects: %s of an older database", count)


def _select_project(vocabulary: str) -> sa.Select[Any]:
    return sa.select(projects.c.id).where(projects.c.vocabulary == vocabulary)


def _update(connection: Connection, id_: int, values: Row) -> None:
    done = connection.execute(projects.update().where(projects.c.id == id_).values(dict(values)))
    if not done.rowcount:
        raise UnknownRowError(f"there is no project {id_}")


def _count_projects(
    connection: Connection, number: int, project_of_run: Mapping[str, int]
) -> Counter[int]:
    """Count the decisions about a document by project; without any, its stored predictions."""
    for table in (decisions, suggestions):
        runs = connection.execute(sa.select(table.c.run).where(table.c.document == number))
        found = [project_of_run[run] for run in runs.scalars() if run in project_of_run]
        if found:
            return Counter(found)
    return Counter()


def _split(connection: Connection, number: int, project: int, runs: list[str]) -> None:
    """Copy a document into another project, and move the decisions of its runs to the copy."""
    query = select_all_documents().where(documents.c.number == number)
    row = dict(connection.execute(query).mappings().one())
    del row["number"]
    insert = documents.insert().values({**row, "project": project})
    copy = connection.execute(insert.returning(documents.c.number)).scalar_one()
    for table in (decisions, suggestions):
        own = (table.c.document == number) & table.c.run.in_(runs)
        connection.execute(table.update().where(own).values(document=copy))

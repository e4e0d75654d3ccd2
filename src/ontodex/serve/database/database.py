"""The database of documents, suggestions and decisions. No row is ever removed.

SQLite in a file, or PostgreSQL by URL. A call returns when its transaction is on the disk, so an
acknowledged decision survives a kill or a power cut (SQLite: WAL with synchronous=FULL).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from ontodex.errors import ConfigError
from ontodex.serve.database.connection import (
    begin_write,
    check_exists,
    connect,
    get_reason,
    hide_password,
)
from ontodex.serve.database.projects import Projects
from ontodex.serve.database.quarantine import Quarantine
from ontodex.serve.database.queue import DocumentQueue
from ontodex.serve.database.stored_rows import (
    DamagedRowError,
    decode_answer,
    find_damage,
)
from ontodex.serve.database.tables import (
    DELETED,
    FORMAT,
    ConflictError,
    NewDecision,
    QueueFilter,
    Row,
    State,
    UnknownRowError,
    create_tables,
    decisions,
    decisions_are_of,
    documents,
    fetch_document,
    get_time,
    insert_decision,
    insert_documents,
    insert_labels,
    move_decisions,
    select_decisions,
    suggestions,
    undos,
)
from ontodex.types import Doc


class Database:
    """Documents and decisions; every method is one transaction."""

    def __init__(self, engine: Engine, id_: str) -> None:
        self._engine = engine
        self.quarantine = Quarantine(engine)
        self.queue = DocumentQueue(engine, self.quarantine)
        self.projects = Projects(engine)
        self.id = id_  # names this database, because a run may learn from several

    @classmethod
    def open(cls, location: str | Path, *, create: bool = True) -> Database:
        """Open the database of a file or URL. A missing one is created if `create` is true."""
        location = str(location)
        engine = connect(location)
        if not create:
            check_exists(engine.url)
        try:
            facts = create_tables(engine)
        except sa.exc.DBAPIError as error:
            engine.dispose()
            raise ConfigError(
                f"--database {hide_password(location)} cannot be opened ({get_reason(error)})",
                hint="name a file, or a URL such as postgresql://user@host/name",
            ) from error
        if facts["format"] != FORMAT:
            engine.dispose()
            raise ConfigError(
                f"--database {hide_password(location)} has format {facts['format']}; "
                f"this version reads format {FORMAT}"
            )
        database = cls(engine, facts["id"])
        database.quarantine.recheck()
        return database

    def close(self) -> None:
        self._engine.dispose()

    def is_alive(self) -> bool:
        """Return whether the database answers."""
        try:
            with self._begin_read() as connection:
                connection.execute(sa.select(1))
        except sa.exc.DBAPIError:
            return False
        return True

    def _begin_read(self) -> AbstractContextManager[Connection]:
        return self._engine.begin()

    def _begin_write(self) -> AbstractContextManager[Connection]:
        return begin_write(self._engine)

    def add_documents(
        self,
        docs: Sequence[Doc],
        *,
        batch: str,
        user: str,
        run: str | None = None,
        project: int | None = None,
    ) -> list[int]:
        """Add documents at the end of the queue and return their numbers.

        Their labels, which are concepts of `run`, become decisions marked as imported.
        """
        with self._begin_write() as connection:
            numbers = insert_documents(connection, docs, batch=batch, user=user, project=project)
            by_number = dict(zip(numbers, docs, strict=True))
            insert_labels(connection, by_number, run=run, user=user, is_imported=True)
            return numbers

    def get_document(self, number: int) -> Row:
        """Return one document with its text."""
        with self._set_aside_damaged(), self._begin_read() as connection:
            return fetch_document(connection, number)

    @contextmanager
    def _set_aside_damaged(self) -> Iterator[None]:
        """Set a damaged document aside that the block finds, and raise its error."""
        try:
            yield
        except DamagedRowError as error:
            if not error.is_set_aside:
                self.quarantine.set_aside({error.number: error.reason})
            raise

    def delete_document(self, number: int, *, user: str) -> None:
        """Take a document out of the queue; `set_state` restores it."""
        with self._begin_write() as connection:
            fetch_document(connection, number)
            is_meant = documents.c.number == number
            change = {"state": DELETED, "done_at": get_time(), "done_by": user}
            connection.execute(documents.update().where(is_meant).values(change))

    def set_state(self, number: int, state: State, *, user: str) -> Row:
        """Mark a document as done or open, and return it. A deleted one is restored."""
        is_done = state == "done"
        change = {
            "state": state,
            "done_at": get_time() if is_done else None,
            "done_by": user if is_done else None,
        }
        with self._set_aside_damaged(), self._begin_write() as connection:
            is_meant = documents.c.number == number
            is_deleted = is_meant & (documents.c.state == DELETED)
            connection.execute(documents.update().where(is_deleted).values(state="open"))
            row = fetch_document(connection, number)
            connection.execute(documents.update().where(is_meant).values(change))
            return {**row, **change}

    def store_suggestions(
        self,
        number: int,
        run: str,
        state_key: str,
        answer: Mapping[str, Any],
        corrections: float | None = None,
    ) -> None:
        """Store the prediction of a run for a document in place of an earlier one."""
        row: dict[str, Any] = {"state_key": state_key, "time": get_time()}
        row |= {"answer": json.dumps(answer), "corrections": corrections}
        is_same = (suggestions.c.document == number) & (suggestions.c.run == run)
        # Another request may store the same answer at the same time.
        with suppress(sa.exc.IntegrityError), self._begin_write() as connection:
            if not connection.execute(suggestions.update().where(is_same).values(row)).rowcount:
                connection.execute(suggestions.insert().values(document=number, run=run, **row))

    def get_suggestions(self, number: int, run: str, state_key: str) -> dict[str, Any] | None:
        """Return the stored prediction of the run in this state; None if there is none."""
        query = sa.select(suggestions.c.answer).where(
            suggestions.c.document == number,
            suggestions.c.run == run,
            suggestions.c.state_key == state_key,
        )
        with self._begin_read() as connection:
            stored = connection.execute(query).scalar()
        return decode_answer(stored)

    def write_decisions(self, new: Sequence[NewDecision], *, user: str) -> list[Row]:
        """Write all decisions or none. One whose request id was used before is only returned."""
        try:
            return self._write_decisions(new, user)
        except sa.exc.IntegrityError:  # another writer used the same request id just now
            return self._write_decisions(new, user)

    def _write_decisions(self, new: Sequence[NewDecision], user: str) -> list[Row]:
        with self._set_aside_damaged(), self._begin_write() as connection:
            ids = [insert_decision(connection, decision, user) for decision in new]
            query = select_decisions().where(decisions.c.id.in_(ids))
            by_id = {row["id"]: dict(row) for row in connection.execute(query).mappings()}
            return [by_id[id_] for id_ in ids]

    def undo_decision(self, id_: int, *, user: str) -> Row:
        """Undo a decision; the log keeps both."""
        query = select_decisions().where(decisions.c.id == id_)
        conflict = ConflictError(f"decision {id_} was undone before")
        try:
            with self._begin_write() as connection:
                row = connection.execute(query).mappings().first()
                if row is None:
                    raise UnknownRowError(f"there is no decision {id_}")
                if row["undone"]:
                    raise conflict
                if reason := find_damage(row):
                    raise ConflictError(f"decision {id_} is damaged: {reason}")
                connection.execute(undos.insert().values(decision=id_, user=user, time=get_time()))
                return {**row, "undone": True}
        except sa.exc.IntegrityError:
            raise conflict from None

    def list_decisions(
        self,
        *,
        document: int | None = None,
        user: str | None = None,
        project: int | None = None,
        after: int = 0,
        limit: int,
    ) -> list[Row]:
        """Return the log by id, from after `after`, undone decisions included."""
        is_deleted = sa.select(documents.c.number).where(documents.c.state == DELETED)
        query = select_decisions().where(decisions.c.document.not_in(is_deleted))
        if document is not None:
            query = query.where(decisions.c.document == document)
        if user is not None:
            query = query.where(decisions.c.user == user)
        if project is not None:
            query = query.where(decisions_are_of(project))
        found: list[Row] = []
        with self._begin_read() as connection:
            while len(found) < limit:
                page = query.where(decisions.c.id > after).order_by(decisions.c.id).limit(limit)
                rows = connection.execute(page).mappings().all()
                found += self.quarantine.select_readable(rows)
                if len(rows) < limit:
                    break
                after = rows[-1]["id"]
        return found[:limit]

    def count_decisions(self) -> int:
        with self._begin_read() as connection:
            return connection.execute(sa.select(sa.func.count(decisions.c.id))).scalar_one()

    def find_verdicts(self, numbers: Sequence[int]) -> dict[int, list[Row]]:
        """Return for each document its valid decisions: the last about each label, if not
        undone."""
        verdicts: dict[int, dict[str, Row]] = {number: {} for number in numbers}
        for row in self._read_valid(decisions.c.document.in_(numbers)):
            by_label = verdicts[row["document"]]
            by_label.pop(row["label"], None)  # the order is that of the last decisions
            by_label[row["label"]] = row
        return {number: list(by_label.values()) for number, by_label in verdicts.items()}

    def replace_labels(self, successors: Mapping[str, str], *, project: int) -> int:
        """Move valid decisions of a project to the successors of their labels; return how many.

        The log keeps both: the old decision is undone, and a new one of the same user follows. A
        second call finds nothing to move.
        """
        with self._begin_write() as connection:
            query = select_decisions().where(undos.c.decision.is_(None), decisions_are_of(project))
            rows = connection.execute(query.order_by(decisions.c.id)).mappings().all()
            readable = self.quarantine.select_readable(rows)
            return move_decisions(connection, readable, successors)

    def count_labels(self, labels: Collection[str], *, project: int) -> int:
        """Return how many valid decisions of a project are about one of these labels."""
        query = select_decisions().where(undos.c.decision.is_(None), decisions_are_of(project))
        with self._begin_read() as connection:
            rows = connection.execute(query).mappings()
            return sum(row["label"] in labels for row in rows)

    def find_verdicts_of_people(
        self, *, document: int | None = None, project: int | None = None
    ) -> dict[int, dict[str, dict[str, Row]]]:
        """Return document -> user -> label -> the user's own last decision, if not undone."""
        found: dict[int, dict[str, dict[str, Row]]] = {}
        if document is not None:
            rows = self._read_valid(decisions.c.document == document)
        else:
            numbers = QueueFilter(project=project).apply(sa.select(documents.c.number))
            rows = self._read_valid(decisions.c.document.in_(numbers))
        for row in rows:
            people = found.setdefault(row["document"], {})
            people.setdefault(row["user"], {})[row["label"]] = row
        return found

    def _read_valid(self, condition: sa.ColumnElement[bool]) -> list[Row]:
        """Return the decisions of a condition that were not undone, by id."""
        query = select_decisions().where(condition, undos.c.decision.is_(None))
        with self._begin_read() as connection:
            rows = connection.execute(query.order_by(decisions.c.id)).mappings()
            return self.quarantine.select_readable(rows)

    def add_indexed_documents(
        self, docs: Sequence[Doc], *, run: str, batch: str, user: str, project: int | None = None
    ) -> None:
        """Add documents with their labels as decided and done, in one transaction."""
        with self._begin_write() as connection:
            numbers = insert_documents(connection, docs, batch=batch, user=user, project=project)
            by_number = dict(zip(numbers, docs, strict=True))
            insert_labels(connection, by_number, run=run, user=user, is_imported=False)
            done = {"state": "done", "done_at": get_time(), "done_by": user}
            is_new = documents.c.number.in_(numbers)
            connection.execute(documents.update().where(is_new).values(done))

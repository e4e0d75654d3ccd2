"""Documents that are set aside because they cannot be shown, and decisions that are left out.

A document is set aside by its state in the database, so that no query finds it. Every start checks
it again: it may have been repaired, or a later version may be able to show it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from ontodex.serve.database.connection import begin_write, stream_rows
from ontodex.serve.database.stored_rows import DamagedRowError, decode_document, find_damage
from ontodex.serve.database.tables import QUARANTINED, Row, documents, select_all_documents

logger = logging.getLogger(__name__)

MAX_DECISIONS = 1000  # damaged decisions that are listed


class Quarantine:
    """The damaged rows of a database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.n_documents = 0  # at the last count; another replica may have set more aside
        self.decisions: dict[int, str] = {}  # id: reason, of those seen since the start

    def recheck(self) -> None:
        """Release the documents that can be shown again, and count the others."""
        with begin_write(self._engine) as connection:
            states = {
                row["number"]: "open" if row["done_at"] is None else "done"
                for row in stream_rows(connection, _select_quarantined())
                if not _find_damage(row)
            }
            for number, state in states.items():
                _set_state(connection, [number], state)
                logger.warning("released document %d: it can be shown again", number)
            self._count(connection)

    def set_aside(self, damaged: Mapping[int, str]) -> None:
        """Take damaged documents out of the queue; the reasons go to the log."""
        if not damaged:
            return
        with begin_write(self._engine) as connection:
            new = _set_state(connection, list(damaged), QUARANTINED)
            self._count(connection)
        for number in new:
            fields = {"document": number, "reason": damaged[number]}
            logger.warning("quarantined a document", extra={"fields": fields})

    def count_documents(self) -> int:
        """Return how many documents are set aside, by all replicas."""
        with self._engine.begin() as connection:
            self._count(connection)
        return self.n_documents

    def list_documents(self, *, after: int, limit: int) -> list[dict[str, Any]]:
        """Return number, id, batch and reason of the documents that were set aside."""
        query = _select_quarantined().where(documents.c.number > after).limit(limit)
        with self._engine.begin() as connection:
            return [
                {
                    "number": row["number"],
                    "id": _to_text(row["id"]),
                    "batch": _to_text(row["batch"]),
                    "reason": _find_reason(row),
                }
                for row in stream_rows(connection, query)
            ]

    def select_readable(self, rows: Iterable[Any]) -> list[Row]:
        """Return the decisions that can be shown; the others are logged once and left out."""
        found: list[Row] = []
        for row in rows:
            if not (reason := find_damage(row)):
                found.append(dict(row))
            elif row["id"] not in self.decisions and len(self.decisions) < MAX_DECISIONS:
                self.decisions[row["id"]] = reason
                fields = {"decision": row["id"], "reason": reason}
                logger.warning("left out a damaged decision", extra={"fields": fields})
        return found

    def _count(self, connection: Connection) -> None:
        query = sa.select(sa.func.count()).where(documents.c.state == QUARANTINED)
        self.n_documents = int(connection.execute(query).scalar_one())


def _select_quarantined() -> sa.Select[Any]:
    is_set_aside = documents.c.state == QUARANTINED
    return select_all_documents().where(is_set_aside).order_by(documents.c.number)


def _set_state(connection: Connection, numbers: list[int], state: str) -> list[int]:
    """Set the state of documents, and return the numbers of those that had another one."""
    changed: list[int] = []
    for start in range(0, len(numbers), 500):  # databases limit the parameters of a query
        is_meant = documents.c.number.in_(numbers[start : start + 500])
        update = documents.update().where(is_meant, documents.c.state != state).values(state=state)
        changed += connection.execute(update.returning(documents.c.number)).scalars()
    return changed


def _find_reason(row: Any) -> str:
    return _find_damage(row) or "can be shown again; the next start of the service releases it"


def _find_damage(row: Any) -> str:
    """Return why a document cannot be shown; "" if it can."""
    try:
        decode_document(row)
    except DamagedRowError as error:
        return error.reason
    return ""


def _to_text(value: object) -> str:
    return (value if isinstance(value, str) else repr(value))[:500]

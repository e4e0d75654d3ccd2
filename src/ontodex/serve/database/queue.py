"""The queue: documents in an order, with their counts. Damaged ones are set aside on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from ontodex.serve.database.connection import stream_rows
from ontodex.serve.database.quarantine import Quarantine
from ontodex.serve.database.stored_rows import (
    DamagedRowError,
    decode_document,
    decode_head,
    measure_row,
)
from ontodex.serve.database.tables import (
    QueueFilter,
    Row,
    documents,
    select_documents,
    select_heads,
    suggestions,
)

MAX_BATCHES = 100  # names of batches that are listed
MAX_NUMBER = 2**63 - 1
PAGE_SIZE = 200  # documents read at a time while the queue is checked
PAGE_TEXT = 10_000_000  # characters of JSON, after which a page ends
PAUSE_SECONDS = 0.01  # between two pages, to leave time to requests


class DocumentQueue:
    """Documents of the database in the order in which they are read or decided."""

    def __init__(self, engine: Engine, quarantine: Quarantine) -> None:
        self._engine = engine
        self._quarantine = quarantine

    def list_by_number(
        self,
        where: QueueFilter | None = None,
        *,
        after: int = 0,
        limit: int,
        only_heads: bool = False,
    ) -> list[Row]:
        """Return documents by number, those after `after`.

        There are fewer than `limit` where they are long, but one if there is any. With `only_heads`
        they come without the rest of long texts, and there are as many as there can be.
        """
        number, select = documents.c.number, select_heads if only_heads else select_documents
        query = select(where or QueueFilter())

        def select_page(last: int) -> sa.Select[Any]:
            return query.where(number > last).order_by(number)

        return self._read(select_page, after, limit, only_heads=only_heads)

    def list_uncertain(
        self,
        where: QueueFilter,
        run: str,
        state_key: str,
        *,
        after: int | None,
        limit: int,
        only_heads: bool = False,
    ) -> list[Row]:
        """Return documents by falling number of expected corrections, from after one of them.

        Documents that the run in this state has not predicted come last, by number. `limit` and
        `only_heads` are those of `list_by_number`.
        """
        number, value = documents.c.number, sa.func.coalesce(suggestions.c.corrections, -1.0)
        is_stored = (
            (suggestions.c.document == number)
            & (suggestions.c.run == run)
            & (suggestions.c.state_key == state_key)
        )
        query = select_heads(where) if only_heads else select_documents(where)
        query = query.add_columns(suggestions.c.corrections.label("corrections"))
        query = query.select_from(documents.outerjoin(suggestions, is_stored))

        def select_page(last: int) -> sa.Select[Any]:
            page = query.order_by(value.desc(), number)
            if not last:
                return page
            stored = sa.select(value).select_from(documents.outerjoin(suggestions, is_stored))
            bound = stored.where(number == last).correlate(None).scalar_subquery()
            return page.where((value < bound) | ((value == bound) & (number > last)))

        return self._read(select_page, after or 0, limit, only_heads=only_heads)

    def list_unpredicted(
        self, where: QueueFilter, run: str, state_key: str, *, limit: int
    ) -> tuple[list[Row], int]:
        """Return documents that the run in this state has not predicted, and how many there are.

        There are fewer than `limit` where they are long, but one if there is any.
        """
        stored = sa.select(suggestions.c.document).where(
            suggestions.c.run == run,
            suggestions.c.state_key == state_key,
            suggestions.c.corrections.is_not(None),
        )
        is_new, number = documents.c.number.not_in(stored), documents.c.number
        count = where.apply(sa.select(sa.func.count(number))).where(is_new)
        with self._engine.begin() as connection:
            total = int(connection.execute(count).scalar_one())

        def select_page(last: int) -> sa.Select[Any]:
            return select_documents(where).where(is_new, number > last).order_by(number)

        return self._read(select_page, 0, limit), total

    def _read(
        self,
        select_page: Callable[[int], sa.Select[Any]],
        start: int,
        limit: int,
        *,
        only_heads: bool = False,
    ) -> list[Row]:
        """Return up to `limit` documents, fewer if they have more text than a page.

        Damaged ones are set aside and replaced by the next.
        """
        decode = decode_head if only_heads else decode_document
        found: list[Row] = []
        damaged: dict[int, str] = {}
        n_characters = 0
        with self._engine.begin() as connection:
            is_more = True
            while is_more and len(found) < limit:
                size = max(limit - len(found), PAGE_SIZE) if damaged else limit - len(found)
                n_rows = 0
                for row in stream_rows(connection, select_page(start).limit(size)):
                    n_rows, start = n_rows + 1, row["number"]
                    try:
                        found.append(decode(row))
                    except DamagedRowError as error:
                        damaged[error.number] = error.reason
                        continue
                    n_characters += measure_row(row)
                    if len(found) == limit or n_characters > PAGE_TEXT:
                        n_rows = 0
                        break
                is_more = n_rows == size
        self._quarantine.set_aside(damaged)
        return found

    def get_previous(self, where: QueueFilter, *, before: int | None) -> Row | None:
        """Return the document before a number; without a number the last one."""
        number, query = documents.c.number, select_documents(where)

        def select_page(first: int) -> sa.Select[Any]:
            return query.where(number < first).order_by(number.desc())

        found = self._read(select_page, MAX_NUMBER if before is None else before, 1)
        return found[0] if found else None

    def check_all(self, should_stop: Callable[[], bool]) -> None:
        """Read every document once, so that all damaged ones are known."""
        last = 0
        while not should_stop():
            rows = self.list_by_number(after=last, limit=PAGE_SIZE)
            if not rows:
                return
            last = rows[-1]["number"]
            time.sleep(PAUSE_SECONDS)

    def count(self, where: QueueFilter | None = None) -> dict[str, int]:
        """Return the numbers of open and of done documents."""
        columns = documents.c.state, sa.func.count().label("n")
        query = (where or QueueFilter()).apply(sa.select(*columns).group_by(documents.c.state))
        with self._engine.begin() as connection:
            counts = {row.state: int(row.n) for row in connection.execute(query)}
        return {"n_open": counts.get("open", 0), "n_done": counts.get("done", 0)}

    def list_batches(self, project: int | None = None) -> list[Row]:
        """Return the batches with the counts of their documents, the newest first."""
        last = sa.func.max(documents.c.number)
        is_done = sa.func.count().filter(documents.c.state == "done").label("n_done")
        columns = documents.c.batch, sa.func.count().label("n"), is_done
        query = QueueFilter(project=project).apply(sa.select(*columns))
        query = query.group_by(documents.c.batch).order_by(last.desc()).limit(MAX_BATCHES)
        with self._engine.begin() as connection:
            return [
                {"batch": batch, "n_open": n - n_done, "n_done": n_done}
                for batch, n, n_done in connection.execute(query)
            ]

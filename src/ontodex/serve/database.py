"""Documents, what was suggested for them, and what people decided: kept, never deleted.

    documents    the queue            suggestions  the last answer of each run for a document
    decisions    a log, append only   undos        which of them were taken back, by whom, when

SQLite in a file, or PostgreSQL by URL. A call returns when its transaction is on the disk, so what
was acknowledged survives a kill or a power cut (SQLite: WAL with synchronous=FULL).
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url

from ontodex.errors import ConfigError, OntodexError
from ontodex.read.characters import repaired
from ontodex.types import Doc

FORMAT = "1"
State = Literal["open", "done"]
Row = Mapping[str, Any]

_tables = sa.MetaData()
_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite counts up INTEGER only
about = sa.Table(
    "about",
    _tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
documents = sa.Table(
    "documents",
    _tables,
    sa.Column("number", _number, primary_key=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("fields", sa.Text, nullable=False),
    sa.Column("keywords", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("batch", sa.Text, nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False, index=True),
    sa.Column("added", sa.Text, nullable=False),
    sa.Column("added_by", sa.Text, nullable=False),
    sa.Column("done", sa.Text),
    sa.Column("done_by", sa.Text),
    sqlite_autoincrement=True,
)
suggestions = sa.Table(
    "suggestions",
    _tables,
    sa.Column("document", _number, sa.ForeignKey("documents.number"), primary_key=True),
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, nullable=False),  # which state of the run gave the answer
    sa.Column("made", sa.Text, nullable=False),
    sa.Column("answer", sa.Text, nullable=False),  # {"ranked": [[label, probability], ...], ...}
)
decisions = sa.Table(
    "decisions",
    _tables,
    sa.Column("id", _number, primary_key=True),
    sa.Column("document", _number, sa.ForeignKey("documents.number"), nullable=False, index=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("who", sa.Text, nullable=False, index=True),
    sa.Column("when", sa.Text, nullable=False),
    sa.Column("run", sa.Text),
    sa.Column("probability", sa.Float),
    sa.Column("request", sa.Text, unique=True),
    sqlite_autoincrement=True,
)
undos = sa.Table(
    "undos",
    _tables,
    sa.Column("decision", _number, sa.ForeignKey("decisions.id"), primary_key=True),
    sa.Column("who", sa.Text, nullable=False),
    sa.Column("when", sa.Text, nullable=False),
)
_decided = decisions.outerjoin(undos, undos.c.decision == decisions.c.id)
_decision_columns = (*decisions.c, undos.c.decision.is_not(None).label("undone"))


class UnknownRowError(OntodexError):
    """A document or a decision that is not there."""


class ConflictError(OntodexError):
    """Something that was done before, differently."""


@dataclass(frozen=True)
class Judgement:
    """A decision as it is asked for."""

    document: int
    label: str
    verdict: str
    run: str | None = None
    request: str | None = None


class Database:
    """All that people did, in one database; every method is one transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @classmethod
    def open(cls, where: str, *, make: bool = True) -> Database:
        """The database of a URL or a file, made where there is none unless `make` is false."""
        engine = _engine(where)
        if not make:
            _check_there(engine.url)
        try:
            with engine.execution_options(writes=True).begin() as connection:
                _tables.create_all(connection)
                found = {row.key: row.value for row in connection.execute(sa.select(about))}
                if "format" not in found:
                    fresh = {"format": FORMAT, "id": uuid.uuid4().hex}
                    connection.execute(
                        about.insert(), [{"key": k, "value": v} for k, v in fresh.items()]
                    )
                    found = fresh
        except sa.exc.DBAPIError as error:
            engine.dispose()
            raise ConfigError(
                f"--database {_shown(where)} cannot be opened ({_reason(error)})",
                hint="name a file, or a URL such as postgresql://user@host/name",
            ) from error
        if found["format"] != FORMAT:
            engine.dispose()
            raise ConfigError(
                f"--database {_shown(where)} has format {found['format']}; this reads {FORMAT}"
            )
        database = cls(engine)
        database.id = found["id"]
        return database

    id: str  # of this database, in case a run learns from several

    def close(self) -> None:
        self._engine.dispose()

    def is_alive(self) -> bool:
        """Whether it answers now."""
        try:
            with self._reading() as connection:
                connection.execute(sa.select(1))
        except sa.exc.DBAPIError:
            return False
        return True

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Connection]:
        writer = self._engine.connect().execution_options(writes=True)
        with writer as connection, connection.begin():
            yield connection

    # ------------------------------------------------------------------------------- the queue

    def add_documents(self, docs: Sequence[Doc], *, batch: str, who: str) -> list[int]:
        """Put documents at the end of the queue; their numbers."""
        with self._writing() as connection:
            return _insert_documents(connection, docs, batch=batch, who=who)

    def document(self, number: int) -> Row:
        """One document, with its text."""
        with self._reading() as connection:
            return _document(connection, number)

    def documents(
        self, *, state: State | None, batch: str | None, after: int, limit: int
    ) -> list[Row]:
        """Documents by number, those after `after`."""
        query = _in(sa.select(documents), state, batch)
        query = query.where(documents.c.number > after).order_by(documents.c.number).limit(limit)
        with self._reading() as connection:
            return [_opened(row) for row in connection.execute(query).mappings()]

    def next_document(self, *, batch: str | None, after: int) -> Row | None:
        """The next open document; after the last one, the first again."""
        for start in (after, 0):
            found = self.documents(state="open", batch=batch, after=start, limit=1)
            if found:
                return found[0]
        return None

    def previous_document(self, *, batch: str | None, before: int | None) -> Row | None:
        """The document before this number, whatever its state; without a number the last one."""
        query = _in(sa.select(documents), None, batch).order_by(documents.c.number.desc()).limit(1)
        if before is not None:
            query = query.where(documents.c.number < before)
        with self._reading() as connection:
            found = connection.execute(query).mappings().first()
        return None if found is None else _opened(found)

    def counts(self, batch: str | None = None) -> dict[str, int]:
        """How many documents are open, and how many done."""
        columns = documents.c.state, sa.func.count().label("n")
        query = _in(sa.select(*columns).group_by(documents.c.state), None, batch)
        with self._reading() as connection:
            found = {row.state: int(row.n) for row in connection.execute(query)}
        return {"open": found.get("open", 0), "done": found.get("done", 0)}

    def batches(self) -> list[str]:
        """The names of the batches, the newest first."""
        last = sa.func.max(documents.c.number)
        query = sa.select(documents.c.batch).group_by(documents.c.batch).order_by(last.desc())
        with self._reading() as connection:
            return list(connection.execute(query.limit(100)).scalars())

    def set_state(self, number: int, state: State, *, who: str) -> Row:
        """The document, put aside as done or taken up again."""
        is_done = state == "done"
        change = {
            "state": state,
            "done": now() if is_done else None,
            "done_by": who if is_done else None,
        }
        with self._writing() as connection:
            connection.execute(
                documents.update().where(documents.c.number == number).values(change)
            )
            return _document(connection, number)

    # ----------------------------------------------------------------------------- suggestions

    def keep_suggestions(self, number: int, run: str, key: str, answer: Mapping[str, Any]) -> None:
        """Remember what a run said about a document, instead of what it said before."""
        row = {"key": key, "made": now(), "answer": json.dumps(answer)}
        here = (suggestions.c.document == number) & (suggestions.c.run == run)
        # Another request may keep the same answer at the same time.
        with suppress(sa.exc.IntegrityError), self._writing() as connection:
            if not connection.execute(suggestions.update().where(here).values(row)).rowcount:
                connection.execute(suggestions.insert().values(document=number, run=run, **row))

    def suggestions(self, number: int, run: str, key: str) -> dict[str, Any] | None:
        """What the run in this very state said; None where it was not asked."""
        query = sa.select(suggestions.c.answer).where(
            suggestions.c.document == number, suggestions.c.run == run, suggestions.c.key == key
        )
        with self._reading() as connection:
            found = connection.execute(query).scalar()
        return None if found is None else json.loads(found)

    # ------------------------------------------------------------------------------- decisions

    def decide(self, judgements: Sequence[Judgement], *, who: str) -> list[Row]:
        """Write them all, or none; one whose `request` was written before is only looked up."""
        try:
            return self._decide(judgements, who)
        except sa.exc.IntegrityError:  # another writer used the same request just now
            return self._decide(judgements, who)

    def _decide(self, judgements: Sequence[Judgement], who: str) -> list[Row]:
        with self._writing() as connection:
            ids = [_write_decision(connection, judgement, who) for judgement in judgements]
            query = sa.select(*_decision_columns).select_from(_decided)
            rows = connection.execute(query.where(decisions.c.id.in_(ids))).mappings()
            by_id = {row["id"]: dict(row) for row in rows}
            return [by_id[id_] for id_ in ids]

    def undo(self, decision: int, *, who: str) -> Row:
        """Take a decision back; the log keeps both."""
        query = sa.select(*_decision_columns).select_from(_decided)
        query = query.where(decisions.c.id == decision)
        twice = ConflictError(f"decision {decision} was undone before")
        try:
            with self._writing() as connection:
                row = connection.execute(query).mappings().first()
                if row is None:
                    raise UnknownRowError(f"there is no decision {decision}")
                if row["undone"]:
                    raise twice
                connection.execute(undos.insert().values(decision=decision, who=who, when=now()))
                return {**row, "undone": True}
        except sa.exc.IntegrityError:
            raise twice from None

    def decisions(
        self, *, document: int | None = None, who: str | None = None, after: int = 0, limit: int
    ) -> list[Row]:
        """The log by id, from after `after`, undone ones included."""
        query = sa.select(*_decision_columns).select_from(_decided).where(decisions.c.id > after)
        if document is not None:
            query = query.where(decisions.c.document == document)
        if who is not None:
            query = query.where(decisions.c.who == who)
        with self._reading() as connection:
            found = connection.execute(query.order_by(decisions.c.id).limit(limit)).mappings()
            return [dict(row) for row in found]

    def n_decisions(self) -> int:
        with self._reading() as connection:
            return connection.execute(sa.select(sa.func.count(decisions.c.id))).scalar_one()

    def verdicts(self, numbers: Sequence[int]) -> dict[int, list[Row]]:
        """For each document the decisions that count: the last about each label, if not undone."""
        query = sa.select(*_decision_columns).select_from(_decided)
        query = query.where(decisions.c.document.in_(numbers), undos.c.decision.is_(None))
        standing: dict[int, dict[str, Row]] = {number: {} for number in numbers}
        with self._reading() as connection:
            for row in connection.execute(query.order_by(decisions.c.id)).mappings():
                labels = standing[row["document"]]
                labels.pop(row["label"], None)  # the order is that of the last decisions
                labels[row["label"]] = dict(row)
        return {number: list(labels.values()) for number, labels in standing.items()}

    def learn(self, docs: Sequence[Doc], *, run: str, batch: str, who: str) -> None:
        """Documents that come with their labels: decided and done, in one transaction."""
        with self._writing() as connection:
            numbers = _insert_documents(connection, docs, batch=batch, who=who)
            for number, doc in zip(numbers, docs, strict=True):
                for label in doc.labels:
                    _write_decision(connection, Judgement(number, label, "add", run), who)
            done = {"state": "done", "done": now(), "done_by": who}
            here = documents.c.number.in_(numbers)
            connection.execute(documents.update().where(here).values(done))


def now() -> str:
    """The time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def doc_of(row: Row) -> Doc:
    """The document of a row, as systems rank it."""
    return Doc(row["id"], row["fields"], tuple(row["keywords"]), (), row["metadata"])


def _in(query: sa.Select[Any], state: State | None, batch: str | None) -> sa.Select[Any]:
    if state is not None:
        query = query.where(documents.c.state == state)
    return query if batch is None else query.where(documents.c.batch == batch)


def _insert_documents(
    connection: Connection, docs: Sequence[Doc], *, batch: str, who: str
) -> list[int]:
    rows = [
        {
            "id": doc.id,
            "fields": json.dumps(dict(doc.fields)),
            "keywords": json.dumps(list(doc.keywords)),
            "metadata": json.dumps(dict(doc.metadata)),
            "batch": batch,
            "state": "open",
            "added": now(),
            "added_by": who,
        }
        for doc in docs
    ]
    insert = documents.insert().returning(documents.c.number, sort_by_parameter_order=True)
    return list(connection.execute(insert, rows).scalars())


def _document(connection: Connection, number: int) -> Row:
    row = connection.execute(sa.select(documents).where(documents.c.number == number))
    found = row.mappings().first()
    if found is None:
        raise UnknownRowError(f"there is no document {number}")
    return _opened(found)


def _opened(row: Any) -> Row:
    opened = {name: _value(row[name]) for name in ("fields", "keywords", "metadata")}
    return {**row, **opened}


def _value(written: str) -> Any:
    """What a column of JSON holds. Half a surrogate pair, which services once let in, is repaired:
    no answer and no file can have it."""
    value = json.loads(written)
    if "\\ud" not in written.lower():
        return value
    return json.loads(repaired(json.dumps(value, ensure_ascii=False)))


def _write_decision(connection: Connection, judgement: Judgement, who: str) -> int:
    wanted = {
        "document": judgement.document,
        "label": judgement.label,
        "verdict": judgement.verdict,
        "run": judgement.run,
        "who": who,
    }
    if judgement.request is not None:
        same = sa.select(decisions).where(decisions.c.request == judgement.request)
        if (row := connection.execute(same).mappings().first()) is not None:
            if any(row[key] != value for key, value in wanted.items()):
                raise ConflictError(f"the request {judgement.request!r} was another decision")
            return int(row["id"])
    here = sa.select(documents.c.number).where(documents.c.number == judgement.document)
    if connection.execute(here).first() is None:
        raise UnknownRowError(f"there is no document {judgement.document}")
    insert = decisions.insert().values(
        when=now(),
        probability=_probability(connection, judgement),
        request=judgement.request,
        **wanted,
    )
    return int(connection.execute(insert.returning(decisions.c.id)).scalar_one())


def _probability(connection: Connection, judgement: Judgement) -> float | None:
    """What the run had said about the label; None where it had not."""
    if judgement.run is None:
        return None
    query = sa.select(suggestions.c.answer).where(
        suggestions.c.document == judgement.document, suggestions.c.run == judgement.run
    )
    found = connection.execute(query).scalar()
    return None if found is None else dict(json.loads(found)["ranked"]).get(judgement.label)


# ------------------------------------------------------------------------------------ connecting


def _engine(where: str) -> Engine:
    """An engine whose transactions are on the disk when they are over."""
    try:
        url = make_url(where) if "://" in where else sa.URL.create("sqlite", database=where)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() == "sqlite":
            return _sqlite(url)
        options = {"options": "-c synchronous_commit=on"}
        return sa.create_engine(url, pool_pre_ping=True, connect_args=options)
    except (sa.exc.ArgumentError, ImportError) as error:
        raise ConfigError(
            f"--database {_shown(where)} is not a file or a known URL ({error})",
            hint="name a file, or a URL such as postgresql://user@host/name",
        ) from error


def _sqlite(url: sa.URL) -> Engine:
    engine = sa.create_engine(url, connect_args={"timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def settle(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions begin below, not behind our back
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: one that began to read could not wait for it.
        writes = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _check_there(url: sa.URL) -> None:
    """Refuse an SQLite file that does not exist: connecting would make it."""
    file = (url.database or "").removeprefix("file:")
    if url.get_backend_name() == "sqlite" and not Path(file).exists():
        raise ConfigError(
            f"--database {file}: there is no such file",
            hint="name the database that `ontodex serve` had",
        )


def _shown(where: str) -> str:
    """The URL without its password."""
    return re.sub(r"://[^@/]*@", "://***@", where)


def _reason(error: sa.exc.DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:200]

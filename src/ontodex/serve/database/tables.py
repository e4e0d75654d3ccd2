"""Tables of the decisions database, and how rows are stored (format 2).

    documents    the queue                 suggestions  the last prediction of each run, by document
    decisions    a log, append only        undos        the decisions that were undone
    imports      the decisions that came with an uploaded document, as its labels
    projects     vocabularies

Format 1 had no projects and no expected corrections; `upgrade_tables` adds them.

Column keys are the names in code; where the stored name differs, it comes first. Stored names
belong to the format and do not change.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from ontodex.errors import ConfigError, OntodexError
from ontodex.serve.database.connection import begin_alone
from ontodex.serve.database.stored_rows import HEAD, DamagedRowError, decode_answer, decode_document
from ontodex.serve.http.json_limits import check_document
from ontodex.types import Doc

FORMAT = "2"
INSERTED, INSERTED_TEXT = 1000, 5_000_000  # documents, and their characters, of one statement
State = Literal["open", "done"]
Order = Literal["number", "uncertainty"]
# The state of a document that cannot be shown. `done_at` still tells whether it was open or done.
QUARANTINED = "quarantined"
DELETED = "deleted"  # by a user, who may take it back; in no list, count or export
HIDDEN = (QUARANTINED, DELETED)
Row = Mapping[str, Any]

tables = sa.MetaData()
_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # SQLite counts up INTEGER only
about = sa.Table(
    "about",
    tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
projects = sa.Table(
    "projects",
    tables,
    sa.Column("id", _number, primary_key=True),
    sa.Column("vocabulary", sa.Text, nullable=False, unique=True),  # digest of the ontology file
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sqlite_autoincrement=True,
)
documents = sa.Table(
    "documents",
    tables,
    sa.Column("number", _number, primary_key=True),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("fields", sa.Text, nullable=False),
    sa.Column("keywords", sa.Text, nullable=False),
    sa.Column("metadata", sa.Text, nullable=False),
    sa.Column("batch", sa.Text, nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False, index=True),
    sa.Column("added", sa.Text, key="added_at", nullable=False),
    sa.Column("added_by", sa.Text, nullable=False),
    sa.Column("done", sa.Text, key="done_at"),
    sa.Column("done_by", sa.Text),
    sa.Column("project", _number, index=True),
    sqlite_autoincrement=True,
)
_LONG = frozenset({documents.c.fields, documents.c.keywords, documents.c.metadata})
suggestions = sa.Table(
    "suggestions",
    tables,
    sa.Column("document", _number, sa.ForeignKey("documents.number"), primary_key=True),
    sa.Column("run", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, key="state_key", nullable=False),  # the run's state, by its manifest
    sa.Column("made", sa.Text, key="time", nullable=False),
    sa.Column("answer", sa.Text, nullable=False),  # {"ranked": [[label, probability], ...], ...}
    sa.Column("corrections", sa.Float),  # expected number of wrong or missing labels
)
decisions = sa.Table(
    "decisions",
    tables,
    sa.Column("id", _number, primary_key=True),
    sa.Column("document", _number, sa.ForeignKey("documents.number"), nullable=False, index=True),
    sa.Column("label", sa.Text, nullable=False),
    sa.Column("verdict", sa.Text, nullable=False),
    sa.Column("who", sa.Text, key="user", nullable=False, index=True),
    sa.Column("when", sa.Text, key="time", nullable=False),
    sa.Column("run", sa.Text),
    sa.Column("probability", sa.Float),
    sa.Column("request", sa.Text, key="request_id", unique=True),
    sqlite_autoincrement=True,
)
undos = sa.Table(
    "undos",
    tables,
    sa.Column("decision", _number, sa.ForeignKey("decisions.id"), primary_key=True),
    sa.Column("who", sa.Text, key="user", nullable=False),
    sa.Column("when", sa.Text, key="time", nullable=False),
)


# A table of its own: databases of earlier versions get it without a change of their tables.
imports = sa.Table(
    "imports",
    tables,
    sa.Column("decision", _number, sa.ForeignKey("decisions.id"), primary_key=True),
)


class UnknownRowError(OntodexError):
    """A document or a decision that does not exist."""


class ConflictError(OntodexError):
    """A request that contradicts an earlier one."""


@dataclass(frozen=True)
class NewDecision:
    """A decision to be written."""

    document: int
    label: str
    verdict: str
    run: str | None = None
    request_id: str | None = None


def get_time() -> str:
    """Return the time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def build_doc(row: Row) -> Doc:
    """Return the document of a row, as systems rank it."""
    return Doc(row["id"], row["fields"], tuple(row["keywords"]), (), row["metadata"])


def _label_columns(table: sa.Table) -> list[sa.Label[Any]]:
    """Return the columns of a table under their names in code."""
    return [column.label(column.key) for column in table.c]


def select_decisions() -> sa.Select[Any]:
    """Return the query for decisions, each with whether it was undone and was imported."""
    columns = (
        *_label_columns(decisions),
        undos.c.decision.is_not(None).label("undone"),
        imports.c.decision.is_not(None).label("imported"),
    )
    return sa.select(*columns).select_from(
        decisions.outerjoin(undos, undos.c.decision == decisions.c.id).outerjoin(
            imports, imports.c.decision == decisions.c.id
        )
    )


def decisions_are_of(project: int) -> sa.ColumnElement[bool]:
    """Return the condition that decisions are about documents of a project."""
    own = sa.select(documents.c.number).where(documents.c.project == project)
    return decisions.c.document.in_(own)


@dataclass(frozen=True)
class QueueFilter:
    """A choice of documents; None and "" mean any."""

    state: State | None = None
    batch: str | None = None
    project: int | None = None
    text: str = ""

    def apply(self, query: sa.Select[Any]) -> sa.Select[Any]:
        """Return the query with the conditions of this filter."""
        state = documents.c.state
        query = query.where(state.not_in(HIDDEN) if self.state is None else state == self.state)
        if self.batch is not None:
            query = query.where(documents.c.batch == self.batch)
        if self.project is not None:
            query = query.where(documents.c.project == self.project)
        return query.where(_contains(self.text)) if self.text else query


def _contains(text: str) -> sa.ColumnElement[bool]:
    """Return the condition that a document's id, batch or fields contain a text.

    Fields are JSON with escapes, and databases fold the case of ASCII only, so the usual spellings
    of the text are searched for as they are stored.
    """
    spellings = {text, text.lower(), text.upper(), text.capitalize()}
    plain = [documents.c.id, documents.c.batch]
    conditions = [c.icontains(one, autoescape=True) for c in plain for one in spellings]
    escaped = {json.dumps(one)[1:-1] for one in spellings}
    fields = documents.c.fields
    return sa.or_(*conditions, *(fields.icontains(one, autoescape=True) for one in escaped))


def select_documents(where: QueueFilter) -> sa.Select[Any]:
    """Return the query for the documents of a filter."""
    return where.apply(select_all_documents())


def select_heads(where: QueueFilter) -> sa.Select[Any]:
    """Return the query for the documents of a filter without what is long in them."""
    columns = [
        (sa.func.substr(column, 1, HEAD + 1) if column in _LONG else column).label(column.key)
        for column in documents.c
    ]
    return where.apply(sa.select(*columns))


def select_all_documents() -> sa.Select[Any]:
    """Return the query for all documents, those in quarantine included."""
    return sa.select(*_label_columns(documents))


def insert_documents(
    connection: Connection,
    docs: Sequence[Doc],
    *,
    batch: str,
    user: str,
    project: int | None = None,
) -> list[int]:
    """Add open documents and return their numbers; a DataError if one cannot be stored."""
    for doc in docs:
        check_document(doc)
    if project is not None:
        _hold_project(connection, project)
    common = {"batch": batch, "state": "open", "added_by": user, "project": project}
    insert = documents.insert().returning(documents.c.number, sort_by_parameter_order=True)
    numbers: list[int] = []
    for some in _split(docs):  # not all at once: as rows they take several times the memory
        rows = [
            {
                "id": doc.id,
                "fields": json.dumps(dict(doc.fields)),
                "keywords": json.dumps(list(doc.keywords)),
                "metadata": json.dumps(dict(doc.metadata)),
                "added_at": get_time(),
                **common,
            }
            for doc in some
        ]
        numbers += connection.execute(insert, rows).scalars()
    return numbers


def _split(docs: Sequence[Doc]) -> Iterator[list[Doc]]:
    """Yield documents in order, some at a time, by number and length."""
    some: list[Doc] = []
    n_characters = 0
    for doc in docs:
        if len(some) == INSERTED or n_characters > INSERTED_TEXT:
            yield some
            some, n_characters = [], 0
        some.append(doc)
        n_characters += sum(map(len, doc.fields.values()))
    if some:
        yield some


def _hold_project(connection: Connection, project: int) -> None:
    """Keep a project until the transaction ends; raise UnknownRowError if there is none.

    Another replica may be about to remove an empty project.
    """
    query = sa.select(projects.c.id).where(projects.c.id == project)
    if connection.execute(query.with_for_update(read=True)).first() is None:
        raise UnknownRowError(f"there is no project {project}")


def insert_labels(
    connection: Connection,
    docs: Mapping[int, Doc],
    *,
    run: str | None,
    user: str,
    is_imported: bool,
) -> None:
    """Write the labels of new documents, by number, as decisions."""
    common = {"verdict": "add", "user": user, "time": get_time(), "run": run}
    rows = [
        {"document": number, "label": label, **common}
        for number, doc in docs.items()
        for label in doc.labels
    ]
    if not rows:
        return
    ids = connection.execute(decisions.insert().returning(decisions.c.id), rows).scalars().all()
    if is_imported:
        connection.execute(imports.insert(), [{"decision": id_} for id_ in ids])


def fetch_document(connection: Connection, number: int) -> Row:
    """Return a document; raise UnknownRowError if there is none of this number."""
    query = select_all_documents().where(documents.c.number == number)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise UnknownRowError(f"there is no document {number}")
    if row["state"] == DELETED:
        raise UnknownRowError(
            f"document {number} was deleted", hint=f"PUT /documents/{number}/state restores it"
        )
    if row["state"] == QUARANTINED:
        raise DamagedRowError(number, "it is in quarantine", is_set_aside=True)
    return decode_document(row)


def upgrade_tables(connection: Connection) -> None:
    """Add the columns of format 2 to tables of format 1."""
    for column in (documents.c.project, suggestions.c.corrections):
        kind = column.type.compile(connection.dialect)
        statement = f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"
        connection.execute(sa.text(statement))
    connection.execute(about.update().where(about.c.key == "format").values(value=FORMAT))


def insert_decision(connection: Connection, decision: NewDecision, user: str) -> int:
    """Write a decision and return its id; one whose request id was used before is only found."""
    values = {
        "document": decision.document,
        "label": decision.label,
        "verdict": decision.verdict,
        "run": decision.run,
        "user": user,
    }
    if decision.request_id is not None:
        query = select_decisions().where(decisions.c.request_id == decision.request_id)
        if (row := connection.execute(query).mappings().first()) is not None:
            if any(row[key] != value for key, value in values.items()):
                raise ConflictError(
                    f"the request_id {decision.request_id!r} belongs to another decision"
                )
            return int(row["id"])
    fetch_document(connection, decision.document)
    insert = decisions.insert().values(
        time=get_time(),
        probability=_find_probability(connection, decision),
        request_id=decision.request_id,
        **values,
    )
    return int(connection.execute(insert.returning(decisions.c.id)).scalar_one())


def _find_probability(connection: Connection, decision: NewDecision) -> float | None:
    """Return the probability with which the run had suggested the label; None if it had not."""
    if decision.run is None:
        return None
    query = sa.select(suggestions.c.answer).where(
        suggestions.c.document == decision.document, suggestions.c.run == decision.run
    )
    stored = decode_answer(connection.execute(query).scalar())
    return None if stored is None else dict(stored["ranked"]).get(decision.label)


def move_decisions(
    connection: Connection, rows: Iterable[Row], successors: Mapping[str, str]
) -> int:
    """Undo each decision whose label has a successor, and decide the same of that one; return how
    many."""
    moved = [row for row in rows if row["label"] in successors]
    for row in moved:
        kept = {name: row[name] for name in ("document", "verdict", "run", "probability")}
        new = {**kept, "label": successors[row["label"]], "user": row["user"], "time": get_time()}
        connection.execute(decisions.insert().values(new))
        undo = {"decision": row["id"], "user": "migrate", "time": get_time()}
        connection.execute(undos.insert().values(undo))
    return len(moved)


def create_tables(engine: Engine) -> dict[str, str]:
    """Create missing tables, and return the database's format and id."""
    with begin_alone(engine) as connection:
        _refuse_foreign_tables(connection, [about])
        if sa.inspect(connection).has_table("about"):
            is_old = (about.c.key == "format") & (about.c.value == "1")
            if connection.execute(sa.select(about).where(is_old)).first() is not None:
                upgrade_tables(connection)
        _refuse_foreign_tables(connection, tables.sorted_tables)
        tables.create_all(connection)
        facts = {row.key: row.value for row in connection.execute(sa.select(about))}
        wanted = {"format": FORMAT, "id": uuid.uuid4().hex}
        if new := {key: value for key, value in wanted.items() if key not in facts}:
            rows = [{"key": key, "value": value} for key, value in new.items()]
            connection.execute(about.insert(), rows)
        return {**new, **facts}


def _refuse_foreign_tables(connection: Connection, own: Iterable[sa.Table]) -> None:
    """Raise a ConfigError if a table or view has the name of one of ours and not its columns."""
    inspector = sa.inspect(connection)
    for table in own:
        if inspector.has_table(table.name):
            found = {column["name"] for column in inspector.get_columns(table.name)}
            if missing := [column.name for column in table.columns if column.name not in found]:
                raise ConfigError(
                    f"--database: its table {table.name!r} belongs to another program: it has no "
                    f"column {missing[0]!r}",
                    hint="name a new file, or a database of its own",
                )

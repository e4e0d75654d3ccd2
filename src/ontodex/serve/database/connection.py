"""Connections to SQLite and PostgreSQL whose commits wait for the disk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url

from ontodex.errors import ConfigError

SETUP_LOCK = 1_869_509_615  # any number that all replicas share


def begin_write(engine: Engine) -> AbstractContextManager[Connection]:
    """Begin a transaction that takes the write lock of SQLite at once."""
    return engine.execution_options(writes=True).begin()


@contextmanager
def begin_alone(engine: Engine) -> Iterator[Connection]:
    """Begin a transaction that waits for others of this function, in all processes.

    Replicas that start together create the same tables and projects. SQLite has one writer anyway.
    """
    with begin_write(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(SETUP_LOCK)))
        yield connection


def stream_rows(connection: Connection, query: sa.Select[Any]) -> Iterator[sa.RowMapping]:
    """Yield rows when they are needed, so that many long ones are never in memory together."""
    options = {"stream_results": True, "max_row_buffer": 4}
    with connection.execute(query, execution_options=options) as result:
        yield from result.mappings()


def connect(location: str) -> Engine:
    """Return an engine for a file or a URL. A transaction is on the disk when it has ended."""
    try:
        url = (
            make_url(location) if "://" in location else sa.URL.create("sqlite", database=location)
        )
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() == "sqlite":
            return _connect_sqlite(url)
        options = {"options": "-c synchronous_commit=on"}
        return sa.create_engine(url, pool_pre_ping=True, connect_args=options)
    except (sa.exc.ArgumentError, ImportError) as error:
        raise ConfigError(
            f"--database {hide_password(location)} is not a file or a known URL ({error})",
            hint="name a file, or a URL such as postgresql://user@host/name",
        ) from error


def _connect_sqlite(url: sa.URL) -> Engine:
    engine = sa.create_engine(url, connect_args={"timeout": 30})

    @sa.event.listens_for(engine, "connect")
    def set_pragmas(connection: Any, _: Any) -> None:
        # A damaged text must not fail the whole query; the row's own check finds it.
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.isolation_level = None  # transactions begin only in `begin` below
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    @sa.event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A writer takes the lock at once: a transaction that began as a reader cannot wait for it.
        is_writer = connection.get_execution_options().get("writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writer else "BEGIN")

    return engine


def check_exists(url: sa.URL) -> None:
    """Raise an error if an SQLite file does not exist: connecting would create it."""
    file = (url.database or "").removeprefix("file:")
    if url.get_backend_name() == "sqlite" and not Path(file).exists():
        raise ConfigError(
            f"--database {file}: there is no such file",
            hint="name the database that `ontodex serve` uses",
        )


def describe_location(location: str) -> str:
    """Return the file as a complete path, with its state, or the URL without its secrets."""
    if "://" in location:
        return hide_password(location).partition("?")[0]
    path = Path(location).resolve()
    return str(path) if path.exists() else f"{path} (new)"


def hide_password(location: str) -> str:
    """Return the URL without user and password."""
    return re.sub(r"://[^@/]*@", "://***@", location)


def get_reason(error: sa.exc.DBAPIError) -> str:
    """Return the driver's message, on one line."""
    return " ".join(str(error.orig).split())[:200]

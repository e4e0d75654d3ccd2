"""Stateful fuzzing of the API: documents, decisions, queue, export, two users, restarts.

A model in this file knows what the service has acknowledged. Promises: no answer of 5xx (503 and
429 are answers by design), acknowledged documents and decisions exist after every restart, every
stored document can be fetched unchanged, and `GET /documents/next` never blocks.

Most steps go to a service in this process. Each fourth episode uses PostgreSQL where it is
installed; the last part of the time goes to a real process that is killed and started again.
"""

from __future__ import annotations

import logging
import random
import tempfile
import time
from collections import Counter
from pathlib import Path

import sqlalchemy as sa

from attack.api_episode import Episode
from attack.campaign import Finding, Result
from attack.postgres import start_postgres
from attack.service import train_small_run

STEPS = 400  # of one episode in this process
PROCESS_STEPS = 120  # of one episode with a process
PROCESS_SHARE = 0.15  # of the time


def run(seconds: float, seed: int, out: Path) -> Result:
    """Run episodes until the time is over; return the figures."""
    logging.getLogger("ontodex").setLevel(logging.ERROR)  # damaged rows are logged one by one
    result = Result()
    statuses: Counter[int] = Counter()
    start = time.monotonic()
    kinds: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="ontodex-api-") as name, start_postgres() as url:
        folder = Path(name)
        small = train_small_run(folder)
        number = n_restarts = 0
        while (passed := time.monotonic() - start) < seconds:
            place = folder / str(number)
            place.mkdir()
            is_process = passed > (1 - PROCESS_SHARE) * seconds
            is_postgres = url is not None and number % 4 == 3
            database = _create_database(url, number) if is_postgres else str(place / "d.sqlite")
            episode = Episode(small, database, place, random.Random(f"{seed}/{number}"))
            until = start + seconds
            try:
                finding = episode.play(PROCESS_STEPS if is_process else STEPS, until, is_process)
            except Exception as error:  # the figures of the other episodes stay
                what = f"episode {number} failed with {type(error).__name__}: {error}"
                finding = Finding(f"api: {type(error).__name__}", what, repr(error).encode())
            kind = "PostgreSQL" if is_postgres else "SQLite"
            kinds[f"{kind}, {'process' if is_process else 'in this process'}"] += episode.n_steps
            result.tried += episode.n_steps
            n_restarts += episode.n_restarts
            statuses.update(episode.statuses)
            if finding is not None:
                result.add(finding, out)
            number += 1
    for kind, count in sorted(kinds.items()):
        result.notes[f"steps, {kind}"] = f"{count:,}"
    result.notes["statuses"] = ", ".join(f"{k}: {v:,}" for k, v in sorted(statuses.items()))
    result.notes["episodes"] = str(number)
    result.notes["restarts"] = str(n_restarts)
    return result


def _create_database(url: str | None, number: int) -> str:
    """Create an empty database in PostgreSQL and return its URL."""
    assert url is not None
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(f"CREATE DATABASE episode{number}"))
    engine.dispose()
    return url.replace("/postgres?", f"/episode{number}?")

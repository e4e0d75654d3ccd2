"""A PostgreSQL server of our own, in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path


def find_initdb() -> str | None:
    """Return the path of PostgreSQL's initdb; None where it is not installed."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return str(programs[-1]) if programs else shutil.which("initdb")


@contextlib.contextmanager
def start_postgres() -> Iterator[str | None]:
    """Start a server that listens on a socket only; give its URL, or None where it is missing."""
    initdb = find_initdb()
    if initdb is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="attack-pg-", dir="/tmp"))  # sockets need a short path
    # PostgreSQL refuses to run as root.
    other = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    prefix = other if os.geteuid() == 0 else []
    if prefix:
        shutil.chown(folder, "postgres")
    data = folder / "data"
    create = [initdb, "-D", str(data), "-U", "ontodex", "--auth=trust", "-E", "UTF8"]
    subprocess.run([*prefix, *create], check=True, capture_output=True, cwd="/")
    program = str(Path(initdb).with_name("postgres"))
    server = subprocess.Popen(
        [*prefix, program, "-D", str(data), "-k", str(folder), "-c", "listen_addresses="],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
    )
    try:
        while not (folder / ".s.PGSQL.5432").exists():
            if server.poll() is not None:
                raise RuntimeError("PostgreSQL did not start")
            time.sleep(0.1)
        time.sleep(1)  # it may still refuse connections
        yield f"postgresql://ontodex@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(120)
        shutil.rmtree(folder, ignore_errors=True)

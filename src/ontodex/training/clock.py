"""Seconds that a training took, summed over the processes that worked on it."""

from __future__ import annotations

import json
import time
from pathlib import Path

from ontodex.io.files import write_text


def start_clock(folder: Path) -> float:
    """Start the clock of this process; return the seconds that earlier processes took.

    An earlier process counts from its start to the last file that it wrote below the folder: a
    killed process leaves no better record.
    """
    clock = folder / "clock.json"
    spent = 0.0
    if clock.exists():
        before = json.loads(clock.read_text(encoding="utf-8"))
        last = max(path.stat().st_mtime for path in folder.rglob("*"))
        spent = before["spent"] + max(0.0, last - before["started"])
    write_text(clock, json.dumps({"spent": spent, "started": time.time()}) + "\n")
    return spent

"""Commands as a user starts them: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_command(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ontodex", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1"},
        check=False,
    )

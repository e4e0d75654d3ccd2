"""Documents to index, and `ontodex index` as a process."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

from ontodex.types import Doc

TEXTS = {"fish": "trout in the stream", "oak": "oaks in the forest", "road": "cars on the road"}
DOCS = [
    Doc(f"{label}-{i}", {"text": TEXTS[label]}, (), (label,)) for i in range(8) for label in TEXTS
]


def write_input(path: Path, docs: list[Doc]) -> Path:
    path.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in docs))
    return path


def split_input(source: Path, folder: Path, count: int) -> Path:
    """Write the lines of a file to `count` compressed files in a new folder."""
    folder.mkdir()
    rows = source.read_bytes().splitlines(keepends=True)
    for number in range(count):
        content = gzip.compress(b"".join(rows[number::count]), mtime=0)
        (folder / f"{number:02}.jsonl.gz").write_bytes(content)
    return folder


def read_folder(folder: Path) -> dict[str, bytes]:
    """The content of all files in a folder, by name."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def ids_in(table: Path) -> list[str]:
    with table.open(newline="") as file:
        return [row["id"] for row in csv.DictReader(file)]


def start(
    run_folder: Path, source: Path | str, out: Path | str, *more: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ontodex", "index", str(run_folder), str(source), str(out)]
    command += ["--block", "5", *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    return output


def has_ended(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def arguments_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it ended meanwhile
        return b""

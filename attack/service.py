"""A small service to attack: its run, its processes, and its databases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc

LABELS = ("fish", "oak", "http://e.org/road")
UNUSED = "newt"  # a concept of the ontology without documents
SENTENCES = (
    "trout swim in the cold stream",
    "old oaks stand in the forest",
    "cars brake at the crossing of a road",
)


def train_small_run(folder: Path) -> Path:
    """Train a run with three labels and an ontology; return its folder."""
    ontology = build_ontology(
        [
            Concept("nature", {"en": "Nature", "de": "Natur"}),
            Concept("fish", {"en": "Fish", "de": "Fische"}, parents=["nature"]),
            Concept(UNUSED, {"en": "Newt"}, parents=["nature"]),
            Concept("oak", {"en": "Oak"}, parents=["nature"]),
            Concept("http://e.org/road", {"en": "Road safety"}),
        ]
    )
    docs = Corpus.of(
        Doc(f"{label}-{i}", {"title": f"{sentence} {i}"}, (), (label,))
        for i in range(12)
        for label, sentence in zip(LABELS, SENTENCES, strict=True)
    )
    out = folder / "small"
    tables = {"model": {"name": "knn"}, "decide": {"rule": "ofo"}}
    train(config=tables, out=out, train=docs, dev=docs, ontology=ontology)
    return out


@dataclass
class ServerProcess:
    """A service in a process of its own, on a port of the loopback address."""

    process: subprocess.Popen[str]
    host: str
    port: int
    log: Path

    def get_memory(self) -> int:
        """Return the most memory that the process has held, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def find_errors(self) -> list[str]:
        """Return the lines of the log that tell of an unexpected error."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if "Traceback" in line or '"level": "error"' in line]


@contextmanager
def start_server(
    run: Path, database: str, log: Path, arguments: Sequence[str] = ()
) -> Iterator[ServerProcess]:
    """Start `ontodex serve`; it is killed at the end."""
    command = [sys.executable, "-m", "ontodex", "serve", str(run), "--port", "0"]
    with log.open("a") as stderr:
        process = subprocess.Popen(
            [*command, "--database", database, *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("serving on "):
                raise RuntimeError(f"the service did not start: {log.read_text()[-2000:]}")
            host, _, port = line.split()[-1].removeprefix("http://").rpartition(":")
            yield ServerProcess(process, host, int(port), log)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()

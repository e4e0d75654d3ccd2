"""Time and memory at the limits of commands and of the service, as the tables of deploy.md.

    python bench/limits.py                              # print the tables
    python bench/limits.py --write docs/guide/deploy.md # and write them into the page

Each input of the largest size is read in a process of its own, and the requests go to a service on
loopback. The time is processor time of that process and its children; the memory is
the largest resident size of any of them. tests/bench/test_limits.py has the same inputs accepted,
and those one above refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from limit_files import FILE_LIMITS, FileLimit
from limit_requests import REQUEST_LIMITS, TEXT, HttpRequest, RequestLimit
from ontodex.corpora import extract_process
from ontodex.serve import api
from ontodex.serve.http import middleware, protocol
from ontodex.serve.prediction import run_metadata
from ontodex.serve.service import PARALLEL_EXTRACTIONS, ServeConfig

HEADER = "| Operation | Largest input | Refusal above it | Time | Memory |\n|---|---|---|---|---|\n"
BEGIN, END = "<!-- limits: bench/limits.py -->\n", "<!-- end of limits -->\n"


@dataclass(frozen=True)
class Cost:
    seconds: float
    mib: float

    def __str__(self) -> str:
        seconds = f"{self.seconds:.1f}" if self.seconds >= 0.1 else "< 0.1"
        return f"{seconds} s | {self.mib:,.0f} MiB"


def describe(limit: FileLimit | RequestLimit) -> str:
    """Return the row of a limit without its cost."""
    return f"| {limit.operation} | {limit.largest} | {limit.refusal} |"


def describe_settings() -> Iterator[str]:
    """Yield the limits in time and number that are not those of one input."""
    config = ServeConfig
    yield f"documents that wait: {config.queue} (`--queue`), then 429 with `Retry-After`"
    yield f"documents ranked together: {config.batch} (`--batch`)"
    yield f"seconds for an answer: {config.timeout:g} (`--timeout`), then 503"
    yield f"connections: {api.MAX_CONNECTIONS:,}, then 503"
    yield f"seconds between two pieces of a body: {middleware.BODY_SECONDS}, then 408"
    yield f"seconds for a whole body: {middleware.WHOLE_BODY_SECONDS}, then 408"
    yield (
        f"request line and headers: {protocol.MAX_HEAD // 2**10} KiB, complete after "
        f"{protocol.HEAD_SECONDS} s"
    )
    yield f"seconds for a client that does not read: {protocol.WRITE_SECONDS}"
    yield f"requests of a connection that wait: {protocol.MAX_PIPELINED}, then 400"
    yield (
        f"an id of a label or concept: {run_metadata.MAX_LABEL:,} characters, then the run is not "
        "served"
    )
    yield f"seconds that an idle connection stays open: {api.IDLE_SECONDS}"
    yield f"seconds for accepted requests after SIGTERM: {api.DRAIN_SECONDS}"
    yield f"files read at the same time: {PARALLEL_EXTRACTIONS}, each in a process of its own"
    yield (
        f"reading one PDF, DOCX, HTML or text file: {extract_process.SECONDS} s and "
        f"{extract_process.MAX_MEMORY // 2**30} GiB, then the file is refused"
    )


def measure_file(number: int) -> Cost:
    """Return the cost of one attempt, in a new process."""
    code = f"import limits; limits.attempt({number})"
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    out = subprocess.run(
        [sys.executable, "-c", code], env=here, check=True, capture_output=True, text=True
    )
    return Cost(*json.loads(out.stdout.splitlines()[-1]))


def attempt(number: int) -> None:
    """Make the attempt in this process, and print its seconds and MiB."""
    with tempfile.TemporaryDirectory() as folder:
        FILE_LIMITS[number].attempt(0, Path(folder))
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    seconds = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    # Not ru_maxrss of this process, which begins with that of the process that started it.
    peak = max(mib for _, mib in read_usage(os.getpid()))
    print(json.dumps([seconds, max(peak, children.ru_maxrss / 1024)]))


@contextmanager
def start_service(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start `ontodex serve` with a small run, in a process of its own."""
    command = [sys.executable, "-m", "ontodex", "serve", str(folder / "small"), "--port", "0"]
    database = folder / f"decisions-{time.monotonic_ns()}.sqlite"
    process = subprocess.Popen(
        [*command, "--database", str(database)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def send(address: str, request: HttpRequest) -> tuple[int, str]:
    """Return the status and the text of the answer."""
    headers = {"content-type": request.media_type}
    asked = urllib.request.Request(
        address + request.path, request.body, headers, method=request.method
    )
    try:
        with urllib.request.urlopen(asked, timeout=300) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def measure_requests(folder: Path) -> Iterator[tuple[RequestLimit, Cost]]:
    """Yield the cost of each request to one service, after requests that load its libraries."""
    with start_service(folder) as (process, address):
        warm = json.dumps({"documents": [{"text": TEXT}]}).encode()
        for path in ("/suggest", "/documents"):
            send(address, HttpRequest("POST", path, warm))
        for limit in REQUEST_LIMITS:
            before = sum(seconds for seconds, _ in read_usage(process.pid, reset=True))
            status, text = send(address, limit.make(0))
            assert status < 400, text[:300]
            usage = list(read_usage(process.pid))
            seconds = sum(seconds for seconds, _ in usage) - before
            yield limit, Cost(seconds, max(mib for _, mib in usage))


def read_usage(pid: int, *, reset: bool = False) -> Iterator[tuple[float, float]]:
    """Yield (processor seconds, peak MiB) of a process and its living children.

    With `reset`, the peak starts again.
    """
    tick = os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in (pid, *map(int, children)):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{one}/status").read_text()
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)
        # Own time, and that of children that have ended.
        yield sum(map(int, fields[11:15])) / tick, int(peak[1]) / 1024 if peak else 0.0
        if reset:
            Path(f"/proc/{one}/clear_refs").write_text("5")


def train_small(folder: Path) -> None:
    """Train the run that is served: its size is not what is measured."""
    from ontodex.ontology.graph import Concept, build_ontology
    from ontodex.runs.recipe import train
    from ontodex.types import Corpus, Doc

    sentences = {"fish": TEXT, "oak": "old oaks stand in the forest"}
    docs = [
        Doc(f"{label}-{number}", {"title": sentence}, (), (label,))
        for number in range(12)
        for label, sentence in sentences.items()
    ]
    ontology = build_ontology([Concept(label, {"en": label}) for label in sentences])
    corpus = Corpus.of(docs)
    tables = {"model": {"name": "knn"}}
    train(config=tables, out=folder / "small", train=corpus, dev=corpus, ontology=ontology)


def make_tables() -> Iterator[str]:
    """Yield the lines of the page, with measured costs."""
    yield "Commands, and files and JSON wherever they are read:\n\n" + HEADER
    for number, limit in enumerate(FILE_LIMITS):
        yield f"{describe(limit)} {measure_file(number)} |\n"
    yield "\nThe service with its default settings, beside the limits above:\n\n" + HEADER
    with tempfile.TemporaryDirectory() as folder:
        train_small(Path(folder))
        for row, cost in measure_requests(Path(folder)):
            yield f"{describe(row)} {cost} |\n"
    yield "\nOther limits of the service:\n\n"
    for line in describe_settings():
        yield f"- {line}.\n"


def write_page(path: Path, lines: Iterable[str]) -> None:
    """Replace the tables of the page."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{path}: has no place for the tables")
    path.write_text(before + BEGIN + "".join(lines) + END + after, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="page to write the tables into")
    arguments = parser.parse_args()
    lines = []
    for line in make_tables():
        print(line, end="", flush=True)
        lines.append(line)
    if arguments.write:
        write_page(arguments.write, lines)


if __name__ == "__main__":
    main()

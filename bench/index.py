"""Documents a second of `ontodex index`, and whether kills change a byte.

    python bench/index.py [--documents 100000] [--kills 5] [--block 1000] [--no-ray]

The bundled sample, repeated under new ids, is indexed with label trees trained on it: by one worker
on one core, by one and by two on all cores, and by Ray with two. Then the last two ways are killed
with SIGKILL at random moments and started again until they are done. Prints a table; stops with an
error where an id is missing or a byte differs. CPU time is that of the command and the workers it
waited for, which Ray's are not; memory is the peak of the largest of them.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from ontodex.corpora.datasets import get
from ontodex.corpora.open import open_corpus, read_docs
from ontodex.runs.recipe import train


@dataclass(frozen=True)
class Way:
    """One way to run the command."""

    name: str
    options: tuple[str, ...]
    n_cores: int | None = None  # all of them, if not said


WAYS = (
    Way("1 core, 1 worker", ("--workers", "1"), n_cores=1),
    Way("all cores, 1 worker", ("--workers", "1")),
    Way("all cores, 2 workers", ("--workers", "2")),
    Way("Ray local, 2 workers", ("--workers", "2", "--ray", "local")),
)


def repeat(source: Path, target: Path, n_docs: int) -> list[str]:
    """Write the documents of `source` again and again; gives the new ids."""
    docs = list(read_docs(source))
    with target.open("w") as file:
        for i, doc in zip(range(n_docs), itertools.cycle(docs)):
            file.write(json.dumps({"id": f"{i:07}", **doc.fields}) + "\n")
    return [f"{i:07}" for i in range(n_docs)]


def start(run: Path, source: Path, out: Path, way: Way, block: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ontodex", "index", str(run), str(source), str(out)]
    return subprocess.Popen(
        [*command, "--block", str(block), *way.options],
        stdout=subprocess.DEVNULL,
        preexec_fn=_on_cores(way.n_cores),
    )


def _on_cores(count: int | None) -> Callable[[], None]:
    chosen = sorted(os.sched_getaffinity(0))[:count]
    return lambda: os.sched_setaffinity(0, chosen)


def finish(process: subprocess.Popen[bytes]) -> resource.struct_rusage:
    """Wait for the end; what the command and its workers used."""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"the command ended with exit code {process.returncode}")
    return used


def killed(begin: Callable[[], subprocess.Popen[bytes]], n_kills: int, within: float) -> int:
    """Start it, kill it, and so on, then let it finish; gives how often it was killed."""
    moments = random.Random(17)
    for n_done in range(n_kills):
        process = begin()
        try:
            process.wait(moments.uniform(0.1, within))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        else:
            return n_done
    finish(begin())
    return n_kills


def check(out: Path, ids: list[str], expected: bytes) -> None:
    with out.open(newline="") as file:
        found = [row["id"] for row in csv.DictReader(file)]
    if found != ids:
        raise SystemExit(f"{out}: {len(found):,} ids, not the {len(ids):,} that went in")
    if out.read_bytes() != expected:
        raise SystemExit(f"{out}: other bytes")


def measure(way: Way, begin: Callable[[], subprocess.Popen[bytes]], n_docs: int) -> float:
    """Print a row of the table; gives the seconds."""
    started = time.perf_counter()
    used = finish(begin())
    seconds = time.perf_counter() - started
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss // 1024
    print(f"| {way.name} | {seconds:.0f} | {n_docs / seconds:,.0f} | {cpu:.0f} | {peak:,} |")
    sys.stdout.flush()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--block", type=int, default=1_000)
    parser.add_argument("--no-ray", action="store_true")
    options = parser.parse_args()
    has_ray = find_spec("ray") is not None and not options.no_ray
    ways = [way for way in WAYS if has_ray or "--ray" not in way.options]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        get("sample", folder)
        learned, dev = (open_corpus(folder / f"{name}.jsonl") for name in ("train", "dev"))
        train(config={"model": {"name": "parabel"}}, out=folder / "run", train=learned, dev=dev)
        ids = repeat(folder / "train.jsonl", folder / "in.jsonl", options.documents)

        def begin(way: Way, out: str) -> subprocess.Popen[bytes]:
            return start(folder / "run", folder / "in.jsonl", folder / out, way, options.block)

        print(f"{len(ids):,} documents in blocks of {options.block:,}\n")
        print("| way | seconds | documents a second | CPU s | peak (MiB) |")
        print("|---|---:|---:|---:|---:|", flush=True)
        seconds = {}
        for i, way in enumerate(ways):
            seconds[way] = measure(way, partial(begin, way, f"{i}.csv"), len(ids))
            check(folder / f"{i}.csv", ids, (folder / "0.csv").read_bytes())
        for i, way in enumerate(ways[2:]):
            again = partial(begin, way, f"killed-{i}.csv")
            n_killed = killed(again, options.kills, seconds[way] / 3)
            check(folder / f"killed-{i}.csv", ids, (folder / "0.csv").read_bytes())
            print(f"\n{way.name}, killed {n_killed} times: every id once, the same bytes")


if __name__ == "__main__":
    main()

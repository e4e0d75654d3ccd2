"""Train the systems of the papers on a GPU, many at a time, and keep what their claims need.

    python bench/papers.py carried out --minutes 9 --lanes 16
    python bench/papers.py carried out --only medline --minutes 4

`carried` has <corpus>-attention and <corpus>-levels, written by `ontodex prepare` (the commands:
docs/lab/papers.md), as folders or as .tar.xz, which are unpacked. A job is one training: a
corpus, a row and a seed, in a process of its own; `JOBS` has them in the order of their value.
Finished jobs are not run again. When the time is up, running ones are ended, and what is
finished is packed into `out/packed`: figures.json and one .tar for each corpus and kind.

Texts: bench/papers_text.py keeps the best labels of dev and test. Levels: bench/papers_levels.py
keeps counts of each document.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from papers_jobs import JOBS, Job

HERE = Path(__file__).resolve().parent
POLL_SECONDS = 0.5
PACKED_BYTES = 15 * 2**20  # of a file that comes back


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("carried", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--lanes", type=int, default=1, help="trainings at a time")
    parser.add_argument("--only", default="", help="regular expression for the names of jobs")
    parser.add_argument("--skip", default="", help="the same for jobs that are left out")
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        help="epochs.text=6, epochs.levels=6, or a setting of all jobs: model.hidden=32",
    )
    given = parser.parse_args()
    ends = time.monotonic() + 60 * given.minutes
    given.out.mkdir(parents=True, exist_ok=True)
    folder = unpack(given.carried, given.out / "prepared")
    jobs = [
        job
        for job in JOBS
        if re.search(given.only, job.name)
        and job.prepared(folder).exists()
        and not (given.skip and re.search(given.skip, job.name))
        and not job.result(given.out).exists()
    ]
    with share_gpu():
        runner = Runner(folder, given.out, given.overrides)
        running = run_all(jobs, runner, given.lanes, ends)
        pack(given.out)  # before anything is ended, which may take a while on a GPU
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def unpack(carried: Path, to: Path) -> Path:
    """Return a folder with the prepared corpora; archives in `carried` are unpacked into `to`."""
    archives = sorted(carried.glob("*.tar.xz"))
    for archive in archives:
        if not (to / archive.name.removesuffix(".tar.xz")).exists():
            with tarfile.open(archive) as file:
                file.extractall(to, filter="data")
    return to if archives else carried


@contextmanager
def share_gpu() -> Iterator[None]:
    """Start NVIDIA's MPS where it is there: kernels of several processes then run side by side."""
    control = shutil.which("nvidia-cuda-mps-control")
    say({"mps": bool(control)})
    if control:
        subprocess.run([control, "-d"], check=False)
    try:
        yield
    finally:
        if control:
            with suppress(subprocess.TimeoutExpired):
                subprocess.run([control], input=b"quit -t 5\n", check=False, timeout=20)


@dataclass(frozen=True)
class Runner:
    """Starts jobs as processes."""

    folder: Path
    out: Path
    overrides: Sequence[str]

    def start(self, job: Job) -> subprocess.Popen[bytes]:
        log = self.out / "logs" / f"{job.name}.log"
        log.parent.mkdir(exist_ok=True)
        command = [sys.executable, str(HERE / f"papers_{job.kind}.py"), job.name]
        command += [str(self.folder), str(self.out), *self.overrides]
        paths = [str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")]
        # A process has one core; compilers would otherwise start workers on all of them.
        own = {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "2"}
        own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        with log.open("wb") as file:
            return subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **own}
            )


def run_all(
    jobs: Sequence[Job], runner: Runner, lanes: int, ends: float
) -> list[subprocess.Popen[bytes]]:
    """Run jobs, the first that can start first, until all are done or the time is up; return the
    processes that still run."""
    began = time.monotonic()
    waiting, running = list(jobs), dict[Job, subprocess.Popen[bytes]]()
    started: dict[str, float] = {}
    while (waiting or running) and time.monotonic() < ends:
        ready = (job for job in waiting if job.can_start(runner.out))
        while len(running) < lanes and (job := next(ready, None)):
            running[job] = runner.start(job)
            started[job.name] = time.monotonic()
            waiting.remove(job)
            ready = (one for one in waiting if one.can_start(runner.out))
        for job in [job for job, process in running.items() if process.poll() is not None]:
            status = running.pop(job).returncode
            took = round(time.monotonic() - started[job.name])
            say({"job": job.name, "status": status, "seconds": took})
            if status:
                waiting = [one for one in waiting if job.name not in one.needs]
        if not running and not any(job.can_start(runner.out) for job in waiting):
            break
        time.sleep(POLL_SECONDS)
    cut = [job.name for job in running] + [job.name for job in waiting]
    say({"seconds": round(time.monotonic() - began), "not finished": cut})
    return list(running.values())


def pack(out: Path) -> None:
    """Write figures.json and archives of results, none larger than may come back."""
    packed = out / "packed"
    shutil.rmtree(packed, ignore_errors=True)
    packed.mkdir()
    files = sorted((out / "results").glob("*.json"))
    lines = [json.loads(file.read_text()) for file in files]
    (packed / "figures.json").write_text(json.dumps(lines, indent=1) + "\n")
    arrays = [file.with_suffix(".npz") for file in files]
    for number, some in enumerate(group_by_size(arrays)):
        with tarfile.open(packed / f"arrays-{number}.tar", "w") as file:
            for path in some:
                file.add(path, path.name)
    with tarfile.open(packed / "logs.tar.xz", "w:xz") as file:
        for path in sorted(out.glob("logs/*.log")) + sorted(out.glob("work/*/log.jsonl")):
            file.add(path, str(path.relative_to(out)))
    say({path.name: path.stat().st_size for path in sorted(packed.iterdir())})


def group_by_size(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Return groups of files whose sizes add up to at most `PACKED_BYTES`."""
    group: list[Path] = []
    size = 0
    for path in paths:
        if group and size + path.stat().st_size > PACKED_BYTES:
            yield group
            group, size = [], 0
        group.append(path)
        size += path.stat().st_size + 1024
    if group:
        yield group


def say(line: object) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Run commands without disk space, memory, file descriptors or the right to write.

Each command either succeeds with whole outputs, or ends with a status that is not 0 and one
sentence. Then the old run still loads, no output is torn, and no temporary file is left.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from attack.campaign import Finding, Result
from attack.jobs import Job, environment, list_files, list_jobs, list_temporary, make_inputs
from attack.kills import LONGEST, Reference, find_torn_files, measure_reference

MIB = 2**20


@dataclass(frozen=True)
class Limit:
    """A scarce resource and how much of it there is."""

    kind: str
    amount: int

    def apply(self) -> None:
        """Limit this process; called in the child before it runs the command."""
        kinds = {
            "largest file": resource.RLIMIT_FSIZE,
            "memory": resource.RLIMIT_AS,
            "file descriptors": resource.RLIMIT_NOFILE,
        }
        if self.kind in kinds:
            resource.setrlimit(kinds[self.kind], (self.amount, self.amount))


def choose_limit(kind: str, rng: random.Random) -> Limit:
    """Return a random amount of a resource, from far too little to almost enough."""
    ranges: dict[str, Callable[[], int]] = {
        "largest file": lambda: int(10 ** rng.uniform(1, 6.5)),
        "full disk": lambda: int(10 ** rng.uniform(4.7, 7)),
        "memory": lambda: rng.randint(400, 1500) * MIB,
        "file descriptors": lambda: rng.randint(6, 40),
        "read-only folder": lambda: 0,
    }
    return Limit(kind, ranges[kind]())


def run(seconds: float, seed: int, out: Path) -> Result:
    """Try the commands with one scarce resource after another until the time is used up."""
    result, rng = Result(), random.Random(seed)
    counts: Counter[str] = Counter()
    kinds = ["largest file", "memory", "file descriptors"]
    with tempfile.TemporaryDirectory(prefix="attack-resources-") as name:
        folder = Path(name)
        if can_mount(folder / "disk"):
            kinds += ["full disk", "read-only folder"]
        else:
            result.notes["full disk, read-only folder"] = "left out: only root can mount a disk"
        jobs = list_jobs(make_inputs(folder / "inputs"))
        references: dict[str, Reference] = {}
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            job, kind = rng.choice(jobs), rng.choice(kinds)
            if job.name not in references:
                references[job.name] = measure_reference(job, folder / "reference")
            limit = choose_limit(kind, rng)
            problems = try_limit(job, limit, references[job.name], folder)
            result.tried += 1
            counts[kind] += 1
            for what in problems:
                steps = json.dumps({"job": job.name, "limit": limit.kind, "amount": limit.amount})
                key = f"{job.name}, {kind}: {what[:40]}"
                result.add(Finding(key, f"{steps}: {what}", steps.encode(), ".json"), out)
    result.notes |= {kind: f"{count} commands" for kind, count in counts.items()}
    return result


def can_mount(place: Path) -> bool:
    """Return whether this process may mount a small disk."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    try:
        with mount_disk(place, MIB):
            return True
    except subprocess.CalledProcessError:
        return False


@contextlib.contextmanager
def mount_disk(place: Path, size: int) -> Iterator[None]:
    """Mount a disk of some bytes in memory."""
    place.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)


def try_limit(job: Job, limit: Limit, reference: Reference, folder: Path) -> list[str]:
    """Run a job under a limit and return what is wrong afterwards."""
    home = folder / "work"
    shutil.rmtree(home, ignore_errors=True)
    target = home / "files"
    with contextlib.ExitStack() as stack:
        if limit.kind in ("full disk", "read-only folder"):
            stack.enter_context(mount_disk(target, 64 * MIB))
        target.mkdir(parents=True, exist_ok=True)
        job.prepare(target)
        if limit.kind == "full disk":
            used = sum(path.stat().st_size for path in target.rglob("*") if path.is_file())
            _remount(target, f"size={used + 64 * 1024 + limit.amount}")
        elif limit.kind == "read-only folder":
            _remount(target, "ro")
        before = list_files(target)
        done = subprocess.run(
            job.command(target),
            env=environment(home),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST,
            preexec_fn=limit.apply,
            check=False,
        )
        return _check(job, done, home, before, reference)


def _remount(place: Path, options: str) -> None:
    command = ["mount", "-o", f"remount,{options}", str(place)]
    subprocess.run(command, check=True, capture_output=True)


def _check(
    job: Job,
    done: subprocess.CompletedProcess[str],
    home: Path,
    before: set[str],
    reference: Reference,
) -> list[str]:
    target, problems = home / "files", []
    if done.returncode:
        if "Traceback" in done.stderr:
            problems.append(f"a traceback: {done.stderr[-1500:]}")
        elif "ontodex: " not in done.stderr:
            problems.append(f"status {done.returncode} without a sentence: {done.stderr[-500:]}")
    elif not reference.files <= list_files(target):
        problems.append("success is reported, but files are missing")
    if "run/manifest.json" in before:
        problems += _check_run(target / "run")
    elif job.is_atomic and (torn := find_torn_files(target, reference)):
        problems.append(f"these files are not whole: {torn}")
    left = [path.name for path in home.rglob("*.part")]
    left += [path.name for path in list_temporary(home / "tmp")]
    if left:
        problems.append(f"temporary files are left: {left[:5]}")
    return problems


def _check_run(folder: Path) -> list[str]:
    from ontodex.errors import OntodexError
    from ontodex.runs.run import load

    try:
        load(folder)
    except OntodexError as error:
        return [f"the old run does not load any more: {error}"]
    return []

"""Kill commands and the service at random moments, and check what is left.

A command is killed several times, then runs to its end. After each kill its outputs are whole or
absent; at the end they equal those of an uninterrupted run, and nothing temporary is left. The
service is killed while clients decide and upload: each acknowledged decision exists afterwards.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attack.campaign import Finding, Result
from attack.jobs import (
    PLANS,
    Inputs,
    Job,
    digest_files,
    environment,
    list_files,
    list_jobs,
    list_temporary,
    make_inputs,
    ontodex,
)
from attack.postgres import start_postgres

MOST_KILLS = 12  # of one job before it may end
LONGEST = 300  # seconds of one command


def run(seconds: float, seed: int, out: Path) -> Result:
    """Kill commands and services in turn until the time is used up."""
    result, rng = Result(), random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="attack-kills-") as name, start_postgres() as url:
        folder = Path(name)
        inputs = make_inputs(folder / "inputs")
        ends = time.monotonic() + seconds
        counts = _attack(inputs, folder, url, rng, ends, result, out)
    for what, count in counts.items():
        result.notes[what] = f"{count} kills"
    if url is None:
        result.notes["serve, PostgreSQL"] = "not installed, left out"
    return result


def _attack(
    inputs: Inputs,
    folder: Path,
    url: str | None,
    rng: random.Random,
    ends: float,
    result: Result,
    out: Path,
) -> Counter[str]:
    counts: Counter[str] = Counter()
    references: dict[str, Reference] = {}
    services = [("serve, SQLite", None), *([("serve, PostgreSQL", url)] if url else [])]
    jobs = list_jobs(inputs)
    rng.shuffle(jobs)  # short campaigns end before the last job
    while time.monotonic() < ends:
        for job in jobs:
            if time.monotonic() >= ends:
                break
            reference = references.get(job.name) or measure_reference(job, folder / "reference")
            references[job.name] = reference
            attempt = Attempt(job.name, folder / "work", random.Random(rng.random()))
            attempt.kill_job(job, reference)
            _record(attempt, counts, result, out)
        for name, database in services:
            if time.monotonic() >= ends:
                break
            attempt = Attempt(name, folder / "work", random.Random(rng.random()))
            attempt.kill_service(inputs, database)
            _record(attempt, counts, result, out)
    return counts


def _record(attempt: Attempt, counts: Counter[str], result: Result, out: Path) -> None:
    counts[attempt.name] += len(attempt.moments)
    result.tried += len(attempt.moments)
    for what in attempt.problems:
        steps = {"job": attempt.name, "killed_after_seconds": attempt.moments}
        key = f"{attempt.name}: {what[:60]}"
        result.add(Finding(key, what, json.dumps(steps).encode(), ".json"), out)


@dataclass
class Reference:
    """The result and the duration of a job that nobody interrupts."""

    seconds: float
    files: frozenset[str]
    digests: Mapping[str, str]


def measure_reference(job: Job, home: Path) -> Reference:
    """Run a job without interruption."""
    shutil.rmtree(home, ignore_errors=True)
    target = home / "files"
    target.mkdir(parents=True)
    job.prepare(target)
    start = time.monotonic()
    subprocess.run(
        job.command(target), env=environment(home), check=True, capture_output=True, timeout=LONGEST
    )
    took = time.monotonic() - start
    names = list_files(target)
    reference = Reference(took, frozenset(names), digest_files(target, names))
    shutil.rmtree(home)
    return reference


def find_torn_files(folder: Path, reference: Reference) -> list[str]:
    """Return the outputs that exist and are not final; plans change in the end."""
    found = digest_files(folder, list_files(folder) & reference.files)
    wrong = (name for name in found if found[name] != reference.digests[name])
    return sorted(name for name in wrong if Path(name).name not in PLANS)


@dataclass
class Attempt:
    """One job or service, killed several times."""

    name: str
    home: Path
    rng: random.Random
    moments: list[float] = field(default_factory=list)  # seconds from a start to its kill
    problems: list[str] = field(default_factory=list)

    @property
    def target(self) -> Path:
        return self.home / "files"

    def kill_job(self, job: Job, reference: Reference) -> None:
        """Kill a job at random moments, let it end, and compare."""
        self._start_afresh()
        job.prepare(self.target)
        is_fresh = True  # nothing is done yet
        for _ in range(self.rng.randint(3, MOST_KILLS)):
            moment = reference.seconds * self.rng.uniform(0.05, 0.9)
            process, start = self._start(job.command(self.target)), time.monotonic()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment)
            if process.poll() is not None:  # the machine was slower when the job was measured
                if is_fresh:
                    reference.seconds = min(reference.seconds, time.monotonic() - start)
                self._start_afresh()
                job.prepare(self.target)
                is_fresh = True
                continue
            self._kill(process, moment)
            is_fresh = False
            self._check_partial(job, reference)
        self._finish(job, reference)
        shutil.rmtree(self.home, ignore_errors=True)

    def _start_afresh(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        self.target.mkdir(parents=True)

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        log = (self.home / "log").open("wb")
        try:
            return subprocess.Popen(
                command,
                env=environment(self.home),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        finally:
            log.close()

    def _kill(self, process: subprocess.Popen[bytes], moment: float) -> None:
        """Kill the process alone, or with its children; children left alone must end too."""
        self.moments.append(round(moment, 3))
        if self.rng.random() < 0.5:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        if not _wait_for_group(process.pid):
            self.problems.append("a child process was still there 20 s after its parent was killed")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _check_partial(self, job: Job, reference: Reference) -> None:
        """Check that what is visible after a kill is final, or a run that loads."""
        if (self.target / "run" / "manifest.json").exists():
            self._check_run()
        elif job.is_atomic:
            wrong = find_torn_files(self.target, reference)
            if wrong:
                self.problems.append(f"after a kill these files are not whole: {sorted(wrong)}")

    def _check_run(self) -> None:
        from ontodex.errors import OntodexError
        from ontodex.runs.run import load

        try:
            load(self.target / "run")
        except OntodexError as error:
            self.problems.append(f"after a kill the run does not load: {error}")

    def _finish(self, job: Job, reference: Reference) -> None:
        done = subprocess.run(
            job.command(self.target),
            env=environment(self.home),
            capture_output=True,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        if done.returncode and not (job.done_words and job.done_words in done.stderr):
            self.problems.append(
                f"after kills it ends with {done.returncode}: {done.stderr[-500:]}"
            )
            return
        names = list_files(self.target)
        if names != reference.files and job.has_fixed_names:
            self.problems.append(f"files differ: {sorted(names ^ reference.files)}")
            return
        found = digest_files(self.target, names)
        wrong = [name for name in found if found[name] != reference.digests.get(name)]
        if wrong and job.is_repeatable:
            self.problems.append(f"bytes differ from an uninterrupted run: {sorted(wrong)}")
        if (self.target / "run" / "manifest.json").exists():
            self._check_run()
        self._check_leftovers()

    def _check_leftovers(self) -> None:
        left = [path for path in self.home.rglob("*.part") if path.exists()]
        left += list_temporary(self.home / "tmp")
        if left:
            names = [str(path.relative_to(self.home)) for path in left]
            self.problems.append(f"temporary files are left: {sorted(names)[:5]}")

    def kill_service(self, inputs: Inputs, database: str | None) -> None:
        """Kill the service while clients decide and upload; check what it acknowledged."""
        self._start_afresh()
        shutil.copytree(inputs.run, self.target / "run")
        place = database or str(self.target / "decisions.sqlite")
        acknowledged: set[int] = set()
        for _ in range(self.rng.randint(2, MOST_KILLS)):
            with self._serve(place) as (process, address):
                clients = _Clients(address)
                start = time.monotonic()
                with clients:
                    time.sleep(self.rng.uniform(0.05, 1.5))
                    self._kill(process, time.monotonic() - start)
                acknowledged |= clients.acknowledged
                self.problems += clients.problems
            self._check_database(place, acknowledged)
        with self._serve(place) as (process, address):  # it removes what killed ones left
            self._check_answers(address)
            self._check_leftovers()
            process.terminate()
            if process.wait(60):
                self.problems.append(f"the service ended with {process.returncode} after SIGTERM")
        shutil.rmtree(self.home, ignore_errors=True)

    @contextlib.contextmanager
    def _serve(self, place: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        command = ontodex("serve", self.target / "run", "--port", "0", "--database", place)
        process = self._start(command)
        try:
            deadline = time.monotonic() + LONGEST
            while "serving on " not in (log := (self.home / "log").read_text(errors="replace")):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the service did not start: {log[-500:]}")
                time.sleep(0.05)
            address = log.split("serving on http://")[1].split()[0]
            yield process, address
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def _check_database(self, place: str, acknowledged: set[int]) -> None:
        from ontodex.serve.database.database import Database

        database = Database.open(place)
        try:
            rows, after = set(), 0
            while page := database.list_decisions(after=after, limit=1000):
                rows |= {row["id"] for row in page}
                after = max(row["id"] for row in page)
        finally:
            database.close()
        if lost := acknowledged - rows:
            self.problems.append(f"{len(lost)} acknowledged decisions are lost")

    def _check_answers(self, address: str) -> None:
        for path in ("/readyz", "/documents?limit=100", "/documents/1", "/decisions?limit=1000"):
            status, _ = _ask(address, "GET", path)
            if status != 200:
                self.problems.append(f"GET {path} answers {status} after kills")


class _Clients:
    """Threads that add documents, decide and upload until the service is gone."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.acknowledged: set[int] = set()
        self.problems: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._decide, args=(i,)) for i in range(2)]
        self._threads.append(threading.Thread(target=self._upload))

    def __enter__(self) -> None:
        status, _ = _ask(self.address, "POST", "/documents", {"documents": [{"text": "trout"}]})
        if status != 201:
            self.problems.append(f"POST /documents answers {status}")
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _decide(self, writer: int) -> None:
        unique = f"{writer}-{os.urandom(6).hex()}"
        for count in range(100_000):
            wanted = {"document": 1, "label": "x", "verdict": "accept"}
            wanted["request_id"] = f"{unique}-{count}"
            try:
                status, body = _ask(self.address, "POST", "/decisions", {"decisions": [wanted]})
            except (OSError, http.client.HTTPException):
                return
            if status == 201:
                self.acknowledged.add(json.loads(body)["decisions"][0]["id"])
            elif status >= 500:
                self.problems.append(f"POST /decisions answers {status}")
            if self._stop.is_set():
                return

    def _upload(self) -> None:
        text = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.html"\r\n\r\n'
        text += b"<p>trout</p>" * 1000 + b"\r\n--b--\r\n"
        while not self._stop.is_set():
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, _ = _ask(self.address, "POST", "/documents/upload", text)
                if status >= 500:
                    self.problems.append(f"an upload is answered with {status}")
            time.sleep(0.01)


def _ask(address: str, method: str, path: str, body: object = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        kind = "application/json"
        if isinstance(body, bytes):
            kind, raw = "multipart/form-data; boundary=b", body
        else:
            raw = b"" if body is None else json.dumps(body).encode()
        connection.request(method, path, raw, {"Content-Type": kind})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def _wait_for_group(group: int) -> bool:
    """Return whether all processes of a group end within 20 seconds."""
    for _ in range(400):
        if not _group_members(group):
            return True
        time.sleep(0.05)
    return False


def _group_members(group: int) -> list[int]:
    """Return the living processes of a process group."""
    members = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            state, _, number = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:3]
            if int(number) == group and state != "Z":
                members.append(int(entry.name))
    return members

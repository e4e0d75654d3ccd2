"""The service under load: requests a second, latencies, the knee, measure_overload, a hostile body.

    python bench/serve.py RUN --docs test.jsonl [--seconds 20] [--queue 256]

`wrk` (Debian: apt-get install wrk) and the server share this machine. A client is a connection that
sends its next request when the last was answered. p50 and p99 are wrk's, over all answers. One more
client beside wrk, on a new connection each time, tells answers from refusals: its 99th percentiles
of both are in the last columns. The knee is the fewest clients with 90 % of the best goodput, which
counts answers 200 only.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import numpy as np

from ontodex.corpora.open import read_docs

CLIENTS = (1, 8, 16, 32, 64, 128, 256, 512)
N_DOCS = 500
SCRIPT = """
local bodies, at = {}, 0
for line in io.lines(os.getenv("BODIES")) do bodies[#bodies + 1] = line end
good, busy, bad = 0, 0, 0
function request()
  at = at % #bodies + 1
  local headers = {["Content-Type"] = "application/json"}
  return wrk.format("POST", "/suggest", headers, bodies[at])
end
function response(status)
  if status == 200 then good = good + 1
  elseif status == 429 then busy = busy + 1
  else bad = bad + 1 end
end
local threads = {}
function setup(thread) threads[#threads + 1] = thread end
function done(summary, latency)
  local t = threads[1]
  print(string.format("COUNTS %d %d %d %d %.3f %.3f", t:get("good"), t:get("busy"), t:get("bad"),
    summary.duration, latency:percentile(50) / 1000, latency:percentile(99) / 1000))
end
"""


@dataclass
class Load:
    """The answers and latencies of one number of clients."""

    clients: int
    goodput: float  # answers 200 a second
    refused: float  # answers 429 a second
    failed: int
    p50: float  # milliseconds, of all answers
    p99: float
    probes: list[tuple[int, float]]  # status, milliseconds

    def probe(self, status: int) -> float:
        """The 99th percentile of the probes that got this status; NaN where none did."""
        times = [ms for seen, ms in self.probes if seen == status]
        return float(np.quantile(times, 0.99)) if times else math.nan

    def row(self) -> str:
        return (
            f"{self.clients:7} {self.goodput:10.1f} {self.refused:10.1f} {self.failed:7} "
            f"{self.p50:8.1f} {self.p99:8.1f} {self.probe(200):14.1f} {self.probe(429):8.1f}\n"
        )


@contextmanager
def start_service(run: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its address, once it has also made its search."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        command = [sys.executable, "-m", "ontodex", "serve", str(run), "--port", "0"]
        process = subprocess.Popen(
            [*command, "--database", f"{folder}/d.sqlite", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split("//")[-1].strip()
            with urlopen(f"http://{address}/ontology/search?q=x") as answer:
                answer.read()
            yield process, address
        finally:
            process.terminate()
            process.wait()


def bodies(docs: Path, path: Path) -> list[str]:
    """One request body a line, of the first documents."""
    lines = [
        json.dumps({"documents": [{"fields": dict(doc.fields)}]})
        for doc in itertools.islice(read_docs(docs), N_DOCS)
    ]
    path.write_text("\n".join(lines) + "\n")
    return lines


def load(address: str, folder: Path, clients: int, seconds: int, probe: str) -> Load:
    """Let wrk ask for some seconds, with one more client beside it."""
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "-s", str(folder / "script.lua")]
    stop, probes = threading.Event(), list[tuple[int, float]]()
    beside = threading.Thread(target=_probe, args=(address, probe, stop, probes))
    beside.start()
    done = subprocess.run(
        [*command, "--timeout", "30s", f"http://{address}"],
        env={**os.environ, "BODIES": str(folder / "bodies")},
        capture_output=True,
        text=True,
        check=True,
    )
    stop.set()
    beside.join()
    found = re.search(r"COUNTS (\d+) (\d+) (\d+) (\d+) (\S+) (\S+)", done.stdout)
    assert found is not None, done.stdout
    good, busy, bad, micros = map(int, found.groups()[:4])
    duration = micros / 1e6
    p50, p99 = map(float, found.groups()[4:])
    return Load(clients, good / duration, busy / duration, bad, p50, p99, probes)


def _probe(address: str, body: str, stop: threading.Event, seen: list[tuple[int, float]]) -> None:
    stop.wait(1)  # all clients of wrk begin in the same moment; that is not what is asked here
    while not stop.wait(0.03):
        seen.append(ask(address, body))


def ask(address: str, body: str) -> tuple[int, float]:
    """(status, milliseconds) of one request on a connection of its own."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", "/suggest", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, 1000 * (time.perf_counter() - started)


def hostile(process: subprocess.Popen[str], address: str) -> tuple[int, float]:
    """The status of a body of 500 MB, and how many more MB the server then held at the most."""
    before = _memory(process.pid)
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        head = "POST /suggest HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        with suppress(OSError):  # it hangs up, as it should
            for _ in range(500):
                connection.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
        status = int(connection.recv(100).split()[1])
    return status, (_memory(process.pid) - before) / 2**20


def _memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+)", status)[0])


def measure_overload(address: str, folder: Path, seconds: int, probe: str) -> None:
    """Print the table and what it says about overload."""
    say = sys.stdout.write
    say("clients  answers/s  refused/s  failed   p50 ms   p99 ms  probe 200 p99  429 p99\n")
    rows = []
    for clients in CLIENTS:
        rows.append(load(address, folder, clients, seconds, probe))
        say(rows[-1].row())
        sys.stdout.flush()
    peak = max(row.goodput for row in rows)
    knee = next(row.clients for row in rows if row.goodput >= 0.9 * peak)
    over = load(address, folder, 4 * knee, seconds, probe)
    say(f"\nbest goodput {peak:.1f} answers/s; the knee is at {knee} clients\n")
    for row in (over, rows[-1]):
        say(
            f"at {row.clients} clients ({row.clients / knee:g} times the knee): goodput "
            f"{row.goodput / peak:.0%} of the best (wanted: 90 %), refusals p99 "
            f"{row.probe(429):.1f} ms (wanted: under 50; nan: nothing was refused)\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--queue", default="256")
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("bench/serve.py: wrk is not installed (apt-get install wrk)")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "script.lua").write_text(SCRIPT)
        lines = bodies(options.docs, folder / "bodies")
        with start_service(options.run, "--queue", options.queue) as (_, address):
            measure_overload(address, folder, options.seconds, lines[0])
    with start_service(options.run) as (
        process,
        address,
    ):  # a fresh one, whose peak is not the load's
        status, more = hostile(process, address)
        sys.stdout.write(f"a body of 500 MB: {status}, {more:.1f} MB more memory (wanted: 50)\n")


if __name__ == "__main__":
    main()

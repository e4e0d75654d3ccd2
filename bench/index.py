"""Records a second of `ontodex index` on a data set, its memory, and whether kills change a byte.

    python bench/index.py [--records 1000000] [--files 40] [--kills 30] [--kill-records 40000]
                          [--ray-turns 2] [--before FOLDER]

The texts of the bundled sample, cut to 40 words and repeated under new ids, are written to
compressed files and indexed with label trees trained on the sample: by one worker and by two, and
from one file to one table with two. The bare reader, in two processes that do nothing with the
documents, is measured beside them. `--before` is the `src` folder of another version of ontodex,
whose `index` reads the one file too. A tenth of the files shows what memory depends on. Ray and
processes index half of the files in turns, so that other work disturbs both. An update file with
5 % changed and 1 % deleted records follows. Last, a smaller data set is killed with SIGKILL at
random moments and started again until it is done.

Prints tables; stops with an error where an id is missing or a byte differs. CPU time is that of
the command and all processes that it started; memory is the peak of the largest of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pyarrow.parquet as pq

from ontodex.corpora.datasets import get
from ontodex.corpora.open import open_corpus, read_docs, write_docs
from ontodex.runs.recipe import train
from ontodex.types import Doc

WORDS = 40  # of a record
READ = """
import sys
from ontodex.corpora.open import read_docs
for path in sys.argv[1:]:
    for doc in read_docs(path):
        pass
"""


def make_texts(folder: Path) -> list[str]:
    """Return a short text of each document of the sample."""
    return [" ".join(doc.text.split()[:WORDS]) for doc in read_docs(folder / "train.jsonl")]


def write_records(path: Path, numbers: Iterable[int], texts: Sequence[str]) -> None:
    """Write one record for each number as compressed JSON lines."""
    with gzip.open(path, "wt", compresslevel=1) as file:
        for n in numbers:
            file.write(json.dumps({"id": f"{n:08}", "title": texts[n % len(texts)]}) + "\n")


def write_data_set(folder: Path, n_records: int, n_files: int, texts: Sequence[str]) -> Path:
    folder.mkdir()
    size = -(-n_records // n_files)
    for start in range(0, n_records, size):
        numbers = range(start, min(start + size, n_records))
        write_records(folder / f"{start // size:04}.jsonl.gz", numbers, texts)
    return folder


def start(*words: object, source: str | None = None) -> subprocess.Popen[bytes]:
    """Start `ontodex index`, or `python ...` for words that begin with an option."""
    command = [str(word) for word in words]
    if not command[0].startswith("-"):
        command = ["-m", "ontodex", "index", *command]
    environment = os.environ | ({"PYTHONPATH": source} if source else {})
    return subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, env=environment)


def finish(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    """Wait for the end; return the CPU seconds of a command, and the KiB of its largest process."""
    peak, cpu = 0, dict[int, float]()
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        running = list_descendants(process.pid)
        peak = max(peak, *map(read_peak, running))
        cpu |= {pid: seconds for pid in running if (seconds := read_cpu(pid))}
        time.sleep(0.2)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"the command ended with exit code {process.returncode}")
    # A command does not wait for all processes of Ray.
    return max(used.ru_utime + used.ru_stime, sum(cpu.values())), peak


def list_descendants(root: int) -> list[int]:
    """Return the process and all processes that it started."""
    found = [root]
    for pid in found:
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):  # it ended meanwhile
                found += map(int, path.read_text().split())
    return found


def read_cpu(pid: int) -> float:
    """Return the CPU seconds of a process; 0 if it has ended."""
    with suppress(OSError):
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def read_peak(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1])
    return 0


def measure(name: str, n_records: int, *commands: Callable[[], subprocess.Popen[bytes]]) -> None:
    """Print a row of the table for commands that run at the same time."""
    started = time.perf_counter()
    processes = [command() for command in commands]
    used = [finish(process) for process in processes]
    seconds = time.perf_counter() - started
    cpu, peak = sum(cpu for cpu, _ in used), max(peak for _, peak in used) // 1024
    rate, cpu_rate = n_records / seconds, n_records / cpu
    print(f"| {name} | {seconds:.0f} | {rate:,.0f} | {cpu:.0f} | {cpu_rate:,.0f} | {peak:,} |")
    sys.stdout.flush()


def read_ids(parts: Path) -> list[str]:
    """Return the ids of a part, or of all parts of a folder in order."""
    files = sorted(parts.iterdir()) if parts.is_dir() else [parts]
    tables = (pq.read_table(file, columns=["id"]) for file in files)
    return [id_ for table in tables for id_ in table["id"].to_pylist()]


def require(condition: bool, what: str) -> None:
    if not condition:
        raise SystemExit(f"wrong: {what}")


def read_parts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "parts").iterdir()}


def compare_ways(folder: Path, n_records: int, options: argparse.Namespace) -> None:
    """Measure all ways to index the data set; compare their parts and ids."""
    run, many, one = folder / "run", folder / "in", folder / "all.jsonl.gz"
    files = sorted(many.iterdir())
    with one.open("wb") as sink:
        for file in files:
            with file.open("rb") as part:
                shutil.copyfileobj(part, sink)
    print("| way | seconds | records/s | CPU s | records / CPU s | peak MiB |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    halves = [["-c", READ, *files[i::2]] for i in (0, 1)]
    measure(
        "bare reader, 2 processes", n_records, *(lambda half=half: start(*half) for half in halves)
    )
    two = ("--workers", 2)
    measure("folder, 2 workers", n_records, lambda: start(run, many, folder / "two", *two))
    expected = read_parts(folder / "two")
    require(read_ids(folder / "two" / "parts") == [f"{n:08}" for n in range(n_records)], "ids")
    few = files[: max(1, len(files) // 10)]
    n_few = n_records * len(few) // len(files)
    measure("a tenth of the files", n_few, lambda: start(run, *few, folder / "few", *two))
    measure("one file to one table", n_records, lambda: start(run, one, folder / "a.parquet", *two))
    require(read_ids(folder / "a.parquet") == read_ids(folder / "two" / "parts"), "ids of one file")
    if options.before:
        measure(
            "the same, before",
            n_records,
            lambda: start(run, one, folder / "b.parquet", *two, source=options.before),
        )
        require(read_ids(folder / "b.parquet") == read_ids(folder / "a.parquet"), "ids before")
    measure(
        "folder, 1 worker", n_records, lambda: start(run, many, folder / "single", "--workers", 1)
    )
    require(read_parts(folder / "single") == expected, "bytes of 1 worker")


def compare_with_ray(folder: Path, n_records: int, turns: int) -> None:
    """Measure Ray and processes with two workers in turns, on half of the data set."""
    files = sorted((folder / "in").iterdir())
    half = files[: len(files) // 2]
    n_half = n_records * len(half) // len(files)
    for turn in range(turns):
        for engine in ("local", "ray"):
            out = folder / f"{engine}-{turn}"
            words = (folder / "run", *half, out, "--workers", 2, "--engine", engine)
            measure(f"half, {engine}, turn {turn + 1}", n_half, partial(start, *words))
            require(read_parts(out) == read_parts(folder / f"local-{turn}"), f"bytes of {engine}")
            shutil.rmtree(folder / f"local-{turn - 1}", ignore_errors=True)


def update(folder: Path, n_records: int, texts: Sequence[str]) -> None:
    """Index an update file in the format of PubMed, and merge the current records."""
    moments = random.Random(18)
    touched = moments.sample(range(n_records), n_records * 6 // 100)
    n_deleted = n_records // 100
    deleted = {f"{n:08}" for n in touched[:n_deleted]}
    changed = sorted(touched[n_deleted:])
    path = folder / "in" / "9999-update.xml.gz"
    docs = (Doc(f"{n:08}", {"title": texts[(n + 1) % len(texts)]}) for n in changed)
    write_docs(docs, path, "medline")
    text = gzip.decompress(path.read_bytes())
    pmids = "".join(f"<PMID Version='1'>{id_}</PMID>" for id_ in sorted(deleted)).encode()
    closing = b"</PubmedArticleSet>"
    text = text.replace(closing, b"<DeleteCitation>" + pmids + b"</DeleteCitation>" + closing)
    path.write_bytes(gzip.compress(text, mtime=0))
    before, table = read_parts(folder / "two"), folder / "current.parquet"
    measure(
        "update: 5 % changed, 1 % deleted, merged",
        len(changed),
        lambda: start(folder / "run", folder / "in", folder / "two", "--merge", table),
    )
    after = read_parts(folder / "two")
    require({name: after[name] for name in before} == before, "a part that no update touches")
    left_out = deleted | {f"{n:08}" for n in changed}
    expected = [id_ for n in range(n_records) if (id_ := f"{n:08}") not in left_out]
    require(read_ids(table) == expected + [f"{n:08}" for n in changed], "current ids")
    print(f"\n{len(changed):,} changed, {n_deleted:,} deleted: {len(read_ids(table)):,} current")


def kill(folder: Path, n_records: int, n_files: int, n_kills: int, texts: Sequence[str]) -> None:
    """Index a smaller data set in one go, then with kills; compare ids and bytes."""
    source = write_data_set(folder / "small", n_records, n_files, texts)
    words = (folder / "run", source, folder / "killed", "--workers", 2, "--block", 100)
    started = time.perf_counter()
    finish(start(folder / "run", source, folder / "whole", *words[3:]))
    usual = time.perf_counter() - started
    moments, n_done = random.Random(17), 0
    while n_done < n_kills:
        process = start(*words)
        try:
            process.wait(moments.uniform(0.1, usual / 3))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            n_done += 1
        else:  # finished: what the kills left is compared, and the next round begins
            _compare_killed(folder, n_records)
            shutil.rmtree(folder / "killed")
    finish(start(*words))
    _compare_killed(folder, n_records)
    print(f"{n_records:,} records, killed {n_done} times: every id once, the same bytes")


def _compare_killed(folder: Path, n_records: int) -> None:
    require(read_parts(folder / "killed") == read_parts(folder / "whole"), "bytes after kills")
    ids = read_ids(folder / "killed" / "parts")
    require(ids == [f"{n:08}" for n in range(n_records)], "ids after kills")
    require(not (folder / "killed" / "work").exists(), "blocks left behind")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--kill-records", type=int, default=40_000)
    parser.add_argument("--ray-turns", type=int, default=2)
    parser.add_argument("--before", help="src folder of another version of ontodex")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        get("sample", folder / "sample")
        learned, dev = (
            open_corpus(folder / "sample" / f"{name}.jsonl") for name in ("train", "dev")
        )
        train(config={"model": {"name": "parabel"}}, out=folder / "run", train=learned, dev=dev)
        texts = make_texts(folder / "sample")
        write_data_set(folder / "in", options.records, options.files, texts)
        size = sum(path.stat().st_size for path in (folder / "in").iterdir()) / 2**20
        print(f"{options.records:,} records in {options.files} files, {size:.0f} MiB\n")
        compare_ways(folder, options.records, options)
        if find_spec("ray") is not None:
            compare_with_ray(folder, options.records, options.ray_turns)
        update(folder, options.records, texts)
        if options.kills:
            kill(folder, options.kill_records, options.files, options.kills, texts)


if __name__ == "__main__":
    main()

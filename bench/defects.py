"""Outcome, time and memory of commands with the files that broke version 0.1.

    python bench/defects.py                               # of this tree
    PYTHONPATH=OTHER/src python bench/defects.py runs     # a group, of another version

The run folders are the cases of tests/runs/test_damaged_runs.py. Each command has a process of its
own with 30 s of processor time and 6 GiB of address space. Time is processor time with the start of
Python; memory is the largest resident size of the process. A run is loaded and used in a fork of a
process that has used an undamaged one: its figures are the time since and the growth.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

RUNS = Path(__file__).parents[1] / "tests" / "runs" / "0.1"
SECONDS, MEMORY = 30, 6 * 2**30
PAUSE, IDLE = 0.1, 10  # seconds; a command that sleeps for so long waits for ever
MIB = 2**20
MEDLINE = b'<?xml version="1.0"?>\n<PubmedArticleSet>\n'
ARTICLE = (
    b'<PubmedArticle><MedlineCitation Status="MEDLINE"><PMID Version="1">%d</PMID><Article>'
    b"<ArticleTitle>Rain in rivers</ArticleTitle></Article></MedlineCitation></PubmedArticle>\n"
)
TURTLE = (
    "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n@prefix e: <http://e/> .\n"
)
MANY = 20_000  # languages
CHAIN = 10_000
TWICE = 100_000  # times one id


def tag(number: int) -> str:
    """Return a language tag of four letters."""
    return "x-" + "".join(chr(97 + number // 26**place % 26) for place in range(4))


def make_turtle(language: Callable[[int], str]) -> bytes:
    concepts = (
        f'e:c{i} a skos:Concept ; skos:prefLabel "name {i}"@{language(i)} .\n' for i in range(MANY)
    )
    return (TURTLE + "".join(concepts)).encode()


def make_json(language: Callable[[int], str]) -> bytes:
    return json.dumps(
        [{"id": f"c{i}", "names": {language(i): f"n {i}"}} for i in range(MANY)]
    ).encode()


def make_chain(length: int) -> bytes:
    lines = (f"e:k{i} rdfs:subClassOf e:k{i - 1} .\n" for i in range(1, length))
    return (
        f"{TURTLE}e:k0 rdfs:subClassOf skos:Concept .\n{''.join(lines)}"
        f'e:x a e:k{length - 1} ; skos:prefLabel "x"@en .\n'
    ).encode()


def make_repeated(identify: Callable[[int], str]) -> bytes:
    records = ({"id": identify(i), "names": {"en": f"name {i}"}} for i in range(TWICE))
    return json.dumps(list(records)).encode()


def make_files() -> Iterator[tuple[str, str, bytes]]:
    """Yield the name, the file name and the bytes of each file; a benign one before the others."""
    pmids = MEDLINE + b"<DeleteCitation>" + b"<PMID" * (2 * MIB // 5)
    citations = MEDLINE + b"<MedlineCitation " * (2 * MIB // 17)
    articles = b"".join(ARTICLE % i for i in range(2 * MIB // len(ARTICLE)))
    yield "benign: MEDLINE", "benign.xml", MEDLINE + articles + b"</PubmedArticleSet>"
    yield "MEDLINE, `<PMID` repeated", "pmid.xml", pmids
    yield "the same, gzip", "pmid.xml.gz", gzip.compress(pmids)
    yield "MEDLINE, `<MedlineCitation ` repeated", "citation.xml", citations
    yield "the same, gzip", "citation.xml.gz", gzip.compress(citations)
    yield "benign: SKOS, one language", "one.ttl", make_turtle(lambda i: "en")
    yield "SKOS, 20,000 languages", "many.ttl", make_turtle(tag)
    yield "benign: JSON, one language", "one.json", make_json(lambda i: "en")
    yield "JSON, 20,000 languages", "many.json", make_json(tag)
    yield "Turtle, a chain of 10,000", "chain.ttl", make_chain(CHAIN)
    yield "benign: JSON, 100,000 ids", "ids.json", make_repeated(lambda i: f"c{i}")
    yield "JSON, one id 100,000 times", "id.json", make_repeated(lambda i: "c")


def list_files(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the command that reads each file."""
    for what, file, content in make_files():
        (folder / file).write_bytes(content)
        yield what, ["check", file] if ".xml" in file else ["ontology", "show", file]


def list_special(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield commands with a device or a pipe, which no writer opens."""
    os.mkfifo(folder / "pipe")
    (folder / "texts").mkdir()
    os.mkfifo(folder / "texts" / "a.txt")
    yield "`check /dev/zero`", ["check", "/dev/zero"]
    yield "`ontology show /dev/zero`", ["ontology", "show", "/dev/zero"]
    jsonl = ["convert", "/dev/zero", "out.csv", "--from", "jsonl"]
    yield "`convert --from jsonl /dev/zero`", jsonl
    yield "`check` a pipe", ["check", "pipe"]
    yield "`check` a folder with a pipe", ["check", "texts"]
    yield "`ontology show` a pipe", ["ontology", "show", "pipe"]
    yield "`convert` a pipe", ["convert", "pipe", "out.jsonl"]
    yield "`index` a pipe", ["index", str(RUNS / "knn"), "pipe", "out.csv"]
    train = ["train", "--model", "popularity", "--train", "pipe", "--out", "run"]
    yield "`train` with a pipe", train


GROUPS = {"files": list_files, "special": list_special}


def measure(command: Sequence[str], folder: Path) -> str:
    """Return the cells of a command: outcome, processor seconds, MiB."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ontodex", *command],
            cwd=folder,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
    reason = watch(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    outcome = reason or describe(process.returncode, (folder / "log").read_text(errors="replace"))
    seconds, mib = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
    return f"{outcome} | {seconds:.1f} s | {mib:,.0f} MiB"


def watch(process: int) -> str:
    """Wait for the end of a process, or kill it; return why it was killed."""
    used, n_idle = 0.0, 0
    while True:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        if state == "Z":  # ended
            return ""
        before, used = used, sum(map(int, fields[10:12])) / os.sysconf("SC_CLK_TCK")
        n_idle = n_idle + 1 if state == "S" and used == before else 0
        if used > SECONDS or n_idle * PAUSE > IDLE:
            os.kill(process, signal.SIGKILL)
            return f"over {SECONDS} s, killed" if used > SECONDS else "waits for ever"
        time.sleep(PAUSE)


def describe(status: int, log: str) -> str:
    """Return what became of a command that ended by itself."""
    if "Traceback" in log:
        return f"`{log.rstrip().splitlines()[-1].partition(':')[0]}`"
    return "accepted" if status == 0 else "refused" if status > 0 else f"ended by signal {-status}"


def list_runs(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield damaged runs; first an undamaged one of each system."""
    sys.path.insert(0, str(RUNS.parent))
    damaged: Any = import_module("test_damaged_runs")
    for system in sorted({system for system, _, _ in damaged.CASES.values()}):
        use_run(RUNS / system)  # imports its libraries
        yield f"{system}: undamaged", RUNS / system
    for number, (case, (system, file, change)) in enumerate(damaged.CASES.items()):
        yield f"{system}: {case}", damaged.damage(system, folder / str(number), file, change)


def measure_run(run: Path) -> str:
    """Return the cells of a run, loaded and used in a fork of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
        os.write(writer, f"{before} ".encode())
        os.write(writer, use_run(run).encode())
        os._exit(0)
    os.close(writer)
    killed = watch(child)
    with os.fdopen(reader) as answer:
        resident, _, outcome = answer.read().partition(" ")
    _, status, usage = os.wait4(child, 0)
    outcome = killed or outcome or f"ended by signal {os.WTERMSIG(status)}"
    grown = max(0, usage.ru_maxrss * 1024 - int(resident or 0)) / MIB
    return f"{outcome} | {usage.ru_utime + usage.ru_stime:.2f} s | {grown:,.0f} MiB"


def use_run(run: Path) -> str:
    """Return what becomes of loading a run and indexing a text."""
    ontodex: Any = import_module("ontodex")
    errors: Any = import_module("ontodex.errors")
    try:
        found = ontodex.load(run).suggest("rodent control in cities")
    except errors.OntodexError:
        return "refused"
    except BaseException as error:
        return f"`{type(error).__name__}`"
    is_valid = all(0 <= one.probability <= 1 for one in found)
    return "used" if is_valid else "used, a probability outside [0, 1]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="*", default=[*GROUPS, "runs"], metavar="GROUP")
    groups = parser.parse_args().groups
    print("| Input | Outcome | Time | Memory |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="defects-") as name:
        folder = Path(name)
        for group in [group for group in GROUPS if group in groups]:
            for what, command in GROUPS[group](folder):
                print(f"| {what} | {measure(command, folder)} |", flush=True)
        if "runs" in groups:
            for what, run in list_runs(folder):
                print(f"| {what} | {measure_run(run)} |", flush=True)


if __name__ == "__main__":
    main()

"""Measure the time of the suggestions for one abstract: every system, on one core of a CPU.

    python bench/latency.py DATA --work FOLDER [--runs RUN ...] [--only SYSTEM ...]

DATA is a folder as `ontodex data get medline-mesh DATA` writes it. A system that none of RUN is of
is trained first and kept in FOLDER. Networks learn for one epoch from a tenth of the documents with
the labels of all: their answers are worth nothing, but take as long as good ones would. dxml, and
whatever is no network, learns from all documents, for there the time depends on what was learned.

Each run is measured alone, one document after the other: `ontodex.load(run).suggest(doc)` in a
process that has one core, and `POST /suggest` to a service that has the same core, asked from
another one on a new connection each time. Prints a Markdown table. Memory is the peak of the first
process, ontology included.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ontodex.corpora.open import read_docs
from ontodex.models import MODELS
from ontodex.runs.folder import is_finished, load_labels
from ontodex.types import Corpus, Doc
from serve import ask, start_service

T = TypeVar("T")
WARM = 10  # documents before the clock starts
SHARE = 10  # a network learns from one document in so many
ONE_EPOCH = {"train": {"epochs": 1, "batch_size": 16}}
ON_ALL: dict[str, dict[str, Any]] = {
    "popularity": {}, "lexical": {}, "knn": {}, "kernel": {}, "linear": {}, "parabel": {},
    "bonsai": {},
    "dxml": {"train": {"epochs": 1}},
    "graphknn": {"train": {"epochs": 1}},
}  # fmt: skip


@contextmanager
def pin_to_core(number: int) -> Iterator[None]:
    """Give one core to the processes that start in the block."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[number % len(before)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run_in_subprocess(work: Callable[..., T], *arguments: Any) -> T:
    """The result of a function that ran in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return alone.submit(work, *arguments).result()


def fit(name: str, data: Path, out: Path, members: Sequence[str]) -> None:
    """Train a system as fast as the measurement allows."""
    from ontodex.ontology.open import read_ontology
    from ontodex.runs.recipe import train

    settings = ON_ALL.get(name, ONE_EPOCH)
    if name in ("levelwise", "attentive-levels"):
        settings = {**ONE_EPOCH, "merge": "pointer", "pointer": {"steps": 1}}
    elif name == "consensus":
        settings = {"members": list(members)}
    docs = list(read_docs(data / "train.jsonl"))
    train(
        config={"model": {"name": name, **settings}},
        out=out,
        train=Corpus.of(docs if name in ON_ALL else join_documents(docs)),
        dev=Corpus.of(itertools.islice(read_docs(data / "dev.jsonl"), 100)),
        ontology=read_ontology(next(data.glob("ontology.*"))),
        device="cpu",
    )


def join_documents(docs: Sequence[Doc]) -> Iterator[Doc]:
    """Some of the documents, with the labels of all."""
    for start in range(0, len(docs), SHARE):
        group = docs[start : start + SHARE]
        labels = dict.fromkeys(label for doc in group for label in doc.labels)
        yield dataclasses.replace(group[0], labels=tuple(labels))


def measure_in_process(run: Path, docs: Sequence[Doc]) -> tuple[list[float], int]:
    """Milliseconds of each document, and MiB at the peak."""
    import ontodex

    loaded, times = ontodex.load(run), []
    for doc in docs:
        started = time.perf_counter()
        loaded.suggest(doc)
        times.append(1000 * (time.perf_counter() - started))
    return times, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def through_http(run: Path, docs: Sequence[Doc]) -> list[float]:
    """Milliseconds of each document."""
    with ExitStack() as stack:
        with pin_to_core(0):
            _, address = stack.enter_context(start_service(run))
        with pin_to_core(1):
            found = [ask(address, _body(doc)) for doc in docs]
    assert all(status == 200 for status, _ in found), run
    return [ms for _, ms in found]


def _body(doc: Doc) -> str:
    return json.dumps({"documents": [{"fields": dict(doc.fields)}]})


def row(name: str, run: Path, docs: Sequence[Doc]) -> str:
    with pin_to_core(0):
        inside, memory = run_in_subprocess(measure_in_process, run, docs)
    times = [inside[WARM:], through_http(run, docs)[WARM:]]
    cells = [f"{ms:.1f}" for each in times for ms in np.quantile(each, [0.5, 0.95])]
    n_labels = load_labels(run / "labels.tsv").n_seen
    return f"| {' | '.join([name, f'{n_labels:,}', *cells, f'{memory:,}'])} |\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--documents", type=int, default=100)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    options.work.mkdir(parents=True, exist_ok=True)
    docs = list(itertools.islice(read_docs(options.data / "test.jsonl"), options.documents + WARM))
    runs = {name: options.work / name for name in options.only}
    for run in options.runs:
        runs[json.loads((run / "manifest.json").read_text())["model"]] = run
    for name, run in runs.items():
        if not is_finished(run):
            members = [str(runs.get(one, options.work / one)) for one in ("linear", "parabel")]
            run_in_subprocess(fit, name, options.data, run, members)
    say = sys.stdout.write
    say("| system | labels | p50 ms | p95 ms | HTTP p50 ms | HTTP p95 ms | MiB |\n")
    say("|---|--:|--:|--:|--:|--:|--:|\n")
    for name, run in runs.items():
        say(row(name, run, docs))
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Every row of the tables of paper 000 in our numbers, from a prepared folder.

    python bench/levelwise.py carried/eurlex out --ontology carried/eurlex/ontology.json \
        --set model.max_level=4
    python bench/levelwise.py carried/medline out --ontology carried/medline/ontology.json --paper

The folder is what `ontodex prepare train dev test --out` wrote; nothing outside the core is needed,
so this runs on a GPU machine. What is finished lies below `out`: a command that was stopped goes
on, and rows that differ only after pass 1 or pass 2 share them; a result that was made from other
settings or documents is refused. At the end levelwise_tables.py makes tables, claims and figures of
all result files in `out`; `--paper` and `--beside` are its own.
`--lanes N` trains so many rows at a time, each in a process of its own; of rows that share a pass
the first goes ahead. `--steps N` only measures what a step of training costs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import current_process, get_context
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import levelwise_tables
from levelwise_measure import clock, measure
from levelwise_results import FORMAT
from ontodex.config import build, merged, read
from ontodex.files import digest, write_text
from ontodex.models.level_network import LevelwiseConfig
from ontodex.models.levelwise import AFTER_PASS_1, AFTER_PASS_2, Levelwise
from ontodex.ontology import read_ontology
from ontodex.train.device import pick
from ontodex.types import Corpus, LabelSpace

# The paper's network, in sizes of ours; answers by pass 2 alone.
POOLING: dict[str, Any] = {
    "reader": "pooling",
    "sets": "pooling",
    "encoder": "level",
    "windows": [3, 4, 5],
    "width": 320,
    "hidden": 256,
    "value": 256,
    "bag": 0,
    "word_dropout": 0.2,
    "second": "continued",  # the paper does not say where pass 2 starts; dev does
    "average_passes": False,
    "train": {"batch": 256},
}
PAPER: dict[str, dict[str, Any]] = {
    "full": {},
    "words": {"inputs": "words", "merge": "threshold"},
    "keywords": {"inputs": "words+keywords", "merge": "threshold"},
    "sampling": {"merge": "sampling"},
    "threshold": {"merge": "threshold"},
    "label": {"pointer": {"unit": "label"}},
    "printed": {"pointer": {"ancestor_gate": "printed"}},
    "ungated": {"pointer": {"ancestor_gate": "off"}},
    "unordered": {"pointer": {"order": "any", "share": 1.0}},
    "max": {"pooling": "max"},
    "fixed": {"pooling": "fixed", "chunks": 8},
    "flat": {"max_level": 1, "merge": "threshold"},
    "own-documents": {"documents": "level"},
    "expanded": {"expand": "lowest"},
    "shared": {"encoder": "shared"},
    "attention": {"reader": "attention"},
    "averaged": {"average_passes": True},
    "anew": {"second": "anew"},
    "odds": {"pointer": {"odds": "threshold"}},
}
ATTENTIVE: dict[str, dict[str, Any]] = {  # the default
    "attentive": {},
    "attentive-keywords": {"inputs": "words+keywords", "merge": "threshold"},
    "attentive-last": {"average_passes": False},
    "attentive-continued": {"second": "continued"},
    "attentive-continued-last": {"second": "continued", "average_passes": False},
    "attentive-odds": {"pointer": {"odds": "threshold"}},
    "attentive-threshold": {"merge": "threshold"},
    "attentive-sampling": {"merge": "sampling"},
    "attentive-flat": {"max_level": 1, "merge": "threshold"},
}
AS_PRINTED = read(Path(__file__).parent.parent / "experiments" / "paper" / "levelwise.toml")
ROWS = {**{row: {**POOLING, **settings} for row, settings in PAPER.items()}, **ATTENTIVE}
ROWS["paper"] = {k: v for k, v in AS_PRINTED["model"].items() if k != "name"}
# What Tables 2 to 5, the claims and the page are made of; experiments/levelwise.toml has the same.
TABLED = (
    "full", "words", "keywords", "sampling", "threshold", "label", "odds", "max", "flat",
    "averaged", "anew", "attention", "attentive", "attentive-keywords", "attentive-last",
    "attentive-odds", "attentive-threshold", "attentive-sampling", "attentive-continued",
    "attentive-continued-last", "attentive-flat",
)  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ontology", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=TABLED, choices=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--set", dest="common", action="append", default=[], help="a row outranks it"
    )
    parser.add_argument("--over", action="append", default=[], help="outranks the rows' settings")
    parser.add_argument("--min-count", type=int, default=1, help="of labels, in training")
    parser.add_argument("--lanes", type=int, default=1, help="rows that train at a time")
    parser.add_argument("--steps", type=int, help="only time so many steps of each row")
    parser.add_argument("--paper", action="store_true", help="the paper's figures beside ours")
    parser.add_argument("--beside", type=Path, help="a file of results of other systems")
    arguments = parser.parse_args(given)
    least = AS_PRINTED["labels"]["min_count"]
    if "paper" in arguments.rows and arguments.min_count != least:
        parser.error(
            f"the row `paper` learns labels that {least} training documents have or more, as "
            f"experiments/paper/levelwise.toml does, not {arguments.min_count}: add --min-count "
            f"{least}, and take a folder of its own, since other label sets have other figures"
        )
    log_to_stderr()
    source = Source(arguments.folder, arguments.ontology, arguments.min_count)
    about = {"format": FORMAT, **source.about()}
    jobs = []
    for seed in arguments.seeds:
        for row in arguments.rows:
            config = settings(row, seed, arguments.common, arguments.over)
            made_from = {"model": dataclasses.asdict(config), **about}
            head = {"row": row, "seed": seed, "made from": made_from}
            jobs.append(Job(arguments.out / f"{row}-{seed}.json", head, config))
    if arguments.steps:
        for job in jobs:
            time_steps(job.head["row"], begin(job.config), *source.open(), arguments.steps)
        return
    for job in jobs:  # before the first hour of training
        if job.result.exists():
            check_same(job.result, job.head["made from"])
    (arguments.out / "work").mkdir(parents=True, exist_ok=True)
    train_all(jobs, source, arguments.lanes)
    beside = ["--beside", str(arguments.beside)] if arguments.beside else []
    levelwise_tables.main([str(arguments.out), *["--paper"] * arguments.paper, *beside])


def log_to_stderr() -> None:
    logging.basicConfig(format="%(asctime)s %(processName)s %(message)s", level=logging.INFO)


@dataclass(frozen=True)
class Source:
    """What all rows are trained from."""

    folder: Path
    ontology: Path
    min_count: int

    def open(self) -> tuple[dict[str, Corpus], LabelSpace]:
        corpora = {part: Corpus.open(self.folder / part) for part in ("train", "dev", "test")}
        ontology = read_ontology(self.ontology)
        return corpora, LabelSpace.of(corpora["train"], ontology, min_count=self.min_count)

    def about(self) -> dict[str, Any]:
        corpora = {part: Corpus.open(self.folder / part).key for part in ("train", "dev", "test")}
        ontology = digest(self.ontology)
        # What of it is told by no corpus's key: words, phrases, vectors.
        prepared = json.loads((self.folder / "prepared.json").read_text(encoding="utf-8"))["plan"]
        prepared["corpora"] = corpora
        return {"min_count": self.min_count, "prepared": prepared, "ontology": ontology}


@dataclass(frozen=True)
class Job:
    """A row with a seed."""

    result: Path
    head: Mapping[str, Any]
    config: LevelwiseConfig

    @property
    def passes(self) -> set[str]:
        """Pass 1 and pass 2, by what they are trained with: rows of equal ones share them."""
        settings = {**vars(self.config), "reads_keywords": self.config.reads_keywords}
        return {
            repr({name: value for name, value in settings.items() if name not in later})
            for later in (AFTER_PASS_1, AFTER_PASS_2)
        }

    def run(self, source: Source) -> None:
        current_process().name = self.result.stem  # stands in the log
        system = begin(self.config)
        system.work = self.result.parent / "work"
        found = {**self.head, **measure(system, *source.open())}
        write_text(self.result, json.dumps(found) + "\n")


def train_all(jobs: Sequence[Job], source: Source, lanes: int) -> None:
    """Run what is not there yet, some at a time, and say what came of each. A job that fails is
    said at the end, when the others are done."""
    waiting = [job for job in jobs if not job.result.exists()]
    for job in jobs:
        if job not in waiting:
            say_result(job)
    if lanes == 1:
        for job in waiting:
            job.run(source)
            say_result(job)
        return
    # A process a job: what one leaves on the GPU is gone, and one that is killed stops no other.
    spawn = get_context("spawn")
    running: dict[SpawnProcess, Job] = {}
    trained: set[str] = set()  # passes that rows may share now
    failed: list[str] = []
    while waiting or running:
        while len(running) < lanes and (one := free(waiting, running.values(), trained)):
            process = spawn.Process(target=in_a_lane, args=(one, source))
            process.start()
            running[process] = one
            waiting.remove(one)
        wait([process.sentinel for process in running])
        for process in [process for process in running if process.exitcode is not None]:
            job = running.pop(process)
            if process.exitcode:
                failed.append(f"{job.result.stem} failed with exit status {process.exitcode}")
            else:
                trained |= job.passes
                say_result(job)
    if failed:
        raise SystemExit(f"{'; '.join(failed)}: see above")


def in_a_lane(job: Job, source: Source) -> None:
    log_to_stderr()
    job.run(source)


def free(waiting: Sequence[Job], running: Iterable[Job], trained: set[str]) -> Job | None:
    """The first that shares no pass which another is training."""
    ahead = {one for job in running for one in job.passes} - trained
    return next((job for job in waiting if not job.passes & ahead), None)


def say_result(job: Job) -> None:
    say(json.dumps(summary(json.loads(job.result.read_text(encoding="utf-8")))))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def settings(row: str, seed: int, common: Sequence[str], over: Sequence[str]) -> LevelwiseConfig:
    """Those of a row."""
    model = merged(read(None, common).get("model", {}), ROWS[row])
    model = merged(model, read(None, over).get("model", {}))
    model = merged(model, {"train": {"seed": seed}, "pointer": {"train": {"seed": seed}}})
    return build(Levelwise.Config, model, "model")


def begin(config: LevelwiseConfig) -> Levelwise:
    return Levelwise(config, device=pick("auto"))


def check_same(result: Path, made_from: Mapping[str, Any]) -> None:
    """Refuse a result that is not of what is asked for, or does not say what it is of."""
    there = flat(json.loads(result.read_text()).get("made from", {}))
    asked = flat(json.loads(json.dumps(made_from)))  # lists for tuples, as in the file
    others = [name for name in asked | there if asked.get(name) != there.get(name)]
    differ = [f"{name} is {there.get(name)}, not {asked.get(name)}" for name in others]
    if differ:
        said = "; ".join(differ) if there else "it is older and does not say from what"
        raise SystemExit(
            f"{result} was made from something else than is asked for now: {said}. "
            "Take another folder for the results, or remove this file."
        )


def flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """The values of tables within tables, by dotted names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        inner = isinstance(value, dict)
        found |= flat(value, f"{above}{name}.") if inner else {above + name: value}
    return found


def time_steps(
    row: str, system: Levelwise, corpora: Mapping[str, Corpus], labels: LabelSpace, steps: int
) -> None:
    """Print what a step costs: operations (on a GPU: kernels) it starts, its time and memory."""
    from torch.profiler import ProfilerActivity, profile

    trainer = system.trainer(system.stage(corpora["train"], corpora["dev"], labels))
    network = trainer.network(np.arange(len(corpora["train"]))).train()
    step = trainer.losses(network)
    rows = np.array_split(np.arange(min(len(corpora["train"]), system.config.train.batch * 8)), 8)
    for some_rows in rows[:2]:
        step(some_rows).backward()
    began = clock(system.device)
    for number in range(steps):
        network.zero_grad(set_to_none=True)
        step(rows[number % 8]).backward()
    took = (clock(system.device) - began) / steps
    on_gpu = system.device.type == "cuda"
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=kinds) as seen:
        step(rows[0]).backward()
    names = {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cuLaunchKernel"}
    launches = sum(
        one.count for one in seen.key_averages() if (one.key in names if on_gpu else leaf(one.key))
    )
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None
    found = {"row": row, "ms a step": round(1000 * took, 1), "launches": launches, "GiB": peak}
    say(json.dumps(found))


def leaf(name: str) -> bool:
    """Whether an operation of a CPU profile would be a kernel on a GPU."""
    views = (
        "view", "reshape", "slice", "select", "transpose", "expand", "as_strided",
        "as_strided_", "empty", "empty_like", "detach", "t", "permute", "split",
        "unsqueeze", "squeeze", "alias", "flatten", "narrow", "unflatten", "linear",
        "matmul", "to", "_to_copy", "resize_", "unbind", "resolve_conj",
        "empty_strided", "promote_types", "clone", "contiguous", "zeros", "ones",
        "diff", "_reshape_alias", "slice_backward", "masked_fill", "dropout",
    )  # fmt: skip
    return name.startswith("aten::") and name.removeprefix("aten::") not in views


def summary(result: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("row", "seed", "seconds", "memory GiB", "documents a second", "dev", "test")
    return {name: result[name] for name in kept}


if __name__ == "__main__":
    main()

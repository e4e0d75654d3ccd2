"""Every row of the tables of Deep Level-wise XMLC in our numbers, from a prepared folder.

    python bench/levelwise.py carried/eurlex out --ontology carried/eurlex/ontology.json \
        --set model.max_level=4
    python bench/levelwise.py carried/medline out --ontology carried/medline/ontology.json --paper

The folder is the output of `ontodex prepare train dev test --out`. Only the core is needed, so this
runs on a GPU machine. Finished stages are in `out/work`: a stopped command continues, and rows that
differ only after pass 1 or pass 2 share them. A result from other settings or documents is refused.
At the end levelwise_tables.py makes tables, claims and figures of all result files in `out`, with
its options `--paper` and `--beside`.
`--lanes N` trains N rows at a time, each in its own process; of rows that share a pass, the first
starts alone. `--steps N` only measures the cost of a training step.
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
from levelwise_measure import measure, read_clock
from levelwise_results import FORMAT
from ontodex.config import Table, build, list_constants, merge_tables, read, vary
from ontodex.io.device import choose_device
from ontodex.io.files import hash_file, write_text
from ontodex.io.old_names import translate_old_names
from ontodex.models.attentive_levels.system import AttentiveLevelsSystem
from ontodex.models.levelwise.cache_key import AFTER_PASS_1, AFTER_PASS_2
from ontodex.models.levelwise.config import LevelsConfig
from ontodex.models.levelwise.system import Levelwise
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace

# Deep Level-wise XMLC as written; `levelwise` has the values of the paper.
PAPER: dict[str, dict[str, Any]] = {
    "full": {"merge": "pointer"},
    "words": {"inputs": "words", "merge": "threshold"},
    "keywords": {"inputs": "words+keywords", "merge": "threshold"},
    "sampling": {"merge": "sampling"},
    "threshold": {"merge": "threshold"},
    "label": {"merge": "pointer", "pointer": {"unit": "label"}},
    "printed": {"merge": "pointer", "pointer": {"ancestor_gate": "printed"}},
    "ungated": {"merge": "pointer", "pointer": {"ancestor_gate": "off"}},
    "max": {"merge": "pointer", "pooling": "max"},
    "fixed": {"merge": "pointer", "pooling": "fixed", "chunks": 8},
    "flat": {"max_level": 1, "merge": "threshold"},
}
# Ablations of constants of the class.
CONSTANTS: dict[str, dict[str, Any]] = {
    "all-documents": {"merge": "pointer", "documents": "all"},
    "balanced": {"merge": "pointer", "categories": "balanced"},
    "averaged": {"merge": "pointer", "average_passes": True},
    "from-scratch": {"merge": "pointer", "pass2_init": "scratch"},
    "ordered": {
        "merge": "pointer",
        "pointer": {"order": "forward", "length_reward": True, "candidate_threshold_ratio": 0.4},
    },
    # As many epochs of pass 1 as `full` has in both passes.
    "longer": {"inputs": "words+keywords", "merge": "threshold", "train": {"epochs": 54}},
}
ATTENTIVE: dict[str, dict[str, Any]] = {  # our variant
    "attentive": {},
    "attentive-keywords": {"reads_levels": False, "merge": "threshold"},
    "attentive-last": {"average_passes": False},
    "attentive-threshold": {"merge": "threshold"},
    "attentive-sampling": {"merge": "sampling"},
    "attentive-flat": {"max_level": 1, "merge": "threshold"},
}
ROWS = {**PAPER, **CONSTANTS, **ATTENTIVE}
# The rows of Tables 2 to 5; experiments/levelwise.toml has the same.
TABLED = (
    "full", "words", "keywords", "sampling", "threshold", "label", "max", "flat", "attentive",
    "attentive-threshold", "attentive-sampling", "attentive-flat",
)  # fmt: skip


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ontology", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=TABLED, choices=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--set",
        dest="common",
        action="append",
        default=[],
        help="setting of all rows; those of a row win",
    )
    parser.add_argument(
        "--over",
        action="append",
        default=[],
        help="setting that wins over the rows",
    )
    parser.add_argument("--min-count", type=int, default=1, help="training documents of a label")
    parser.add_argument("--lanes", type=int, default=1, help="rows trained at a time")
    parser.add_argument("--steps", type=int, help="only time this many steps of each row")
    parser.add_argument("--paper", action="store_true", help="show the paper's numbers too")
    parser.add_argument("--beside", type=Path, help="a JSON file with results of other systems")
    arguments = parser.parse_args(given)
    log_to_stderr()
    source = Source(arguments.folder, arguments.ontology, arguments.min_count)
    about = {"format": FORMAT, **source.about()}
    jobs = []
    for seed in arguments.seeds:
        for row in arguments.rows:
            config = settings(row, seed, arguments.common, arguments.over)
            made_from = {"model": list_choices(config), **about}
            head = {"row": row, "seed": seed, "made from": made_from}
            jobs.append(Job(arguments.out / f"{row}-{seed}.json", head, config))
    if arguments.steps:
        for job in jobs:
            row = job.head["row"]
            time_steps(row, make_system(row, job.config), *source.open(), arguments.steps)
        return
    for job in jobs:  # before the first hour of training
        if job.result.exists():
            check_inputs(job.result, job.head["made from"])
    (arguments.out / "work").mkdir(parents=True, exist_ok=True)
    run_all(jobs, source, arguments.lanes)
    beside = ["--beside", str(arguments.beside)] if arguments.beside else []
    levelwise_tables.main([str(arguments.out), *["--paper"] * arguments.paper, *beside])


def log_to_stderr() -> None:
    logging.basicConfig(format="%(asctime)s %(processName)s %(message)s", level=logging.INFO)


@dataclass(frozen=True)
class Source:
    """The data that all rows are trained from."""

    folder: Path
    ontology: Path
    min_count: int

    def open(self) -> tuple[dict[str, Corpus], LabelSpace]:
        corpora = {part: Corpus.open(self.folder / part) for part in ("train", "dev", "test")}
        ontology = read_ontology(self.ontology)
        return corpora, LabelSpace.of(corpora["train"], ontology, min_count=self.min_count)

    def about(self) -> dict[str, Any]:
        corpora = {part: Corpus.open(self.folder / part).key for part in ("train", "dev", "test")}
        ontology = hash_file(self.ontology)
        # Words, phrases and vectors, which the key of a corpus does not cover.
        prepared = json.loads((self.folder / "prepared.json").read_text(encoding="utf-8"))["plan"]
        prepared["corpora"] = corpora
        return {"min_count": self.min_count, "prepared": prepared, "ontology": ontology}


@dataclass(frozen=True)
class Job:
    """A row with a seed."""

    result: Path
    head: Mapping[str, Any]
    config: LevelsConfig

    @property
    def passes(self) -> set[str]:
        """The settings of pass 1 and pass 2: rows with equal ones share them."""
        constants = list_constants(type(self.config))
        settings = {**constants, **vars(self.config), "keywords": self.config.reads_keywords}
        return {
            repr({name: value for name, value in settings.items() if name not in later})
            for later in (AFTER_PASS_1, AFTER_PASS_2)
        }

    def run(self, source: Source) -> None:
        current_process().name = self.result.stem  # for the log
        system = make_system(self.head["row"], self.config)
        system.work = self.result.parent / "work"
        found = {**self.head, **measure(system, *source.open())}
        write_text(self.result, json.dumps(found) + "\n")


def run_all(jobs: Sequence[Job], source: Source, lanes: int) -> None:
    """Run the jobs without result, `lanes` at a time, and print each result.

    Failed jobs are reported at the end, when the others are done.
    """
    waiting = [job for job in jobs if not job.result.exists()]
    for job in jobs:
        if job not in waiting:
            print_result(job)
    if lanes == 1:
        for job in waiting:
            job.run(source)
            print_result(job)
        return
    # One process per job: it frees its GPU memory, and a killed one stops no other.
    spawn = get_context("spawn")
    running: dict[SpawnProcess, Job] = {}
    trained: set[str] = set()  # passes that rows can share now
    failed: list[str] = []
    while waiting or running:
        while len(running) < lanes and (one := find_free_job(waiting, running.values(), trained)):
            process = spawn.Process(target=run_in_process, args=(one, source))
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
                print_result(job)
    if failed:
        raise SystemExit(f"{'; '.join(failed)}: see above")


def run_in_process(job: Job, source: Source) -> None:
    log_to_stderr()
    job.run(source)


def find_free_job(waiting: Sequence[Job], running: Iterable[Job], trained: set[str]) -> Job | None:
    """Return the first job that shares no pass with a running one."""
    ahead = {one for job in running for one in job.passes} - trained
    return next((job for job in waiting if not job.passes & ahead), None)


def print_result(job: Job) -> None:
    print_line(json.dumps(summarise(json.loads(job.result.read_text(encoding="utf-8")))))


def print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def settings(row: str, seed: int, common: Sequence[str], over: Sequence[str]) -> LevelsConfig:
    """Return the settings of a row, and its constants."""
    model = merge_tables(read(None, common).get("model", {}), ROWS[row])
    model = merge_tables(model, read(None, over).get("model", {}))
    model = merge_tables(model, {"train": {"seed": seed}})
    system = find_system(row)
    pointer, constants = split_constants(system.Config().pointer, model.pop("pointer", {}))
    model, own = split_constants(system.Config(), model)
    config = build(system.Config, {**model, "pointer": pointer}, "model")
    return vary(config, pointer=vary(config.pointer, **constants), **own)


def list_choices(config: LevelsConfig) -> Table:
    """Return the settings and the constants of a row, for its result file."""
    pointer = {**list_constants(type(config.pointer)), **vars(config.pointer)}
    del pointer["train"]
    own = {**list_constants(type(config)), **dataclasses.asdict(config), "pointer": pointer}
    del own["languages"]  # no choice of a row
    return {name: own[name] for name in sorted(own)}


def split_constants(defaults: Any, table: Mapping[str, Any]) -> tuple[Table, Table]:
    """Return the settings and the constants of a table."""
    known = list_constants(type(defaults))
    fields = {name: value for name, value in table.items() if name not in known}
    return fields, {name: value for name, value in table.items() if name in known}


def find_system(row: str) -> type[Levelwise]:
    return AttentiveLevelsSystem if row in ATTENTIVE else Levelwise


def make_system(row: str, config: LevelsConfig) -> Levelwise:
    return find_system(row)(config, device=choose_device("auto"))


def check_inputs(result: Path, made_from: Mapping[str, Any]) -> None:
    """Refuse a result that was made from other settings or data, or does not name them."""
    stored = json.loads(result.read_text()).get("made from", {})
    if "model" in stored:
        model = translate_old_names({"model": {**stored["model"], "name": "levelwise"}})["model"]
        stored["model"] = {name: value for name, value in model.items() if name != "name"}
    there = flatten(stored)
    asked = flatten(json.loads(json.dumps(made_from)))  # lists for tuples, as in the file
    others = [name for name in asked | there if asked.get(name) != there.get(name)]
    differ = [f"{name} is {there.get(name)}, not {asked.get(name)}" for name in others]
    if differ:
        reason = "; ".join(differ) if there else "it is older and does not name its inputs"
        raise SystemExit(
            f"{result} was made from other settings or data: {reason}. "
            "Use another folder for the results, or remove this file."
        )


def flatten(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the values of nested tables by dotted names."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        inner = isinstance(value, dict)
        found |= flatten(value, f"{above}{name}.") if inner else {above + name: value}
    return found


def time_steps(
    row: str, system: Levelwise, corpora: Mapping[str, Corpus], labels: LabelSpace, steps: int
) -> None:
    """Print the cost of a step: operations (on a GPU: kernels), time and memory."""
    from torch.profiler import ProfilerActivity, profile

    trainer = system.make_trainer(system.prepare_data(corpora["train"], corpora["dev"], labels))
    network = trainer.make_network(np.arange(len(corpora["train"]))).train()
    step = trainer.make_loss(network)
    rows = np.array_split(
        np.arange(min(len(corpora["train"]), system.config.train.batch_size * 8)), 8
    )
    for some_rows in rows[:2]:
        step(some_rows).backward()
    began = read_clock(system.device)
    for number in range(steps):
        network.zero_grad(set_to_none=True)
        step(rows[number % 8]).backward()
    took = (read_clock(system.device) - began) / steps
    on_gpu = system.device.type == "cuda"
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    with profile(activities=kinds) as seen:
        step(rows[0]).backward()
    names = {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync", "cuLaunchKernel"}
    launches = sum(
        one.count
        for one in seen.key_averages()
        if (one.key in names if on_gpu else is_kernel(one.key))
    )
    peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else None
    found = {"row": row, "ms a step": round(1000 * took, 1), "launches": launches, "GiB": peak}
    print_line(json.dumps(found))


def is_kernel(name: str) -> bool:
    """Return whether an operation of a CPU profile would be a kernel on a GPU."""
    views = (
        "view", "reshape", "slice", "select", "transpose", "expand", "as_strided",
        "as_strided_", "empty", "empty_like", "detach", "t", "permute", "split",
        "unsqueeze", "squeeze", "alias", "flatten", "narrow", "unflatten", "linear",
        "matmul", "to", "_to_copy", "resize_", "unbind", "resolve_conj",
        "empty_strided", "promote_types", "clone", "contiguous", "zeros", "ones",
        "diff", "_reshape_alias", "slice_backward", "masked_fill", "dropout",
    )  # fmt: skip
    return name.startswith("aten::") and name.removeprefix("aten::") not in views


def summarise(result: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("row", "seed", "seconds", "memory GiB", "documents a second", "dev", "test")
    return {name: result[name] for name in kept}


if __name__ == "__main__":
    main()

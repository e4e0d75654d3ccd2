"""Every row of the tables of paper 000 in our numbers, from a prepared folder.

    python bench/levelwise.py carried/eurlex out --ontology carried/eurlex/ontology.json \
        --rows full words sampling threshold label max flat --seeds 1 --set model.max_level=4
    python bench/levelwise_tables.py out

The folder is what `ontodex prepare train dev test --out` wrote; nothing outside the core is needed,
so this runs on a GPU machine. What is finished lies below `out`: a command that was stopped goes
on, and rows that differ only after pass 1 or pass 2 share them. levelwise_tables.py makes tables,
claims and figures of the result files. `--steps N` only measures what a step of training costs.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import csr_array

from ontodex.config import build, read
from ontodex.decide.threshold import above
from ontodex.evaluate import evaluate
from ontodex.evaluate.sets import count_by_document, count_by_label, macro, micro
from ontodex.models.level_decide import best_moves, moved
from ontodex.models.level_passes import Batch, precision
from ontodex.models.level_plan import gold_of
from ontodex.models.levelwise import Levelwise
from ontodex.ontology import read_ontology
from ontodex.train.device import describe, pick
from ontodex.types import Corpus, LabelSpace, Ranking

# The reader of `attentionxml`, one for all levels.
ATTENTIVE: dict[str, Any] = {
    "reader": "attention",
    "encoder": "shared",
    "windows": [],
    "width": 256,
    "hidden": 512,
    "value": 512,
    "bag": 1024,
    "word_dropout": 0.3,
    "train": {"batch": 128, "epochs": 8},
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
    "attentive-last": ATTENTIVE,
}  # these answer by pass 2 alone
ROWS: dict[str, dict[str, Any]] = {
    **{row: {"average_passes": False, **settings} for row, settings in PAPER.items()},
    "averaged": {},
    "attentive": ATTENTIVE,
    "attentive-threshold": {**ATTENTIVE, "merge": "threshold"},
    "attentive-sampling": {**ATTENTIVE, "merge": "sampling"},
    "attentive-flat": {**ATTENTIVE, "max_level": 1, "merge": "threshold"},
}
RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")
SETS = ("MiP", "MiR", "MiF", "MaP", "MaR", "MaF")
MOST_K = 10
RARE = ((10, 14), (15, 19), (20, 29), (30, 39), (40, 50))  # training documents of rare labels


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ontology", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", default=["full"], choices=list(ROWS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--set", dest="common", action="append", default=[], help="a row outranks it"
    )
    parser.add_argument("--over", action="append", default=[], help="outranks the rows' settings")
    parser.add_argument("--min-count", type=int, default=1, help="of labels, in training")
    parser.add_argument("--steps", type=int, help="only time so many steps of each row")
    arguments = parser.parse_args()
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.INFO)
    corpora = {part: Corpus.open(arguments.folder / part) for part in ("train", "dev", "test")}
    ontology = read_ontology(arguments.ontology)
    labels = LabelSpace.of(corpora["train"], ontology, min_count=arguments.min_count)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for row in arguments.rows:
            result = arguments.out / f"{row}-{seed}.json"
            if not result.exists():
                system = begin(row, seed, arguments.common, arguments.over)
                if arguments.steps:
                    time_steps(row, system, corpora, labels, arguments.steps)
                    continue
                system.work = arguments.out / "work"
                system.work.mkdir(parents=True, exist_ok=True)
                found = {"row": row, "seed": seed, **measure(system, corpora, labels)}
                result.write_text(json.dumps(found, indent=1) + "\n")
            say(json.dumps(summary(json.loads(result.read_text()))))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def begin(row: str, seed: int, common: Sequence[str], over: Sequence[str]) -> Levelwise:
    """The system of a row."""
    model = joined(read(None, common).get("model", {}), ROWS[row])
    model = joined(model, read(None, over).get("model", {}))
    model = joined(model, {"train": {"seed": seed}, "pointer": {"train": {"seed": seed}}})
    return Levelwise(build(Levelwise.Config, model, "model"), device=pick("auto"))


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables in one; the other's values count, within inner tables too."""
    both = dict(one)
    for key, value in other.items():
        both[key] = joined(both.get(key, {}), value) if isinstance(value, dict) else value
    return both


def measure(system: Levelwise, corpora: Mapping[str, Corpus], labels: LabelSpace) -> dict[str, Any]:
    """Train one row, or what of it is not there yet, and measure everything on test."""
    device = system.device
    began = time.monotonic()
    system.fit(corpora["train"], corpora["dev"], labels)
    took = time.monotonic() - began
    began = time.monotonic()
    ranking = system.rank(corpora["test"], 100)
    speed = len(ranking) / (time.monotonic() - began)
    decided = {part: system.decide(corpora[part]) for part in ("dev", "test")}
    gold = {part: labels.gold(corpora[part]) for part in ("dev", "test")}
    metrics = evaluate(gold["test"], ranking, decided["test"], labels, replicates=0)
    seconds = {name: round(value, 1) for name, value in system.seconds.items()}
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return {
        "hardware": describe(str(device)),
        "seconds": {"in this process": round(took, 1), **seconds, "in all": sum(seconds.values())},
        "memory GiB": memory and round(memory, 2),
        "documents a second": round(speed),
        "test": {name: round(100 * metrics[name], 2) for name in (*RANKED, "PSP@5", *SETS)},
        "dev": figures(gold["dev"], decided["dev"]),
        "passes": level_metrics(system, corpora, labels),
        "rare": rare_recall(gold["test"], [decided["test"]], labels),
        "curves": system.curves,
        "share of a step": level_shares(system, corpora["train"]),
    }


# ------------------------------------------------------------------------------------ each level


def level_metrics(
    system: Levelwise, corpora: Mapping[str, Corpus], labels: LabelSpace
) -> list[dict[str, Any]]:
    """For each pass, for each level: the best fixed K (chosen on dev) and OFO, on the test
    documents that have a label there; and the recall of rare labels over all levels."""
    found = []
    dev, test = (system.level_rankings(corpora[part]) for part in ("dev", "test"))
    golds = {part: labels.gold(corpora[part]) for part in ("dev", "test")}
    for number, one in enumerate(system.passes):
        levels: dict[str, Any] = {}
        for place, level in enumerate(system.levels):
            names = {labels.name(int(column)): int(column) for column in level.columns}
            groups = {str(level.number): level.columns}
            if "Humans" in names:
                rest = level.columns[level.columns != names["Humans"]]
                groups[f"{level.number} without Humans"] = rest
            # Moved for documents that may have no label here; those measured now have one.
            as_said = [moved(part[number][place], -one.moves[place]) for part in (dev, test)]
            for name, columns in groups.items():
                dev_truth, dev_ranking = of_level(golds["dev"], as_said[0], columns)
                truth, ranking = of_level(golds["test"], as_said[1], columns)
                best = best_k(dev_truth, dev_ranking)
                (by,) = best_moves([dev_ranking], [dev_truth], one.at_level)
                chosen = moved(ranking, by)
                levels[name] = {
                    "documents": len(ranking),
                    "labels": len(columns),
                    "K": best,
                    "top K": figures(truth, ranking.cut(best)),
                    "OFO": figures(truth, chosen.keep(above(chosen, one.at_level))),
                }
        kept = [r.keep(above(r, one.thresholds)) for r in test[number]]
        found.append({"levels": levels, "rare": rare_recall(golds["test"], kept, labels)})
    return found


def of_level(gold: csr_array, ranking: Ranking, columns: Any) -> tuple[csr_array, Ranking]:
    """Gold and answers of the documents that have one of these labels, of these labels only."""
    own = gold_of(gold, columns)
    known = np.diff(own.indptr) > 0
    answers = ranking.take(known)
    return csr_array(own[known]), answers.keep(np.isin(answers.columns, columns))


def best_k(gold: csr_array, ranking: Ranking) -> int:
    """The number of labels that, given to every document, has the highest micro-F."""
    if not len(ranking):
        return 1
    found = [micro(count_by_document(gold, ranking.cut(k)))["MiF"] for k in range(1, MOST_K + 1)]
    return 1 + int(np.argmax(found))


def figures(gold: csr_array, decided: Ranking) -> dict[str, float]:
    if not len(decided):
        return {}
    counts = count_by_document(gold, decided)
    return {n: round(100 * v, 2) for n, v in {**micro(counts), **macro(counts)}.items()}


def rare_recall(gold: csr_array, kept: Sequence[Ranking], labels: LabelSpace) -> dict[str, Any]:
    """By training documents of a label: how many there are, how often they are true in test, how
    often predicted, and how often both."""
    counts = [count_by_label(gold, ranking) for ranking in kept]
    hit, predicted = (sum(getattr(c, name) for c in counts) for name in ("hit", "predicted"))
    found = {}
    for least, most in RARE:
        rare = np.flatnonzero((labels.frequency >= least) & (labels.frequency <= most))
        found[f"{least} to {most}"] = {
            "labels": len(rare),
            "true": int(counts[0].gold[rare].sum()),
            "predicted": int(predicted[rare].sum()),
            "hit": int(hit[rare].sum()),
        }
    return found


# ------------------------------------------------------------------------------------------ time


def level_shares(system: Levelwise, train: Corpus, batches: int = 8) -> dict[str, float]:
    """For each level, its share of the time of a training step. The levels train together, so this
    is measured apart, after everything else: it moves the figures of batch norm."""
    assert system.reading is not None
    network = system.passes[0].network.train()
    streams = system.reading.streams(train, system.device)
    seconds = np.zeros(len(system.levels))
    size = min(len(train), batches * system.config.train.batch)
    for number, rows in enumerate(np.array_split(np.arange(size), batches)):
        for place in range(len(system.levels)):
            began = clock(system.device)
            with precision(system.device):
                logits = Batch(network, streams, rows).logits(place, np.arange(len(rows)))
            logits.square().mean().backward()
            if number:  # the first is slower
                seconds[place] += clock(system.device) - began
    network.zero_grad(set_to_none=True)
    share = seconds / max(seconds.sum(), 1e-9)
    return {str(m.number): round(float(s), 3) for m, s in zip(system.levels, share, strict=True)}


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


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

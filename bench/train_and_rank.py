"""Train a system on a prepared folder with several seeds, and keep the rankings of dev and test.

    python bench/train_and_rank.py carried/eurlex out --model attentive --seeds 1 2 3

The folder is what `ontodex prepare train dev test --out` wrote; nothing outside the core is needed,
so this runs on a GPU machine. Prints a line a seed, with the sets of the run's own rule and of
those that `--rules` names, tuned on dev; `out` gets <model>.npz (columns and probabilities of dev
and test, a row of arrays a seed) and the run folders.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np

from ontodex.config import build, read
from ontodex.decide.config import DecideConfig
from ontodex.decide.decision import Decision, tune_decision
from ontodex.evaluation.metrics import evaluate
from ontodex.evaluation.sets import set_metrics
from ontodex.io.device import choose_device
from ontodex.runs.folder import is_finished
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.types import Corpus

FIGURES = (
    "P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5", "PSP@1", "PSP@3", "PSP@5", "F1@5"
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--ontology", type=Path, help="for systems that read names of concepts")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--ranks", type=int, default=50)
    parser.add_argument("--rules", nargs="*", default=[], help="e.g. ofo")
    arguments = parser.parse_args()
    corpora = {part: Corpus.open(arguments.folder / part) for part in ("train", "dev", "test")}
    arrays: dict[str, list[np.ndarray]] = {}
    for seed in arguments.seeds:
        chosen = [f'model.name="{arguments.model}"', f"model.train.seed={seed}"]
        tables = read(None, [*chosen, *arguments.overrides])
        folder = arguments.out / f"{arguments.model}-{seed}"
        if is_finished(folder):  # trained before, but perhaps never ranked
            run = load(folder, device=choose_device("auto"))
        else:
            run = train(
                config=tables,
                out=folder,
                train=corpora["train"],
                dev=corpora["dev"],
                ontology=arguments.ontology,
            )
        seconds = run.about["train_seconds"]
        line: dict[str, object] = {"model": arguments.model, "seed": seed, "seconds": seconds}
        by_rule: dict[str, Decision] = {}
        for part in ("dev", "test"):
            began = time.monotonic()
            ranking = run.rank(corpora[part], arguments.ranks)
            seconds = time.monotonic() - began
            decided = run.decide(corpora[part], ranking)
            gold = run.labels.gold(corpora[part])
            metrics = evaluate(gold, ranking, decided, run.labels, replicates=0)
            line[part] = {name: round(100 * metrics[name], 2) for name in (*FIGURES, "MiF", "MaF")}
            for rule in arguments.rules:
                if part == "dev":
                    by_rule[rule] = tune_decision(
                        build(DecideConfig, {"rule": rule}, "decide"), ranking, gold, run.labels
                    )
                found = set_metrics(gold, by_rule[rule].apply(ranking))
                line[f"{part}, {rule}"] = {of: round(100 * found[of], 2) for of in ("MiF", "MaF")}
            line[f"{part} documents a second"] = round(len(ranking) / seconds)
            arrays.setdefault(f"{part}_columns", []).append(ranking.columns.astype(np.uint16))
            arrays.setdefault(f"{part}_p", []).append(ranking.probabilities.astype(np.float16))
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    stacked = {name: np.stack(parts) for name, parts in arrays.items()}
    np.savez_compressed(arguments.out / f"{arguments.model}.npz", **stacked)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()

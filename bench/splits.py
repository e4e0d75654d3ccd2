"""Systems on ten random splits of a small data set, as the tables of papers 001 and 004 were made.

    python bench/splits.py bibtex --systems dxml knn averaged --out splits
    python bench/splits.py delicious --systems rankae --numbers standard 0 1 --set model.hidden=100

Train and test are poured together and dealt out again, in the sizes of the standard split, once for
each number 0 to 9; `standard` is the split as it is distributed. Every system is tuned on a tenth
of train and, where it can be, refitted on all of it. Needs the data ($ONTODEX_DATA, else
../shared/data). Prints a Markdown table of mean and standard deviation; with --out, the figures of
each split are kept there as JSON and a split that is there is not run again, so several processes
may share the work and a last one prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from ontodex import config
from ontodex.evaluate.ranking import ndcg_at, precision_at
from ontodex.files import write_text
from ontodex.models import find
from ontodex.models.base import Refits
from ontodex.read import open_corpus
from ontodex.run import train as train_run
from ontodex.types import Corpus

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ONTODEX_DATA", ROOT.parent / "shared" / "data"))
METRICS = {"P": precision_at, "nDCG": ndcg_at}
STANDARD = "standard"


def deal(name: str, number: str) -> tuple[Corpus, Corpus]:
    """(train, test) of one split."""
    train, test = (open_corpus(DATA / name / f"{name}_{part}.txt.gz") for part in ("train", "test"))
    if number == STANDARD:
        return train, test
    order = np.random.default_rng(int(number)).permutation(len(train) + len(test))
    pool = train.joined(test)
    return pool.select(order[: len(train)]), pool.select(order[len(train) :])


def measure(system: str, overrides: list[str], train: Corpus, test: Corpus) -> dict[str, float]:
    """P and nDCG at 1, 3, 5, in percent, and the seconds of training."""
    chosen = [f"model.name={system}"]
    if issubclass(find(system), Refits):
        chosen.append("train.refit=true")
    with tempfile.TemporaryDirectory() as folder:
        tables = config.read(None, [*chosen, *overrides])
        run = train_run(tables, Path(folder) / "run", train=train)
        ranking, gold = run.rank(test, 5), run.labels.gold(test)
    found = {
        f"{name}@{k}": 100 * float(np.nanmean(metric(k, gold, ranking)))
        for name, metric in METRICS.items()
        for k in (1, 3, 5)
    }
    return {**found, "train s": float(run.about["train_seconds"])}


def kept(
    file: Path | None, data: str, number: str, system: str, overrides: list[str]
) -> dict[str, float]:
    """The figures of a split, from the file where it is there."""
    if file is not None and file.exists():
        figures: dict[str, float] = json.loads(file.read_text())
        return figures
    figures = measure(system, overrides, *deal(data, number))
    sys.stderr.write(f"{data}, split {number}, {system}: {figures}\n")
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps(figures) + "\n")
    return figures


def row(system: str, splits: list[dict[str, float]]) -> str:
    cells = []
    for key in splits[0]:
        values = [split[key] for split in splits]
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        cells.append(f"{np.mean(values):.2f}{spread}")
    return f"| {system} | {' | '.join(cells)} |\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", choices=["bibtex", "delicious"])
    arguments.add_argument("--systems", nargs="+", required=True)
    numbers = [STANDARD, *map(str, range(10))]
    arguments.add_argument("--numbers", nargs="+", choices=numbers, default=numbers[1:])
    arguments.add_argument("--set", dest="overrides", action="append", default=[])
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    lines = []
    for system in given.systems:
        splits = []
        for number in given.numbers:
            name = f"{given.data}-{system}-{number}.json"
            file = given.out / name if given.out is not None else None
            splits.append(kept(file, given.data, number, system, given.overrides))
        lines.append(row(system, splits))
    head = list(splits[0])
    sys.stdout.write(f"| {given.data} | {' | '.join(head)} |\n|---|{' ---: |' * len(head)}\n")
    sys.stdout.writelines(lines)


if __name__ == "__main__":
    main()

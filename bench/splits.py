"""Systems on ten random splits of a small data set, as the tables of DXML and Rank-AE were made.

    python bench/splits.py bibtex --systems landmark kernel landmark+kernel --out splits
    python bench/splits.py delicious --systems rankae --numbers standard 0 1 --set model.hidden=100

Train and test are poured together and dealt out again, in the sizes of the standard split, once for
each number 0 to 9; `standard` is the split as it is distributed, `dev` a fifth of its training
documents against the rest, to choose by. Every system is tuned on a tenth of train and, where it
can be, refitted on all of it. Names joined by + are a consensus of these (Eq. 9, or --join odds).

Needs the data ($ONTODEX_DATA, else ../shared/data). Prints a Markdown table of mean and standard
deviation. Rankings and seconds of each split are kept in --out, and a system that is there is not
trained again: several processes may share the work and a last one prints the table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from consensus import Kept, Member
from ontodex import config
from ontodex.corpora.open import open_corpus
from ontodex.evaluation.ranking import ndcg, precision, score_documents
from ontodex.io.files import open_atomic, write_text
from ontodex.models import find_model
from ontodex.models.consensus.system import Consensus
from ontodex.models.interface import Refits
from ontodex.runs.recipe import train as train_run
from ontodex.types import Corpus, LabelSpace, Ranking
from tune import a_fifth_aside

ROOT = Path(__file__).resolve().parent.parent
DATA = Path(os.environ.get("ONTODEX_DATA", ROOT.parent / "shared" / "data"))
METRICS = {"P": precision, "nDCG": ndcg}
STANDARD, DEV = "standard", "dev"
RANKS = 50  # kept of each document, for a consensus


def deal(name: str, number: str) -> tuple[Corpus, Corpus]:
    """(train, test) of one split."""
    train, test = (open_corpus(DATA / name / f"{name}_{part}.txt.gz") for part in ("train", "test"))
    if number == STANDARD:
        return train, test
    if number == DEV:
        return a_fifth_aside(train)
    order = np.random.default_rng(int(number)).permutation(len(train) + len(test))
    pool = train.join(test)
    return pool.select(order[: len(train)]), pool.select(order[len(train) :])


def train_and_rank(
    system: str, overrides: list[str], train: Corpus, test: Corpus
) -> tuple[Ranking, float]:
    """Return the ranking of test by a system, and the seconds of its training."""
    chosen = [f"model.name={system}"]
    if issubclass(find_model(system), Refits):
        chosen.append("train.refit=true")
    with tempfile.TemporaryDirectory() as folder:
        tables = config.read(None, [*chosen, *overrides])
        run = train_run(config=tables, out=Path(folder) / "run", train=train)
        return run.rank(test, RANKS), float(run.about["train_seconds"])


def read_or_train(
    file: Path, system: str, overrides: list[str], split: tuple[Corpus, Corpus]
) -> tuple[Ranking, float]:
    """The same, from the file where it is there."""
    if not file.exists():
        ranking, seconds = train_and_rank(system, overrides, *split)
        file.parent.mkdir(parents=True, exist_ok=True)
        with open_atomic(file) as out:
            np.savez_compressed(
                out, columns=ranking.columns, p=ranking.probabilities, seconds=seconds
            )
        sys.stderr.write(f"{file.stem}: {seconds:.0f} s\n")
    with np.load(file) as found:
        return Ranking(found["columns"], found["p"]), float(found["seconds"])


def measure(ranking: Ranking, seconds: float, gold: csr_array) -> dict[str, float]:
    """P and nDCG at 1, 3, 5, in percent, of the documents that have labels, and the seconds."""
    labelled = np.diff(gold.indptr) > 0
    gold, ranking = csr_array(gold[labelled]), ranking.take(labelled)
    found = {
        f"{name}@{k}": 100 * float(score_documents(metric, k, gold, ranking).mean())
        for name, metric in METRICS.items()
        for k in (1, 3, 5)
    }
    return {**found, "train s": seconds}


def of_split(given: argparse.Namespace, number: str, folder: Path) -> dict[str, dict[str, float]]:
    """The figures of every system on one split."""
    split = deal(given.data, number)
    labels = LabelSpace.of(split[0])
    gold, test = labels.gold(split[1]), split[1]
    single: dict[str, tuple[Ranking, float]] = {}
    found: dict[str, dict[str, float]] = {}
    for system in given.systems:
        names = system.split("+")
        for name in names:
            if name not in single:
                file = folder / f"{given.data}-{name}-{number}.npz"
                single[name] = read_or_train(file, name, given.overrides, split)
        ranking, seconds = single[names[0]]
        if len(names) > 1:
            members = [Member(folder, labels, Kept({test.key: single[n][0]})) for n in names]
            ranking = Consensus.of(members, labels, join=given.join).rank(test, RANKS)
            seconds = sum(single[n][1] for n in names)
        found[system] = measure(ranking, seconds, gold)
    return found


def row(system: str, splits: list[dict[str, float]]) -> str:
    cells = []
    for key in splits[0]:
        values = [split[key] for split in splits]
        spread = f" ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else ""
        cells.append(f"{np.mean(values):.2f}{spread}")
    return f"| {system} | {' | '.join(cells)} |\n"


def keep_figures(file: Path, data: str, splits: list[dict[str, dict[str, float]]]) -> None:
    """Write {data set: {system: {metric: a figure for each split}}} beside what is in the file."""
    kept_figures = json.loads(file.read_text()) if file.exists() else {}
    for system in splits[0]:
        by_metric = {m: [round(one[system][m], 3) for one in splits] for m in splits[0][system]}
        kept_figures.setdefault(data, {})[system] = by_metric
    write_text(file, json.dumps(kept_figures, indent=1) + "\n")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", choices=["bibtex", "delicious"])
    arguments.add_argument("--systems", nargs="+", required=True)
    random = [str(number) for number in range(10)]
    arguments.add_argument("--numbers", nargs="+", choices=[STANDARD, DEV, *random], default=random)
    arguments.add_argument("--join", choices=["any", "odds"], default="any", help="of a consensus")
    arguments.add_argument("--set", dest="overrides", action="append", default=[])
    arguments.add_argument("--out", type=Path, required=True)
    arguments.add_argument("--figures", type=Path, help="JSON file that gets the figures by split")
    given = arguments.parse_args()
    splits = [of_split(given, number, given.out) for number in given.numbers]
    if given.figures:
        keep_figures(given.figures, given.data, splits)
    head = list(splits[0][given.systems[0]])
    sys.stdout.write(f"| {given.data} | {' | '.join(head)} |\n|---|{' ---: |' * len(head)}\n")
    sys.stdout.writelines(row(name, [split[name] for split in splits]) for name in given.systems)


if __name__ == "__main__":
    main()

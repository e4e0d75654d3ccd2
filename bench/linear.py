"""The linear systems on real data, each in a process of its own, beside bare omikuji.

    python bench/linear.py eurlex57k                  all systems, test set
    python bench/linear.py medline --systems linear parabel --part dev

Needs the data sets ($ONTODEX_DATA, else ../shared/data). Prints a Markdown table. "CPU" is the
processor time of all processes together: on a busy machine it tells more than the clock. Memory is
the largest sum over all processes, shared pages counted once. Training of ours includes TF-IDF, the
conversion of trees and calibration; bare omikuji gets the finished features in a file.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.corpora.open import open_corpus
from ontodex.corpora.split import set_aside, split_by_hash
from ontodex.evaluation.ranking import ndcg, precision, score_documents
from ontodex.evaluation.reliability import measure_reliability
from ontodex.features.matrix import MatrixFeatures
from ontodex.models.baselines.knn import KnnSystem
from ontodex.models.baselines.linear import LinearSystem
from ontodex.models.trees.parabel import BonsaiSystem, ParabelConfig, ParabelSystem
from ontodex.types import Corpus, LabelSpace, Ranking

ROOT = Path(__file__).resolve().parent.parent
SYSTEMS: dict[str, Any] = {
    "linear": LinearSystem,
    "parabel": ParabelSystem,
    "bonsai": BonsaiSystem,
    "knn": KnnSystem,
}
BARE = "bare omikuji"


def read(name: str) -> tuple[Corpus, Corpus, Corpus]:
    """Train, dev, test of a data set."""
    folder = Path(os.environ.get("ONTODEX_DATA", ROOT.parent / "shared" / "data")) / name
    if name == "eurlex57k":
        train, dev, test = (open_corpus(folder / f"{p}.jsonl.xz") for p in ("train", "dev", "test"))
        return train, dev, test
    if name == "medline":
        citations = open_corpus(folder / "pubmed20n0014.xml.gz")
        full = [bool(doc.labels) and "abstract" in doc.fields for doc in citations]
        return split_by_hash(citations.select(np.array(full)))
    train, dev = set_aside(open_corpus(folder / f"{name}_train.txt.gz"))
    return train, dev, open_corpus(folder / f"{name}_test.txt.gz")


class Watch:
    """Wall and processor seconds, and the most memory of this process and those below it."""

    def __enter__(self) -> Watch:
        self._wall, self._before = time.perf_counter(), _cpu_seconds(_family())
        self._cpu: dict[int, float] = {}
        self.memory, self._over = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall = time.perf_counter() - self._wall
        self._over.set()
        self._thread.join()
        spent = self._cpu | _cpu_seconds(_family())
        self.cpu = sum(seconds - self._before.get(pid, 0) for pid, seconds in spent.items())

    def _look(self) -> None:
        while not self._over.wait(0.5):
            family = _family()
            self._cpu |= _cpu_seconds(family)
            self.memory = max(self.memory, sum(map(_proportional_mib, family)))


def _cpu_seconds(family: list[int]) -> dict[int, float]:
    """Processor time that each process has used, while it is there to be asked."""
    spent = {}
    for pid in family:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            spent[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return spent


def _family() -> list[int]:
    """This process and all below it."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
    family = [os.getpid()]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    return family


def _proportional_mib(pid: int) -> float:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1024
    return 0.0


def measure(system: str, name: str, part: str) -> dict[str, Any]:
    """One row of the table."""
    train, dev, test = read(name)
    labels = LabelSpace.of(train)
    target = dev if part == "dev" else test
    gold = labels.gold(target)
    if system == BARE:
        return measure_bare(train, target, labels, gold)
    model = SYSTEMS[system](build(SYSTEMS[system].Config, {}, "model"))
    with Watch() as fit:
        model.fit(train, dev, labels)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder))
        size = sum(file.stat().st_size for file in Path(folder).rglob("*"))
        model = SYSTEMS[system].load(Path(folder), labels)
        model.features.transform(target)  # tokens are cached: prediction is timed without reading
        with Watch() as predict:
            ranking = model.rank(target, 10)
        raw = model._rank(target, 10)
    assert np.array_equal(raw.columns, ranking.columns)
    ece = [measure_reliability(gold, r, k=10).expected_error() for r in (raw, ranking)]
    return row(fit, predict, size, gold, ranking, ece)


def measure_bare(
    train: Corpus, target: Corpus, labels: LabelSpace, gold: csr_array
) -> dict[str, Any]:
    """omikuji as its own documentation uses it: a file, train_on_data, predict in a loop."""
    features = MatrixFeatures(ParabelConfig())
    rows, gold_train = csr_array(features.fit(train)), labels.gold(train)
    others = csr_array(features.transform(target))
    with tempfile.TemporaryDirectory() as name, silence_output():
        import omikuji

        path = Path(name) / "train.txt"
        omikuji.write_training_file(rows, gold_train, path)
        with Watch() as fit:
            model = omikuji.Model.train_on_data(str(path))
        model.save(str(Path(name) / "model"))
        size = sum(file.stat().st_size for file in (Path(name) / "model").iterdir())
        columns = np.full((len(target), 10), -1, dtype=np.int32)
        scores = np.zeros((len(target), 10))
        with Watch() as predict:
            for i in range(len(target)):
                row_ = slice(others.indptr[i], others.indptr[i + 1])
                pairs = zip(others.indices[row_].tolist(), others.data[row_].tolist(), strict=True)
                for rank, (label, score) in enumerate(model.predict(list(pairs), top_k=10)):
                    columns[i, rank], scores[i, rank] = label, score
    ranking = Ranking.sort(columns, scores, 10)
    ece = measure_reliability(gold, ranking, k=10).expected_error()
    return row(fit, predict, size, gold, ranking, [ece, ece])


def row(
    fit: Watch, predict: Watch, size: int, gold: csr_array, ranking: Ranking, ece: list[float]
) -> dict[str, Any]:
    some = np.diff(gold.indptr) > 0
    return {
        "precision": [
            100 * float(score_documents(precision, k, gold, ranking)[some].mean())
            for k in (1, 3, 5)
        ],
        "ndcg": 100 * float(score_documents(ndcg, 5, gold, ranking)[some].mean()),
        "fit": [fit.wall, fit.cpu],
        "predict": [predict.wall, predict.cpu],
        "docs": len(ranking),
        "size": size / 2**20,
        "memory": max(fit.memory, predict.memory),
        "ece": ece,
    }


@contextlib.contextmanager
def silence_output() -> Iterator[None]:
    """omikuji writes to the process's stdout and stderr, past Python."""
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "wb") as nothing:
        os.dup2(nothing.fileno(), 1)
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=["eurlex57k", "medline", "bibtex", "delicious"])
    parser.add_argument("--systems", nargs="+", choices=[BARE, *SYSTEMS], default=[BARE, *SYSTEMS])
    parser.add_argument("--part", choices=["dev", "test"], default="test")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.systems[0], options.name, options.part)))
        return
    print("| system | P@1 / 3 / 5 | nDCG@5 | train s (CPU) | predict s (CPU) | docs/s | model MiB "
          "| peak MiB | ECE before / after |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|")
    bare: dict[str, Any] | None = None
    for system in options.systems:
        command = [sys.executable, __file__, options.name, "--part", options.part, "--one"]
        done = subprocess.run([*command, "--systems", system], capture_output=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        bare = found if system == BARE else bare
        times = []
        for what in ("fit", "predict"):
            ratio = f", x{found[what][0] / bare[what][0]:.2f}" if bare else ""
            times.append(f"{found[what][0]:.1f} ({found[what][1]:.1f}{ratio})")
        print(f"| {system} | {' / '.join(f'{p:.2f}' for p in found['precision'])} "
              f"| {found['ndcg']:.2f} | {times[0]} | {times[1]} "
              f"| {found['docs'] / found['predict'][0]:,.0f} | {found['size']:.0f} "
              f"| {found['memory']:.0f} | {found['ece'][0]:.3f} / {found['ece'][1]:.3f} |",
              flush=True)  # fmt: skip
    print(f"\nload of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

"""`graphknn` on synthetic corpora of growing size: time, memory and the exponents of their growth.

    python bench/graphknn.py                                  10,000, 50,000 and 200,000 labels
    python bench/graphknn.py --labels 1000 4000 --features 20000 --documents 8000 --epochs 2 --out F

Each size runs in a process of its own: it trains on the GPU where there is one, saves, loads the
run on the CPU and ranks test documents there, then puts 1,000 more documents into it. Prints a
Markdown table and, with --out, writes the figures as JSON. Exponent b: seconds grow as labels^b,
by least squares over all sizes.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ontodex.config import build
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.features.label_graph import compute_label_vectors
from ontodex.io.device import choose_device, describe_machine
from ontodex.models.baselines.popularity import PopularityConfig, PopularitySystem
from ontodex.models.graphknn.system import GraphKnnConfig, GraphKnnSystem
from ontodex.types import Corpus, LabelSpace
from synthetic import Shape, draw, parts, sparse_corpus

COLUMNS = {
    "labels": "labels", "walk_s": "label vectors s", "train_s": "training s",
    "gpu_gib": "GPU GiB", "ram_gib": "RAM GiB", "model_mb": "model MB",
    "rank": "docs/s on the CPU", "update_ms": "update ms/doc", "p1": "P@1", "floor": "P@1 floor",
}  # fmt: skip
DIGITS = {"labels": 0, "rank": 0, "update_ms": 3}
GROWING = ("walk_s", "train_s", "rank_s")


def measure(shape: Shape, epochs: int, small: int, batch: int, folder: Path) -> dict[str, Any]:
    """The figures of one size; `folder` is for the training corpus and its label vectors."""
    drawn = parts(shape, small)
    train, dev, test = (sparse_corpus(shape, drawn[name]) for name in ("train", "dev", "test"))
    train = train.write_without_text(folder / "train")
    labels = LabelSpace.of(train)
    device = choose_device("auto")
    large = {
        "networks": 1,
        "hidden": 512,
        "label_size": 300,
        "walk_passes": 1,
    }
    loop = {"epochs": epochs, "batch_size": batch, "patience": 0}
    config = build(GraphKnnConfig, {**large, "train": loop}, "model")
    started = time.perf_counter()
    compute_label_vectors(train, labels, config, device=device)
    walked = time.perf_counter()
    model = GraphKnnSystem(config, device=device)
    model.fit(train, dev, labels)
    trained = time.perf_counter()
    found = {
        "labels": len(labels),
        "walk_s": walked - started,
        "train_s": trained - walked,
        "gpu_gib": torch.cuda.max_memory_allocated() / 2**30 if device != "cpu" else 0.0,
        "chosen": {**asdict(model.chosen), "clusters": len(model.memory.centres)},
        "hardware": describe_machine(device),
    }  # fmt: skip
    floor = PopularitySystem(PopularityConfig())
    floor.fit(train, dev, labels)
    gold = labels.gold(test)
    found["floor"] = 100 * float(score_documents(precision, 1, gold, floor.rank(test, 1)).mean())
    found |= measure_on_cpu(model, labels, test, draw_more(shape))
    found["ram_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return found


def draw_more(shape: Shape) -> Corpus:
    """A thousand documents that came later."""
    return sparse_corpus(shape, draw(shape, 1_000, part=3, cover=False))


def measure_on_cpu(
    model: GraphKnnSystem, labels: LabelSpace, test: Corpus, later: Corpus
) -> dict[str, Any]:
    """Saved, loaded on the CPU, asked, updated."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model.save(folder)
        size = sum(path.stat().st_size for path in folder.rglob("*"))
        loaded = GraphKnnSystem.load(folder, labels, device="cpu")
        loaded.rank(test.select(np.arange(10)), 5)  # the index is built
        started = time.perf_counter()
        ranking = loaded.rank(test, 5)
        ranked = time.perf_counter()
        loaded.update(later, labels.extend(later))
        updated = time.perf_counter()
    return {
        "model_mb": size / 1e6,
        "rank_s": ranked - started,
        "rank": len(test) / (ranked - started),
        "update_ms": 1_000 * (updated - ranked) / len(later),
        "p1": 100 * float(score_documents(precision, 1, labels.gold(test), ranking).mean()),
    }


def exponent(rows: list[dict[str, Any]], key: str) -> float:
    """b of the straight line through (ln labels, ln value)."""
    x, y = ([math.log(max(row[name], 1e-9)) for row in rows] for name in ("labels", key))
    return float(np.polyfit(x, y, 1)[0])


def table(rows: list[dict[str, Any]]) -> str:
    head = f"| {' | '.join(COLUMNS.values())} |\n|{' ---: |' * len(COLUMNS)}\n"
    body = "".join(
        "| " + " | ".join(f"{row[key]:,.{DIGITS.get(key, 1)}f}" for key in COLUMNS) + " |\n"
        for row in rows
    )  # fmt: skip
    if len(rows) < 2:
        return head + body
    grown = "; ".join(f"{key} labels^{exponent(rows, key):.2f}" for key in GROWING)
    return f"{head}{body}\n{grown}\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--labels", type=int, nargs="+", default=[10_000, 50_000, 200_000])
    arguments.add_argument("--features", type=int, default=800_000)
    arguments.add_argument("--documents", type=int, default=200_000)
    arguments.add_argument("--small", type=int, default=2_000, help="documents of dev and of test")
    arguments.add_argument("--epochs", type=int, default=10)
    arguments.add_argument("--batch", type=int, default=1_024)
    arguments.add_argument("--out", type=Path)
    arguments.add_argument("--one", action="store_true", help="measure here, print JSON")
    given = arguments.parse_args()
    if given.one:
        shape = Shape(given.labels[0], given.features, given.documents)
        with tempfile.TemporaryDirectory() as folder:
            found = measure(shape, given.epochs, given.small, given.batch, Path(folder))
        sys.stdout.write(json.dumps(found) + "\n")
        return
    rows = []
    for count in given.labels:
        sizes = {"labels": count, "features": given.features, "documents": given.documents,
                 "small": given.small, "epochs": given.epochs, "batch": given.batch}  # fmt: skip
        flags = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
        command = [sys.executable, __file__, "--one", *flags]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        sys.stdout.write(table(rows) + "\n")
        sys.stdout.flush()
        if given.out is not None:
            given.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

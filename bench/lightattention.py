"""Training on a GPU and prediction on a CPU against the number of labels.

    python bench/lightattention.py train OUT --labels 10000 100000 1000000
    python bench/lightattention.py train OUT --labels 10000 100000 --model attentionxml
    python bench/lightattention.py predict OUT --labels 1000000

`train`: one epoch on a synthetic corpus (bench/synthetic.py) with as many documents as labels, at
least 200,000; gives milliseconds a step (median), documents a second, peak GPU memory, seconds for
the tree, P@1 and the generators' recall on test. `predict` needs no training: a run with random
weights is written, and another process loads it and ranks documents of 200 words one at a time;
gives seconds to check and to load, milliseconds a document, resident memory.

Each size is a JSON line of OUT/results.jsonl; what is there already is not run again. Settings:
`--set beam=20`, as in the [model] table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.config import build, read
from ontodex.evaluate.ranking import precision_at
from ontodex.features.tokens import TokenConfig
from ontodex.features.vocabulary import Vocabulary
from ontodex.models import find, label_tree
from ontodex.models.lightattention import LightAttentionSystem
from ontodex.models.neural import NeuralSystem, Ragged
from ontodex.models.node_tables import HalfTable, fresh_table
from ontodex.train import store
from ontodex.train.device import pick
from ontodex.types import Corpus, Doc, LabelSpace
from synthetic import Shape, parts, write_tokens

WORDS = 100_000  # the same at every size, so that only labels differ
TEST = 2_000
SKIPPED_STEPS = 30  # before times are taken


def shape_of(n_labels: int, documents: int) -> Shape:
    return Shape(
        labels=n_labels,
        features=WORDS,
        documents=max(documents, n_labels),
        labels_a_document=3.0,
        noise_words=35,
    )


def corpora(folder: Path, shape: Shape) -> dict[str, Corpus]:
    """Train, dev and test of a shape, made once."""
    made = folder / "made.json"
    if not made.exists():
        for name, drawn in parts(shape, TEST).items():
            write_tokens(shape, drawn, folder / name, TokenConfig(stop_words="en"))
        made.write_text(json.dumps(vars(shape)))
    return {name: Corpus.open(folder / name) for name in ("train", "dev", "test")}


# ------------------------------------------------------------------------------------------ train


def timed(model_class: type[NeuralSystem]) -> type[NeuralSystem]:
    """The same system, noting when each of its steps and its training begin."""

    class Timed(model_class):  # type: ignore[valid-type, misc]
        starts: list[float]
        prepared: float

        def batch_loss(self, rows: NDArray[np.int64], data: Ragged, gold: Ragged) -> Tensor:
            self.starts.append(time.perf_counter())
            return super().batch_loss(rows, data, gold)

        def prepare(self, *made_from: Any) -> None:
            began = time.perf_counter()
            super().prepare(*made_from)
            self.prepared = time.perf_counter() - began

    return Timed


def train(name: str, n_labels: int, documents: int, table: Mapping[str, Any], out: Path) -> Any:
    """One line of results."""
    corpus = corpora(out / f"corpus-{n_labels}", shape_of(n_labels, documents))
    labels = LabelSpace.of(corpus["train"])
    device = pick("auto")
    model_class = timed(find(name))  # type: ignore[arg-type]
    system = model_class(build(model_class.Config, table, "model"), device=device)
    system.starts = []  # type: ignore[attr-defined]
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    system.fit(corpus["train"], corpus["train"].select([]), labels)
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    steps = np.diff(system.starts)[SKIPPED_STEPS:]  # type: ignore[attr-defined]
    gold = labels.gold(corpus["test"])
    found = {}
    if isinstance(system, LightAttentionSystem) and system.tree is not None:
        sizes = [system.tree.n_nodes(level) for level in range(system.tree.height + 2)]
        recall = system.kept_in_sight(system.encode(corpus["test"]), gold, system.tree.height)
        found = {"tree": sizes, "generator recall": round(recall, 4)}
    return {
        "seen labels": labels.n_seen,
        "documents": len(corpus["train"]),
        "step ms": round(1e3 * float(np.median(steps)), 2),
        "documents a second": round(system.config.train.batch / float(np.mean(steps))),
        "peak GiB": round(peak, 2),
        "tree s": round(system.prepared, 1),  # type: ignore[attr-defined]
        "fit s": round(seconds, 1),
        "P@1": round(100 * float(precision_at(1, gold, system.rank(corpus["test"], 5)).mean()), 2),
        **found,
    }


# ---------------------------------------------------------------------------------------- predict


def random_run(n_labels: int, table: Mapping[str, Any], folder: Path) -> None:
    """A run folder as training leaves one, with random weights."""
    if store.is_finished(folder):
        return
    system = LightAttentionSystem(build(LightAttentionSystem.Config, table, "model"))
    config = system.config
    system.vocabulary = Vocabulary(("", "", *(f"w{i}" for i in range(WORDS))))
    system.n_labels = n_labels
    depth = label_tree.binary_depth(n_labels, config.cluster)
    binary = label_tree._binary(np.arange(n_labels), depth)
    tree = label_tree._shallow(binary, config.children, config.height)
    system.plant(tree)
    width = sum(config.row_widths)
    random = np.random.default_rng(0)
    pool = (0.05 * random.standard_normal(2**22)).astype(np.float16)  # 2^30 draws take minutes
    system.tables = [fresh_table(config.row_widths, torch.zeros(tree.n_nodes(1)), sparse=False)]
    for level in range(2, tree.height + 2):
        rows = np.resize(pool, (tree.n_nodes(level), width))
        system.tables.append(HalfTable(rows, torch.device("cpu")))
    system.network = system.build(torch.zeros(n_labels), None).eval()
    (folder / "model").mkdir(parents=True)
    system.save(folder / "model")
    store.finish(folder, {"model": "lightattention"})


def ask(folder: Path, n_labels: int) -> None:
    """Load a run and rank documents one by one; prints the figures. A process of its own."""
    torch.set_num_threads(1)
    names = tuple(f"L{i}" for i in range(n_labels))
    labels = LabelSpace(names, np.ones(n_labels, np.int64), n_labels)
    times = [time.perf_counter()]
    store.verify(folder)
    times.append(time.perf_counter())
    system = LightAttentionSystem.load(folder / "model", labels)
    times.append(time.perf_counter())
    random = np.random.default_rng(1)
    took = []
    for _ in range(20):
        text = " ".join(f"w{word}" for word in random.integers(0, WORDS, 200))
        doc = Corpus.of([Doc("1", {"text": text})])
        began = time.perf_counter()
        system.rank(doc, 10)
        took.append(1e3 * (time.perf_counter() - began))
    about = {
        "verify s": round(times[1] - times[0], 2),
        "load s": round(times[2] - times[1], 2),
        "first document ms": round(took[0], 1),
        "document ms": round(float(np.median(took[1:])), 1),
        "peak resident GiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "tables GiB": round(sum(f.stat().st_size for f in folder.rglob("tables*")) / 2**30, 2),
    }
    sys.stdout.write(json.dumps(about))


def predict(n_labels: int, table: Mapping[str, Any], out: Path) -> Any:
    folder = out / f"random-{n_labels}"
    random_run(n_labels, table, folder)
    command = [sys.executable, __file__, "ask", str(folder), "--labels", str(n_labels)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


# ------------------------------------------------------------------------------------------- main


def settings(model: str, overrides: Sequence[str]) -> dict[str, Any]:
    """The [model] table of these runs: defaults, one epoch, words as the corpus has them."""
    once = ["train.epochs=1", "min_count=1", "max_length=200"]
    given = [f"model.{one}" for one in (*once, *overrides)]
    return {k: v for k, v in read(None, given)["model"].items() if k != "name"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["train", "predict", "ask"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--labels", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--model", default="lightattention")
    parser.add_argument("--documents", type=int, default=200_000, help="at least so many")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    given = parser.parse_args()
    if given.what == "ask":
        ask(given.out, given.labels[0])
        return
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "results.jsonl"
    lines = results.read_text().splitlines() if results.exists() else []
    table = settings(given.model, given.overrides)
    for n_labels in given.labels:
        key = {"what": given.what, "model": given.model, "labels": n_labels, "set": given.overrides}
        done = next((line for line in lines if json.loads(line).items() >= key.items()), None)
        if done is None:
            figures = (
                train(given.model, n_labels, given.documents, table, given.out)
                if given.what == "train"
                else predict(n_labels, table, given.out)
            )
            done = json.dumps({**key, **figures})
            with results.open("a") as file:
                file.write(done + "\n")
        sys.stdout.write(done + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

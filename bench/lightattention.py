"""Training on a GPU and prediction on a CPU against the number of labels.

    python bench/lightattention.py corpora OUT --labels 10000 100000 1000000
    python bench/lightattention.py train OUT --labels 10000 100000 1000000 --steps 1500
    python bench/lightattention.py train OUT --labels 100000 --steps 300 --model attentionxml
    python bench/lightattention.py predict OUT --labels 10000 100000 1000000

`corpora` makes ahead, on the CPU, the synthetic corpora of `train` (bench/synthetic.py; as many
documents as labels, at least 200,000) and their label trees. `train`: one epoch, or so many of its
steps; gives milliseconds a step, documents a second, peak GPU memory, seconds that the tree took,
P@1 and the generators' recall on test. `predict` needs no training: a run with random weights is
written, and another process loads it and ranks documents of 200 words one at a time; gives seconds
to check and to load, milliseconds a document (on the wall, and of processor time), resident memory.

Each size is a JSON line of OUT/results.jsonl; what is there already is not run again. Settings:
`--set beam=20`, as in the [model] table.
"""

from __future__ import annotations

import argparse
import json
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
from ontodex.features.tokens import TokenConfig, tokenise_corpus
from ontodex.features.vocabulary import Vocabulary
from ontodex.models import find, label_tree
from ontodex.models.label_tree import LabelTree
from ontodex.models.lightattention import LightAttentionSystem
from ontodex.models.neural import NeuralSystem, Ragged
from ontodex.models.node_tables import HalfTable, fresh_table, row_width
from ontodex.models.tree_network import owned
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


def grown(folder: Path, system: LightAttentionSystem, *data: Any) -> LabelTree:
    """The tree of a corpus, made once for all systems that want one of this shape."""
    labels = data[-1]
    shape = "-".join(map(str, system.shape(labels.n_seen).values()))
    path = folder / f"tree-{shape}.npz"
    if not path.exists():
        began = time.perf_counter()
        tree = LightAttentionSystem.grow(system, *data)
        seconds = np.array(time.perf_counter() - began)
        np.savez(path, **{"seconds": seconds, **tree.arrays()})  # type: ignore[arg-type]
    arrays = dict(np.load(path))
    system.tree_seconds = float(arrays.pop("seconds"))  # type: ignore[attr-defined]
    return LabelTree.of_arrays(arrays)


def make_ahead(folder: Path, shape: Shape, table: Mapping[str, Any]) -> None:
    """What training on a synthetic corpus needs of the CPU alone."""
    corpus = corpora(folder, shape)["train"]
    labels = LabelSpace.of(corpus)
    system = LightAttentionSystem(build(LightAttentionSystem.Config, table, "model"))
    grown(folder, system, tokenise_corpus(corpus, system.config), labels.gold(corpus), labels)


# ------------------------------------------------------------------------------------------ train


def timed(model_class: type[NeuralSystem], most_steps: int, folder: Path) -> type[NeuralSystem]:
    """The same system, noting when each of its steps begins; it learns from no more documents than
    so many steps take (0 = all), and finds its tree in the folder."""

    class Timed(model_class):  # type: ignore[valid-type, misc]
        starts: list[float]
        tree_seconds = 0.0

        def learn(self, lengths: NDArray[np.int64], *more: Any) -> None:
            most = most_steps * self.config.train.batch or len(lengths)
            super().learn(lengths[:most], *more)

        def batch_loss(self, rows: NDArray[np.int64], data: Ragged, gold: Ragged) -> Tensor:
            self.starts.append(time.perf_counter())
            return super().batch_loss(rows, data, gold)

        def grow(self, *made_from: Any) -> LabelTree:
            return grown(folder, self, *made_from)

    return Timed


def train(name: str, shape: Shape, steps: int, table: Mapping[str, Any], out: Path) -> Any:
    """One line of results."""
    folder = out / f"corpus-{shape.labels}"
    corpus = corpora(folder, shape)
    labels = LabelSpace.of(corpus["train"])
    device = pick("auto")
    model_class = timed(find(name), steps, folder)  # type: ignore[arg-type]
    system = model_class(build(model_class.Config, table, "model"), device=device)
    system.starts = []  # type: ignore[attr-defined]
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    system.fit(corpus["train"], corpus["train"].select([]), labels)
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    # The mean: the host runs ahead of the GPU and then waits, so single steps tell little.
    step = float(np.mean(np.diff(system.starts)[SKIPPED_STEPS:]))  # type: ignore[attr-defined]
    gold = labels.gold(corpus["test"])
    found = {}
    if isinstance(system, LightAttentionSystem) and system.tree is not None:
        sizes = [system.tree.n_nodes(level) for level in range(system.tree.height + 2)]
        recall = system.kept_in_sight(system.encode(corpus["test"]), gold, system.tree.height)
        found = {"tree": sizes, "generator recall": round(recall, 4)}
    return {
        "seen labels": labels.n_seen,
        "documents": len(corpus["train"]),
        "steps": len(system.starts),  # type: ignore[attr-defined]
        "step ms": round(1e3 * step, 2),
        "documents a second": round(system.config.train.batch / step),
        "peak GiB": round(peak, 2),
        "tree s": round(system.tree_seconds, 1),  # type: ignore[attr-defined]
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
    shape = system.shape(n_labels)
    depth = label_tree.binary_depth(n_labels, config.cluster)
    binary = label_tree._binary(np.arange(n_labels), depth)
    tree = label_tree._shallow(binary, shape["children"], shape["height"])
    system.plant(tree)
    random = np.random.default_rng(0)
    pool = (0.05 * random.standard_normal(2**22)).astype(np.float16)  # 2^30 draws take minutes
    top, *deeper = owned(config, tree.height)
    system.tables = [fresh_table(top, torch.zeros(tree.n_nodes(1)), system.device)]
    for level, vectors in enumerate(deeper, start=2):
        rows = np.resize(pool, (tree.n_nodes(level), row_width(vectors)))
        system.tables.append(HalfTable(rows, system.device))
    system.network = system.build(torch.zeros(n_labels), None).eval()
    (folder / "model").mkdir(parents=True)
    system.save(folder / "model")
    store.finish(folder, {"model": "lightattention"})


def ask(folder: Path, n_labels: int) -> None:
    """Load a run and rank documents one by one; prints the figures. A process of its own."""
    torch.set_num_threads(1)
    names = tuple(f"L{i}" for i in range(n_labels))
    labels = LabelSpace(names, np.ones(n_labels, np.int64), n_labels)
    watch = [both_clocks()]
    store.verify(folder)
    watch.append(both_clocks())
    system = LightAttentionSystem.load(folder / "model", labels)
    watch.append(both_clocks())
    random = np.random.default_rng(1)
    for _ in range(20):
        text = " ".join(f"w{word}" for word in random.integers(0, WORDS, 200))
        system.rank(Corpus.of([Doc("1", {"text": text})]), 10)
        watch.append(both_clocks())
    checked, loaded, first, *rest = np.diff(watch, axis=0)
    usual = np.median(rest, axis=0)
    about = {
        "verify s, CPU s": [round(float(x), 2) for x in checked],
        "load s, CPU s": [round(float(x), 2) for x in loaded],
        "first document ms, CPU ms": [round(1e3 * float(x), 1) for x in first],
        "document ms, CPU ms": [round(1e3 * float(x), 1) for x in usual],
        "resident GiB": round(resident("VmRSS"), 2),
        "peak resident GiB": round(resident("VmHWM"), 2),
        "tables GiB": round(sum(f.stat().st_size for f in folder.rglob("tables*")) / 2**30, 2),
    }
    sys.stdout.write(json.dumps(about))


def resident(which: str) -> float:
    """GiB of this process now or at its peak. getrusage would count the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(which)).split()[1]) / 2**20


def both_clocks() -> tuple[float, float]:
    """(seconds on the wall, seconds of processor time of this process)."""
    return time.perf_counter(), time.process_time()


def predict(n_labels: int, table: Mapping[str, Any], out: Path) -> Any:
    folder = out / f"random-{n_labels}"
    random_run(n_labels, table, folder)
    command = [sys.executable, __file__, "ask", str(folder), "--labels", str(n_labels)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


# ------------------------------------------------------------------------------------------- main


def settings(overrides: Sequence[str]) -> dict[str, Any]:
    """The [model] table of these runs: defaults, one epoch, words as the corpus has them."""
    once = ["train.epochs=1", "min_count=1", "max_length=200"]
    given = [f"model.{one}" for one in (*once, *overrides)]
    return {k: v for k, v in read(None, given)["model"].items() if k != "name"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["corpora", "train", "predict", "ask"])
    parser.add_argument("out", type=Path)
    parser.add_argument("--labels", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--model", default="lightattention")
    parser.add_argument("--documents", type=int, default=200_000, help="at least so many")
    parser.add_argument("--steps", type=int, default=0, help="of training; 0 = an epoch")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    given = parser.parse_args()
    if given.what == "ask":
        ask(given.out, given.labels[0])
        return
    if given.what == "corpora":
        for n_labels in given.labels:
            shape = shape_of(n_labels, given.documents)
            make_ahead(given.out / f"corpus-{n_labels}", shape, settings(given.overrides))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    results = given.out / "results.jsonl"
    lines = results.read_text().splitlines() if results.exists() else []
    table = settings(given.overrides)
    for n_labels in given.labels:
        key = {"what": given.what, "model": given.model, "labels": n_labels, "set": given.overrides}
        done = next((line for line in lines if json.loads(line).items() >= key.items()), None)
        if done is None:
            figures = (
                train(
                    given.model, shape_of(n_labels, given.documents), given.steps, table, given.out
                )
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

"""Training on a GPU and prediction on a CPU against the number of labels.

    python bench/lightattention.py corpora OUT --labels 10000 100000 1000000
    python bench/lightattention.py train OUT --labels 10000 100000 1000000 --steps 1500
    python bench/lightattention.py train OUT --labels 100000 --steps 300 --model attentive
    python bench/lightattention.py train OUT --labels 1000000 3000000 --planted \
        --documents 300000 --steps 1000 --tables fp32 bf16
    python bench/lightattention.py predict OUT --labels 10000 100000 1000000

`corpora` makes ahead, on the CPU, the synthetic corpora of `train` (bench/synthetic.py; as many
documents as labels, at least 200,000) and their label trees. `train`: one epoch, or so many of its
steps; gives milliseconds a step, documents a second, peak GPU memory, seconds that the tree took,
P@1 and the generators' recall on test. `predict` needs no training: a run with random weights is
written, and another process loads it and ranks documents of 200 words one at a time; gives seconds
to check and to load, milliseconds a document (on the wall, and of processor time), resident memory.

With `--planted` training needs no minutes of preparation: `--documents` as they are, fewer than
labels, and the tree of the groups of labels that are planted, in place of clusters that are found.
Labels of no document are in the tree and the tables too. `--tables` trains once for each.

Each size is a JSON line of OUT/results.jsonl; what is there already is not run again. Settings:
`--set beam=20`, as in the [model] table.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.config import build, read
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import Tokens, tokenise_corpus
from ontodex.features.vocabulary import Vocabulary
from ontodex.io.device import choose_device
from ontodex.models import find_model
from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.system import AttentiveTreeSystem
from ontodex.models.lightattention.node_tables import FrozenTable, create_table, row_width
from ontodex.models.lightattention.training import measure_recall
from ontodex.models.trees import label_tree
from ontodex.models.trees.label_tree import LabelTree
from ontodex.runs.folder import is_finished, verify_folder, write_manifest
from ontodex.training import loop
from ontodex.types import Corpus, Doc, LabelSpace
from synthetic import Shape, parts, write_tokens

Rows = NDArray[np.int64]

WORDS = 100_000  # the same at every size, so that only labels differ
TEST = 2_000
SKIPPED_STEPS = 30  # before times are taken


def shape_of(n_labels: int, documents: int, *, planted: bool = False) -> Shape:
    return Shape(
        labels=n_labels,
        features=WORDS,
        documents=documents if planted else max(documents, n_labels),
        labels_a_document=3.0,
        noise_words=35,
    )


def corpora(folder: Path, shape: Shape) -> dict[str, Corpus]:
    """Train, dev and test of a shape, made once."""
    made = folder / "made.json"
    if not made.exists():
        for name, drawn in parts(shape, TEST, cover=shape.documents >= shape.labels).items():
            write_tokens(shape, drawn, folder / name, TokenConfig(stop_words="en"))
        made.write_text(json.dumps(vars(shape)))
    return {name: Corpus.open(folder / name) for name in ("train", "dev", "test")}


def grow_tree(
    folder: Path, system: AttentiveTreeSystem, tokens: Tokens, gold: csr_array
) -> LabelTree:
    """The tree of a corpus, made once for all systems that want one of this shape."""
    height = system.compute_height(gold.shape[1])
    place = folder / f"tree-{system.config.cluster}-{height}"
    took = place / "seconds.txt"
    if not took.exists():
        began = time.perf_counter()
        AttentiveTreeSystem.build_tree(system, tokens, gold).save(place)
        took.write_text(str(time.perf_counter() - began))
    system.tree_seconds = float(took.read_text())  # type: ignore[attr-defined]
    return LabelTree.load(place, gold.shape[1])


def make_ahead(folder: Path, shape: Shape, table: Mapping[str, Any]) -> None:
    """Compute the part of training on a synthetic corpus that needs only a CPU."""
    corpus = corpora(folder, shape)["train"]
    labels = LabelSpace.of(corpus)
    system = AttentiveTreeSystem(build(AttentiveTreeSystem.Config, table, "model"))
    system.n_labels = labels.n_seen
    grow_tree(folder, system, tokenise_corpus(corpus, system.config), labels.gold(corpus))


def plant_tree(n_labels: int, config: AttentiveTreeConfig, height: int) -> LabelTree:
    """The tree over labels in the order of their numbers, in which planted groups are together."""
    depth = label_tree.count_halvings(n_labels, config.cluster)
    binary = label_tree.build_binary_tree(np.arange(n_labels), depth)
    return label_tree.flatten_to_height(binary, config.children, height)


def list_all_labels(train: Corpus, n_labels: int) -> LabelSpace:
    """All planted labels, by number; those of no document count as those of one."""
    numbers = [int(label[1:]) for labels in train.labels() for label in labels]
    frequency = np.maximum(np.bincount(numbers, minlength=n_labels), 1)
    return LabelSpace(tuple(f"L{i}" for i in range(n_labels)), frequency, len(train))


def plant_tree_in(model_class: type[Any]) -> type[Any]:
    """The same system with the planted tree."""

    class WithTree(model_class):  # type: ignore[misc]
        tree_seconds = 0.0

        def build_tree(self, *made_from: Any) -> LabelTree:
            return plant_tree(self.n_labels, self.config, self.compute_height(self.n_labels))

    return WithTree


def find_tree_in(model_class: type[Any], folder: Path) -> type[Any]:
    """The same system; LightAttention takes its tree from the folder."""

    class WithTree(model_class):  # type: ignore[misc]
        tree_seconds = 0.0

        def build_tree(self, *made_from: Any) -> LabelTree:
            return grow_tree(folder, self, *made_from)

    return WithTree


@contextmanager
def time_steps(most_steps: int) -> Iterator[list[float]]:
    """Note when each training step begins; an epoch has so many steps at most (0 = all)."""
    starts: list[float] = []
    fit = loop.fit

    def fit_timed(
        network: nn.Module,
        *,
        batches: Callable[[int], Sequence[Rows]],
        loss: Callable[[Rows], Tensor],
        **more: Any,
    ) -> Any:
        def timed(rows: Rows) -> Tensor:
            starts.append(time.perf_counter())
            return loss(rows)

        def some(epoch: int) -> Sequence[Rows]:
            return batches(epoch)[: most_steps or None]

        return fit(network, batches=some, loss=timed, **more)

    loop.fit = fit_timed
    try:
        yield starts
    finally:
        loop.fit = fit


def train(name: str, shape: Shape, steps: int, table: Mapping[str, Any], out: Path) -> Any:
    """One line of results."""
    folder = out / f"corpus-{shape.labels}"
    corpus = corpora(folder, shape)
    device = choose_device("auto")
    if shape.documents < shape.labels:
        labels = list_all_labels(corpus["train"], shape.labels)
        model_class = plant_tree_in(find_model(name))
    else:
        labels = LabelSpace.of(corpus["train"])
        model_class = find_tree_in(find_model(name), folder)
    system = model_class(build(model_class.Config, table, "model"), device=device)
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    with time_steps(steps) as starts:
        system.fit(corpus["train"], corpus["train"].select([]), labels)
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else 0.0
    # The mean: the host runs ahead of the GPU and then waits, so single steps tell little.
    step = float(np.mean(np.diff(starts)[SKIPPED_STEPS:]))
    gold = labels.gold(corpus["test"])
    found = {}
    if isinstance(system, AttentiveTreeSystem) and system.tree is not None:
        sizes = [system.tree.count_nodes(level) for level in range(system.tree.height + 2)]
        test = system.encode(corpus["test"])
        recall = measure_recall(system.check_fitted(), test, gold, system.tree.height)
        found = {"tree": sizes, "generator recall": round(recall, 4)}
    return {
        "seen labels": labels.n_seen,
        "documents": len(corpus["train"]),
        "steps": len(starts),
        "step ms": round(1e3 * step, 2),
        "documents a second": round(system.config.train.batch_size / step),
        "peak GiB": round(peak, 2),
        "tree s": round(system.tree_seconds, 1),
        "fit s": round(seconds, 1),
        "P@1": round(
            100 * float(score_documents(precision, 1, gold, system.rank(corpus["test"], 5)).mean()),
            2,
        ),
        **found,
    }


def random_run(n_labels: int, table: Mapping[str, Any], folder: Path) -> None:
    """A run folder as training leaves one, with random weights."""
    if is_finished(folder):
        return
    system = AttentiveTreeSystem(build(AttentiveTreeSystem.Config, table, "model"))
    system.reader.vocabulary = Vocabulary(("", "", *(f"w{i}" for i in range(WORDS))))
    system.n_labels = n_labels
    system.tree = tree = plant_tree(n_labels, system.config, system.compute_height(n_labels))
    random = np.random.default_rng(0)
    pool = (0.05 * random.standard_normal(2**22)).astype(np.float16)  # 2^30 draws take minutes
    top, *deeper = system.list_node_vectors(tree.height)
    tables: list[nn.Module] = [create_table(top, torch.zeros(tree.count_nodes(1)), system.device)]
    for level, vectors in enumerate(deeper, start=2):
        rows = np.resize(pool, (tree.count_nodes(level), row_width(vectors)))
        tables.append(FrozenTable(rows, system.device))
    system.network = system.build_network(tree, tables, None).eval()
    (folder / "model").mkdir(parents=True)
    system.save(folder / "model")
    write_manifest(folder, {"model": "attentive-tree"})


def ask(folder: Path, n_labels: int) -> None:
    """Load a run and rank documents one by one; prints the figures. A process of its own."""
    torch.set_num_threads(1)
    names = tuple(f"L{i}" for i in range(n_labels))
    labels = LabelSpace(names, np.ones(n_labels, np.int64), n_labels)
    watch = [both_clocks()]
    verify_folder(folder)
    watch.append(both_clocks())
    system = AttentiveTreeSystem.load(folder / "model", labels)
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
    parser.add_argument("--model", default="attentive-tree")
    parser.add_argument("--documents", type=int, default=200_000, help="at least so many")
    parser.add_argument("--planted", action="store_true", help="documents and tree made in seconds")
    parser.add_argument("--tables", nargs="*", help="train with each of these, as `table` says")
    parser.add_argument("--steps", type=int, default=0, help="of training; 0 = an epoch")
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    given = parser.parse_args()
    if given.what == "ask":
        ask(given.out, given.labels[0])
        return
    if given.planted and given.documents >= min(given.labels):
        parser.error("--planted is for fewer documents than labels")
    shapes = [shape_of(n, given.documents, planted=given.planted) for n in given.labels]
    if given.what == "corpora":
        for shape in shapes:
            make_ahead(given.out / f"corpus-{shape.labels}", shape, settings(given.overrides))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    if given.planted:
        folders = [given.out / f"corpus-{shape.labels}" for shape in shapes]
        with ProcessPoolExecutor() as pool:
            list(pool.map(corpora, folders, shapes))
    for shape, tables in product(shapes, given.tables or [None]):
        overrides = [*given.overrides, *([f"table={tables}"] if tables else [])]
        key = {"what": given.what, "model": given.model, "labels": shape.labels, "set": overrides}

        def measure(shape: Shape = shape, overrides: Sequence[str] = overrides) -> Any:
            if given.what == "train":
                return train(given.model, shape, given.steps, settings(overrides), given.out)
            return predict(shape.labels, settings(overrides), given.out)

        write_once(given.out / "results.jsonl", key, measure)


def write_once(results: Path, key: Mapping[str, Any], measure: Callable[[], Any]) -> None:
    """Print a line of results; measure it and add it to the file if it is not there."""
    lines = results.read_text().splitlines() if results.exists() else []
    done = next((line for line in lines if json.loads(line).items() >= key.items()), None)
    if done is None:
        done = json.dumps({**key, **measure()})
        with results.open("a") as file:
            file.write(done + "\n")
    sys.stdout.write(done + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Compare ways to search the names of `semantic`: time of a document, memory, and what is found.

    python bench/semantic_search.py runs/semantic --names 100000

Names and documents are those of a run: the vectors of its names, each with noise as often as it
takes to make so many, and of its background. One thread; processor milliseconds of one document, of
the products alone. "found" is the share of the first ten concepts, by standardised similarity of
all concepts, that are found where only the names that a search returns are compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

from ontodex.models.semantic.name_vectors import DocumentVectors, NameVectors
from ontodex.models.semantic.system import SemanticSystem
from ontodex.models.semantic.text_vectors import Vectors
from ontodex.runs.run import load

DOCUMENTS = 40
USUAL = 200  # documents over which similarities are standardised
FOUND = 10
RETURNED = (100, 1_000)  # names that a search returns for each passage
INDICES = {"flat": "Flat", "int8": "SQ8"}

Search = Callable[[Vectors], Any]  # of the passages of a document


@dataclass(frozen=True, eq=False)
class Task:
    """Names, one a concept, documents, and what is usual for each concept."""

    names: NameVectors
    documents: list[DocumentVectors]
    mean: Vectors
    deviation: Vectors

    @classmethod
    def of(cls, system: SemanticSystem, n_names: int) -> Task:
        names = make_names(system.names, n_names)
        background = system.background.take(slice(0, USUAL))
        usual = np.concatenate([part for _, part in names.compare(background)], axis=1)
        documents = [system.background.take(slice(i, i + 1)) for i in range(DOCUMENTS)]
        return cls(names, documents, usual.mean(axis=0), usual.std(axis=0) + 1e-3)

    def find_best(self, document: DocumentVectors, columns: Any) -> set[int]:
        """Return the best of some concepts by standardised similarity."""
        some = NameVectors(np.arange(len(columns)), self.names.vectors[columns])
        similarity = np.concatenate([part[0] for _, part in some.compare(document)])
        order = np.argsort((self.mean[columns] - similarity) / self.deviation[columns])
        return set(columns[order[:FOUND]].tolist())

    def measure_found(self, index: Any, k: int) -> float:
        """Return the share of the best concepts that are among those that an index returns."""
        every = np.arange(len(self.names.owner))
        shares = [
            len(self.find_best(one, every) & self.find_best(one, returned)) / FOUND
            for one in self.documents
            if len(returned := np.unique(index.search(one.vectors, k)[1]))
        ]
        return 100 * float(np.mean(shares))

    def measure_time(self, search: Search) -> float:
        """Return the median of processor milliseconds of a document."""
        search(self.documents[0].vectors)
        taken = []
        for document in self.documents:
            began = time.process_time()
            search(document.vectors)
            taken.append(time.process_time() - began)
        return 1e3 * float(np.median(taken))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("run", type=Path)
    parser.add_argument("--names", type=int, default=100_000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    system = load(given.run).model
    assert isinstance(system, SemanticSystem)
    task = Task.of(system, given.names)
    n_passages = np.mean([len(one.vectors) for one in task.documents])
    say(f"{given.names:,} names; {DOCUMENTS} documents of {n_passages:.1f} passages\n")
    wide = task.names.vectors.astype(np.float32)
    say("| search | ms | MB | build s | found of 100 | of 1,000 |\n|---|---:|---:|---:|---:|---:|")
    exact = {
        "exact, fp32": (lambda x: x @ wide.T, 4),
        "exact, fp16, some at a time": (lambda x: compare(task.names, x), 2),
        "exact, int8": (make_int8_search(wide), 1),
    }
    for name, (search, n_bytes) in exact.items():
        say(f"| {name} | {task.measure_time(search):.0f} | {wide.size * n_bytes / 1e6:.0f} | | | |")
    for name, recipe in INDICES.items():
        say(f"| faiss, {name} | {measure_index(task, wide, recipe)} |")


def measure_index(task: Task, wide: Vectors, recipe: str) -> str:
    """Return the cells of a faiss index."""
    began = time.process_time()
    index = faiss.index_factory(wide.shape[1], recipe, faiss.METRIC_INNER_PRODUCT)
    index.train(wide)
    index.add(wide)
    took = time.process_time() - began
    size = len(faiss.serialize_index(index)) / 1e6
    each = task.measure_time(lambda x: index.search(x, RETURNED[-1]))
    shares = [f"{task.measure_found(index, k):.1f}" for k in RETURNED]
    return f"{each:.0f} | {size:.0f} | {took:.0f} | {' | '.join(shares)}"


def make_names(names: NameVectors, n: int) -> NameVectors:
    """Return n names, each of a concept of its own."""
    rng = np.random.default_rng(1)
    some = names.vectors[rng.permutation(np.resize(np.arange(len(names.owner)), n))]
    noise = rng.normal(size=some.shape).astype(np.float32) * 0.02
    found = some.astype(np.float32) + noise
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return NameVectors(np.arange(n), found.astype(np.float16))


def compare(names: NameVectors, passages: Vectors) -> list[Any]:
    """Return the similarity of a document and every name, as `semantic` computes it."""
    return list(names.compare(DocumentVectors(passages, np.array([0, len(passages)]))))


def make_int8_search(wide: Vectors) -> Search:
    """Return a search with int8 names, whose passages are quantised as they come."""
    scales = torch.from_numpy(np.abs(wide).max(axis=1) / 127).double()
    zeros = torch.zeros(len(wide), dtype=torch.int64)
    weight = torch.quantize_per_channel(torch.from_numpy(wide), scales, zeros, 0, torch.qint8)
    packed: Any = torch.ops.quantized.linear_prepack(weight, None)
    return lambda x: torch.ops.quantized.linear_dynamic(torch.from_numpy(x), packed)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

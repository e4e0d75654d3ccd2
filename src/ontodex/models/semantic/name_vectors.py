"""The vectors of all names in memory, and the similarity of documents and concepts.

    passages of documents (m,d) ─ x some names (d,b) ─ best name of each concept
        ─ title + best window ─ similarity of some concepts (n,c)

Names stay in half precision, and some are compared at a time: memory grows by 2 bytes for each
number of a name's vector, whatever the number of documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ontodex.models.semantic.text_vectors import Vectors

_NAMES_AT_ONCE = 1_024  # in full precision they fit into a processor's cache

Columns = NDArray[np.int64]


class DocumentVectors(NamedTuple):
    """The vectors of the passages of documents. The first passage of a document is its title; at
    least one window follows."""

    vectors: Vectors  # (m, d)
    offsets: NDArray[np.int64]  # (n + 1,): where each document begins among the passages

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def take(self, rows: slice) -> DocumentVectors:
        """Return the vectors of consecutive documents."""
        offsets = self.offsets[rows.start : rows.stop + 1]
        return DocumentVectors(self.vectors[offsets[0] : offsets[-1]], offsets - offsets[0])


@dataclass(frozen=True, eq=False)
class NameVectors:
    """The vectors of all names; a concept may have several."""

    owner: Columns  # (names,): column of each name, rising
    vectors: NDArray[np.float16]  # (names, d)

    def find(self, column: int) -> Vectors:
        """Return the vectors of the names of a concept (k, d), in full precision."""
        first, last = np.searchsorted(self.owner, [column, column + 1])
        return self.vectors[first:last].astype(np.float32)

    def compare(self, documents: DocumentVectors) -> Iterator[tuple[Columns, Vectors]]:
        """Yield the columns of some concepts (c,) and their similarity to each document (n, c): the
        product of the title and its best name, plus that of the best window and its best name.
        Concepts without names are left out."""
        vectors, offsets = documents
        titles = offsets[:-1]
        for names in self._split():
            owner = self.owner[names]
            starts = np.flatnonzero(np.diff(owner, prepend=-1))
            # NumPy needs three times as long as PyTorch to widen half precision.
            wide = torch.tensor(self.vectors[names]).float().numpy()
            products = vectors @ wide.T  # (m, b)
            best = np.maximum.reduceat(products, starts, axis=1)  # (m, c)
            windows = np.delete(best, titles, axis=0)
            best_window = np.maximum.reduceat(windows, titles - np.arange(len(titles)), axis=0)
            yield owner[starts], best[titles] + best_window

    def _split(self) -> Iterator[slice]:
        """Yield slices of the names; all names of a concept are in one."""
        start = 0
        while start < len(self.owner):
            last = self.owner[min(start + _NAMES_AT_ONCE, len(self.owner)) - 1]
            stop = int(np.searchsorted(self.owner, last, side="right"))
            yield slice(start, stop)
            start = stop

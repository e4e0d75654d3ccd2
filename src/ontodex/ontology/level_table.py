"""Labels and documents at each level of an ontology (Deep Level-wise XMLC, Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ontodex.ontology.levels import choose_max_level, compute_label_levels
from ontodex.types import Corpus, LabelSpace, Ontology


@dataclass(frozen=True)
class LevelRow:
    """One level: its labels, the documents that have some of them, and how many these have."""

    level: int
    labels: int
    documents: int
    labels_a_document: float


def tabulate_levels(corpus: Corpus, ontology: Ontology) -> list[LevelRow]:
    """Return the levels that `levelwise` learns from these documents, the most general first."""
    labels = LabelSpace.of(corpus, ontology)
    if not labels.n_seen:
        return []
    level = compute_label_levels(labels, max_level=choose_max_level(labels))[: labels.n_seen]
    gold = labels.gold(corpus)[:, : labels.n_seen]
    rows = []
    for number in np.unique(level).tolist():
        counts = np.diff(gold[:, np.flatnonzero(level == number)].tocsr().indptr)
        has_label = counts[counts > 0]
        rows.append(
            LevelRow(
                number,
                int((level == number).sum()),
                len(has_label),
                round(float(has_label.mean()), 2) if len(has_label) else 0.0,
            )
        )
    return rows


def format_levels(rows: Sequence[LevelRow]) -> str:
    """Return the levels as lines of text."""
    head = f"{'level':>5} {'labels':>10} {'documents':>10}  labels a document"
    lines = [
        f"{row.level:>5} {row.labels:>10,} {row.documents:>10,} {row.labels_a_document:>18.2f}"
        for row in rows
    ]
    return "\n".join(["levels of the ontology", head, *lines])

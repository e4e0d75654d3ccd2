"""The table of every label: label_metrics.tsv of a run folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ontodex.evaluation.sets import Counts
from ontodex.io.files import write_text
from ontodex.types import LabelSpace


def write_label_table(path: Path, labels: LabelSpace, counts: Counts) -> None:
    """Write a TSV row for every label that is true or predicted somewhere.

    The columns are id, name, training frequency, gold, predicted, tp, P, R, F. Labels outside the
    label space have no id and are left out.
    """
    lines = ["id\tname\tfrequency\tgold\tpredicted\ttp\tP\tR\tF"]
    precision, recall, f = counts.precision(), counts.recall(), counts.f()
    occurring = np.flatnonzero((counts.gold + counts.predicted)[: len(labels)])
    for column in occurring.tolist():
        name = " ".join(labels.name(column).split())
        numbers = (labels.frequency, counts.gold, counts.predicted, counts.hit)
        shares = (precision, recall, f)
        cells = [str(a[column]) for a in numbers] + [f"{a[column]:.4f}" for a in shares]
        lines.append("\t".join([" ".join(labels.ids[column].split()), name, *cells]))
    write_text(path, "\n".join(lines) + "\n")

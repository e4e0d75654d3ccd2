from __future__ import annotations

import csv

import numpy as np
from scipy.sparse import csr_array

from ontodex.evaluation.label_table import write_label_table
from ontodex.evaluation.sets import count_by_label
from ontodex.types import LabelSpace, Ontology
from ontodex.types.sparse_column import SparseColumn


def test_label_table_has_a_row_for_every_label_that_is_true_or_predicted(tmp_path, rank, truth):
    names = ["Cats\tand\ndogs", "Birds", "Worms", "Fish"]
    ontology = Ontology(
        tuple("abcd"), {"en": SparseColumn.of(names, "")}, csr_array((4, 4), dtype=np.int8)
    )
    labels = LabelSpace(ontology.ids, np.array([12, 3, 0, 7]), 20, ontology)
    gold = truth([0, 4], [0, 3], n=5)  # column 4 is outside the label space
    counts = count_by_label(gold, rank([0, 1], [1, 3]))
    write_label_table(tmp_path / "labels.tsv", labels, counts)
    with (tmp_path / "labels.tsv").open(newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert rows == [
        ["id", "name", "frequency", "gold", "predicted", "tp", "P", "R", "F"],
        ["a", "Cats and dogs", "12", "2", "1", "1", "1.0000", "0.5000", "0.6667"],
        ["b", "Birds", "3", "0", "2", "0", "0.0000", "0.0000", "0.0000"],
        ["d", "Fish", "7", "1", "1", "1", "1.0000", "1.0000", "1.0000"],
    ]

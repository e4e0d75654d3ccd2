"""The tightness of clusters that bench/label_tree.py prints."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array


def test_cohesion_by_hand(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "bench")
    label_tree = importlib.import_module("label_tree")
    vectors = csr_array(np.array([[1, 0], [0, 1], [0, 1]], dtype=np.float32))
    # Nodes {0, 1} and {2}: their sums have the lengths sqrt 2 and 1.
    found = label_tree.compute_cohesion(vectors, np.array([0, 0, 1]))
    assert found == pytest.approx((2**0.5 + 1) / 3)

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.errors import RunError
from ontodex.models.trees import omikuji
from ontodex.models.trees.omikuji import CborReader


def test_the_output_of_a_failed_training_is_shown():
    rows, gold = csr_array(np.eye(5, dtype=np.float32)), csr_array(np.eye(5, dtype=np.int8))
    with pytest.raises(RunError, match=r"(?s)omikuji ended with code 1: .*TypeError"):
        omikuji.train_forest(rows, gold, {"n_trees": "three"})


def cbor(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


@pytest.mark.parametrize(
    ("data", "value"),
    [
        ("17", 23),
        ("18 64", 100),
        ("19 03e8", 1000),
        ("1a 000f4240", 1_000_000),
        ("1b 000000e8d4a51000", 1_000_000_000_000),
        ("f9 3c00", 1.0),
        ("fa 47c35000", 100_000.0),
        ("fb 3ff199999999999a", 1.1),
        ("a2 61 61 01 61 62 82 61 63 61 64", {"a": 1, "b": ["c", "d"]}),
        ("80", []),
    ],
)
def test_cbor_examples_of_the_standard(data, value):
    assert CborReader(cbor(data)).read_item() == value


def test_cbor_numbers_of_mixed_length_become_one_array():
    np.testing.assert_array_equal(
        CborReader(cbor("84 01 18 64 19 03e8 02")).read_item(), [1, 100, 1000, 2]
    )
    np.testing.assert_array_equal(
        CborReader(cbor("83 f9 3c00 fa 47c35000 f9 c400")).read_item(), [1, 1e5, -4]
    )


def test_a_cbor_value_that_omikuji_never_writes_is_named():
    with pytest.raises(RunError, match="type 2"):
        CborReader(cbor("41 00")).read_item()


def test_the_training_file_leaves_out_documents_without_labels(tmp_path: Path):
    rows = csr_array(np.array([[0.5, 0], [1, 0], [0, 0.25]], dtype=np.float32))
    gold = csr_array(np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]], dtype=np.int8))
    omikuji.write_training_file(rows, gold, tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text() == "2 2 3\n0,2 0:0.5\n1 1:0.25\n"


def write_cbor(value: object) -> bytes:
    """Write a value as omikuji does, in the shortest way that small values need."""
    if isinstance(value, float):
        return b"\xfa" + struct.pack(">f", value)
    if isinstance(value, int):
        return bytes([value])  # below 24
    if isinstance(value, str):
        return bytes([0x60 + len(value)]) + value.encode()
    if isinstance(value, list):
        return bytes([0x80 + len(value)]) + b"".join(map(write_cbor, value))
    assert isinstance(value, dict)
    pairs = (write_cbor(key) + write_cbor(own) for key, own in value.items())
    return bytes([0xA0 + len(value)]) + b"".join(pairs)


def test_a_tree_whose_weights_are_saved_by_feature_is_read_with_its_bias(tmp_path: Path):
    """Two leaves below the root, three features; the bias is the fourth, and no leaf has
    feature 1."""
    by_feature = {
        "inner_dim": 2, "outer_inds": [0, 2, 3], "indptr": [0, 1, 3, 5],
        "inner_inds": [1, 0, 1, 0, 1], "data": [0.5, 2.0, -1.0, 0.25, -0.75],
    }  # fmt: skip
    one = {"inner_dim": 1, "outer_inds": [3], "indptr": [0, 1], "inner_inds": [0], "data": [1.5]}
    leaves = [{"Leaf": {"weights": {"Sparse": one}, "labels": [label]}} for label in (0, 1)]
    root = {"Branch": {"weights": {"Sparse": by_feature}, "children": leaves}}
    (tmp_path / "tree0.cbor").write_bytes(write_cbor(root))
    (tmp_path / "settings.json").write_text('{"n_features": 3}')
    forest = omikuji.read_forest(tmp_path)
    expected = [[0, 0, 2, 0.25], [0.5, 0, -1, -0.75], [0, 0, 0, 1.5], [0, 0, 0, 1.5]]
    np.testing.assert_allclose(forest.weights.toarray(), expected)
    assert forest.first.tolist() == [0, 2, 3, 4]
    assert forest.child.tolist() == [1, 2, 0, 1]
    assert forest.is_leaf.tolist() == [False, True, True]

from __future__ import annotations

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

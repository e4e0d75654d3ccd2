"""Tensors of a run folder: what is written is read, and what does not match its spec is refused."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from ontodex.errors import RunError
from ontodex.io.tensors import (
    TensorSpec,
    check_tensors,
    load_csr,
    load_tensor_file,
    load_tensors,
    read_tensors,
    save_csr,
    save_tensors,
)

SPECS = {
    "weights": TensorSpec(("labels", "words")),
    "bias": TensorSpec(("labels",)),
    "counts": TensorSpec(("words",), "int", minimum=0, maximum=9),
    "is_leaf": TensorSpec((None,), "bool"),
}


def good() -> dict[str, np.ndarray]:
    return {
        "weights": np.arange(6, dtype=np.float16).reshape(2, 3),
        "bias": np.array([0.5, -1.0]),
        "counts": np.array([0, 9, 4]),
        "is_leaf": np.array([True, False, True, True]),
    }


def memory_of(array: np.ndarray) -> np.ndarray:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def test_tensors_come_back_whole_from_shards(tmp_path):
    rng = np.random.default_rng(0)
    tensors = {
        "big": rng.random((1000, 7)).astype(np.float32),
        "half": rng.random((30, 3)).astype(np.float16),
        "ids": np.arange(11, dtype=np.int64),
        "empty": np.empty((0, 4), np.float32),
        "one": np.array(3.0),
    }
    save_tensors(tmp_path, "w", tensors, shard_bytes=4096)
    shards = list(tmp_path.glob("*.safetensors"))
    assert len(shards) > 6
    assert max(path.stat().st_size for path in shards) < 8192
    back = read_tensors(tmp_path, "w")
    assert back.keys() == tensors.keys()
    for name, value in tensors.items():
        np.testing.assert_array_equal(back[name], value)
        assert back[name].dtype == value.dtype


def test_a_tensor_in_one_part_is_mapped_not_read(tmp_path):
    save_tensors(tmp_path, "w", {"a": np.arange(10_000.0)})
    loaded = load_tensors(tmp_path, "w", {"a": TensorSpec((10_000,))})["a"]
    assert isinstance(memory_of(loaded), np.memmap)


def test_tensors_that_match_their_specs_are_loaded(tmp_path):
    save_tensors(tmp_path, "w", good())
    back = load_tensors(tmp_path, "w", SPECS, {"labels": 2})
    for name, value in good().items():
        np.testing.assert_array_equal(back[name], value)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("bias", None, "tensor 'bias' is missing"),
        ("more", np.zeros(3), "tensor 'more' is not expected; expected are bias, counts, "),
        ("bias", np.zeros((2, 1)), "'bias' has shape (2, 1); expected (labels=2)"),
        ("bias", np.zeros(3), "'bias' has shape (3,); expected (labels=2)"),
        ("counts", np.zeros(4, int), "'counts' has shape (4,); expected (words=3)"),
        ("counts", np.zeros(3), "'counts' holds float64 numbers; expected int"),
        ("weights", np.zeros((2, 3), int), "'weights' holds int64 numbers; expected float"),
        ("is_leaf", np.zeros(4, int), "'is_leaf' holds int64 numbers; expected bool"),
        ("bias", np.array([0, np.nan]), "'bias' holds values that are not finite"),
        ("bias", np.array([0, -np.inf]), "'bias' holds values that are not finite"),
        ("counts", np.array([0, 10, 1]), "'counts' holds the value 10; expected 0 to 9"),
        ("counts", np.array([0, -1, 1]), "'counts' holds the value -1; expected 0 to 9"),
    ],
)
def test_a_tensor_that_does_not_match_is_refused_by_name(tmp_path, name, value, sentence):
    tensors = {**good(), name: value}
    save_tensors(tmp_path, "w", {key: array for key, array in tensors.items() if array is not None})
    with pytest.raises(RunError, match=re.escape(sentence)) as caught:
        load_tensors(tmp_path, "w", SPECS)
    assert str(caught.value).startswith(str(tmp_path / "w.safetensors"))
    assert caught.value.hint


def test_a_size_known_beforehand_binds_the_first_tensor_too(tmp_path):
    save_tensors(tmp_path, "w", good())
    sentence = "'weights' has shape (2, 3); expected (labels=5, words=3)"
    with pytest.raises(RunError, match=re.escape(sentence)):
        load_tensors(tmp_path, "w", SPECS, {"labels": 5})


@pytest.mark.parametrize("place", [0, 2**20 - 1, 2**20, -1])
def test_every_value_is_checked_in_every_block(place):
    values = np.zeros(2**20 + 5, np.float16)
    spec = {"a": TensorSpec((None,), minimum=-1)}
    check_tensors("x", {"a": values}, spec)
    values[place] = np.inf
    with pytest.raises(RunError, match="not finite"):
        check_tensors("x", {"a": values}, spec)
    values[place] = -2
    with pytest.raises(RunError, match="expected at least -1"):
        check_tensors("x", {"a": values}, spec)


def test_half_precision_can_be_demanded_and_values_left_for_later():
    spec = {"a": TensorSpec((2,), "float16", finite=False)}
    check_tensors("x", {"a": np.array([np.nan, 1], np.float16)}, spec)
    with pytest.raises(RunError, match="float32 numbers; expected float16"):
        check_tensors("x", {"a": np.zeros(2, np.float32)}, spec)


@pytest.mark.parametrize("cut", [0, 5, 60, -1])
def test_a_truncated_tensor_file_is_refused(tmp_path, cut):
    save_tensors(tmp_path, "w", {"a": np.arange(100)})
    path = tmp_path / "w.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(RunError, match=r"w\.safetensors: not a readable safetensors file"):
        read_tensors(tmp_path, "w")


@pytest.mark.parametrize(
    ("old", "new"), [(b'"shape":[100]', b'"shape":[999]'), (b'"I64"', b'"F8_E8M0"')]
)
def test_a_header_that_does_not_match_its_tensors_is_refused(tmp_path, old, new):
    save_tensors(tmp_path, "w", {"a": np.arange(100)})
    path = tmp_path / "w.safetensors"
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(RunError, match="not a readable safetensors file"):
        read_tensors(tmp_path, "w")


def test_a_type_of_numbers_that_numpy_has_not_is_refused(tmp_path):
    save_tensors(tmp_path, "w", {"a": np.zeros(100, np.float16)})
    path = tmp_path / "w.safetensors"
    path.write_bytes(path.read_bytes().replace(b'"F16"', b'"BF16"').replace(b"  ", b" ", 1))
    with pytest.raises(RunError, match="not a readable safetensors file"):
        read_tensors(tmp_path, "w")


@pytest.mark.parametrize(
    "index", ["", "[]", '{"a": []}', '{"a": 0}', '{"a": [-1]}', '{"a": [0.5]}', '{"a": ["../x"]}']
)
def test_a_damaged_index_is_refused(tmp_path, index):
    save_tensors(tmp_path, "w", {"a": np.arange(100)})
    (tmp_path / "w.index.json").write_text(index)
    with pytest.raises(RunError, match=r"w\.index\.json"):
        read_tensors(tmp_path, "w")


def test_an_index_without_its_shards_is_refused(tmp_path):
    with pytest.raises(RunError, match=r"w\.index\.json: cannot be read"):
        read_tensors(tmp_path, "w")
    save_tensors(tmp_path, "w", {"a": np.zeros((40, 40)), "b": np.arange(3)}, shard_bytes=4096)
    index = json.loads((tmp_path / "w.index.json").read_text())
    assert len(index["a"]) > 1
    (tmp_path / "w.index.json").write_text(json.dumps({**index, "b": index["b"] * 2}))
    with pytest.raises(RunError, match="tensor 'b' cannot be put together"):
        read_tensors(tmp_path, "w")
    (tmp_path / "w-0001.safetensors").unlink()
    with pytest.raises(RunError, match=r"w-0001\.safetensors: not a readable"):
        read_tensors(tmp_path, "w")


def test_a_file_without_an_index_is_checked_too(tmp_path):
    save_tensors(tmp_path, "w", {"a": np.arange(3.0)})
    path = tmp_path / "w.safetensors"
    np.testing.assert_array_equal(
        load_tensor_file(path, {"a.0": TensorSpec((3,))})["a.0"], [0, 1, 2]
    )
    with pytest.raises(RunError, match="expected \\(4\\)"):
        load_tensor_file(path, {"a.0": TensorSpec((4,))})


def matrix() -> csr_array:
    return csr_array(random_array((6, 5), density=0.4, rng=np.random.default_rng(1), format="csr"))


def test_a_sparse_matrix_comes_back_with_the_tensors_beside_it(tmp_path):
    for rows in (matrix(), csr_array((3, 0)), csr_array((0, 4))):
        save_csr(tmp_path, "m", rows, names=np.arange(rows.shape[0]))
        more = {"names": TensorSpec(("docs",), "int")}
        back, others = load_csr(
            tmp_path, "m", ("docs", "words"), more=more, sizes={"words": rows.shape[1]}
        )
        np.testing.assert_array_equal(back.toarray(), rows.toarray())
        assert others.keys() == {"names"}


def test_a_sparse_matrix_of_another_shape_is_refused(tmp_path):
    save_csr(tmp_path, "m", matrix(), names=np.arange(6))
    more = {"names": TensorSpec(("docs",), "int")}
    with pytest.raises(RunError, match=re.escape("has shape (6, 5); expected (docs=6, 4)")):
        load_csr(tmp_path, "m", ("docs", 4), more=more)
    with pytest.raises(RunError, match="'names' is not expected"):
        load_csr(tmp_path, "m", (6, 5))
    save_csr(tmp_path, "m", matrix(), names=np.arange(5))
    with pytest.raises(RunError, match=re.escape("'names' has shape (5,); expected (docs=6)")):
        load_csr(tmp_path, "m", ("docs", 5), more=more)


@pytest.mark.parametrize(
    ("name", "damage", "sentence"),
    [
        ("data", lambda a: np.where(np.arange(len(a)) == 2, np.inf, a), "not finite"),
        ("data", lambda a: a[:-1], "tensor 'indices' has shape"),
        ("data", lambda a: a.astype(int), "expected float"),
        ("indices", lambda a: a + 1, "holds the value 5; expected 0 to 4"),
        ("indices", lambda a: a - 1, "holds the value -1; expected 0 to 4"),
        ("indptr", lambda a: a[:-1], "tensor 'indptr' has shape"),
        ("indptr", lambda a: a[::-1], "'indptr' does not rise from 0"),
        ("indptr", lambda a: np.maximum(a, 1), "'indptr' does not rise from 0"),
        ("indptr", lambda a: np.minimum(a, 3), "'indptr' does not rise from 0"),
        ("indptr", lambda a: np.r_[a[0], a[2], a[1], a[3:]], "'indptr' does not rise from 0"),
        ("shape", lambda a: a[:1], "must hold two whole numbers"),
        ("shape", lambda a: -a, "must hold two whole numbers"),
        ("shape", lambda a: a * 0.5, "must hold two whole numbers"),
        ("shape", lambda a: a + np.array([2**40, 2**40]), "expected (6, any)"),
    ],
)
def test_a_damaged_sparse_matrix_is_refused(tmp_path, name, damage, sentence):
    rows = matrix()
    parts = {
        "data": rows.data,
        "indices": rows.indices,
        "indptr": rows.indptr,
        "shape": np.array(rows.shape),
    }
    save_tensors(tmp_path, "m", {**parts, name: damage(parts[name])})
    with pytest.raises(RunError, match=re.escape(sentence)) as caught:
        load_csr(tmp_path, "m", (6, None))
    assert str(tmp_path / "m.safetensors") in str(caught.value)


def test_a_sparse_matrix_without_one_of_its_tensors_is_refused(tmp_path):
    save_tensors(tmp_path, "m", {"data": np.zeros(3), "shape": np.array([3, 3])})
    with pytest.raises(RunError, match=r"tensor 'ind\w+' is missing"):
        load_csr(tmp_path, "m", (None, None))

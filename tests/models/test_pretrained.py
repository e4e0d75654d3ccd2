"""Folders of pretrained encoders: read, or refused with a sentence and without running anything."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from ontodex.errors import DataError
from ontodex.features.word_pieces import WordPieces
from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.layers.packed import pack
from ontodex.models.pretrained import load_encoder

PIECES = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "trout": 4}
SHAPE = {
    "vocab_size": 6, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "intermediate_size": 12, "max_position_embeddings": 10,
}  # fmt: skip


@pytest.fixture
def network() -> Bert:
    torch.manual_seed(2)
    return Bert(BertConfig(**SHAPE)).eval()


@pytest.fixture
def folder(network: Bert, tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **SHAPE}))
    save_file(
        {k: v.numpy() for k, v in network.state_dict().items()}, tmp_path / "model.safetensors"
    )
    WordPieces(PIECES, is_lower_case=True, strips_accents=None).save(tmp_path / "tokenizer.json")
    return tmp_path


def change_config(folder: Path, **changes: object) -> None:
    table = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(table | changes))


def change_tensors(folder: Path, change) -> None:
    tensors = dict(load_file(folder / "model.safetensors"))
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_an_encoder_gives_the_states_of_its_weights(folder, network):
    encoder = load_encoder(str(folder))
    ids = encoder.pieces.encode(["Trout"], window=10, n_windows=1)[0]
    assert ids.tolist() == [2, 4, 3]
    packed = pack(torch.tensor(ids.tolist()), np.array([3]))
    torch.testing.assert_close(encoder.network(packed), network(packed))


def test_weights_under_a_head_and_parts_that_are_not_needed_are_read(folder, network):
    def add_head(tensors):
        for name in list(tensors):
            tensors[f"bert.{name}"] = tensors.pop(name)
        tensors["cls.predictions.bias"] = np.zeros(6, np.float32)
        tensors["bert.pooler.dense.bias"] = np.zeros(8, np.float32)
        tensors["bert.embeddings.position_ids"] = np.arange(10)[None]

    change_tensors(folder, add_head)
    packed = pack(torch.tensor([2, 4, 3]), np.array([3]))
    torch.testing.assert_close(load_encoder(folder).network(packed), network(packed))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'"),
        ({"auto_map": {"AutoModel": "evil.py"}}, "code of its own"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"hidden_size": 9}, "not divisible"),
        ({"hidden_size": "8"}, "must be a number"),
        ({"hidden_size": 8.5}, "whole number"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be in"),
        ({"intermediate_size": 2**40}, "intermediate_size must be at most"),
        ({"intermediate_size": 13}, "has shape"),
        ({"num_hidden_layers": 2}, "is missing"),
        ({"vocab_size": 4}, r"more than the vocabulary of the network \(4\)"),
    ],
)
def test_a_config_that_does_not_fit_is_refused(folder, changes, message):
    change_config(folder, **changes)
    with pytest.raises(DataError, match=message):
        load_encoder(folder)


NAME = "encoder.layer.0.output.dense.weight"  # (8, 12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[NAME].fill(np.nan), "not finite"),
        (lambda t: t.update({NAME: t[NAME].T.copy()}), "has shape"),
        (lambda t: t.update({NAME: np.ones((8, 12), np.int32)}), "int32"),
        (lambda t: t.update({"encoder.layer.7.x": np.zeros(1, np.float32)}), "not expected"),
        (lambda t: t.pop(NAME), "is missing"),
    ],
)
def test_missing_wrong_and_foreign_tensors_are_refused(folder, change, message):
    change_tensors(folder, change)
    with pytest.raises(DataError, match=message):
        load_encoder(folder)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


def test_a_pickle_is_never_read(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(DataError, match="not a readable safetensors file"):
        load_encoder(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(DataError, match="is a pickle, which is never read"):
        load_encoder(folder)
    assert not Path("sprung").exists()

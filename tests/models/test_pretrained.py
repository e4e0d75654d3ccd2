"""Folders of pretrained encoders: read, or refused with a sentence and without running anything."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from ontodex.errors import DataError, RunError
from ontodex.features.word_pieces import WordPieces
from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.layers.packed import pack
from ontodex.models.pretrained import load_encoder
from ontodex.models.semantic.system import SemanticConfig
from ontodex.runs.settings import list_needed_paths

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


COMMIT = "0123456789" * 4
CODE = "from pathlib import Path\nPath('sprung').touch()\n"


def test_code_in_a_folder_is_never_run(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(folder))
    for name in ("modeling_evil", "configuration_evil", "tokenization_evil", "handler"):
        (folder / f"{name}.py").write_text(CODE)
    table = {"auto_map": {"AutoTokenizer": ["tokenization_evil.Evil", None]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(table))  # is not read at all
    load_encoder(folder)
    change_config(folder, auto_map={"AutoModel": "modeling_evil.Evil"})
    with pytest.raises(DataError, match="code of its own"):
        load_encoder(folder)
    assert not Path("sprung").exists()


def write_header(header: bytes, length: int | None = None, data: bytes = b"") -> bytes:
    return (len(header) if length is None else length).to_bytes(8, "little") + header + data


ENTRY = b'{"x": {"dtype": "F32", "shape": [%d], "data_offsets": [%d, %d]}}'


@pytest.mark.parametrize(
    "content",
    [
        b"",
        write_header(b"{}", 2**62),  # a header of 4 exabytes
        write_header(b"not json"),
        write_header(b"[" * 50_000),
        write_header(ENTRY % (2**40, 0, 2**42)),  # numbers that are not there
        write_header(ENTRY % (2, 4, 0), data=bytes(8)),
        write_header(ENTRY % (1, 0, 8), data=bytes(8)),
        write_header(ENTRY.replace(b"F32", b"O64") % (1, 0, 8), data=bytes(8)),
    ],
)
def test_damaged_weights_are_refused(folder, content):
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match="not a readable safetensors file"):
        load_encoder(folder)


@pytest.mark.parametrize(("name", "limit"), [("config.json", "1,048,576"), ("tokenizer.json", "")])
def test_files_of_a_gigabyte_are_refused_unread(folder, name, limit):
    with (folder / name).open("wb") as file:
        file.truncate(2**30)  # a sparse file
    with pytest.raises(DataError, match=f"more than .*{limit}"):
        load_encoder(folder)


@pytest.fixture
def cache(folder, monkeypatch, tmp_path) -> Path:
    """The encoder in the cache of the hub's library, as the commit that `main` names."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    cached = tmp_path / "cache" / "models--ada--trout"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(COMMIT)
    (cached / "blobs").mkdir()
    snapshot = cached / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        shutil.move(folder / name, cached / "blobs" / name)
        (snapshot / name).symlink_to(cached / "blobs" / name)
    return snapshot


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("name", ["hub:ada/trout", f"hub:ada/trout@{COMMIT}"])
def test_an_encoder_of_the_hub_is_read_from_the_cache_of_its_library(name, network):
    encoder = load_encoder(name)
    packed = pack(torch.tensor([2, 4, 3]), np.array([3]))
    torch.testing.assert_close(encoder.network(packed), network(packed))
    assert list_needed_paths(SemanticConfig(encoder=name)) == []


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hub:ada/perch", "ada/perch: not fetched before"),
        ("hub:ada/trout@v2", "ada/trout: not fetched before"),
        ("hub:../../etc", r"\.\./\.\./etc"),
        ("hub:", "Repo id"),
    ],
)
def test_a_repository_that_cannot_be_fetched_is_one_sentence(name, message):
    with pytest.raises(RunError, match=message):
        load_encoder(name)


def test_an_encoder_of_the_hub_is_checked_like_any_other(cache):
    table = json.loads((cache / "config.json").read_text()) | {"auto_map": {"AutoModel": "x.py"}}
    (cache / "config.json").unlink()
    (cache / "config.json").write_text(json.dumps(table))
    with pytest.raises(DataError, match="code of its own"):
        load_encoder("hub:ada/trout")

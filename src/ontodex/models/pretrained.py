"""Read a pretrained encoder from a folder in the Hugging Face layout, or from the Hub.

    config.json         the shape of the network (BertConfig)
    model.safetensors   its weights
    tokenizer.json      its word pieces

The folder is data: nothing in it is executed, pickles are never read, and a config.json that asks
for code of its own is refused. Every tensor is compared with the shape that config.json declares.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ontodex.errors import DataError, RunError
from ontodex.features.word_pieces import PIECES, WordPieces, read_encoder_json
from ontodex.io.files import hash_file, write_text
from ontodex.io.hub import HUB, ORIGIN, find_folder
from ontodex.io.tensors import check_tensors, map_tensor_file
from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.weights import set_weights, weight_specs

CONFIG, WEIGHTS, LICENCE = "config.json", "model.safetensors", "licence.txt"
MAX_CONFIG_BYTES = 2**20
# What `check_needed` says of a system that cannot do without an encoder.
NEEDED_ENCODER = {
    "path": True,
    "needed": "a pretrained encoder",
    "hint": "ontodex data get minilm DIR, then --set model.encoder=DIR",
}
_PREFIX = "bert."  # of models with a head, such as those for masked words
# Parts of a file that the states of words do not need.
_UNUSED = ("pooler.", "cls.", "embeddings.position_ids")


@dataclass(frozen=True)
class PretrainedEncoder:
    """A network with pretrained weights, and the word pieces that it reads."""

    config: BertConfig
    network: Bert
    pieces: WordPieces
    origin: str = ""  # name and digest of the weights, and their licence where the folder says


def load_encoder(place: str | Path) -> PretrainedEncoder:
    """Read and check the encoder of a folder or of the Hub."""
    folder = find_folder(str(place), (CONFIG, WEIGHTS, PIECES, LICENCE))
    _check_files(folder)
    config = read_config(folder / CONFIG)
    pieces = WordPieces.load(folder / PIECES)
    try:
        check_pieces(folder, config, pieces)
    except RunError as error:
        raise DataError(str(error), hint="take all files from the same encoder") from None
    with torch.device("meta"):  # saves the memory and time of weights that are read next
        network = Bert(config)
    set_weights(network, _read_weights(folder / WEIGHTS, network))
    return PretrainedEncoder(config, network.eval(), pieces, _describe_origin(place, folder))


def check_pieces(folder: Path, config: BertConfig, pieces: WordPieces, window: int = 1) -> None:
    """Refuse word pieces that the network has no vectors for, and windows that it cannot read."""
    if len(pieces) > config.vocab_size:
        raise RunError(
            f"{folder}: {PIECES} has {len(pieces):,} pieces, more than the vocabulary of the "
            f"network ({config.vocab_size:,})",
            hint="copy the folder again",
        )
    if window > config.max_position_embeddings:
        raise RunError(
            f"{folder}: windows have {window:,} pieces, more than the network reads together "
            f"({config.max_position_embeddings:,})",
            hint="copy the folder again",
        )


def save_origin(folder: Path, origin: str) -> None:
    """Write where the weights of an encoder are from into a run folder."""
    if origin:
        write_text(folder / ORIGIN, origin)


def read_origin(folder: Path) -> str:
    """Return what `save_origin` wrote, so that a run that is saved again keeps it."""
    return _read_text(folder / ORIGIN)


def _describe_origin(place: str | Path, folder: Path) -> str:
    """Return name, digest and licence of the weights; of a folder, only its last part is named."""
    name = str(place).removeprefix(HUB) if str(place).startswith(HUB) else folder.resolve().name
    digest = hash_file(folder / WEIGHTS)
    return f"{name} (SHA-256 of {WEIGHTS}: {digest}). {_read_text(folder / LICENCE)}".strip()


def _read_text(path: Path) -> str:
    if not path.is_file() or path.stat().st_size > MAX_CONFIG_BYTES:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _check_files(folder: Path) -> None:
    missing = [name for name in (CONFIG, WEIGHTS, PIECES) if not (folder / name).is_file()]
    if missing:
        pickles = sorted(path.name for path in folder.glob("*.bin"))
        note = f"; {pickles[0]} is a pickle, which is never read" if pickles else ""
        raise DataError(
            f"no pretrained encoder: {', '.join(missing)} is missing{note}",
            path=folder,
            hint="ontodex data get minilm DIR makes a folder with one",
        )


def read_config(path: Path) -> BertConfig:
    """Read the shape of a network from a config.json; entries of training and of labels are left
    out."""
    table = read_encoder_json(path, MAX_CONFIG_BYTES)
    _refuse_other_models(table, path)
    names = {field.name: field for field in dataclasses.fields(BertConfig)}
    try:
        return BertConfig(
            **{name: _check_number(name, table[name]) for name in names & table.keys()}
        )
    except (ValueError, TypeError) as error:
        raise DataError(f"{error}", path=path) from None


def _refuse_other_models(table: dict[str, Any], path: Path) -> None:
    """Refuse networks of other forms, and code that a model brings along."""
    if "auto_map" in table:
        raise DataError("asks for code of its own (auto_map), which is never run", path=path)
    expected = {
        "model_type": ("bert",),
        "hidden_act": ("gelu",),
        "position_embedding_type": ("absolute",),
    }
    for name, accepted in expected.items():
        seen = table.get(name, accepted[0] if name != "model_type" else None)
        if seen not in accepted:
            raise DataError(
                f"{name} is {seen!r:.60}; supported is {accepted[0]!r}",
                path=path,
                hint="use an encoder of the BERT family: BERT, MiniLM, e5 or bge",
            )


def _check_number(name: str, value: object) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} must be a number, not {value!r:.60}")
    if not name.endswith(("_eps", "_prob")) and not isinstance(value, int):
        raise ValueError(f"{name} must be a whole number, not {value!r:.60}")
    return value


def _read_weights(path: Path, network: Bert) -> dict[str, np.ndarray[Any, Any]]:
    try:
        tensors = {
            name.removeprefix(_PREFIX): tensor for name, tensor in map_tensor_file(path).items()
        }
        kept = {name: tensors[name] for name in tensors if not name.startswith(_UNUSED)}
        check_tensors(path, kept, weight_specs(network))
    except RunError as error:
        raise DataError(str(error), hint="download the encoder again") from None
    return kept

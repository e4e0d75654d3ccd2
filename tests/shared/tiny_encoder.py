"""A pretrained encoder small enough for a test: random weights, one piece a word."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import save_file

from ontodex.features.word_pieces import SPECIAL, WordPieces
from ontodex.models.layers.bert import Bert, BertConfig


def write_tiny_encoder(folder: Path, texts: Iterable[str], *, dropout: float = 0.1) -> Path:
    """Write an encoder whose pieces are the words of these texts, and return its folder."""
    words = sorted({word for text in texts for word in re.findall(r"[^\W_]+", text.lower())})
    pieces = {piece: number for number, piece in enumerate([*SPECIAL, *words])}
    config = BertConfig(
        vocab_size=len(pieces), hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=64,
        hidden_dropout_prob=dropout,
    )  # fmt: skip
    torch.manual_seed(5)
    network = Bert(config)
    with torch.no_grad():  # words, not places, tell texts apart
        network.embeddings.position_embeddings.weight.mul_(0.1)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), folder / "model.safetensors")
    table = {"model_type": "bert", **dataclasses.asdict(config)}
    (folder / "config.json").write_text(json.dumps(table))
    WordPieces(pieces, is_lower_case=True, strips_accents=None).save(folder / "tokenizer.json")
    return folder

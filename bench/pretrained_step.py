"""The cost of a training step of `attentive-bert`, beside `transformers`.

    python bench/pretrained_step.py --layers 6 --labels 4108

Both sides have the same network (BERT of random weights, label attention, bag of words), batches
and precision. Ours packs texts without padding; the other pads windows to one length, as is usual.
Documents have lengths drawn like those of EURLEX57K. Prints a Markdown table with the ratio. It is
meant for a GPU; on a CPU, `--batch 2 --layers 1 --warm 1 --timed 2` shows that it runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ontodex.features.batches import plan
from ontodex.features.vocabulary import EncodedTexts
from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.models.attentive_bert.network import AttentiveBert
from ontodex.models.attentive_bert.reader import EncodedDocuments
from ontodex.models.layers.bert import BertConfig
from ontodex.models.layers.packed import Packed, pad_rows
from ontodex.models.layers.ragged import Ragged

WORDS = 60_000
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Padded(nn.Module):
    """The encoder of `transformers` in the place of ours."""

    def __init__(self, shape: BertConfig) -> None:
        super().__init__()
        from transformers import BertConfig as TheirConfig
        from transformers import BertModel

        self.width = shape.hidden_size
        config = TheirConfig(
            num_hidden_layers=shape.num_hidden_layers,
            hidden_size=shape.hidden_size,
            num_attention_heads=shape.num_attention_heads,
            intermediate_size=shape.intermediate_size,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = BertModel(config, add_pooling_layer=False)

    def forward(self, texts: Packed) -> Tensor:
        ids = pad_rows(texts.ids, texts.offsets[:-1], texts.lengths, texts.longest)
        mask = torch.arange(texts.longest, device=ids.device) < texts.lengths[:, None]
        h: Tensor = self.bert(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        return h[mask]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--labels", type=int, default=4_108)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--warm", type=int, default=40, help="steps before the clock starts")
    parser.add_argument("--timed", type=int, default=25)
    parser.add_argument("--compile", action="store_true", help="also compile the layers of ours")
    given = parser.parse_args()
    shape = BertConfig(30_522, 384, given.layers, 12, 1_536, 512)
    config = AttentiveBertConfig(encoder="random")
    data, batches = make_documents(given.batch)
    say(f"{np.mean(data.lengths):.0f} pieces a document; batch {given.batch}\n")
    say("| encoder | ms a step | documents a second | GiB | ratio |\n|---|---:|---:|---:|---:|")
    usual = 0.0
    for name in ("transformers, padded", "ours, packed", "ours, compiled")[: 2 + given.compile]:
        torch.manual_seed(1)
        network = AttentiveBert(config, shape, WORDS, torch.zeros(given.labels))
        if name.startswith("transformers"):
            network.encode = Padded(shape)  # type: ignore[assignment]
        network.to(DEVICE).train()
        if name.endswith("compiled"):
            for layer in network.encode.encoder.layer:
                layer.compile(dynamic=True)
        seconds, peak = measure(network, data, batches, given)
        usual = usual or seconds
        say(
            f"| {name} | {1e3 * seconds:.1f} | {given.batch / seconds:,.0f} | {peak:.1f} "
            f"| {usual / seconds:.2f} |"
        )


def make_documents(batch: int) -> tuple[EncodedDocuments, list[np.ndarray]]:
    """Return random documents with the lengths of laws, and batches of them."""
    random = np.random.default_rng(1)
    lengths = np.clip(random.lognormal(6.34, 0.5, 4_000), 60, 1_024).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = random.integers(1_000, 30_000, offsets[-1]).astype(np.int32)
    words = (random.pareto(1.0, offsets[-1]) * 50).clip(2, WORDS - 1).astype(np.int32)
    pieces, bag = (Ragged(EncodedTexts(x, offsets), DEVICE) for x in (ids, words))
    return EncodedDocuments(pieces, bag, 512), plan(lengths, batch, seed=1, epoch=0)


def measure(
    network: AttentiveBert,
    data: EncodedDocuments,
    batches: list[np.ndarray],
    given: argparse.Namespace,
) -> tuple[float, float]:
    """Return seconds of a step and the peak of GPU memory in GiB."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    target = torch.zeros(given.batch, given.labels, device=DEVICE)
    is_gpu = DEVICE.type == "cuda"
    if is_gpu:
        torch.cuda.reset_peak_memory_stats()
    step = make_step(network, data, optimizer, target)
    for rows in batches[: given.warm]:
        step(rows)
    if is_gpu:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for rows in batches[given.warm : given.warm + given.timed]:
        step(rows)
    if is_gpu:
        torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() / 2**30 if is_gpu else 0.0
    return (time.perf_counter() - began) / given.timed, peak


def make_step(
    network: AttentiveBert, data: EncodedDocuments, optimizer: torch.optim.AdamW, target: Tensor
) -> Callable[[np.ndarray], None]:
    def step(rows: np.ndarray) -> None:
        with torch.autocast(DEVICE.type, dtype=torch.bfloat16, enabled=DEVICE.type == "cuda"):
            logits = network(*data.pad(rows))
        loss = F.binary_cross_entropy_with_logits(
            logits, target[: len(rows)], reduction="sum"
        ) / len(rows)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

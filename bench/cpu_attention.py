"""Measure the parts of the network of `attentive` on one core, and label attention for few labels.

    python bench/label_pruning.py [--labels 4108] [--words 430] [--documents 1 4 16]

The weights are random: they take as long as trained ones, and say nothing about quality. Pruned
label attention computes exact logits for the labels that rank first by a rough logit: that of the
bag of words, or with `window` also that of attention over the means of so many words. Prints
processor milliseconds a document, the second of two turns.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise

import torch
from torch import Tensor

from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.attentive.network import AttentiveNetwork
from ontodex.models.layers.label_attention import (
    attend_candidates,
    compute_label_logits,
    compute_logits,
    project_tokens,
)
from ontodex.models.layers.words import token_mask

N_WORDS = 30_000
FORMS = ((256, 0), (256, 8), (512, 8))  # candidates, window


def average_windows(x: Tensor, window: int) -> Tensor:
    """Return the means (n, t / window, d) of consecutive tokens; a shorter rest is left out."""
    n, t, d = x.shape
    return x[:, : t - t % window].reshape(n, -1, window, d).mean(2)


def read_candidates(
    network: AttentiveNetwork, h: Tensor, mask: Tensor, bag: Tensor, candidates: int, window: int
) -> Tensor:
    """Return the exact logits (n, c) of the candidates of each document."""
    layer = network.read_out
    values, rough = project_tokens(layer.project, h), bag + layer.bias
    if window:
        keys, means = average_windows(h, window), average_windows(values, window)
        near = mask[:, : keys.shape[1]]  # all True: the documents have one length
        rough = rough + compute_label_logits(keys, means, layer.queries, layer.output, near)
    best = rough.topk(candidates, dim=1).indices  # (n, c)
    m = attend_candidates(h, values, layer.queries[best], mask)
    return compute_logits(m, layer.output[best]) + layer.bias[best] + bag.gather(1, best)


def measure(network: AttentiveNetwork, n_docs: int, n_words: int) -> list[float]:
    """Return processor milliseconds a document: LSTM, bag, label attention, pruned attention."""
    tokens = torch.randint(1, N_WORDS, (n_docs, n_words))
    lengths = torch.full((n_docs,), n_words)
    mask, times = token_mask(tokens, lengths), [time.process_time()]
    h = network.encode(network.words(tokens), lengths)
    times.append(time.process_time())
    bag = network.bag(tokens)
    times.append(time.process_time())
    network.read_out(h, mask)
    times.append(time.process_time())
    for candidates, window in FORMS:
        read_candidates(network, h, mask, bag, candidates, window)
        times.append(time.process_time())
    return [1000 * (b - a) / n_docs for a, b in pairwise(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--labels", type=int, default=4108)
    parser.add_argument("--words", type=int, default=430)
    parser.add_argument("--documents", type=int, nargs="+", default=[1, 4, 16])
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = AttentiveNetwork(AttentiveConfig(), N_WORDS, torch.zeros(options.labels), None)
    network = network.half().float().eval()  # fp16 numbers, as in a saved run
    pruned = [f"{c} labels" + (f", window {w}" if w else "") for c, w in FORMS]
    print("| documents | LSTM | bag | all labels |", " | ".join(pruned), "|")
    print("|--:" * (4 + len(FORMS)) + "|")
    with torch.inference_mode():
        for n_docs in options.documents:
            measure(network, n_docs, options.words)
            found = measure(network, n_docs, options.words)
            print(f"| {n_docs} |", " | ".join(f"{ms:.1f}" for ms in found), "|", flush=True)


if __name__ == "__main__":
    main()

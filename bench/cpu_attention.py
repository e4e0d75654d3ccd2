"""Measure label attention on a CPU in fp32 and bf16: parts of `attentive`, and a trained run.

    python bench/cpu_attention.py [--labels 4108] [--words 430] [--documents 1 8]
    python bench/cpu_attention.py --run RUN --corpus DEV [--first 1000] [--min-labels 1024]

The first form measures the parts of a network with random weights, which take as long as trained
ones. The second ranks a corpus by a run both ways: nDCG@5, and the share of first five labels that
stay. One core; times are processor time, in the first form the least of three turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import torch

import ontodex
from ontodex.corpora.open import read_docs
from ontodex.models.attentive.config import AttentiveConfig
from ontodex.models.attentive.network import AttentiveNetwork
from ontodex.models.baselines.neighbours import compute_ndcg
from ontodex.models.layers import label_attention
from ontodex.models.layers.bf16_units import has_bf16_units
from ontodex.models.layers.words import token_mask
from ontodex.runs.run import Run
from ontodex.types import Corpus, Doc, Ranking

N_WORDS = 30_000
TURNS = 3
SINGLE = 50  # documents that are read one by one


@contextmanager
def compute_in_fp32() -> Iterator[None]:
    """Compute label attention as on a CPU without bf16 units."""
    kept = label_attention.MIN_BF16_LABELS
    label_attention.MIN_BF16_LABELS = sys.maxsize
    try:
        yield
    finally:
        label_attention.MIN_BF16_LABELS = kept


def measure(work: Callable[[], object], n_docs: int) -> float:
    """Return processor milliseconds a document."""
    times = []
    for _ in range(TURNS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return 1000 * min(times) / n_docs


@torch.inference_mode()
def measure_parts(network: AttentiveNetwork, n_words: int, sizes: list[int]) -> None:
    """Print the milliseconds of each part of `attentive`."""
    print("| documents | LSTM | bag | attention, fp32 | bf16 | law, fp32 | bf16 | ratio |")
    print("|--:" * 8 + "|")
    for n_docs in sizes:
        tokens = torch.randint(1, N_WORDS, (n_docs, n_words))
        lengths = torch.full((n_docs,), n_words)
        mask, words = token_mask(tokens, lengths), network.words(tokens)
        h = network.encode(words, lengths)
        parts = [
            partial(network.encode, words, lengths),
            partial(network.bag, tokens),
            partial(network.read_out, h, mask),
            partial(network, tokens, lengths),
        ]
        lstm, bag, attention, law = (measure(part, n_docs) for part in parts)
        with compute_in_fp32():
            slow_attention, slow_law = (measure(part, n_docs) for part in parts[2:])
        cells = [lstm, bag, slow_attention, attention, slow_law, law]
        values = " | ".join(f"{ms:.1f}" for ms in cells)
        print(f"| {n_docs} | {values} | {slow_law / law:.2f} |", flush=True)


def measure_run(run: Path, docs: list[Doc]) -> None:
    """Print how a run ranks both ways."""
    loaded, corpus = ontodex.load(run), Corpus.of(docs)
    loaded.suggest(docs[0])  # what is read and packed once
    with compute_in_fp32():
        plain, plain_figures = rank(loaded, docs)
    found, figures = rank(loaded, docs)
    gold = loaded.labels.gold(corpus)
    print("| precision | nDCG@5 | documents a second | milliseconds of one document |")
    print("|---|--:|--:|--:|")
    for name, ranking, (rate, ms) in (("fp32", plain, plain_figures), ("bf16", found, figures)):
        print(f"| {name} | {100 * compute_ndcg(gold, ranking):.3f} | {rate:.1f} | {ms:.0f} |")
    same = (found.columns[:, :5, None] == plain.columns[:, None, :5]).any(2).mean()
    print(f"\n{100 * same:.2f} % of the first five labels are the same ({len(docs):,} documents).")


def rank(loaded: Run, docs: list[Doc]) -> tuple[Ranking, tuple[float, float]]:
    """Return a ranking, the documents a second, and the milliseconds of one document alone."""
    times = [time.process_time()]
    ranking = loaded.rank(Corpus.of(docs), 10)
    times.append(time.process_time())
    for doc in docs[:SINGLE]:
        loaded.suggest(doc)
    times.append(time.process_time())
    batch, single = np.diff(times)
    return ranking, (len(docs) / batch, 1000 * single / SINGLE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--labels", type=int, default=4108)
    parser.add_argument("--words", type=int, default=430)
    parser.add_argument("--documents", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--min-labels", type=int, default=label_attention.MIN_BF16_LABELS)
    options = parser.parse_args()
    label_attention.MIN_BF16_LABELS = options.min_labels
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if not has_bf16_units():
        parser.error("this CPU has no bf16 units, or ONEDNN_MAX_CPU_ISA is set")
    if options.run:
        measure_run(options.run, list(islice(read_docs(options.corpus), options.first)))
        return
    network = AttentiveNetwork(AttentiveConfig(), N_WORDS, torch.zeros(options.labels), None)
    network = network.half().float().eval()  # fp16 numbers, as in a saved run
    measure_parts(network, options.words, options.documents)


if __name__ == "__main__":
    main()

"""The effect of int8 weights in a pretrained encoder on rankings: nDCG@5 beside that of fp32.

    python bench/pretrained_int8.py encoders/minilm train.jsonl test.jsonl --train 400 --test 200

Trains label attention on the states of the encoder as it comes, which stays as it is, so that a CPU
is enough: the first documents by a hash of the id, and labels that occur in ten of them or more.
Test documents are then encoded in fp32 and with int8 weights, and ranked by the same read-out.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ontodex.corpora.open import open_corpus
from ontodex.features.vocabulary import EncodedTexts
from ontodex.models.consensus.member_selection import measure_ndcg
from ontodex.models.layers.bert import Bert
from ontodex.models.layers.label_attention import LabelReadOut
from ontodex.models.layers.packed import pack
from ontodex.models.layers.ragged import Ragged
from ontodex.models.network_training import compute_log_odds
from ontodex.models.pretrained import load_encoder
from ontodex.types import Corpus, LabelSpace, Ranking
from pretrained_latency import quantise

WINDOW = 128
SEEDS = (1, 2, 3)
EPOCHS = 20
BATCH = 32


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("encoder", type=Path)
    parser.add_argument("corpora", type=Path, nargs=2)
    parser.add_argument("--train", type=int, default=400)
    parser.add_argument("--test", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    train, test = (
        pick(open_corpus(path), n)
        for path, n in zip(given.corpora, (given.train, given.test), strict=True)
    )
    labels = LabelSpace.of(train, None, min_count=10)
    encoder = load_encoder(given.encoder)
    pieces = [
        encoder.pieces.encode(part.texts(()), window=WINDOW, n_windows=1) for part in (train, test)
    ]
    states = [encode(encoder.network, one) for one in pieces]
    rounded = encode(quantise(load_encoder(given.encoder).network), pieces[1])
    h, other = states[1][0], rounded[0]
    error = float((h - other).norm() / h.norm())
    say(f"{len(train)} documents, {labels.n_seen} labels; states differ by {100 * error:.1f} %\n")
    say("| seed | fp32 nDCG@5 | int8 nDCG@5 | same first label | same first five |")
    say("|---:|---:|---:|---:|---:|")
    gold = torch.from_numpy(labels.gold(train)[:, : labels.n_seen].toarray()).float()
    for seed in SEEDS:
        read_out = fit(*states[0], gold, labels, seed)
        full, int8 = rank(read_out, *states[1]), rank(read_out, *rounded)
        scores = [100 * measure_ndcg(labels.gold(test), one) for one in (full, int8)]
        cells = [*scores, *(100 * measure_same(full, int8, k) for k in (1, 5))]
        say(f"| {seed} | {' | '.join(f'{cell:.2f}' for cell in cells)} |")


def measure_same(first: Ranking, other: Ranking, k: int) -> float:
    """Return the share of documents whose first k labels are the same, in any order."""
    sets = [np.sort(one.columns[:, :k], axis=1) for one in (first, other)]
    return float(np.mean((sets[0] == sets[1]).all(axis=1)))


def pick(corpus: Corpus, n: int) -> Corpus:
    """Return n documents with labels, by a hash of the id."""
    order = sorted(
        (hashlib.sha256(one.encode()).hexdigest(), row)
        for row, (one, own) in enumerate(zip(corpus.ids, corpus.labels(), strict=True))
        if own
    )
    return corpus.select(np.array(sorted(row for _, row in order[:n])))


@torch.inference_mode()
def encode(network: Bert, pieces: EncodedTexts) -> tuple[Tensor, Tensor]:
    """Return the states of documents (n, t, d), 0 at padding, and where they have pieces (n, t)."""
    rows = Ragged(pieces, torch.device("cpu"))
    n, longest = len(rows), int(rows.lengths.max())
    h = torch.zeros(n, longest, network.width)
    mask = torch.arange(longest) < torch.from_numpy(rows.lengths)[:, None]
    for row in range(n):
        own = np.array([row])
        h[row, : rows.lengths[row]] = network(pack(rows.flatten(own), rows.lengths[own]))
    return h, mask


def fit(h: Tensor, mask: Tensor, gold: Tensor, labels: LabelSpace, seed: int) -> LabelReadOut:
    torch.manual_seed(seed)
    read_out = LabelReadOut(h.shape[2], 128, compute_log_odds(labels))
    optimiser = torch.optim.AdamW(read_out.parameters(), 2e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(h)).split(BATCH):
            optimiser.zero_grad()
            logits = read_out(h[rows], mask[rows])
            F.binary_cross_entropy_with_logits(logits, gold[rows], reduction="sum").div(
                len(rows)
            ).backward()
            optimiser.step()
    return read_out.eval()


@torch.inference_mode()
def rank(read_out: LabelReadOut, h: Tensor, mask: Tensor) -> Ranking:
    logits = torch.cat(
        [read_out(*one) for one in zip(h.split(BATCH), mask.split(BATCH), strict=True)]
    )
    return Ranking.top(logits.sigmoid().numpy(), 5)


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

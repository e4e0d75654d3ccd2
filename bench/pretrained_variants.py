"""Variants of `attentive-bert` on dev: learning rates, dropout, weight decay, R-Drop, rare words.

    python bench/pretrained_variants.py carried/eurlex57k encoders/minilm variants.jsonl \
        --ontology ontology.json --only default rdrop-1 --seeds 1 2 3 --set model.windows=1

The folder is what `ontodex prepare train dev --out` wrote with the word pieces of the encoder. Each
variant and seed is a line of the output: dev figures, seconds, peak of GPU memory. Lines that are
there already are not trained again. Prints a table of all lines, the best variant first. The test
part is never read; `bench/train_and_rank.py` trains what is chosen here.

R-Drop (Liang et al., NeurIPS 2021): each batch goes through the network twice with other dropout,
and the two predictions are drawn together. It is no setting of the system before it has helped.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ontodex.config import Table, build, read
from ontodex.evaluation.metrics import evaluate
from ontodex.io.device import choose_device
from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.models.attentive_bert.system import AttentiveBertSystem
from ontodex.models.network_training import autocast
from ontodex.ontology.open import read_ontology
from ontodex.types import Corpus, LabelSpace

FIGURES = ("P@1", "P@3", "P@5", "nDCG@5")
RANKS = 20

VARIANTS: dict[str, Mapping[str, Any]] = {
    "default": {},
    "encoder-lr-5e-5": {"encoder_lr": 5e-5},
    "encoder-lr-2e-4": {"encoder_lr": 2e-4},
    "encoder-lr-3e-4": {"encoder_lr": 3e-4},
    "lr-1e-3": {"train.lr": 1e-3},
    "lr-4e-3": {"train.lr": 4e-3},
    "dropout-0.1": {"dropout": 0.1},
    "dropout-0.4": {"dropout": 0.4},
    "bag-dropout-0.7": {"bag_dropout": 0.7},
    "weight-decay-0.05": {"train.weight_decay": 0.05},
    "rdrop-0.5": {"rdrop": 0.5},
    "rdrop-1": {"rdrop": 1.0},
    "rdrop-4": {"rdrop": 4.0},
    "no-idf": {"idf": False},
}


class RDropSystem(AttentiveBertSystem):
    """`attentive-bert` with two passes a batch, whose predictions are drawn together."""

    rdrop = 0.0  # weight of their difference
    idf = True  # whether rare words of the bag weigh more than frequent ones

    def compute_loss(self, rows: Any, data: Any, gold: Any) -> Tensor:
        if not self.idf:
            self.network.bag.bag.idf = None
        if not self.rdrop:
            return super().compute_loss(rows, data, gold)
        batch = data.pad(rows)
        with autocast(self.device):
            logits = [self.network(*batch) for _ in range(2)]  # (n, l) each
        target = gold.to_multi_hot(rows, logits[0].shape[1])
        return compute_rdrop(logits[0], logits[1], target, self.rdrop) / len(rows)


def compute_rdrop(first: Tensor, second: Tensor, target: Tensor, weight: float) -> Tensor:
    """Return the mean cross-entropy of two passes, summed over documents and labels, plus `weight`
    times half the mean of the Kullback-Leibler divergences of one from the other."""
    first, second = first.float(), second.float()
    losses = [
        F.binary_cross_entropy_with_logits(one, target, reduction="sum") for one in (first, second)
    ]
    # KL(p|q) + KL(q|p) of two Bernoulli distributions.
    apart = ((first.sigmoid() - second.sigmoid()) * (first - second)).sum()
    return (losses[0] + losses[1]) / 2 + weight * apart / 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("encoder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--ontology", type=Path)
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--set", dest="overrides", action="append", default=[])
    parser.add_argument("--language", default="en")
    given = parser.parse_args()
    train, dev = (Corpus.open(given.folder / part) for part in ("train", "dev"))
    ontology = read_ontology(given.ontology) if given.ontology else None
    labels = LabelSpace.of(train, ontology)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {(line["variant"], line["seed"]) for line in map(json.loads, lines)}
    for seed in given.seeds:
        for name in given.only:
            if (name, seed) in done:
                continue
            table = read(None, given.overrides).setdefault("model", {})
            common = {"encoder": given.encoder, "languages": [given.language], "train.seed": seed}
            for key, value in {**common, **VARIANTS[name]}.items():
                place(table, key, value)
            line = {"variant": name, "seed": seed, **measure(table, train, dev, labels)}
            with given.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            say(json.dumps(line))
    say("\n| variant | seeds | dev nDCG@5 | lowest to highest |\n|---|---:|---:|---:|")
    for row in summarise(list(map(json.loads, given.out.read_text().splitlines()))):
        say(row)


def place(table: Table, key: str, value: Any) -> None:
    """Set a setting by its name with dots."""
    *groups, last = key.split(".")
    for group in groups:
        table = table.setdefault(group, {})
    table[last] = value


def measure(table: Table, train: Corpus, dev: Corpus, labels: LabelSpace) -> dict[str, Any]:
    """Train on `train` and return the figures of `dev`."""
    rdrop, idf = table.pop("rdrop", 0.0), table.pop("idf", True)
    device = choose_device("auto")
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    system = RDropSystem(build(AttentiveBertConfig, table, "model"), device=device)
    system.rdrop, system.idf = rdrop, idf
    began = time.monotonic()
    system.fit(train, dev, labels)
    trained = time.monotonic()
    ranking = system.rank(dev, RANKS)
    ranked = time.monotonic()
    found = evaluate(labels.gold(dev), ranking, ranking.cut(5), labels, replicates=0)
    return {
        **{name: round(100 * found[name], 2) for name in FIGURES},
        "seconds": round(trained - began, 1),
        "documents a second": round(len(dev) / (ranked - trained)),
        "GiB": round(torch.cuda.max_memory_allocated() / 2**30, 1) if device == "cuda" else 0,
    }


def summarise(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row a variant: mean and spread of dev nDCG@5 over seeds, best first."""
    scores: dict[str, list[float]] = {}
    for line in lines:
        scores.setdefault(line["variant"], []).append(line["nDCG@5"])
    means = {name: sum(own) / len(own) for name, own in scores.items()}
    return [
        f"| {name} | {len(scores[name])} | {means[name]:.2f} "
        f"| {min(scores[name]):.2f} to {max(scores[name]):.2f} |"
        for name in sorted(means, key=lambda name: -means[name])
    ]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

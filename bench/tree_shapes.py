"""Measure the loss of label trees, and ways to pass logits down them, with a small CPU model.

    python bench/tree_shapes.py carried/eurlex --documents 20000 --epochs 5

The folder is what `ontodex prepare train dev ... --out` wrote. A bag of words is the document
(no LSTM, no attention), with one dense head for the clusters of each size, one for all labels, and
heads that learn among the children of the best clusters only, as `lightattention` does. Two tables
on dev: the share of true labels among so many candidates, by the number of clusters; and P@1/3/5 of
all labels at once, and of candidates, by how logits go along the way and by what is learned from.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor, nn

from ontodex.features import batches
from ontodex.features.tfidf import Tfidf, TfidfConfig
from ontodex.features.tokens import tokenise_corpus
from ontodex.features.vocabulary import Vocabulary
from ontodex.models.layers.bag import WordBag
from ontodex.models.layers.ragged import Ragged
from ontodex.models.lightattention.beam_search import PATH_SCORING, sample_beam
from ontodex.models.lightattention.config import LightAttentionConfig
from ontodex.models.trees import label_tree
from ontodex.types import Corpus, LabelSpace

CPU = torch.device("cpu")
SETTINGS = LightAttentionConfig()
WIDTH = 192  # of the bag
BATCH = 64
CLUSTERS = (128, 256, 512, 1024)
CANDIDATES = (64, 128, 256, 384, 512)
# What a head learns from: the way, candidates below the best clusters, the share that is drawn.
LEARNERS = {
    "product, best 512": ("product", 512, 1.0),
    "sum, best 256": ("sum", 256, 1.0),
    "sum, best 512": ("sum", 512, 1.0),
    "sum, half of the best 512": ("sum", 512, 0.5),
}
FINEST = f"{CLUSTERS[-1]} clusters"


class Data:
    """Train and dev as token ids and gold labels, and the clusters of each size."""

    def __init__(self, folder: Path, documents: int) -> None:
        train, dev = (Corpus.open(folder / part) for part in ("train", "dev"))
        train = train.select(np.random.default_rng(0).permutation(len(train))[:documents])
        labels = LabelSpace.of(train)
        self.n_labels = labels.n_seen
        gold = [csr_array(labels.gold(part)[:, : self.n_labels]) for part in (train, dev)]
        self.gold, self.dev_gold = gold[0], gold[1].toarray().astype(bool)
        tokens = [tokenise_corpus(part, SETTINGS) for part in (train, dev)]
        length, least = SETTINGS.max_length, SETTINGS.min_count
        words = Vocabulary.fit(tokens[0], min_count=least, max_length=length)
        self.n_words = len(words)
        self.train, self.dev = (Ragged(words.encode(t, length), CPU) for t in tokens)
        features = Tfidf.fit(tokens[0], TfidfConfig(min_df=least, max_length=length))
        vectors = label_tree.build_label_vectors(features.transform(tokens[0]), self.gold)
        sizes = [-(-self.n_labels // n) for n in CLUSTERS]
        self.nodes: dict[str, NDArray[np.int64]] = {
            f"{n} clusters": label_tree.build_tree(
                vectors, seed=1, cluster=size, height=1
            ).find_nodes(1)
            for n, size in zip(CLUSTERS, sizes, strict=True)
        }
        self.nodes["labels"] = np.arange(self.n_labels)

    def truth(self, rows: NDArray[np.int64], nodes: NDArray[np.int64]) -> Tensor:
        """(n, nodes): 1 where a document has a label below the node."""
        gold = self.gold[rows]
        target = torch.zeros(len(rows), int(nodes.max()) + 1)
        document = np.repeat(np.arange(len(rows)), np.diff(gold.indptr))
        target[document, nodes[gold.indices]] = 1
        return target


class StandIn(nn.Module):
    """A bag of words, and linear heads over it."""

    def __init__(self, data: Data) -> None:
        super().__init__()
        self.bag = WordBag(data.n_words, WIDTH, dropout=0.5)
        sizes = {name: int(nodes.max()) + 1 for name, nodes in data.nodes.items()}
        sizes |= dict.fromkeys(LEARNERS, data.n_labels)
        self.heads = nn.ModuleDict({name: nn.Linear(WIDTH, n) for name, n in sizes.items()})
        for name, head in self.heads.items():
            weight, bias = head.parameters()
            nn.init.normal_(weight, std=0.02)
            nn.init.constant_(bias, -1.0 if name in LEARNERS else -6.0)
        self.cluster = torch.from_numpy(data.nodes[FINEST])

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        told = self.bag(tokens)
        return {name: head(told) for name, head in self.heads.items()}

    def below(self, clusters: Tensor, candidates: int, share: float = 1.0) -> Tensor:
        """(n, l): for how many candidates each label below the best clusters stands, or 0."""
        beam = max(1, round(candidates * clusters.shape[1] / len(self.cluster)))
        some, stands_for = sample_beam(clusters.topk(beam).indices, share)
        weights = torch.zeros_like(clusters).scatter_(1, some, stands_for.expand_as(some))
        return weights[:, self.cluster]

    def along(self, logits: dict[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
        """(logits, log-probabilities) (n, l) of the labels by one of the learners."""
        parent = logits[FINEST].detach()[:, self.cluster]
        way, *_ = LEARNERS[name]
        return PATH_SCORING[way](logits[name], parent, F.logsigmoid(parent))


def loss(model: StandIn, data: Data, rows: NDArray[np.int64]) -> Tensor:
    """The sum over heads; the learners' from candidates and true labels."""
    logits = model(data.train.pad(rows)[0])
    truth = {name: data.truth(rows, nodes) for name, nodes in data.nodes.items()}
    bce = F.binary_cross_entropy_with_logits
    total = sum(bce(logits[name], truth[name], reduction="sum") for name in truth)
    true = truth["labels"]
    for name, (_, candidates, share) in LEARNERS.items():
        weights = model.below(logits[FINEST].detach(), candidates, share)
        taught, _ = model.along(logits, name)
        total = total + bce(taught, true, weights.where(true == 0, 1.0), reduction="sum")
    return torch.as_tensor(total) / len(rows)


def train(model: StandIn, data: Data, epochs: int) -> None:
    adam = torch.optim.Adam(model.parameters(), lr=2e-3)
    planned = [rows for e in range(epochs) for rows in batches.plan(
        data.train.lengths, BATCH, seed=1, epoch=e)]  # fmt: skip
    for step, rows in enumerate(planned):
        adam.param_groups[0]["lr"] = 2e-3 * min((step + 1) / 300, 1 - step / len(planned))
        adam.zero_grad()
        loss(model, data, rows).backward()
        adam.step()


def recall(scores: Tensor, nodes: NDArray[np.int64], candidates: int, gold: Tensor) -> float:
    """Percent of true labels below the best nodes that have so many."""
    beam = max(1, round(candidates * scores.shape[1] / len(nodes)))
    kept = torch.zeros_like(scores).scatter_(1, scores.topk(beam).indices, 1.0)
    return 100 * float(kept[:, torch.from_numpy(nodes)][gold].mean())


def precisions(scores: Tensor, gold: Tensor) -> str:
    hits = gold.gather(1, scores.topk(5).indices).double()
    return " / ".join(f"{100 * float(hits[:, :k].mean()):.1f}" for k in (1, 3, 5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=5)
    given = parser.parse_args()
    began = time.process_time()
    torch.manual_seed(1)
    data = Data(given.folder, given.documents)
    model = StandIn(data)
    train(model.train(), data, given.epochs)
    model.eval()
    parts = np.array_split(np.arange(len(data.dev)), max(1, len(data.dev) // 250))
    with torch.inference_mode():
        found = [model(data.dev.pad(rows)[0]) for rows in parts]
        logits = {name: torch.cat([some[name] for some in found]) for name in found[0]}
        gold = torch.from_numpy(data.dev_gold)
        head = " | ".join(f"{n} candidates" for n in CANDIDATES)
        sys.stdout.write(f"| generator over | {head} |\n|---|{'---|' * len(CANDIDATES)}\n")
        for name, nodes in data.nodes.items():
            row = " | ".join(f"{recall(logits[name], nodes, n, gold):.1f}" for n in CANDIDATES)
            sys.stdout.write(f"| {name} | {row} |\n")
        sys.stdout.write(
            "\n| learned from | 256 candidates ranked | 512 | 1024 |\n|---|---|---|---|\n"
        )
        sys.stdout.write(f"| all labels | {precisions(logits['labels'], gold)} (all) | | |\n")
        for name in LEARNERS:
            answer = model.along(logits, name)[1]
            kept = [model.below(logits[FINEST], n) > 0 for n in (256, 512, 1024)]
            cells = [precisions(answer.where(some, -torch.inf), gold) for some in kept]
            sys.stdout.write(f"| {name} | {' | '.join(cells)} |\n")
    sys.stdout.write(f"\n{time.process_time() - began:.0f} s of processor time\n")


if __name__ == "__main__":
    main()

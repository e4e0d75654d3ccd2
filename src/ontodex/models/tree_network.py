"""Label attention down a label tree: every level among the children of the best nodes above it.

    tokens ┬ bag of words ────────────────────────────────────┬ a logit a label
    (n,t)  │  (n,w)                                           │     (n,c)
           ├ vectors ─ BiLSTM ┬ label attention ─ layers ─────┘
           │ (n,t,e)  (n,t,2d)│    (n,c,v)         their children are the candidates, c
           │                  ┆ max pooling ┬ a logit a cluster ─ best b ┘
           │                    (n,2d)      │     (n,l)
           └ bag of words ──────────────────┘
              (n,w)

The generators (inner levels) know a document by one vector; the discriminator (labels) reads it
with label attention and fully connected layers (paper 003, III-D). Generators read what the
encoder says and do not teach it (┆): their task is the easier one, and would take it over. A label
is known here by its place in the tree.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.config import check_least
from ontodex.models.attentionxml import RecurrentConfig
from ontodex.models.label_attention import attend, attend_candidates, contributions, tokens_in
from ontodex.models.label_tree import LabelTree
from ontodex.models.parts import BiLSTM, WordBag, Words, token_mask

NONE = -1  # no node: fills up rows of positives and parents


@dataclass(frozen=True)
class TreeNetworkConfig(RecurrentConfig):
    """What the network is told."""

    generator: Literal["document", "attention"] = "document"  # how clusters read a text
    # What a label's probability is made of: its own logit, and the clusters only choose candidates;
    # that and its cluster's (sum); or all probabilities along the way, multiplied (paper, Eq. 1).
    way: Literal["alone", "sum", "product"] = "alone"
    layers: int = 1  # fully connected layers of the discriminator; a generator has one
    bag: int = 1024  # width of the bag of words beside the LSTM; 0 = none (paper)
    candidates: int = 512  # nodes of a level below the top that are scored, about
    beam: int = 0  # nodes of a level whose children these are (b); 0 = as many as have so many
    learned: float = 1.0  # share of the beam whose children a training step scores

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, 1, "layers", "candidates")
        check_least(self, 0, "bag", "beam")
        if not 0 < self.learned <= 1:
            raise ValueError(f"learned must be above 0 and at most 1, not {self.learned}")


class Read(NamedTuple):
    """A batch as generators or labels see it."""

    h: Tensor  # (n, t, 2d)
    mask: Tensor  # (n, t)
    peak: Tensor  # (n, 2d): the greatest of each state over the tokens
    bag: Tensor  # (n, w)


class Reads(NamedTuple):
    """A batch as those who choose candidates see it, and as the candidates do."""

    generators: Read
    labels: Read


class Vector(NamedTuple):
    """A vector that each node of a level owns."""

    width: int
    spread: float  # at the start


class NoBag(nn.Module):
    def forward(self, tokens: Tensor) -> Tensor:
        return torch.zeros(len(tokens), 0, device=tokens.device)

    def contributions(self, tokens: Tensor, output: Tensor) -> Tensor:
        return torch.zeros(tokens.shape, device=tokens.device)


def _bag(config: TreeNetworkConfig, n_words: int) -> WordBag | NoBag:
    return WordBag(n_words, config.bag, config.dropout) if config.bag else NoBag()


class DocumentLevel(nn.Module):
    """How the nodes of one level see a document as a whole: each has a vector and a bias, and the
    document has one vector, of its peak and its bag of words. No more than a product of matrices,
    so a level can be scored whole."""

    MOST_AT_ONCE: ClassVar[int] = 2**17  # nodes of the top level, which is always scored whole

    def __init__(self, config: TreeNetworkConfig, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.project = nn.Linear(2 * config.hidden, config.value)

    @staticmethod
    def owned(config: TreeNetworkConfig) -> list[Vector]:
        return [Vector(config.value + config.bag, 0.02)]

    def forward(self, read: Read, nodes: Tensor) -> Tensor:
        """(n, c): the logits of each document's own nodes (n, c)."""
        rows = self.table(nodes)  # (n, c, v + w + 1)
        told = torch.bmm(rows[..., :-1], self.document(read)[:, :, None])[..., 0]  # (n, c)
        return told + rows[..., -1]

    def of_all(self, read: Read) -> Tensor:
        """(n, l): the logits of all nodes of the level."""
        assert isinstance(self.table, nn.Embedding)
        rows = self.table.weight  # (l, v + w + 1)
        return self.document(read) @ rows[:, :-1].T + rows[:, -1]

    def document(self, read: Read) -> Tensor:
        return torch.cat([F.relu(self.project(read.peak)), read.bag], dim=-1)  # (n, v + w)


class AttentionLevel(nn.Module):
    """How the nodes of one level read a document: label attention (Eq. 2), fully connected layers
    shared by all nodes, and an output vector and a bias of each node (III-D)."""

    MOST_AT_ONCE: ClassVar[int] = 2**12

    def __init__(self, config: TreeNetworkConfig, table: nn.Module, layers: int = 1) -> None:
        super().__init__()
        self.widths = [*(vector.width for vector in self.owned(config)), 1]
        self.table = table
        # The first layer is applied to tokens before attention, whose weights sum to one.
        self.project = nn.Linear(2 * config.hidden, config.value)
        self.deeper = nn.ModuleList(
            nn.Linear(config.value, config.value) for _ in range(layers - 1)
        )

    @staticmethod
    def owned(config: TreeNetworkConfig) -> list[Vector]:
        """An attention query, output vectors for what is read and for the bag of words."""
        return [
            Vector(2 * config.hidden, 0.02), Vector(config.value, 0.05), Vector(config.bag, 0.02)
        ]  # fmt: skip

    def forward(self, read: Read, nodes: Tensor) -> Tensor:
        """(n, c): the logits of each document's own nodes (n, c)."""
        query, output, of_bag, bias = self.table(nodes).split(self.widths, dim=-1)
        h, values = read.h, tokens_in(self.project, read.h)  # (n, t, 2d), (n, t, v)
        # In the precision of h: autocast would widen the (n, c, t) scores for the softmax.
        with torch.autocast(h.device.type, enabled=False):
            m = attend_candidates(h, values, query.to(h.dtype), read.mask)  # (n, c, v)
        told = torch.bmm(of_bag, read.bag[:, :, None])[..., 0]  # (n, c)
        return self.logits(m, output) + told + bias[..., 0]

    def of_all(self, read: Read) -> Tensor:
        """(n, l): the logits of all nodes of the level."""
        assert isinstance(self.table, nn.Embedding)
        query, output, of_bag, bias = self.table.weight.split(self.widths, dim=-1)
        m = attend(read.h, tokens_in(self.project, read.h), query, read.mask)  # (n, l, v)
        return self.logits(m, output) + read.bag @ of_bag.T + bias[:, 0]

    def logits(self, m: Tensor, output: Tensor) -> Tensor:
        m = F.relu(m)
        for layer in self.deeper:
            m = F.relu(layer(m))
        wide = torch.promote_types(m.dtype, torch.float32)
        return (m * output.to(m.dtype)).sum(-1, dtype=wide)

    def contributions(self, read: Read, node: int) -> tuple[Tensor, Tensor]:
        """(n, t): what each token that is read adds to the logit of a node; and the output vector
        of the node for the bag of words."""
        row = self.table(torch.tensor([node], device=read.h.device))[0].to(read.h.dtype)
        query, output, of_bag, _ = row.split(self.widths)
        values = self.project(read.h)
        added = contributions(read.h, values, query, read.mask, lambda m: self.logits(m, output))
        return added, of_bag


GENERATORS: dict[str, type[DocumentLevel] | type[AttentionLevel]] = {
    "document": DocumentLevel,
    "attention": AttentionLevel,
}


def owned(config: TreeNetworkConfig, height: int) -> list[list[Vector]]:
    """What the nodes of each level below the root own besides a bias."""
    return [GENERATORS[config.generator].owned(config)] * height + [AttentionLevel.owned(config)]


# ------------------------------------------------------------------------------------ the network


@dataclass(frozen=True, eq=False)
class Scored:
    """The candidates of one level of the tree."""

    nodes: Tensor  # (n, c)
    counts: Tensor  # (n, c): False where a place is empty
    logits: Tensor  # (n, c)
    log_p: Tensor  # (n, c): of the way from the root; -inf where empty or only taught
    is_true: Tensor  # (n, c): has a true label below it; all False where nothing is taught
    in_sight: Tensor  # (n, g): whether each true label is below the beams that led here
    weights: Tensor  # (n, c): of the candidates in the loss
    is_whole: bool = False  # all nodes of the level, each at its own place

    def best(self, k: int) -> tuple[Tensor, Tensor]:
        """(nodes, log-probabilities) of the k most probable, (n, k); NONE and -inf if fewer."""
        log_p, which = self.log_p.topk(min(k, self.log_p.shape[1]), dim=1)
        return self.nodes.gather(1, which).masked_fill(log_p == -torch.inf, NONE), log_p

    def places(self, nodes: Tensor) -> Tensor:
        """(n, m): where nodes (n, m) stand among the candidates; NONE for what is not there."""
        if self.is_whole:
            return nodes
        here = (self.nodes[:, None, :] == nodes[:, :, None]) & self.counts[:, None, :]  # (n, m, c)
        return here.int().argmax(dim=-1).masked_fill(~here.any(dim=-1), NONE)


def by_itself(own: Tensor, parent: Tensor, parent_log_p: Tensor) -> tuple[Tensor, Tensor]:
    """(logits, log-probabilities): a node's own; those above only chose it as a candidate."""
    return own, F.logsigmoid(own.detach())


def by_sum(own: Tensor, parent: Tensor, parent_log_p: Tensor) -> tuple[Tensor, Tensor]:
    """(logits, log-probabilities): what a node adds to what its parent, a whole cluster with more
    to learn from, says already."""
    logits = parent + own
    return logits, F.logsigmoid(logits.detach())


def by_product(own: Tensor, parent: Tensor, parent_log_p: Tensor) -> tuple[Tensor, Tensor]:
    """(logits, log-probabilities): a node's own, and the product along the way (Eq. 1)."""
    return own, parent_log_p + F.logsigmoid(own.detach())


WAYS = {"alone": by_itself, "sum": by_sum, "product": by_product}


class TreeNetwork(nn.Module):
    """The network of Figure 1; `levels` are those below the root, the last of them the labels."""

    def __init__(
        self,
        config: TreeNetworkConfig,
        n_words: int,
        tree: LabelTree,
        tables: Sequence[nn.Module],
        vectors: Tensor | None,
    ) -> None:
        super().__init__()
        self.way = WAYS[config.way]
        children = [tree.n_nodes(h + 1) / tree.n_nodes(h) for h in range(1, tree.height + 1)]
        self.beams = [config.beam or math.ceil(config.candidates / few) for few in children]
        self.learned = config.learned
        self.words = Words(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.bag, self.generators_bag = _bag(config, n_words), _bag(config, n_words)
        *inner, last = tables
        generators = [GENERATORS[config.generator](config, table) for table in inner]
        self.levels = nn.ModuleList([*generators, AttentionLevel(config, last, config.layers)])
        self.n_top = tree.n_nodes(1)
        self.most_children = [int(np.diff(first).max()) for first in tree.first]
        for level in range(1, tree.height + 2):
            self.keep(f"node_of_place_{level}", tree.node_of_place(level))
        for level in range(1, tree.height + 1):
            self.keep(f"first_{level}", tree.first[level])

    def keep(self, name: str, array: NDArray[np.int64]) -> None:
        self.register_buffer(name, torch.from_numpy(array), persistent=False)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Scored:
        """The candidate labels of each document."""
        *_, labels = self.walk(self.read(tokens, lengths))  # (n, c)
        return labels

    def read(self, tokens: Tensor, lengths: Tensor, *, generators_teach: bool = False) -> Reads:
        """Where no labels learn yet, generators teach the encoder."""
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        peak = h.masked_fill(~mask[:, :, None], -torch.inf).amax(dim=1)  # (n, 2d)
        h, peak = self.drop(h), self.drop(peak)
        labels = Read(h, mask, peak, self.bag(tokens))
        if not generators_teach:
            h, peak = h.detach(), peak.detach()
        return Reads(Read(h, mask, peak, self.generators_bag(tokens)), labels)

    def walk(
        self,
        reads: Reads,
        positives: Tensor | None = None,
        drawn: Sequence[Tensor] | None = None,
    ) -> Iterator[Scored]:
        """Level after level, each among the children of the best nodes above (III-C).

        `positives` (n, g), the places of the true labels, are taught as Algorithm 2 does: where the
        walk has not come to them they are scored too, once, and lead no further. `drawn` are the
        parents (n, b) of levels 2, 3, ... to go on from instead of the best.
        """
        top, *deeper = cast(list[DocumentLevel | AttentionLevel], list(self.levels))
        seen = [*[reads.generators] * len(deeper), reads.labels]  # by each level
        mask = reads.labels.mask
        nodes = torch.arange(self.n_top, device=mask.device).expand(len(mask), -1)
        if positives is None:
            positives = nodes[:, :0]
        is_true = _marked(self.above(positives, 1), self.n_top)
        logits = top.of_all(seen[0])  # (n, l)
        log_p = F.logsigmoid(logits.detach())
        in_sight = positives != NONE  # (n, g)
        counts, weights = torch.ones_like(is_true), torch.ones_like(log_p)
        scored = Scored(nodes, counts, logits, log_p, is_true, in_sight, weights, is_whole=True)
        yield scored
        for number, level in enumerate(deeper, start=1):
            best = scored.best(self.beams[number - 1])[0] if drawn is None else drawn[number - 1]
            in_sight = in_sight & _among(self.above(positives, number), best)
            best, stands_for = _some(best, self.learned if self.training else 1.0)  # (n, b), (b)
            nodes, parents, reached = self.below(number, best, scored.places(best))  # (n, c)
            true_nodes = self.above(positives, number + 1)  # (n, g)
            missing = _missing(true_nodes, nodes.masked_fill(~reached, NONE))
            nodes = torch.cat([nodes, true_nodes.clamp(min=0)], dim=1)  # (n, c + g)
            of_true = scored.places(self.above(positives, number))  # (n, g)
            parents = torch.cat([parents, of_true], dim=1).clamp(min=0)
            above = scored.logits.detach().gather(1, parents), scored.log_p.gather(1, parents)
            logits, log_p = self.way(level(seen[number], nodes), *above)
            log_p = log_p.masked_fill(~F.pad(reached, (0, missing.shape[1])), -torch.inf)
            counts = torch.cat([reached, missing], dim=1)
            is_true = _among(nodes, true_nodes) & counts
            drawn_for = stands_for.repeat_interleave(self.most_children[number])  # (c)
            weights = F.pad(drawn_for, (0, missing.shape[1]), value=1.0).where(~is_true, 1.0)
            scored = Scored(nodes, counts, logits, log_p, is_true, in_sight, weights * counts)
            yield scored

    def below(self, level: int, best: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(nodes, the places of their parents, whether they are there), each (n, c), of the
        children of nodes (n, b) of a level, which stand at places (n, b) among its candidates."""
        first = self.get_buffer(f"first_{level}")
        known = best.clamp(min=0)
        nodes = first[known][..., None] + torch.arange(
            self.most_children[level], device=best.device
        )
        is_there = (nodes < first[known + 1][..., None]) & (places != NONE)[..., None]
        parents = places[..., None].expand_as(nodes)
        return nodes.where(is_there, 0).flatten(1), parents.flatten(1), is_there.flatten(1)

    def above(self, places: Tensor, level: int) -> Tensor:
        """The nodes of a level above places; NONE stays NONE."""
        node = self.get_buffer(f"node_of_place_{level}")[places.clamp(min=0)]
        return node.masked_fill(places == NONE, NONE)


def _some(best: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """(nodes (n, m), for how many each stands (m)): a share of each document's nodes (n, b), best
    first; half of them are the best, the others are drawn from the rest and stand for it."""
    n, b = best.shape
    kept = math.ceil(share * b)
    sure = kept if kept == b else kept // 2
    chance = torch.rand(n, b - sure, device=best.device)
    rest = best[:, sure:].gather(1, chance.topk(kept - sure).indices)
    stands_for = torch.ones(kept, device=best.device)
    stands_for[sure:] = (b - sure) / max(1, kept - sure)
    return torch.cat([best[:, :sure], rest], dim=1), stands_for


def _among(nodes: Tensor, others: Tensor) -> Tensor:
    """(n, c): whether each of nodes (n, c) is one of the document's others (n, g)."""
    return (nodes[:, :, None] == others[:, None, :]).any(dim=-1)


def _marked(nodes: Tensor, n_nodes: int) -> Tensor:
    """(n, n_nodes): True at each of nodes (n, g)."""
    marks = torch.zeros(len(nodes), n_nodes + 1, dtype=torch.bool, device=nodes.device)
    return marks.scatter_(1, nodes.where(nodes != NONE, n_nodes), True)[:, :n_nodes]


def _missing(positives: Tensor, candidates: Tensor) -> Tensor:
    """(n, g): the first of each positive (n, g) that is not among the candidates (n, c)."""
    again = (positives[:, :, None] == positives[:, None, :]).tril(-1).any(dim=-1)
    return (positives != NONE) & ~_among(positives, candidates) & ~again

"""Label attention down a label tree: every level among the children of the best nodes above it.

    tokens ┬ vectors ─ BiLSTM ─ label attention of nodes ─ layers ─┬ a logit a node ─ best b, their
    (n,t)  │ (n,t,e)  (n,t,2d)     (n,c,v)                         │     (n,c)        children
           └ bag of words ─────────────────────────────────────────┘
              (n,w)

The generators (inner levels) have one fully connected layer, the discriminator (labels) has more
(paper 003, III-D). A label is known here by its place in the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from ontodex.models.attentionxml import RecurrentConfig
from ontodex.models.label_attention import attend, attend_candidates, attention
from ontodex.models.label_tree import LabelTree
from ontodex.models.parts import BiLSTM, WordBag, Words, token_mask

NONE = -1  # no node: fills up rows of positives and parents


@dataclass(frozen=True)
class TreeNetworkConfig(RecurrentConfig):
    """What the network is told."""

    layers: int = 3  # fully connected layers of the discriminator; a generator has one
    bag: int = 512  # width of the bag of words beside the LSTM; 0 = none (paper)
    beam: int = 10  # nodes of a level whose children are candidates (b)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("layers", 1), ("bag", 0), ("beam", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")

    @property
    def row_widths(self) -> list[int]:
        """What a node owns: an attention query, output vectors for what it reads and for the bag of
        words, a bias."""
        return [2 * self.hidden, self.value, self.bag, 1]


class Read(NamedTuple):
    """A batch as all levels see it."""

    h: Tensor  # (n, t, 2d)
    mask: Tensor  # (n, t)
    bag: Tensor  # (n, w)


class NoBag(nn.Module):
    def forward(self, tokens: Tensor) -> Tensor:
        return torch.zeros(len(tokens), 0, device=tokens.device)


class Level(nn.Module):
    """How the nodes of one level read a document: label attention (Eq. 2), fully connected layers
    shared by all nodes, and an output vector and a bias of each node (III-D)."""

    def __init__(self, config: TreeNetworkConfig, table: nn.Module, layers: int) -> None:
        super().__init__()
        self.widths = config.row_widths
        self.table = table
        # The first layer is applied to tokens before attention, whose weights sum to one.
        self.project = nn.Linear(2 * config.hidden, config.value)
        self.deeper = nn.ModuleList(
            nn.Linear(config.value, config.value) for _ in range(layers - 1)
        )

    def forward(self, read: Read, nodes: Tensor) -> Tensor:
        """(n, c): the logits of each document's own nodes (n, c)."""
        query, output, of_bag, bias = self.table(nodes).split(self.widths, dim=-1)
        h, values = read.h, self.project(read.h)  # (n, t, 2d), (n, t, v)
        # In the precision of h: autocast would widen the (n, c, t) scores for the softmax.
        with torch.autocast(h.device.type, enabled=False):
            m = attend_candidates(h, values.to(h.dtype), query.to(h.dtype), read.mask)  # (n, c, v)
        told = torch.bmm(of_bag, read.bag[:, :, None])[..., 0]  # (n, c)
        return self.logits(m, output) + told + bias[..., 0]

    def of_all(self, read: Read) -> Tensor:
        """(n, l): the logits of all nodes of the level."""
        assert isinstance(self.table, nn.Embedding)
        query, output, of_bag, bias = self.table.weight.split(self.widths, dim=-1)
        m = attend(read.h, self.project(read.h), query, read.mask)  # (n, l, v)
        return self.logits(m, output) + read.bag @ of_bag.T + bias[:, 0]

    def logits(self, m: Tensor, output: Tensor) -> Tensor:
        m = F.relu(m)
        for layer in self.deeper:
            m = F.relu(layer(m))
        wide = torch.promote_types(m.dtype, torch.float32)
        return (m * output.to(m.dtype)).sum(-1, dtype=wide)

    def weights(self, read: Read, node: int) -> Tensor:
        """(n, t): how much a node attends to each token."""
        row = self.table(torch.tensor([node], device=read.h.device))
        return attention(read.h, row[:, : self.widths[0]].to(read.h.dtype), read.mask)[:, 0]


# ------------------------------------------------------------------------------------ the network


@dataclass(frozen=True, eq=False)
class Scored:
    """The candidates of one level of the tree."""

    nodes: Tensor  # (n, c)
    counts: Tensor  # (n, c): False where a place is empty
    logits: Tensor  # (n, c)
    log_p: Tensor  # (n, c): of the way from the root (Eq. 1); -inf where empty or only taught
    is_true: Tensor  # (n, c): has a true label below it; all False where nothing is taught

    @classmethod
    def of(
        cls, logits: Tensor, nodes: Tensor, ways: Tensor, counts: Tensor, is_true: Tensor
    ) -> Scored:
        """`ways` are the log-probabilities of the parents' ways."""
        return cls(nodes, counts, logits, ways + F.logsigmoid(logits.detach()), is_true)

    def best(self, k: int) -> tuple[Tensor, Tensor]:
        """(nodes, log-probabilities) of the k most probable, (n, k); NONE and -inf if fewer."""
        log_p, which = self.log_p.topk(min(k, self.log_p.shape[1]), dim=1)
        return self.nodes.gather(1, which).masked_fill(log_p == -torch.inf, NONE), log_p


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
        self.beam = config.beam
        self.words = Words(n_words, config.width, config.word_dropout, vectors)
        self.encode = BiLSTM(config.width, config.hidden)
        self.drop = nn.Dropout(config.dropout)
        self.bag = WordBag(n_words, config.bag, config.dropout) if config.bag else NoBag()
        layers = [1] * tree.height + [config.layers]  # generators, then the discriminator
        self.levels = nn.ModuleList(
            Level(config, *pair) for pair in zip(tables, layers, strict=True)
        )
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

    def read(self, tokens: Tensor, lengths: Tensor) -> Read:
        mask = token_mask(tokens, lengths)  # (n, t)
        h = self.encode(self.words(tokens), lengths)  # (n, t, 2d)
        return Read(self.drop(h), mask, self.bag(tokens))

    def walk(
        self,
        read: Read,
        positives: Tensor | None = None,
        drawn: Sequence[Tensor] | None = None,
    ) -> Iterator[Scored]:
        """Level after level, each among the children of the best nodes above (III-C).

        `positives` (n, g), the places of the true labels, are taught as Algorithm 2 does: where the
        walk has not come to them they are scored too, once, and lead no further. `drawn` are the
        parents (n, b) of levels 2, 3, ... to go on from instead of the best.
        """
        top, *deeper = cast(list[Level], list(self.levels))
        nodes = torch.arange(self.n_top, device=read.h.device).expand(len(read.h), -1)
        if positives is None:
            positives = nodes[:, :0]
        is_true = _among(nodes, self.above(positives, 1))
        all_count, ways = torch.ones_like(is_true), torch.zeros_like(nodes, dtype=torch.float32)
        scored = Scored.of(top.of_all(read), nodes, ways, all_count, is_true)  # (n, l)
        yield scored
        for number, level in enumerate(deeper):
            parents = scored.best(self.beam) if drawn is None else (drawn[number], None)
            nodes, ways = self.below(number + 1, *parents)  # (n, c)
            true_nodes = self.above(positives, number + 2)  # (n, g)
            nodes, ways, counts, is_true = _taught(nodes, ways, true_nodes)
            scored = Scored.of(level(read, nodes), nodes, ways, counts, is_true)  # (n, c)
            yield scored

    def below(self, level: int, parents: Tensor, log_p: Tensor | None) -> tuple[Tensor, Tensor]:
        """(nodes, log-probability of their parent's way), each (n, c), of the children of nodes
        (n, b) of a level; -inf where a place is empty."""
        first = self.get_buffer(f"first_{level}")
        known = parents.clamp(min=0)
        nodes = first[known][..., None] + torch.arange(
            self.most_children[level], device=parents.device
        )
        is_there = (nodes < first[known + 1][..., None]) & (parents != NONE)[..., None]
        ways = torch.zeros_like(nodes, dtype=torch.float32) if log_p is None else log_p[..., None]
        ways = torch.where(is_there, ways, -torch.inf)
        return nodes.where(is_there, 0).flatten(1), ways.flatten(1)

    def above(self, places: Tensor, level: int) -> Tensor:
        """The nodes of a level above places; NONE stays NONE."""
        node = self.get_buffer(f"node_of_place_{level}")[places.clamp(min=0)]
        return node.masked_fill(places == NONE, NONE)


def _among(nodes: Tensor, others: Tensor) -> Tensor:
    """(n, c): whether each of nodes (n, c) is one of the document's others (n, g)."""
    return (nodes[:, :, None] == others[:, None, :]).any(dim=-1)


def _taught(
    nodes: Tensor, ways: Tensor, positives: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Candidates, their ways, which of them count, which are true; with every positive once."""
    counts = ways > -torch.inf
    found = _among(positives, nodes.masked_fill(~counts, NONE))
    again = (positives[:, :, None] == positives[:, None, :]).tril(-1).any(dim=-1)
    missing = (positives != NONE) & ~found & ~again
    nodes = torch.cat([nodes, positives.clamp(min=0)], dim=1)
    counts = torch.cat([counts, missing], dim=1)
    ways = F.pad(ways, (0, positives.shape[1]), value=-torch.inf)
    return nodes, ways, counts, _among(nodes, positives) & counts

"""Beam search down the label tree, in ranking and in training (LightAttention, section III-C).

    all nodes of level 1 ─ best b ─ their children ─ ... ─ best b ─ candidate labels
         (n,l)             (n,b)        (n,c)                           (n,c)

In training the true nodes of each level are scored too (Algorithm 2, teacher forcing). Labels are
known by their places, the order of leaves in the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from ontodex.models.lightattention.network import EncodedDocuments, TreeNetwork

NONE = -1  # no node: fills up rows of true labels and of parents


@dataclass(frozen=True, eq=False)
class LevelScores:
    """The scored candidates of one level of the tree."""

    nodes: Tensor  # (n, c)
    is_candidate: Tensor  # (n, c): False where a place is empty
    logits: Tensor  # (n, c)
    log_p: Tensor  # (n, c): of the path from the root; -inf where empty or only teacher-forced
    is_true: Tensor  # (n, c): has a true label below it; all False without true labels
    is_reached: Tensor  # (n, g): whether each true label is below the beams so far
    is_whole: bool = False  # all nodes of the level, each at its own place

    def best(self, k: int) -> tuple[Tensor, Tensor]:
        """Return (nodes, log-probabilities), each (n, k); NONE and -inf where there are fewer."""
        log_p, at = self.log_p.topk(min(k, self.log_p.shape[1]), dim=1)
        return self.nodes.gather(1, at).masked_fill(log_p == -torch.inf, NONE), log_p

    def find(self, nodes: Tensor) -> Tensor:
        """Return (n, m): the index of each of nodes (n, m) among the candidates, or NONE."""
        if self.is_whole:
            return nodes
        is_here = (self.nodes[:, None, :] == nodes[:, :, None]) & self.is_candidate[:, None, :]
        return is_here.int().argmax(dim=-1).masked_fill(~is_here.any(dim=-1), NONE)


def score_alone(own: Tensor, parent: Tensor, parent_log_p: Tensor) -> tuple[Tensor, Tensor]:
    """Return (logits, log-probabilities) of a node's own logit; clusters only propose it. Ours."""
    return own, F.logsigmoid(own.detach())


def score_product(own: Tensor, parent: Tensor, parent_log_p: Tensor) -> tuple[Tensor, Tensor]:
    """Return (logits, log-probabilities) with the product of probabilities along the path
    (LightAttention, Eq. 1)."""
    return own, parent_log_p + F.logsigmoid(own.detach())


def search_levels(
    network: TreeNetwork,
    encoded: EncodedDocuments,
    positives: Tensor | None = None,
    parents: Sequence[Tensor] | None = None,
) -> Iterator[LevelScores]:
    """Yield the scored candidates of each level, from the top down to the labels.

    `positives` (n, g) are the places of the true labels. Where the beam misses them they are scored
    too, once, and the search does not continue from them (Algorithm 2). `parents` are nodes (n, b)
    of levels 1, 2, ... to continue from instead of the best (static negatives).
    """
    scores = score_top(network, encoded, positives)
    yield scores
    if positives is None:
        positives = scores.nodes[:, :0]
    for level in range(1, len(network.levels)):
        fixed = None if parents is None else parents[level - 1]
        scores = score_children(network, encoded, level, scores, positives, fixed)
        yield scores


def score_top(
    network: TreeNetwork, encoded: EncodedDocuments, positives: Tensor | None
) -> LevelScores:
    """Score all nodes of the top level."""
    top = network.scorers[0]
    seen = encoded.labels if len(network.levels) == 1 else encoded.generators
    logits = top.score_all(seen)  # (n, l)
    nodes = torch.arange(network.n_top, device=logits.device).expand(len(logits), -1)
    if positives is None:
        positives = nodes[:, :0]
    is_true = _mark(network.find_ancestors(positives, 1), network.n_top)
    log_p = F.logsigmoid(logits.detach())
    is_candidate, is_reached = torch.ones_like(is_true), positives != NONE  # (n, l), (n, g)
    return LevelScores(nodes, is_candidate, logits, log_p, is_true, is_reached, is_whole=True)


def score_children(
    network: TreeNetwork,
    encoded: EncodedDocuments,
    level: int,
    above: LevelScores,
    positives: Tensor,
    parents: Tensor | None,
) -> LevelScores:
    """Score the children of the best nodes of a level (or of `parents`), and the true ones."""
    is_last = level == len(network.levels) - 1
    seen = encoded.labels if is_last else encoded.generators
    beam = above.best(network.beams[level - 1])[0] if parents is None else parents  # (n, b)
    is_reached = above.is_reached & _contains(network.find_ancestors(positives, level), beam)
    nodes, at_parents, is_child = network.list_children(
        level, beam, above.find(beam)
    )  # (n, c) each
    true_nodes = network.find_ancestors(positives, level + 1)  # (n, g)
    is_missing = _find_missing(true_nodes, nodes.masked_fill(~is_child, NONE))  # (n, g)
    nodes = torch.cat([nodes, true_nodes.clamp(min=0)], dim=1)  # (n, c + g)
    at_true_parents = above.find(network.find_ancestors(positives, level))  # (n, g)
    at_parents = torch.cat([at_parents, at_true_parents], dim=1).clamp(min=0)
    of_parents = (
        above.logits.detach().gather(1, at_parents),
        above.log_p.gather(1, at_parents),
    )
    logits, log_p = network.score_path(network.scorers[level](seen, nodes), *of_parents)
    log_p = log_p.masked_fill(~F.pad(is_child, (0, is_missing.shape[1])), -torch.inf)
    is_candidate = torch.cat([is_child, is_missing], dim=1)
    is_true = _contains(nodes, true_nodes) & is_candidate
    return LevelScores(nodes, is_candidate, logits, log_p, is_true, is_reached)


def _contains(nodes: Tensor, others: Tensor) -> Tensor:
    """Return (n, c): whether each of nodes (n, c) is one of the document's others (n, g)."""
    return (nodes[:, :, None] == others[:, None, :]).any(dim=-1)


def _mark(nodes: Tensor, n_nodes: int) -> Tensor:
    """Return (n, n_nodes): True at each of nodes (n, g)."""
    marks = torch.zeros(len(nodes), n_nodes + 1, dtype=torch.bool, device=nodes.device)
    return marks.scatter_(1, nodes.where(nodes != NONE, n_nodes), True)[:, :n_nodes]


def _find_missing(positives: Tensor, candidates: Tensor) -> Tensor:
    """Return (n, g): True at positives (n, g) that are no candidates (n, c), once each."""
    is_repeated = (positives[:, :, None] == positives[:, None, :]).tril(-1).any(dim=-1)
    return (positives != NONE) & ~_contains(positives, candidates) & ~is_repeated

"""The choices of a vote weighted by similarity: neighbours, exponent, clusters searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

from scipy.sparse import csr_array

from ontodex.config import check_range
from ontodex.models.baselines.neighbours import MAX_EXPONENT, choose_vote, compute_ndcg
from ontodex.models.dxml.clusters import search_all
from ontodex.models.dxml.neighbour_system import Choices, NeighbourConfig, NeighbourSystem
from ontodex.models.dxml.targets import Floats

NEIGHBOURS = (10, 20, 40, 80, 160)  # tried on dev
EXPONENTS = (0.0, 5.0, 10.0, 20.0, 40.0)
_PROBES = (1, 2, 4, 8, 16, 32, 64)
_PROBE_GAIN = 0.0005  # nDCG@5 on dev that searching twice the clusters must add


@dataclass(frozen=True)
class WeightedVoteConfig(NeighbourConfig):
    """Settings of features, label vectors and a vote weighted by similarity."""

    exponent: float = -1.0  # of a neighbour's similarity, 0 = the plain mean; below 0 = by dev (20)

    FORMER: ClassVar[tuple[str, ...]] = (
        "spread", "whiten_labels", "unit_targets", "clusters", "probe", "walk_window", "walk_seed",
        "skip_gram", "hidden_dropout",
    )  # fmt: skip

    def __post_init__(self) -> None:
        NeighbourConfig.__post_init__(self)
        check_range(self, -inf, MAX_EXPONENT, "exponent")

    def list_votes(self) -> tuple[Sequence[int], Sequence[float]]:
        """Return the numbers of neighbours and the exponents to choose from."""
        return (
            (self.neighbours,) if self.neighbours else NEIGHBOURS,
            (self.exponent,) if self.exponent >= 0 else EXPONENTS,
        )

    def start_choices(self, chosen: Choices) -> Choices:
        """Return the choices before dev decides."""
        exponent = self.exponent if self.exponent >= 0 else 20.0
        return replace(chosen, exponent=exponent, probe=8)


def choose_vote_and_probe(
    system: NeighbourSystem,
    queries: Floats,
    gold: csr_array,
    counts: Sequence[int],
    exponents: Sequence[float],
) -> Choices:
    """Return neighbours and exponent by all documents, then the fewest clusters to search that
    lose less than 0.05 points of nDCG@5."""
    if not gold.nnz:
        return system.chosen
    nearest = search_all(queries, system.memory.vectors, max(counts), system.device)
    k, exponent = choose_vote(nearest, system.gold, gold, counts, exponents)
    least = compute_ndcg(gold, nearest.vote(system.gold, k, exponent, 5)) - _PROBE_GAIN

    def is_enough(probe: int) -> bool:
        found = system.memory.search(queries, k, probe).vote(system.gold, k, exponent, 5)
        return compute_ndcg(gold, found) >= least

    probe = next((probe for probe in _PROBES if is_enough(probe)), len(system.memory.centres))
    return replace(system.chosen, neighbours=k, exponent=exponent, probe=probe)

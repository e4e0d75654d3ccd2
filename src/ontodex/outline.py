"""Suggestions as a curator reads them: by branch of the ontology, each at its level.

    Environment
      Water
        0.931  Water quality  c12
               close, and more specific: River water 0.85 (c44)

Ancestors stand above what was chosen, also where they were not chosen themselves. A chosen concept
is warned about when a more specific one was passed over although it scored nearly as much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ontodex.ontology.graph import reachable
from ontodex.ontology.show import printable
from ontodex.run import Suggestion
from ontodex.types import Ontology

CLOSE = 0.8  # share of the chosen concept's probability from which on another one is close
OUTSIDE = "(not in the ontology)"


@dataclass(frozen=True)
class Place:
    """A concept in the outline; without a suggestion it only stands above one."""

    label: str
    name: str
    level: int  # 1 = the top of its branch
    suggestion: Suggestion | None = None
    more_specific: tuple[Suggestion, ...] = ()  # not chosen, below this one, and close to it


@dataclass
class _Node:
    suggestion: Suggestion | None = None
    below: dict[str, _Node] = field(default_factory=dict)


def outline(
    chosen: Sequence[Suggestion],
    considered: Sequence[Suggestion],
    ontology: Ontology,
    *,
    close: float = CLOSE,
    language: str | None = None,
) -> list[Place]:
    """The chosen concepts and their ancestors, depth first, the best branch first.

    `considered` are the concepts that had a chance: of them come the warnings.
    """
    top = _Node()
    for suggestion in chosen:
        here = top
        known = suggestion.label in ontology
        for step in ontology.path(suggestion.label) if known else (OUTSIDE, suggestion.label):
            here = here.below.setdefault(step, _Node())
        here.suggestion = suggestion
    passed_over = [s for s in considered if s.label not in {c.label for c in chosen}]
    places = []
    for label, level, node in _walk(top):
        name = ontology.name(label, language) if label in ontology else label
        near: tuple[Suggestion, ...] = ()
        if node.suggestion is not None and label in ontology:
            near = more_specific(node.suggestion, passed_over, ontology, close)
            name = node.suggestion.name
        places.append(Place(label, name, level, node.suggestion, near))
    return places


def more_specific(
    chosen: Suggestion, passed_over: Sequence[Suggestion], ontology: Ontology, close: float
) -> tuple[Suggestion, ...]:
    """The concepts below the chosen one whose probability is close to its, best first."""
    below = reachable(ontology.children, ontology.index[chosen.label])
    near = [
        s
        for s in passed_over
        if s.label in ontology
        and ontology.index[s.label] in below
        and s.probability >= close * chosen.probability
    ]
    return tuple(sorted(near, key=lambda s: (-s.probability, s.label)))


def _walk(top: _Node) -> Iterator[tuple[str, int, _Node]]:
    """(label, level, node) depth first; the branches with the most probable concepts first."""
    waiting = [(top, "", 0)]
    while waiting:
        node, label, level = waiting.pop()
        if level:
            yield label, level, node
        ordered = sorted(node.below.items(), key=lambda item: _best(item[1]))
        waiting.extend((below, name, level + 1) for name, below in ordered)


def _best(node: _Node) -> float:
    """The highest probability in a branch."""
    best, waiting = 0.0, [node]
    while waiting:
        here = waiting.pop()
        best = max(best, here.suggestion.probability if here.suggestion is not None else 0.0)
        waiting.extend(here.below.values())
    return best


def lines(places: Sequence[Place]) -> Iterator[str]:
    """The outline for a terminal."""
    for place in places:
        indent = "  " * (place.level - 1)
        if place.suggestion is None:
            yield printable(f"{indent}{place.name}")
            continue
        yield printable(f"{indent}{place.suggestion.probability:.3f}  {place.name}  {place.label}")
        if place.more_specific:
            near = ", ".join(
                f"{s.name} {s.probability:.3f} ({s.label})" for s in place.more_specific
            )
            yield printable(f"{indent}       close, and more specific: {near}")


def rows(places: Sequence[Place]) -> list[dict[str, Any]]:
    """The chosen concepts for programs, most probable first."""
    chosen = [(place, place.suggestion) for place in places if place.suggestion is not None]
    chosen.sort(key=lambda pair: (-pair[1].probability, pair[0].label))
    return [
        {
            "label": place.label,
            "name": place.name,
            "probability": suggestion.probability,
            "path": list(suggestion.path),
            "level": place.level,
            "more_specific": [
                {"label": s.label, "name": s.name, "probability": s.probability}
                for s in place.more_specific
            ],
        }
        for place, suggestion in chosen
    ]


__all__ = ["CLOSE", "Place", "lines", "more_specific", "outline", "rows"]

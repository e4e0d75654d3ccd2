"""Suggestions as a curator reads them: by branch of the ontology, each at its level.

    Environment
      Water
        0.931  Water quality  c12
               also below: Health
               more specific, and close: River water 0.850 (c44)

Ancestors stand above what was chosen, also where they were not chosen themselves. A chosen concept
is warned about when a more specific one was passed over although it scored nearly as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ontodex.ontology.graph import reachable
from ontodex.ontology.show import printable
from ontodex.run import Run, Suggested, Suggestion
from ontodex.types import Doc, Ontology

CLOSE = 0.8  # share of the chosen concept's probability from which on another one is close
LEAST = 0.1  # probability below which nothing is worth a warning
OUTSIDE = "(not in the ontology)"
NEAREST = 5  # concepts that are named where there is none to suggest


@dataclass(frozen=True)
class Place:
    """A concept in the outline; without a suggestion it only stands above one."""

    label: str
    name: str
    level: int  # 1 = the top of its branch
    suggestion: Suggestion | None = None
    other_parents: tuple[str, ...] = ()  # names of those that the path does not show
    apart: float = 0.0  # how probable it is by itself
    more_specific: tuple[Suggestion, ...] = ()  # not chosen, below this one, and close to that


@dataclass
class _Node:
    suggestion: Suggestion | None = None
    below: dict[str, _Node] = field(default_factory=dict)


def outline(found: Suggested, ontology: Ontology, *, language: str | None = None) -> list[Place]:
    """The concepts shown and their ancestors, depth first, the best branch first. Warnings come of
    concepts that were not chosen, whether or not all that were are shown."""
    top = _Node()
    for suggestion in found.shown:
        here = top
        known = suggestion.label in ontology
        for step in ontology.path(suggestion.label) if known else (OUTSIDE, suggestion.label):
            here = here.below.setdefault(step, _Node())
        here.suggestion = suggestion
    by_label = {s.label: s for s in found.apart}
    apart = {s.label: s.probability for s in found.apart}
    chosen = {s.label: s.probability for s in found.chosen}
    near = more_specific(chosen, apart, partial(above, ontology))
    places = []
    for label, level, node in _walk(top):
        if node.suggestion is None:
            name = ontology.name(label, language) if label in ontology else label
            places.append(Place(label, name, level))
            continue
        places.append(
            Place(
                label,
                node.suggestion.name,
                level,
                node.suggestion,
                tuple(ontology.name(each, language) for each in other_parents(ontology, label)),
                apart.get(label, chosen[label]),
                tuple(by_label[each] for each in near[label]),
            )
        )
    return places


def more_specific(
    chosen: Mapping[str, float],
    considered: Mapping[str, float],
    ancestors: Callable[[str], Set[str]],
) -> dict[str, list[str]]:
    """For each chosen label those below it that were passed over although they are close to it,
    best first. Compared is what is considered; a chosen label that is not there counts as given.
    """
    near: dict[str, list[str]] = {label: [] for label in chosen}
    for label, probability in sorted(considered.items(), key=lambda item: (-item[1], item[0])):
        if label in chosen or probability < LEAST:
            continue
        for general in ancestors(label) & chosen.keys():
            if probability >= CLOSE * considered.get(general, chosen[general]):
                near[general].append(label)
    return near


def above(ontology: Ontology, label: str) -> frozenset[str]:
    """The ancestors of a concept; of one that has no place, none."""
    if label not in ontology:
        return frozenset()
    found = reachable(ontology.parents, ontology.index[label])
    return frozenset(ontology.ids[i] for i in found)


def other_parents(ontology: Ontology, label: str) -> list[str]:
    """The parents of a concept that its path does not go through."""
    if label not in ontology:
        return []
    path = ontology.path(label)
    return [parent for parent in ontology.parents_of(label) if parent not in path]


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
        if place.other_parents:
            yield printable(f"{indent}       also below: {', '.join(place.other_parents)}")
        for said, near in _warnings(place, place.suggestion):
            yield printable(f"{indent}       more specific, and {said}: {', '.join(near)}")


def _warnings(place: Place, suggestion: Suggestion) -> Iterator[tuple[str, list[str]]]:
    """How the more specific concepts stand to this one. Where it is chosen with a lead, its figure
    and theirs are of two scales: then words compare them by themselves."""
    if f"{place.apart:.3f}" == f"{suggestion.probability:.3f}":
        named = [f"{s.name} {s.probability:.3f} ({s.label})" for s in place.more_specific]
        if named:
            yield "close", named
        return
    likelier = [s for s in place.more_specific if s.probability > place.apart]
    others = [s for s in place.more_specific if s.probability <= place.apart]
    for said, near in (("likelier by itself", likelier), ("nearly as likely by itself", others)):
        if near:
            yield said, [f"{s.name} ({s.label})" for s in near]


def left_out(found: Suggested, threshold: float) -> str:
    """What the terminal says where the limit cuts off concepts that were chosen."""
    likely = sum(s.probability >= threshold for s in found.chosen)
    more = likely - len(found.shown)
    return f"and {more:,} more that were chosen: --limit {likely} shows all" if more > 0 else ""


def rows(places: Sequence[Place]) -> list[dict[str, Any]]:
    """The chosen concepts for programs, most probable first."""
    chosen = [(place, place.suggestion) for place in places if place.suggestion is not None]
    chosen.sort(key=lambda pair: (-pair[1].probability, pair[0].label))
    return [
        {
            "label": place.label,
            "name": place.name,
            "probability": suggestion.probability,
            "apart": place.apart,
            "path": list(suggestion.path),
            "level": place.level,
            "other_parents": list(place.other_parents),
            "more_specific": [
                {"label": s.label, "name": s.name, "apart": s.probability}
                for s in place.more_specific
            ],
        }
        for place, suggestion in chosen
    ]


def suggestion_lines(found: Sequence[Suggestion]) -> str:
    """Suggestions for the terminal: probability, name, id, and the path above."""
    width = max(len(s.name) for s in found)
    return "\n".join(
        printable(
            f"{s.probability:6.3f}  {s.name:{width}}  {s.label}"
            + (f"  ({' > '.join(s.path[:-1])})" if len(s.path) > 1 else "")
        )
        for s in found
    )


def none_chosen(considered: Sequence[Suggestion]) -> str:
    """What the terminal says in place of an empty set: the concepts that came nearest to it."""
    if not considered:
        return "no concept was chosen, and none has a chance"
    best = suggestion_lines(considered[:NEAREST]).splitlines()
    return "\n".join(["no concept was chosen; the best are", *(f"{s}  not chosen" for s in best)])


def instead(run: Run, doc: Doc, threshold: float, language: str | None) -> str:
    """Why nothing is suggested, and what came nearest."""
    if below := run.suggest(doc, limit=NEAREST, language=language):
        return none_reaches(threshold, below)
    return none_chosen(run.considered(doc, language=language))


def none_reaches(threshold: float, below: Sequence[Suggestion]) -> str:
    """What the terminal says where every suggestion fell short of the threshold: the best ones."""
    return f"no suggestion reaches {threshold:g}; the best are\n{suggestion_lines(below)}"


__all__ = [
    "CLOSE", "Place", "above", "instead", "left_out", "lines", "more_specific", "none_chosen",
    "none_reaches", "other_parents", "outline", "rows", "suggestion_lines",
]  # fmt: skip

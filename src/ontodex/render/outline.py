"""Suggestions as a curator reads them: by branch of the ontology, each at its level.

    Environment
      Water
        0.931  Water quality  c12
               also below: Health
               more specific, and close: River water 0.850 (c44)

Ancestors are shown above the suggestions, also where they are not suggested themselves. A
suggestion gets a warning when a more specific concept was left out with nearly the same score.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ontodex.io.terminal import replace_control_characters
from ontodex.ontology.related import find_ancestors, find_more_specific, find_other_parents
from ontodex.render.ontology_tree import add_notation
from ontodex.types import Ontology
from ontodex.types.answers import DocumentSuggestions, Suggestion

OUTSIDE = "(not in the ontology)"
NEAREST = 5  # concepts that are named where nothing is suggested


@dataclass(frozen=True)
class Place:
    """A concept in the outline; one without a suggestion is an ancestor of one with."""

    label: str
    name: str
    level: int  # 1 = the top of its branch
    suggestion: Suggestion | None = None
    other_parents: tuple[str, ...] = ()  # names of those that the path does not show
    standalone_probability: float = 0.0
    more_specific: tuple[Suggestion, ...] = ()  # left out, below this one, nearly as probable
    notation: str = ""


@dataclass
class _Node:
    suggestion: Suggestion | None = None
    below: dict[str, _Node] = field(default_factory=dict)


def build_outline(
    found: DocumentSuggestions, ontology: Ontology, *, language: str | None = None
) -> list[Place]:
    """Return the suggestions and their ancestors, depth first, the best branch first.

    More specific concepts are warned about only where they are outside the label set.
    """
    by_label = {s.label: s for s in found.standalone}
    standalone = {s.label: s.probability for s in found.standalone}
    label_set = {s.label: s.probability for s in found.label_set}
    near = find_more_specific(label_set, standalone, partial(find_ancestors, ontology))
    places = []
    for label, level, node in _walk(_build_tree(found.shown, ontology)):
        if node.suggestion is None:
            name = ontology.name(label, language) if label in ontology else label
            notation = ontology.notations.get(label, "")
            places.append(Place(label, name, level, notation=notation))
            continue
        others = find_other_parents(ontology, label)
        places.append(
            Place(
                label,
                node.suggestion.name,
                level,
                node.suggestion,
                tuple(ontology.name(parent, language) for parent in others),
                standalone.get(label, label_set[label]),
                tuple(by_label[each] for each in near[label]),
                node.suggestion.notation,
            )
        )
    return places


def _build_tree(suggestions: Sequence[Suggestion], ontology: Ontology) -> _Node:
    """Return the suggestions below their ancestors."""
    top = _Node()
    for suggestion in suggestions:
        here, label = top, suggestion.label
        for step in ontology.path(label) if label in ontology else (OUTSIDE, label):
            here = here.below.setdefault(step, _Node())
        here.suggestion = suggestion
    return top


def _walk(top: _Node) -> Iterator[tuple[str, int, _Node]]:
    """Yield (label, level, node) depth first, the branch with the most probable concept first."""
    waiting = [(top, "", 0)]
    while waiting:
        node, label, level = waiting.pop()
        if level:
            yield label, level, node
        ordered = sorted(node.below.items(), key=lambda item: _find_best(item[1]))
        waiting.extend((below, name, level + 1) for name, below in ordered)


def _find_best(node: _Node) -> float:
    """Return the highest probability in a branch."""
    best, waiting = 0.0, [node]
    while waiting:
        here = waiting.pop()
        best = max(best, here.suggestion.probability if here.suggestion is not None else 0.0)
        waiting.extend(here.below.values())
    return best


def format_outline(places: Sequence[Place]) -> Iterator[str]:
    """Yield the lines of the outline for a terminal."""
    for place in places:
        indent, name = "  " * (place.level - 1), add_notation(place.name, place.notation)
        if place.suggestion is None:
            yield replace_control_characters(f"{indent}{name}")
            continue
        yield replace_control_characters(
            f"{indent}{place.suggestion.probability:.3f}  {name}  {place.label}"
        )
        if place.other_parents:
            yield replace_control_characters(
                f"{indent}       also below: {', '.join(place.other_parents)}"
            )
        for words, near in _compare_more_specific(place, place.suggestion):
            yield replace_control_characters(
                f"{indent}       more specific, and {words}: {', '.join(near)}"
            )


def _compare_more_specific(place: Place, suggestion: Suggestion) -> Iterator[tuple[str, list[str]]]:
    """Yield words that compare the more specific concepts with this one, and their names.

    Where the probability of the label in its set differs from its standalone probability, two
    numbers would be on two scales; then the words compare the standalone probabilities.
    """
    standalone = place.standalone_probability
    if f"{standalone:.3f}" == f"{suggestion.probability:.3f}":
        named = [f"{s.name} {s.probability:.3f} ({s.label})" for s in place.more_specific]
        if named:
            yield "close", named
        return
    likelier = [s for s in place.more_specific if s.probability > standalone]
    others = [s for s in place.more_specific if s.probability <= standalone]
    for words, near in (("likelier by itself", likelier), ("nearly as likely by itself", others)):
        if near:
            yield words, [f"{s.name} ({s.label})" for s in near]


def describe_hidden(found: DocumentSuggestions, threshold: float) -> str:
    """Return the line about labels of the label set that the limit hides; empty if none is."""
    likely = sum(s.probability >= threshold for s in found.label_set)
    more = likely - len(found.shown)
    return f"and {more:,} more that were chosen: --limit {likely} shows all" if more > 0 else ""


def outline_to_rows(places: Sequence[Place]) -> list[dict[str, Any]]:
    """Return the suggestions for programs, most probable first."""
    suggested = [(place, place.suggestion) for place in places if place.suggestion is not None]
    suggested.sort(key=lambda pair: (-pair[1].probability, pair[0].label))
    return [
        {
            "label": place.label,
            "name": place.name,
            "notation": place.notation,
            "probability": suggestion.probability,
            "standalone_probability": place.standalone_probability,
            "path": list(suggestion.path),
            "level": place.level,
            "other_parents": list(place.other_parents),
            "more_specific": [
                {"label": s.label, "name": s.name, "standalone_probability": s.probability}
                for s in place.more_specific
            ],
        }
        for place, suggestion in suggested
    ]


def format_suggestions(suggestions: Sequence[Suggestion]) -> str:
    """Return suggestions for a terminal: probability, name, id, and the path above."""
    names = [add_notation(s.name, s.notation) for s in suggestions]
    width = max(map(len, names))
    return "\n".join(
        replace_control_characters(
            f"{s.probability:6.3f}  {name:{width}}  {s.label}"
            + (f"  ({' > '.join(s.path[:-1])})" if len(s.path) > 1 else "")
        )
        for s, name in zip(suggestions, names, strict=True)
    )


def describe_no_suggestion(found: DocumentSuggestions, threshold: float) -> str:
    """Return why nothing is suggested, with the concepts that came nearest."""
    if found.candidates:
        best = format_suggestions(found.candidates[:NEAREST])
        return f"no suggestion reaches {threshold:g}; the best are\n{best}"
    if not found.standalone:
        return "no concept was chosen, and none has a chance"
    best = format_suggestions(found.standalone[:NEAREST])
    lines = [f"{line}  not chosen" for line in best.splitlines()]
    return "\n".join(["no concept was chosen; the best are", *lines])

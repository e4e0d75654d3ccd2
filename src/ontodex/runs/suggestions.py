"""Rankings as suggestions: columns become concepts with a name and a place in the ontology."""

from __future__ import annotations

from ontodex.types import LabelSpace, Ranking
from ontodex.types.answers import Suggestion


def make_suggestions(
    labels: LabelSpace, ranking: Ranking, language: str | None = None
) -> list[list[Suggestion]]:
    """Return the suggestions of each document, in the order of the ranking."""
    rows = zip(ranking.columns.tolist(), ranking.probabilities.tolist(), strict=True)
    return [
        [
            _make_suggestion(labels, column, probability, language)
            for column, probability in zip(columns, probabilities, strict=True)
            if column >= 0
        ]
        for columns, probabilities in rows
    ]


def _make_suggestion(
    labels: LabelSpace, column: int, probability: float, language: str | None
) -> Suggestion:
    label, ontology = labels.ids[column], labels.ontology
    path: tuple[str, ...] = ()
    notation = "" if ontology is None else ontology.notations.get(label, "")
    if ontology is not None and label in ontology:
        path = tuple(ontology.name(step, language) for step in ontology.path(label))
    return Suggestion(label, labels.name(column, language), probability, path, notation)

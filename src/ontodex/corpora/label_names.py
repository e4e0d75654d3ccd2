"""Replace labels that are names, as in BioASQ, by the ids of concepts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ontodex.types import Doc, Ontology

logger = logging.getLogger(__name__)


def resolve_names(docs: Iterable[Doc], ontology: Ontology) -> Iterator[Doc]:
    """Yield the documents with concept ids as labels.

    A name is looked up among ids, preferred names and synonyms, in this order, and then again
    without case. Names of no concept or of several are kept, and counted in the log.
    """
    exact = _map_names(ontology)
    folded = _drop_ambiguous((name.casefold(), label) for name, label in exact.items())
    unknown: Counter[str] = Counter()
    for doc in docs:
        labels = [exact.get(name) or folded.get(name.casefold(), "") for name in doc.labels]
        unknown.update(name for name, label in zip(doc.labels, labels, strict=True) if not label)
        found = (label or name for name, label in zip(doc.labels, labels, strict=True))
        yield replace(doc, labels=tuple(dict.fromkeys(found)))
    if unknown:
        (example, _), *_ = unknown.most_common(1)
        logger.warning(
            "%s names (%s uses) are not of exactly one concept and are kept; the most common is %r",
            f"{len(unknown):,}",
            f"{unknown.total():,}",
            example,
        )


def _map_names(ontology: Ontology) -> dict[str, str]:
    """Return name -> id; ids have priority over preferred names, and these over synonyms."""
    preferred = (
        (name, ontology.ids[row])
        for names in ontology.names.values()
        for row, name in names.items()
    )
    synonyms = (
        (name, ontology.ids[row])
        for lists in ontology.synonyms.values()
        for row, names in lists.items()
        for name in names
    )
    ids = {label: label for label in ontology.ids}
    return _drop_ambiguous(synonyms) | _drop_ambiguous(preferred) | ids


def _drop_ambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return name -> id for names of exactly one concept."""
    meanings: dict[str, str] = {}
    ambiguous: set[str] = set()
    for name, label in pairs:
        if meanings.setdefault(name, label) != label:
            ambiguous.add(name)
    return {name: label for name, label in meanings.items() if name not in ambiguous}

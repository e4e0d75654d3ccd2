"""Labels given as names (BioASQ's meshMajor, for one) -> concept ids of an ontology."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ontodex.types import Doc, Ontology

logger = logging.getLogger(__name__)


def to_ids(docs: Iterable[Doc], ontology: Ontology) -> Iterator[Doc]:
    """The documents with concept ids as labels.

    A name is looked up as it stands among ids and preferred names, then among synonyms, then again
    without regard to case. Names that no concept has, or several have, stay; the log counts them.
    """
    exact = _lookup(ontology)
    folded = _without_rivals((name.casefold(), label) for name, label in exact.items())
    unknown: Counter[str] = Counter()
    for doc in docs:
        labels = [exact.get(name) or folded.get(name.casefold(), "") for name in doc.labels]
        unknown.update(name for name, label in zip(doc.labels, labels, strict=True) if not label)
        found = (label or name for name, label in zip(doc.labels, labels, strict=True))
        yield replace(doc, labels=tuple(dict.fromkeys(found)))
    if unknown:
        (example, _), *_ = unknown.most_common(1)
        logger.warning(
            "%s names (%s uses) are not names of one concept and stay as they are; the most "
            "frequent is %r",
            f"{len(unknown):,}",
            f"{unknown.total():,}",
            example,
        )


def _lookup(ontology: Ontology) -> dict[str, str]:
    """Name -> id; ids come before preferred names, and these before synonyms."""
    preferred = (
        (name, label)
        for names in ontology.names.values()
        for name, label in zip(names, ontology.ids, strict=True)
        if name
    )
    synonyms = (
        (name, label)
        for lists in ontology.synonyms.values()
        for names, label in zip(lists, ontology.ids, strict=True)
        for name in names
    )
    ids = {label: label for label in ontology.ids}
    return _without_rivals(synonyms) | _without_rivals(preferred) | ids


def _without_rivals(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Name -> id, for the names that mean one concept."""
    meanings: dict[str, str] = {}
    rivals: set[str] = set()
    for name, label in pairs:
        if meanings.setdefault(name, label) != label:
            rivals.add(name)
    return {name: label for name, label in meanings.items() if name not in rivals}

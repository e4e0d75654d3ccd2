"""Open labelled documents for a run: columns as in its training, labels of its vocabulary."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ontodex.corpora.detect import restrict_mapping
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.label_names import match_labels
from ontodex.corpora.open import Documents, open_mapped
from ontodex.types import Corpus, LabelSpace

logger = logging.getLogger(__name__)


def open_documents(
    corpus: Documents,
    labels: LabelSpace,
    about: Mapping[str, Any],
    mapping: FieldMapping = NO_MAPPING,
) -> Corpus:
    """Open documents for a run with these labels and this manifest.

    Where no columns are named, a table with those of the training documents is read like them.
    Labels that are names or notations become ids.
    """
    if isinstance(corpus, str | Path):
        opened = open_mapped(corpus, choose_mapping(corpus, mapping, about))
        return match_labels(opened, labels.ontology, corpus, labels)
    return match_labels(open_mapped(corpus, mapping), labels.ontology, "documents", labels)


def choose_mapping(
    source: str | Path, mapping: FieldMapping, about: Mapping[str, Any]
) -> FieldMapping:
    """Return the columns that are named, else those that the run recorded if the file has them."""
    if mapping:
        return mapping
    recorded = FieldMapping.of(**about.get("fields", {}))
    found = restrict_mapping(source, recorded)
    if found:
        logger.info("%s: %s, as in training", source, found.describe())
    return found

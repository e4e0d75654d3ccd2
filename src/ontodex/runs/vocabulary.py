"""The key of a run's vocabulary: two runs with the same key index with the same concepts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ontodex.types import LabelSpace

KEY = "vocabulary"  # in the manifest of a run without an ontology whose labels have changed


def get_vocabulary_key(about: Mapping[str, Any], labels: LabelSpace) -> str:
    """Return the digest of a run's ontology; without one, that of the labels it first had."""
    digest: str | None = about["files"].get("ontology.json") or about.get(KEY)
    return digest or hashlib.sha256("\n".join(sorted(labels.ids)).encode()).hexdigest()


def keep_vocabulary_key(about: Mapping[str, Any], labels: LabelSpace) -> dict[str, str]:
    """Return what the manifest of a new version of a run says about its vocabulary."""
    if "ontology.json" in about["files"]:
        return {}
    return {KEY: get_vocabulary_key(about, labels)}

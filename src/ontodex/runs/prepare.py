"""Prepare features ahead of time, for training on a machine that has only the core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ontodex.config import build
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.open import open_mapped, require_files
from ontodex.corpora.split import set_aside
from ontodex.features.languages import OWN
from ontodex.features.prepare import PrepareConfig, name_corpora
from ontodex.features.prepare import prepare as prepare_corpora
from ontodex.features.token_config import set_languages
from ontodex.ontology.levels import add_ancestors
from ontodex.ontology.open import read_ontology
from ontodex.runs.documents import match_labels
from ontodex.runs.languages import find_corpus_languages
from ontodex.types import Corpus, Ontology


def prepare(
    corpora: Sequence[str | Path],
    *,
    out: str | Path,
    ontology: str | Path | Ontology | None = None,
    language: str | Sequence[str] = (),
    mapping: FieldMapping = NO_MAPPING,
    **settings: Any,
) -> dict[str, Corpus]:
    """Write corpora without their text, with the features that systems need; return them by name.

    corpora     paths in any corpus format: the training corpus first
    ontology    an ontology or a path in any ontology format
    language    language of the documents, or several: code or name; else guessed where `stop_words`
                or `lemmas` is "own". It is recorded, and training from the folder reads it
    settings    settings of [prepare] as keywords: max_length=500, lemmas="own" ...

    >>> carried = ontodex.prepare(["train.jsonl", "test.jsonl"], out="carried", language="English")
    >>> list(carried)
    ['train', 'test']
    """
    paths, out = [Path(path) for path in corpora], Path(out)
    config = build(PrepareConfig, settings, "prepare")
    vectors = None if config.vectors in ("", "train") else config.vectors
    require_files(*paths, ontology, vectors)
    known = ontology if isinstance(ontology, Ontology | None) else read_ontology(ontology)
    named = {
        name: match_labels(open_mapped(path, mapping), known, path)
        for name, path in name_corpora(paths, out).items()
    }
    train = next(iter(named.values()))
    asked = [language] if isinstance(language, str) else list(language)
    if asked or (OWN in (config.stop_words, config.lemmas) and not config.languages):
        config = set_languages(config, find_corpus_languages(asked, train, known))
    lists = None if known is None else add_ancestors(known, train.labels())
    # Without a dev corpus, training sets a tenth aside and fits on the rest.
    parts = [train] if len(named) > 1 else [train, set_aside(train)[0]]
    return prepare_corpora(
        named, out, config, label_lists=lists, training_parts=parts, ontology=known
    )

"""Prepare features ahead of time, for training on a machine that has only the core."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ontodex.config import build
from ontodex.corpora.field_mapping import NO_MAPPING, FieldMapping
from ontodex.corpora.label_names import match_labels
from ontodex.corpora.open import open_mapped, require_files
from ontodex.corpora.split import set_aside
from ontodex.features.languages import OWN
from ontodex.features.prepare import PrepareConfig, name_corpora
from ontodex.features.prepare import prepare as prepare_features
from ontodex.features.token_config import set_languages
from ontodex.ontology.levels import add_ancestors
from ontodex.ontology.open import open_ontology
from ontodex.runs.languages import find_corpus_languages
from ontodex.runs.settings import write_paths
from ontodex.types import Corpus, Ontology


def prepare(
    corpora: Sequence[str | Path],
    out: str | Path,
    *,
    ontology: Ontology | str | Path | None = None,
    language: str | Sequence[str] = (),
    mapping: FieldMapping = NO_MAPPING,
    **settings: Any,
) -> dict[str, Corpus]:
    """Write the features of corpora to the folder `out`, without the text, for another machine.

    corpora     the training corpus first, then others; each is a folder in `out`
    ontology    labels that are names become ids, and label vectors learn ancestors too
    language    language of the documents, or several: code or name; else guessed where `stop_words`
                or `lemmas` is "own". It is recorded, and training from the folder reads it
    settings    those of the table [prepare]: max_length=500, phrases=True ...

    The prepared corpora are returned by name. They are given to `train` as the corpora are.

    >>> prepared = ontodex.prepare(["train.jsonl", "test.jsonl"], "carried", max_length=500)
    >>> {name: len(corpus) for name, corpus in prepared.items()}
    {'train': 30, 'test': 6}
    """
    out = Path(out)
    config = build(PrepareConfig, write_paths(settings), "prepare")
    vectors = None if config.vectors in ("", "train") else config.vectors
    require_files(*corpora, ontology, vectors)
    known = None if ontology is None else open_ontology(ontology)
    named = {
        name: match_labels(open_mapped(path, mapping), known, path)
        for name, path in name_corpora([Path(path) for path in corpora], out).items()
    }
    train = next(iter(named.values()))
    asked = [language] if isinstance(language, str) else list(language)
    if asked or (OWN in (config.stop_words, config.lemmas) and not config.languages):
        config = set_languages(config, find_corpus_languages(asked, train, known))
    # Without a dev corpus, training sets a tenth aside and fits on the rest.
    parts = [train] if len(named) > 1 else [train, set_aside(train)[0]]
    lists = None if known is None else add_ancestors(known, train.labels())
    return prepare_features(
        named, out, config, label_lists=lists, training_parts=parts, ontology=known
    )

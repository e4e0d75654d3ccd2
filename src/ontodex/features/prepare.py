"""A folder that travels: corpora without text, with everything that was computed from it.

    out/<name>/             ids, labels, keywords
    out/<name>/features/    token ids, and phrases when asked for
    out/<train>/vectors/    word vectors of the training words, in half precision, when asked for

`tokenise_corpus` finds the tokens there by the original's content, so systems train from the folder
on a machine that has only the core. Words come from the first corpus, the training one, alone.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ontodex.errors import DataError
from ontodex.features import cache
from ontodex.features.phrases import PhraseConfig, Phrases, frequency_parts, frequency_recipe
from ontodex.features.tokens import (
    TokenConfig,
    Tokens,
    check_count,
    check_fields,
    to_parts,
    tokenise_corpus,
    tokens_recipe,
)
from ontodex.features.vectors import PREPARED, Vectors, read_vectors, train_vectors, write_vectors
from ontodex.types import Corpus

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PrepareConfig(PhraseConfig, TokenConfig):
    """What to carry, and how much of it."""

    min_count: int = 2  # words seen less often in training are not told apart
    max_length: int = 0  # tokens of each document; 0 = all
    phrases: bool = False  # extract keyword phrases
    vectors: str = ""  # a vector file to take the words' vectors from, or "train"
    vector_size: int = 100  # of trained vectors
    seed: int = 0

    def __post_init__(self) -> None:
        TokenConfig.__post_init__(self)
        PhraseConfig.__post_init__(self)
        if self.min_count < 1 or self.max_length < 0 or self.vector_size < 1:
            raise ValueError("min_count and vector_size must be at least 1, max_length at least 0")


def prepare(corpora: Mapping[str, Corpus], out: Path, config: PrepareConfig) -> dict[str, Corpus]:
    """Write each corpus to `out/<name>`; the first is the training corpus. The carried corpora."""
    for name, corpus in corpora.items():
        _check_place(corpus, out / name)
    train = next(iter(corpora.values()))
    if train.kind == "text":
        check_fields(train, config)
    carried = {name: corpus.carry(out / name) for name, corpus in corpora.items()}
    if train.kind == "text":
        tokens = _train_tokens(train, config)
        known = frozenset(tokens.words) - {""}
        for name, corpus in corpora.items():
            _write_tokens(corpus, carried[name], known, config)
        if config.phrases:
            _write_phrases(train, corpora, carried, config)
        if config.vectors:
            write_vectors(out / next(iter(corpora)) / PREPARED, _vectors(tokens, known, config))
    return carried


def _check_place(corpus: Corpus, folder: Path) -> None:
    """A folder is replaced only when it is a carried corpus, never one that holds text."""
    if not folder.exists():
        return
    if not (folder / "corpus.json").exists() or Corpus.open(folder).has_text:
        raise DataError(
            "is there already and is not a prepared corpus",
            path=folder,
            hint="choose another --out",
        )
    if corpus.folder is not None and corpus.folder.resolve() == folder.resolve():
        raise DataError("a corpus cannot be prepared over itself", path=folder)


def _train_tokens(train: Corpus, config: PrepareConfig) -> Tokens:
    """The training tokens as they will be carried."""
    tokens = tokenise_corpus(train, config)
    check_count(tokens, config.min_count, "min_count")
    tokens = tokens.cut(config.max_length)
    common = np.flatnonzero(tokens.counts() >= config.min_count)
    return tokens.only({tokens.words[i] for i in common}, config.min_count)


def _write_tokens(
    corpus: Corpus, carried: Corpus, known: frozenset[str], config: PrepareConfig
) -> None:
    tokens = tokenise_corpus(corpus, config).cut(config.max_length)
    tokens = tokens.only(known, config.min_count)
    _keep(carried, tokens_recipe(config), to_parts(tokens))
    logger.info("%s: %s tokens of %s words", carried.folder, len(tokens.ids), len(tokens.words))


def _write_phrases(
    train: Corpus,
    corpora: Mapping[str, Corpus],
    carried: Mapping[str, Corpus],
    config: PhraseConfig,
) -> None:
    phrases = Phrases.fit(train, config)
    _keep(next(iter(carried.values())), frequency_recipe(), frequency_parts(train))
    for name, corpus in corpora.items():
        _keep(carried[name], phrases.recipe(), to_parts(phrases.of(corpus)))


def _vectors(tokens: Tokens, known: frozenset[str], config: PrepareConfig) -> Vectors:
    if config.vectors == "train":
        return train_vectors(tokens, size=config.vector_size, seed=config.seed)
    return read_vectors(Path(config.vectors), known)


def _keep(carried: Corpus, recipe: cache.Recipe, parts: cache.Parts) -> None:
    folder = cache.place(carried, recipe)
    assert folder is not None  # a carried corpus lies on disk
    cache.write(folder, recipe, parts)

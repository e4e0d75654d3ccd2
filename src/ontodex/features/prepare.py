"""Prepared folders: corpora without text, with the features that were computed from it.

    out/prepared.json       the corpora and settings it is made from, and whether it is finished
    out/<name>/             ids, labels, keywords
    out/<name>/features/    token ids, and phrases and word pieces when asked for
    out/<train>/vectors/    word vectors of the training words, in half precision, when asked for
    out/<train>/keyword-vectors/, label-vectors/    the same of phrases and labels, for levelwise

`tokenise_corpus` finds the tokens there by the original's content. So systems train from the folder
on a machine that has only the core. The vocabulary comes from the first corpus, the training one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ontodex.config import check_least, check_seed
from ontodex.errors import DataError, OntodexError
from ontodex.features import cache
from ontodex.features.cache import Parts
from ontodex.features.label_graph import LabelGraphConfig, compute_graph_vectors
from ontodex.features.phrases import (
    KnownPhrases,
    PhraseConfig,
    Phrases,
    count_frequencies,
    frequency_recipe,
    has_keywords,
    known_recipe,
)
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import (
    Tokens,
    check_count,
    check_fields,
    to_parts,
    tokenise_corpus,
    tokens_recipe,
)
from ontodex.features.vectors import (
    KEYWORDS,
    LABELS,
    PREPARED,
    Vectors,
    read_vectors,
    train_vectors,
    write_vectors,
)
from ontodex.features.word_pieces import (
    PIECES,
    WindowConfig,
    WordPieces,
    encode_pieces,
    pieces_recipe,
)
from ontodex.io.counts import format_count
from ontodex.io.files import hash_file, write_text
from ontodex.io.hub import find_folder
from ontodex.io.json_schema import read_table
from ontodex.types import Corpus, LabelSpace, Ontology

logger = logging.getLogger(__name__)

SET_WINDOW = 20  # of word2vec on keyword or label lists: in practice the whole list
RECORD = "prepared.json"

Plan = dict[str, Any]  # JSON values: everything that determines the content of a folder


@dataclass(frozen=True)
class PrepareConfig(LabelGraphConfig, PhraseConfig, WindowConfig, TokenConfig):
    """Settings of a prepared folder."""

    encoder: str = field(default="", metadata={"path": True})  # also write the word pieces of it

    languages: tuple[str, ...] = ()  # of the documents, for `own`
    min_count: int = 2  # rarer words of training are merged into one unknown token
    max_length: int = 0  # first tokens of each document that are kept; 0 = all
    phrases: bool = False  # extract keyword phrases
    known_phrases: bool = False  # only phrases of `phrase_count` occurrences, as levelwise reads
    phrase_count: int = 1  # rarer phrases of training are merged into one unknown token
    vectors: str = ""  # a file with vectors of the words, or "train"
    vector_size: int = 100  # numbers of a trained vector
    set_vectors: bool = False  # also train vectors of keywords (or phrases) and of labels
    graph_vectors: bool = False  # also train vectors of labels by walks on a graph (dxml, graphknn)
    seed: int = 0

    def __post_init__(self) -> None:
        TokenConfig.__post_init__(self)
        PhraseConfig.__post_init__(self)
        WindowConfig.__post_init__(self)
        LabelGraphConfig.__post_init__(self)
        check_least(self, 1, "min_count", "phrase_count", "vector_size")
        check_least(self, 0, "max_length")
        check_seed(self)


def name_corpora(paths: Sequence[Path], out: Path) -> dict[str, Path]:
    """Return the name of each corpus in `out`: that of its file, without any ending."""
    named: dict[str, Path] = {}
    for path in paths:
        name = path.name.split(".")[0]
        if name in named:
            raise DataError(
                f"{named[name]} and {path} would both be {out / name}",
                hint="give one of them another name, by a copy or a link",
            )
        named[name] = path
    return named


def prepare(
    corpora: Mapping[str, Corpus],
    out: Path,
    config: PrepareConfig,
    *,
    label_lists: Sequence[Sequence[str]] | None = None,
    training_parts: Sequence[Corpus] = (),
    ontology: Ontology | None = None,
) -> dict[str, Corpus]:
    """Write each corpus to `out/<name>` and return the prepared corpora.

    The first is the training corpus. Label vectors are trained on `label_lists` (for example with
    ancestors), else on the labels of the documents. Vectors of the label graph are computed for
    each of `training_parts`, the parts of the training corpus that systems will be trained on. A
    folder with the same content is left as it is; one with other content is refused.
    """
    train = next(iter(corpora.values()))
    if train.kind == "text":
        check_fields(train, config)
    training_parts = training_parts or [train]
    plan = _plan(corpora, config, label_lists, training_parts, ontology)
    if _is_done(corpora, out, plan):
        logger.info("%s: already prepared from the same corpora with the same settings", out)
        return {name: Corpus.open(out / name) for name in corpora}
    with _claim(out, plan):
        prepared = {name: corpus.write_without_text(out / name) for name, corpus in corpora.items()}
        if train.kind == "text":
            tokens = _cut_train_tokens(train, config)
            known = frozenset(tokens.words) - {""}
            for name, corpus in corpora.items():
                _write_tokens(corpus, prepared[name], known, config)
            if config.encoder:
                _write_pieces(corpora, prepared, config)
            if config.phrases:
                _write_phrases(train, corpora, prepared, config)
            if config.vectors:
                write_vectors(
                    out / next(iter(corpora)) / PREPARED, _make_vectors(tokens, known, config)
                )
            if config.set_vectors:
                place = out / next(iter(corpora))
                lists = list(train.labels()) if label_lists is None else label_lists
                write_vectors(
                    place / KEYWORDS, _train_set_vectors(_keywords(train, config), config)
                )
                write_vectors(place / LABELS, _train_set_vectors(lists, config))
        if config.graph_vectors:
            for part in training_parts:
                labels = LabelSpace.of(part, ontology)
                _save_parts(
                    _select_part(part, prepared), *compute_graph_vectors(part, labels, config)
                )
    return prepared


def read_settings(corpus: Corpus) -> Plan:
    """Return the settings with which a corpus was prepared; none for any other corpus."""
    record = None if corpus.folder is None else corpus.folder.parent / RECORD
    if record is None or not record.is_file():
        return {}
    settings = read_table(record).get("plan", {}).get("settings", {})
    return dict(settings)


def _select_part(part: Corpus, prepared: Mapping[str, Corpus]) -> Corpus:
    """Return the documents of a part of the training corpus in the prepared corpus."""
    whole = next(iter(prepared.values()))
    return whole if part.rows is None else whole.select(part.rows)


def _plan(
    corpora: Mapping[str, Corpus],
    config: PrepareConfig,
    label_lists: Sequence[Sequence[str]] | None,
    training_parts: Sequence[Corpus],
    ontology: Ontology | None,
) -> Plan:
    """Return everything that determines the content of the folder with these settings."""
    plan: Plan = {
        "settings": asdict(config),
        "corpora": [[name, corpus.key] for name, corpus in corpora.items()],  # the first trains
    }
    if Path(config.vectors).is_file():
        plan["contents of the vector file"] = hash_file(Path(config.vectors))
    if config.encoder:
        plan["tokenizer"] = WordPieces.load(find_folder(config.encoder, (PIECES,)) / PIECES).digest
    if config.set_vectors:
        plan["label lists"] = _digest(label_lists)
    if config.graph_vectors:
        plan["parts to learn from"] = [part.key for part in training_parts]
        plan["ontology"] = _digest(
            ontology and [(label, ontology.parents_of(label)) for label in ontology.ids]
        )
    as_read_back: Plan = json.loads(json.dumps(plan))  # tuples are lists there
    return as_read_back


def _digest(value: Any) -> str:
    """Return the SHA-256 of JSON values."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _is_done(corpora: Mapping[str, Corpus], out: Path, plan: Plan) -> bool:
    """Tell whether the folder has this content; refuse a folder with other content."""
    for name, corpus in corpora.items():
        if corpus.folder is not None and corpus.folder.resolve() == (out / name).resolve():
            raise DataError("a corpus cannot be prepared over itself", path=out / name)
    record = out / RECORD
    if not record.exists():
        there = next((out / name for name in corpora if (out / name).exists()), None)
        if there is not None:
            raise DataError(
                "exists, and has no record of how it was prepared",
                path=there,
                hint="choose another --out",
            )
        return False
    try:
        found = json.loads(record.read_text(encoding="utf-8"))
        other = _difference(found["plan"], plan)
        is_finished = bool(found["finished"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"was not written by `ontodex prepare` ({error})",
            path=record,
            hint="choose another --out",
        ) from error
    if other:
        raise DataError(other, path=out, hint="choose another --out, or remove that folder first")
    return is_finished and all((out / name / "corpus.json").exists() for name in corpora)


def _difference(old: Plan, new: Plan) -> str:
    """Describe the first difference of two plans; "" where they are equal."""
    for name, value in new["settings"].items():
        if (before := old["settings"].get(name)) != value:
            return f"was prepared with {name} = {before!r}, not {value!r}"
    names = [", ".join(name for name, _ in plan["corpora"]) for plan in (old, new)]
    if names[0] != names[1]:
        return f"holds {names[0]}, not {names[1]}"
    for (name, before), (_, now) in zip(old["corpora"], new["corpora"], strict=True):
        if before != now:
            return f"was prepared from other documents in {name}"
    what = next((key for key in {**old, **new} if old.get(key) != new.get(key)), None)
    return f"was prepared with other {what}" if what else ""


@contextlib.contextmanager
def _claim(out: Path, plan: Plan) -> Iterator[None]:
    """Record in the folder what it is made from, and at the end that it is finished.

    So after a kill the same command finishes it, and another command is refused. Where settings or
    documents are refused, the folder is removed.
    """
    _write_record(out, plan, finished=False)
    try:
        yield
    except OntodexError:
        for name, _ in plan["corpora"]:
            shutil.rmtree(out / name, ignore_errors=True)
        (out / RECORD).unlink()
        if not any(out.iterdir()):
            out.rmdir()
        raise
    _write_record(out, plan, finished=True)


def _write_record(out: Path, plan: Plan, *, finished: bool) -> None:
    """Write prepared.json."""
    write_text(out / RECORD, json.dumps({"finished": finished, "plan": plan}, indent=1) + "\n")


def _cut_train_tokens(train: Corpus, config: PrepareConfig) -> Tokens:
    """Return the training tokens as the prepared folder will hold them."""
    tokens = tokenise_corpus(train, config)
    check_count(tokens, config.min_count, "min_count")
    tokens = tokens.cut(config.max_length)
    common = np.flatnonzero(tokens.count_words() >= config.min_count)
    return tokens.keep_words({tokens.words[i] for i in common}, config.min_count)


def _write_tokens(
    corpus: Corpus, prepared: Corpus, known: frozenset[str], config: PrepareConfig
) -> None:
    """Write the tokens of a corpus; words that are not known become ""."""
    tokens = tokenise_corpus(corpus, config).cut(config.max_length)
    tokens = tokens.keep_words(known, config.min_count)
    _save_parts(prepared, tokens_recipe(config), to_parts(tokens))
    counts = format_count(len(tokens.ids), "token"), format_count(len(tokens.words), "word")
    logger.info("%s: %s of %s", prepared.folder, *counts)


def _write_pieces(
    corpora: Mapping[str, Corpus], prepared: Mapping[str, Corpus], config: PrepareConfig
) -> None:
    """Write the word pieces that an encoder reads."""
    pieces = WordPieces.load(find_folder(config.encoder, (PIECES,)) / PIECES)
    recipe = pieces_recipe(pieces, config)
    for name, corpus in corpora.items():
        found = encode_pieces(corpus, pieces, config)
        _save_parts(prepared[name], recipe, Parts({"ids": found.ids, "offsets": found.offsets}))


def _write_phrases(
    train: Corpus,
    corpora: Mapping[str, Corpus],
    prepared: Mapping[str, Corpus],
    config: PrepareConfig,
) -> None:
    """Write the phrases of each corpus, and the word frequencies of the training corpus."""
    phrases = _fit_phrases(train, config)
    _save_parts(next(iter(prepared.values())), frequency_recipe(), count_frequencies(train))
    if isinstance(phrases, KnownPhrases):
        parts = Parts({}, {"phrases": tuple(sorted(phrases.known))})
        recipe = known_recipe(config, config.phrase_count)
        _save_parts(next(iter(prepared.values())), recipe, parts)
    known = frozenset(_train_phrases(train, config).words)
    for name, corpus in corpora.items():
        found = phrases.extract_corpus(corpus)
        if config.phrase_count > 1:
            found = found.keep_words(known, config.phrase_count)
        _save_parts(prepared[name], phrases.recipe(), to_parts(found))


def _make_vectors(tokens: Tokens, known: frozenset[str], config: PrepareConfig) -> Vectors:
    """Train vectors of the words, or read them from a file."""
    if config.vectors == "train":
        return train_vectors(tokens, size=config.vector_size, seed=config.seed)
    return read_vectors(Path(config.vectors), known)


def _keywords(train: Corpus, config: PrepareConfig) -> Tokens | Sequence[Sequence[str]]:
    """Return the author's keywords of each document where most have some, else its phrases."""
    if config.phrases and not has_keywords(train):
        return _train_phrases(train, config)
    return [[word.lower() for word in words] for words in train.keywords()]


def _fit_phrases(train: Corpus, config: PrepareConfig) -> Phrases:
    if config.known_phrases:
        return KnownPhrases.fit_known(train, config, config.phrase_count)
    return Phrases.fit(train, config)


def _train_phrases(train: Corpus, config: PrepareConfig) -> Tokens:
    """Return the phrases of the training documents, the rare ones as ""."""
    found = _fit_phrases(train, config).extract_corpus(train)
    common = np.flatnonzero(found.count_words() >= config.phrase_count)
    return found.keep_words({found.words[i] for i in common}, config.phrase_count)


def _train_set_vectors(lists: Tokens | Sequence[Sequence[str]], config: PrepareConfig) -> Vectors:
    """Train vectors of words that occur in the same list, at any distance."""
    return train_vectors(
        lists, size=config.vector_size, seed=config.seed, window=SET_WINDOW, subsample=0
    )


def _save_parts(prepared: Corpus, recipe: cache.Recipe, parts: cache.Parts) -> None:
    """Write parts beside a prepared corpus."""
    folder = cache.locate_parts(prepared, recipe)
    assert folder is not None  # a prepared corpus is on disk
    cache.write_parts(folder, recipe, parts)

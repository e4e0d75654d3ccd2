"""A folder that travels: corpora without text, with everything that was computed from it.

    out/prepared.json       from which corpora and with which settings, and whether it is finished
    out/<name>/             ids, labels, keywords
    out/<name>/features/    token ids, and phrases when asked for
    out/<train>/vectors/    word vectors of the training words, in half precision, when asked for
    out/<train>/keyword-vectors/, label-vectors/    the same of phrases and labels, for levelwise

`tokenise_corpus` finds the tokens there by the original's content, so systems train from the folder
on a machine that has only the core. Words come from the first corpus, the training one, alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ontodex.config import check_least, check_seed
from ontodex.errors import DataError, OntodexError
from ontodex.features import cache
from ontodex.features.label_graph import LabelGraphConfig, graph_vectors
from ontodex.features.phrases import (
    PhraseConfig,
    Phrases,
    frequency_parts,
    frequency_recipe,
    has_keywords,
)
from ontodex.features.tokens import (
    TokenConfig,
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
from ontodex.files import digest, write_text
from ontodex.types import Corpus, LabelSpace, Ontology

logger = logging.getLogger(__name__)

SET_WINDOW = 20  # places of a keyword or label list that see each other: practically all
NOTE = "prepared.json"

Plan = dict[str, Any]  # JSON values: all that decides what a folder holds


@dataclass(frozen=True)
class PrepareConfig(LabelGraphConfig, PhraseConfig, TokenConfig):
    """What to carry, and how much of it."""

    min_count: int = 2  # words seen less often in training are not told apart
    max_length: int = 0  # tokens of each document; 0 = all
    phrases: bool = False  # extract keyword phrases
    phrase_count: int = 1  # phrases seen less often in training are not told apart
    vectors: str = ""  # a vector file to take the words' vectors from, or "train"
    vector_size: int = 100  # of trained vectors
    set_vectors: bool = False  # also train vectors of keywords (or phrases) and of labels
    graph_vectors: bool = False  # also train vectors of labels by walks on a graph, for dxml
    seed: int = 0

    def __post_init__(self) -> None:
        TokenConfig.__post_init__(self)
        PhraseConfig.__post_init__(self)
        LabelGraphConfig.__post_init__(self)
        check_least(self, 1, "min_count", "phrase_count", "vector_size")
        check_least(self, 0, "max_length")
        check_seed(self)


def names_of(paths: Sequence[Path], out: Path) -> dict[str, Path]:
    """The name that each corpus will have in `out`: its file's, without any ending."""
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
    learned: Sequence[Corpus] = (),
    ontology: Ontology | None = None,
) -> dict[str, Corpus]:
    """Write each corpus to `out/<name>`; the first is the training corpus. The carried corpora.
    Label vectors are trained on `label_lists` (with ancestors, say), else on the labels as given;
    those of the label graph for each part of the training corpus that is to be `learned` from.
    A folder that holds just this already is left as it is; one that holds anything else is refused.
    """
    train = next(iter(corpora.values()))
    if train.kind == "text":
        check_fields(train, config)
    learned = learned or [train]
    plan = _plan(corpora, config, label_lists, learned, ontology)
    if _is_done(corpora, out, plan):
        logger.info(
            "%s: is there already, prepared from the same corpora with the same settings", out
        )
        return {name: Corpus.open(out / name) for name in corpora}
    with _claimed(out, plan):
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
            if config.set_vectors:
                place = out / next(iter(corpora))
                lists = list(train.labels()) if label_lists is None else label_lists
                write_vectors(place / KEYWORDS, _set_vectors(_keywords(train, config), config))
                write_vectors(place / LABELS, _set_vectors(lists, config))
        if config.graph_vectors:
            for part in learned:
                labels = LabelSpace.of(part, ontology)
                _keep(_same_part(part, carried), *graph_vectors(part, labels, config))
    return carried


def _same_part(part: Corpus, carried: Mapping[str, Corpus]) -> Corpus:
    """The documents of a part of the training corpus, as they are carried."""
    whole = next(iter(carried.values()))
    return whole if part.rows is None else whole.select(part.rows)


def _plan(
    corpora: Mapping[str, Corpus],
    config: PrepareConfig,
    label_lists: Sequence[Sequence[str]] | None,
    learned: Sequence[Corpus],
    ontology: Ontology | None,
) -> Plan:
    """What the folder will be made from; only what these settings make use of."""
    plan: Plan = {
        "settings": asdict(config),
        "corpora": [[name, corpus.key] for name, corpus in corpora.items()],  # the first trains
    }
    if Path(config.vectors).is_file():
        plan["contents of the vector file"] = digest(Path(config.vectors))
    if config.set_vectors:
        plan["label lists"] = _digest(label_lists)
    if config.graph_vectors:
        plan["parts to learn from"] = [part.key for part in learned]
        plan["ontology"] = _digest(
            ontology and [(label, ontology.parents_of(label)) for label in ontology.ids]
        )
    as_read_back: Plan = json.loads(json.dumps(plan))  # tuples are lists there
    return as_read_back


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _is_done(corpora: Mapping[str, Corpus], out: Path, plan: Plan) -> bool:
    """Whether the folder holds just this; refused where it holds something else."""
    for name, corpus in corpora.items():
        if corpus.folder is not None and corpus.folder.resolve() == (out / name).resolve():
            raise DataError("a corpus cannot be prepared over itself", path=out / name)
    note = out / NOTE
    if not note.exists():
        there = next((out / name for name in corpora if (out / name).exists()), None)
        if there is not None:
            raise DataError(
                "is there already, and nothing says how it was prepared",
                path=there,
                hint="choose another --out",
            )
        return False
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        other = _difference(found["plan"], plan)
        is_finished = bool(found["finished"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(
            f"is not a note of `ontodex prepare` ({error})", path=note, hint="choose another --out"
        ) from error
    if other:
        raise DataError(other, path=out, hint="choose another --out, or remove that folder first")
    return is_finished and all((out / name / "corpus.json").exists() for name in corpora)


def _difference(old: Plan, new: Plan) -> str:
    """In words, where two plans differ; "" where they do not."""
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
def _claimed(out: Path, plan: Plan) -> Iterator[None]:
    """Say in the folder what it is being made from, so that after a kill the same command finishes
    it and no other mixes with it. Where settings or documents are refused it is given back."""
    _note(out, plan, finished=False)
    try:
        yield
    except OntodexError:
        for name, _ in plan["corpora"]:
            shutil.rmtree(out / name, ignore_errors=True)
        (out / NOTE).unlink()
        if not any(out.iterdir()):
            out.rmdir()
        raise
    _note(out, plan, finished=True)


def _note(out: Path, plan: Plan, *, finished: bool) -> None:
    write_text(out / NOTE, json.dumps({"finished": finished, "plan": plan}, indent=1) + "\n")


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
    config: PrepareConfig,
) -> None:
    phrases = Phrases.fit(train, config)
    _keep(next(iter(carried.values())), frequency_recipe(), frequency_parts(train))
    known = frozenset(_train_phrases(train, config).words)
    for name, corpus in corpora.items():
        found = phrases.of(corpus)
        if config.phrase_count > 1:
            found = found.only(known, config.phrase_count)
        _keep(carried[name], phrases.recipe(), to_parts(found))


def _vectors(tokens: Tokens, known: frozenset[str], config: PrepareConfig) -> Vectors:
    if config.vectors == "train":
        return train_vectors(tokens, size=config.vector_size, seed=config.seed)
    return read_vectors(Path(config.vectors), known)


def _keywords(train: Corpus, config: PrepareConfig) -> Tokens | Sequence[Sequence[str]]:
    """The author's keywords of each document where most have some, else its phrases."""
    if config.phrases and not has_keywords(train):
        return _train_phrases(train, config)
    return [[word.lower() for word in words] for words in train.keywords()]


def _train_phrases(train: Corpus, config: PrepareConfig) -> Tokens:
    """The phrases of the training documents, the rare ones as ""."""
    found = Phrases.fit(train, config).of(train)
    common = np.flatnonzero(found.counts() >= config.phrase_count)
    return found.only({found.words[i] for i in common}, config.phrase_count)


def _set_vectors(lists: Tokens | Sequence[Sequence[str]], config: PrepareConfig) -> Vectors:
    """Vectors of what stands together in a list, wherever in it."""
    return train_vectors(
        lists, size=config.vector_size, seed=config.seed, window=SET_WINDOW, subsample=0
    )


def _keep(carried: Corpus, recipe: cache.Recipe, parts: cache.Parts) -> None:
    folder = cache.place(carried, recipe)
    assert folder is not None  # a carried corpus lies on disk
    cache.write(folder, recipe, parts)

"""Find names and synonyms of the ontology in the text and rank them with a logistic regression.

    text ─ tokens ─ occurrences of names ─ evidence for each (document, concept) ─ 14 features
         ─ their products ─ logistic regression ─ P(label)

A concept needs no training document to be suggested. The features describe the use of the name in
the document and its statistics in training, which have a default for unseen concepts. In fitting,
each training document is left out of its own statistics. See docs/papers/lexical.md.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logit

from ontodex.config import RESOLVED, build, check_range
from ontodex.errors import ConfigError, RunError, UntrainedError
from ontodex.features.languages import (
    LANGUAGES,
    OWN,
    UNDETERMINED,
    get_dictionary_version,
    list_names,
    to_code,
)
from ontodex.features.token_config import CasedTokenConfig, TokenConfig, read_in_language
from ontodex.features.tokens import LemmaTable, find_doc_spans, tokenise_corpus
from ontodex.io.files import read_lines, write_text
from ontodex.io.json_schema import read_table
from ontodex.io.tensors import TensorSpec, load_tensors, save_tensors
from ontodex.models.baselines.name_trie import ConceptNames, Ints, Spelling, Stem
from ontodex.models.consensus.product_regression import ProductRegression
from ontodex.ontology.graph import compute_depths
from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking
from ontodex.types.answers import Span

logger = logging.getLogger(__name__)

Floats = NDArray[np.float64]

_LEMMAS = "lemmas.tsv"
_N_FEATURES = 14
_SPECS = {
    "matched": TensorSpec(("labels",), "int", minimum=0, maximum=2**53),
    "right": TensorSpec(("labels",), "int", minimum=0, maximum=2**53),
    **ProductRegression.list_specs(_N_FEATURES),
}


@dataclass(frozen=True)
class LexicalConfig:
    """Settings of `lexical`: its fields, its matching of words, and its ranking model."""

    fields: tuple[str, ...] = ()  # text fields to read; none = all of them
    stem: Stem = "plural"  # English plural endings are ignored
    stop_words: str = OWN  # stop words skipped in names and texts: a language, or own; "" = none
    lemmas: str = OWN  # match dictionary forms (simplemma): a language, or own; "" = words match
    languages: tuple[str, ...] = field(default=(), metadata=RESOLVED)  # of documents and names
    smooth: float = 5.0  # matches of an average concept added to the statistics of each concept
    fit_docs: int = 5_000  # training documents that fit the ranking model
    l2: float = 1.0  # L2 penalty of the ranking model

    def __post_init__(self) -> None:
        TokenConfig(stop_words=self.stop_words, languages=self.languages)
        if self.smooth <= 0 or self.l2 <= 0 or self.fit_docs < 1:
            raise ValueError("smooth, l2 and fit_docs must be above 0")
        check_range(self, 1e-6, 1e6, "smooth")

    @property
    def tokens(self) -> TokenConfig:
        """Return the tokenisation; case is kept to distinguish WHO from who."""
        return CasedTokenConfig(fields=self.fields, lemmas=self.lemmas, languages=self.languages)

    @property
    def spelling(self) -> Spelling:
        own = self.languages if self.stop_words == OWN else tuple(filter(None, [self.stop_words]))
        return Spelling(self.stem, own)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The occurrences of names for each candidate (document, column), in this order."""

    rows: Ints
    columns: Ints
    count: Ints  # occurrences
    free: Ints  # occurrences that are not inside a longer name
    in_title: Ints  # occurrences in the document's first field, its title
    first: Ints  # first token of the first occurrence
    preferred: Floats  # share of occurrences of the preferred name
    longest: Ints  # tokens of the longest occurrence
    ambiguity: Ints  # concepts that share the least ambiguous name found
    doc_tokens: Ints
    doc_candidates: Ints

    def take(self, chosen: NDArray[Any]) -> Evidence:
        fields = dataclasses.fields(self)
        return Evidence(*(getattr(self, field.name)[chosen] for field in fields))


def gather_evidence(corpus: Corpus, names: ConceptNames, config: LexicalConfig) -> Evidence:
    """Collect the evidence for every concept named in every document."""
    tokens = tokenise_corpus(corpus, config.tokens)
    found = names.trie.find(tokens, config.spelling)
    n_concepts = np.diff(names.indptr)[found.names]
    each = np.repeat(np.arange(len(found.names)), n_concepts)  # one row for each concept of a name
    inner = np.arange(len(each)) - np.repeat(np.cumsum(n_concepts) - n_concepts, n_concepts)
    owner = names.indptr[found.names[each]] + inner
    n_columns = int(names.columns.max(initial=0)) + 1
    key = found.rows[each] * n_columns + names.columns[owner]
    order = np.argsort(key, kind="stable")  # occurrences of a candidate stay in text order
    key, each, owner = key[order], each[order], owner[order]
    groups = np.flatnonzero(np.diff(key, prepend=-1))
    count = np.diff(np.append(groups, len(key)))
    rows, columns = np.divmod(key[groups], n_columns)
    in_title = found.starts[each] < _count_title_words(corpus, config)[found.rows[each]]
    preferred = _reduce_groups(np.add, names.preferred[owner], groups) / np.maximum(count, 1)
    return Evidence(
        rows=rows,
        columns=columns,
        count=count,
        free=count - _reduce_groups(np.add, found.inside[each], groups),
        in_title=_reduce_groups(np.add, in_title, groups),
        first=found.starts[each][groups],
        preferred=preferred,
        longest=_reduce_groups(np.maximum, (found.stops - found.starts)[each], groups),
        ambiguity=_reduce_groups(np.minimum, n_concepts[each], groups),
        doc_tokens=tokens.lengths[rows],
        doc_candidates=np.bincount(rows, minlength=len(tokens))[rows],
    )


def _reduce_groups(combine: np.ufunc, values: NDArray[Any], groups: Ints) -> Ints:
    """Return the sum, largest or smallest value of each group; `groups` holds their starts."""
    if not len(groups):  # reduceat takes no empty array
        return groups
    return np.asarray(combine.reduceat(values.astype(np.int64), groups))


def _count_title_words(corpus: Corpus, config: LexicalConfig) -> Ints:
    """Estimate the tokens of the first field of each document; 0 where it is the only field."""
    lengths = []
    for doc in corpus:
        read = [doc.fields[name] for name in config.fields or doc.fields if name in doc.fields]
        lengths.append(len(read[0].split()) if len(read) > 1 else 0)
    return np.array(lengths, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class NameStatistics:
    """Counts of the names of each column in the training documents."""

    matched: Ints  # training documents with one of its names
    right: Ints  # of those, the documents that have the label
    frequency: Ints  # training documents that have the label
    n_docs: int

    def compute_features(
        self, found: Evidence, depth: Ints, smooth: float, own: Ints | None = None
    ) -> Floats:
        """Return the features (candidates, 14).

        For training documents, `own` is 1 where the candidate is a label of its document, else 0.
        Each document is then left out of its own counts.
        """
        columns = found.columns
        itself = np.zeros(len(columns), np.int64) if own is None else np.ones_like(own)
        hit = np.zeros(len(columns), np.int64) if own is None else own
        matched = self.matched[columns] - itself
        average = (self.right.sum() + 1) / (self.matched.sum() + 2)
        rate = (self.right[columns] - hit + smooth * average) / (matched + smooth)
        idf = np.log((self.n_docs + 1) / (self.matched[columns] + 1))
        features = [
            np.log1p(found.free),
            np.log(found.count / found.doc_tokens),
            found.in_title > 0,
            np.log1p(found.first),
            found.preferred,
            np.log(found.longest),
            np.log(found.ambiguity),
            depth[columns],
            idf,
            logit(rate),
            np.log1p(matched),
            np.log(self.frequency[columns] - hit + 0.5),
            np.log(found.doc_tokens),
            np.log(found.doc_candidates),
        ]
        return np.stack(features, axis=1, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _State:
    """The fitted parts of the system."""

    labels: LabelSpace
    names: ConceptNames
    depth: Ints  # of each column's concept
    statistics: NameStatistics
    scorer: ProductRegression


class LexicalSystem:
    """Suggest the concepts whose names are in the text."""

    Config: ClassVar[type[LexicalConfig]] = LexicalConfig

    def __init__(self, config: LexicalConfig, *, device: str = "cpu") -> None:
        self.config = config
        self._loaded: _State | None = None
        self._lemmas: LemmaTable = {}  # of the words of names

    @property
    def _state(self) -> _State:
        if self._loaded is None:
            raise UntrainedError("lexical")
        return self._loaded

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        self.config = config = _set_languages(self.config, labels.ontology)
        names, depth = _collect_names(labels, config, self._lemmas)
        found = gather_evidence(train, names, config)
        right = _mark_correct(found, labels.gold(train))
        statistics = NameStatistics(
            np.bincount(found.columns, minlength=len(labels)),
            np.bincount(found.columns[right], minlength=len(labels)),
            labels.frequency,
            labels.n_docs,
        )
        chosen = np.linspace(0, max(len(train) - 1, 0), min(config.fit_docs, len(train)))
        is_chosen = np.isin(found.rows, chosen.astype(np.int64))
        found, right = found.take(is_chosen), right[is_chosen]
        features = statistics.compute_features(
            found, depth, config.smooth, own=right.astype(np.int64)
        )
        scorer = ProductRegression.fit(features, right, config.l2)
        self._loaded = _State(labels, names, depth, statistics, scorer)

    def refit(self, train: Corpus, labels: LabelSpace) -> None:
        self.fit(train, train.select(np.arange(0)), labels)  # dev decides nothing

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        state = self._state
        found = gather_evidence(corpus, state.names, self.config)
        features = state.statistics.compute_features(found, state.depth, self.config.smooth)
        indptr = np.searchsorted(found.rows, np.arange(len(corpus) + 1))
        scores = csr_array(
            (state.scorer.predict(features), found.columns, indptr),
            shape=(len(corpus), len(state.labels)),
        )
        return Ranking.of_sparse(scores, k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the occurrences of the concept's names, weighted by the label's probability."""
        state, corpus = self._state, Corpus.of([doc])
        ranking = self.rank(corpus, len(state.labels))
        probability = float(ranking.probabilities[ranking.columns == column].sum())
        places = find_doc_spans(doc, self.config.tokens)
        tokens = tokenise_corpus(corpus, self.config.tokens)
        found = state.names.trie.find(tokens, self.config.spelling)
        is_own = np.isin(found.names, state.names.find_names(column))
        spans: list[Span] = []
        for start, stop in zip(found.starts[is_own], found.stops[is_own], strict=True):
            span = Span(places[start][0], places[stop - 1][1], probability)
            if not spans or span.end > spans[-1].end:  # else it lies inside the last one
                spans.append(span)
        return spans

    def adapt(self, labels: LabelSpace, columns: Ints) -> LexicalSystem:
        """Return the system for another label space, with what it learned about each name.

        `columns` has the old column of each label, -1 for a label that it does not know.
        """
        old, model = self._state, LexicalSystem(self.config)
        model._lemmas = self._lemmas
        names, depth = _collect_names(labels, self.config, self._lemmas)
        statistics = NameStatistics(
            np.append(old.statistics.matched, 0)[columns],
            np.append(old.statistics.right, 0)[columns],
            labels.frequency,
            labels.n_docs,
        )
        model._loaded = _State(labels, names, depth, statistics, old.scorer)
        return model

    def fit_unseen(
        self, train: Corpus, labels: LabelSpace, is_known: NDArray[np.bool_]
    ) -> LabelSpace:
        """Fit for concepts of which only names are known; return the label space to save with it.

        The ranking model learns from the known labels as if they were new: how often their names
        occur is used, how often they are right or chosen is not.
        """
        self.config = _set_languages(self.config, labels.ontology)
        names, depth = _collect_names(labels, self.config, self._lemmas)
        found = gather_evidence(train, names, self.config)
        matched = np.bincount(found.columns, minlength=len(labels))
        found = found.take(is_known[found.columns])
        right = _mark_correct(found, labels.gold(train))
        average = (right.sum() + 1) / (len(right) + 2)
        blank = dataclasses.replace(labels, frequency=np.zeros_like(labels.frequency))
        statistics = NameStatistics(
            matched, (average * matched).astype(np.int64), blank.frequency, labels.n_docs
        )
        features = statistics.compute_features(found, depth, self.config.smooth)
        scorer = ProductRegression.fit(features, right, self.config.l2)
        self._loaded = _State(blank, names, depth, statistics, scorer)
        return blank

    def save(self, folder: Path) -> None:
        write_text(folder / "config.json", json.dumps(dataclasses.asdict(self.config)) + "\n")
        statistics, scorer = self._state.statistics, self._state.scorer
        counts = {"matched": statistics.matched, "right": statistics.right}
        save_tensors(folder, "lexical", counts | dataclasses.asdict(scorer))
        _save_lemmas(folder, self._lemmas)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        table = read_table(folder / "config.json")
        arrays = load_tensors(folder, "lexical", _SPECS, {"labels": len(labels)})
        matched, right = arrays.pop("matched"), arrays.pop("right")
        if np.any(right > matched):
            raise RunError(
                f"{folder / 'lexical.safetensors'}: a name is right more often than it was found",
                hint="copy the run folder again, or train again",
            )
        scorer = ProductRegression(**arrays)
        model = cls(build(LexicalConfig, table, "model"), device=device)
        statistics = NameStatistics(matched, right, labels.frequency, labels.n_docs)
        model._lemmas = _load_lemmas(folder)
        names, depth = _collect_names(labels, model.config, model._lemmas)
        model._loaded = _State(labels, names, depth, statistics, scorer)
        return model


def _save_lemmas(folder: Path, lemmas: LemmaTable) -> None:
    """Write the lemmas of the words of names: to find them, dictionaries of a million are read.

    The first line has the version of the dictionaries, because texts are read with those at hand.
    """
    rows = [(tag, word, lemma) for tag, own in lemmas.items() for word, lemma in own.items()]
    if rows:
        lines = [get_dictionary_version(), *map("\t".join, rows)]
        write_text(folder / _LEMMAS, "".join(f"{line}\n" for line in lines))


def _load_lemmas(folder: Path) -> LemmaTable:
    """Read what `_save_lemmas` wrote; nothing of an older run or of other dictionaries."""
    path, lemmas = folder / _LEMMAS, LemmaTable()
    lines = read_lines(path) if path.exists() else iter(())
    _, version = next(lines, (0, ""))
    if version != get_dictionary_version():
        return lemmas
    for number, line in lines:
        cells = line.split("\t")
        if len(cells) != 3:
            raise RunError(
                f"{path}:{number}: expected a language, a word and its lemma, not {line[:40]!r}",
                hint="copy the run folder again, or train again",
            )
        lemmas.setdefault(cells[0], {})[cells[1]] = cells[2]
    return lemmas


def _collect_names(
    labels: LabelSpace, config: LexicalConfig, lemmas: LemmaTable
) -> tuple[ConceptNames, Ints]:
    """Return the names and the depth in the ontology of each label."""
    ontology = labels.ontology
    if ontology is None:
        raise ConfigError(
            "lexical needs an ontology: it searches for the names of its concepts",
            hint="give one with --ontology, or choose another --model",
        )
    readings = _read_names(ontology, config)
    names = ConceptNames.of(ontology, labels.column, readings, config.spelling, lemmas)
    shallowest, _ = compute_depths(ontology)
    concepts = [ontology.index.get(label, len(ontology)) for label in labels.ids]
    return names, np.append(shallowest, 0)[concepts].astype(np.int64)


def _read_names(ontology: Ontology, config: LexicalConfig) -> dict[str, TokenConfig]:
    """Return the language tags of the names to match, and how the names of each are read.

    They are the names in the languages of the documents and those without a language. Where the
    ontology has none of these, the names in its own language are matched.
    """
    tags = {*ontology.names, *ontology.synonyms} - {UNDETERMINED}
    matched = sorted(tag for tag in tags if to_code(tag) in config.languages)
    if not matched:
        matched = [ontology.language]
    first = next(iter(config.languages), "")
    return {
        tag: read_in_language(config.tokens, to_code(tag) if tag != UNDETERMINED else first)
        for tag in dict.fromkeys([*matched, UNDETERMINED])
    }


def _set_languages(config: LexicalConfig, ontology: Ontology | None) -> LexicalConfig:
    """Return settings with languages, that of the ontology where the documents have none.

    Warn where the ontology has no names in the languages of the documents.
    """
    if ontology is None:
        return config
    if not config.languages:
        own = to_code(ontology.language)
        return dataclasses.replace(config, languages=(own,) if own in LANGUAGES else ())
    tags = {*ontology.names, *ontology.synonyms}
    if UNDETERMINED not in tags and tags and not {*map(to_code, tags)} & {*config.languages}:
        logger.warning(
            "the vocabulary has no names in %s: its names in %s are matched, which few texts have",
            list_names(config.languages), list_names([ontology.language]),
        )  # fmt: skip
    return config


def _mark_correct(found: Evidence, gold: csr_array) -> NDArray[np.bool_]:
    """Return True for the candidates that are labels of their document."""
    width = gold.shape[1]
    rows = np.repeat(np.arange(gold.shape[0]), np.diff(gold.indptr))
    return np.isin(found.rows * width + found.columns, rows * width + gold.indices)

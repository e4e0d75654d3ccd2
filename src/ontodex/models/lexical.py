"""Names and synonyms of the ontology found in the text, ranked by a small calibrated model.

    text ─ tokens ─ every place of a name ─ evidence for each (document, concept) ─ 14 features
         ─ their products ─ logistic regression ─ P(label)

It needs no training document of a concept to suggest it: the features say how a name was used, and
what training adds (how often the concept was right when its name was there) has a value for
concepts never seen. Each training document is left out of the counts it is judged by, so that the
model learns what an unseen concept's name is worth.  Ours; see docs/papers/lexical.md.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit, logit

from ontodex.config import build
from ontodex.errors import ConfigError, RunError
from ontodex.features.languages import STOP_WORDS
from ontodex.features.tokens import TokenConfig, doc_spans, tokenise_corpus
from ontodex.files import write_text
from ontodex.models.base import Span
from ontodex.models.name_trie import Ints, Names, Spelling, Stem
from ontodex.ontology.graph import depths
from ontodex.train import store
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

Floats = NDArray[np.float64]

_ROWS = 2**15  # candidates scored at a time


@dataclass(frozen=True)
class LexicalConfig:
    """What is read, how words match, and how the ranking model is fitted."""

    fields: tuple[str, ...] = ()  # text fields to read; none = all
    stem: Stem = "plural"  # English plural endings are ignored
    stop_words: str = "en"  # of this language are passed over in names and texts; "" = none
    lemmas: str = ""  # match dictionary forms in a language (simplemma) instead of words
    smooth: float = 5.0  # matches of an average concept added to each concept's record
    fit_docs: int = 5_000  # training documents that fit the ranking model; all of them are counted
    l2: float = 1.0  # what large weights of the ranking model cost

    def __post_init__(self) -> None:
        if self.stop_words and self.stop_words not in STOP_WORDS:
            raise ValueError(f"stop_words has lists for {', '.join(STOP_WORDS)}")
        if self.smooth <= 0 or self.l2 <= 0 or self.fit_docs < 1:
            raise ValueError("smooth, l2 and fit_docs must be above 0")

    @property
    def tokens(self) -> TokenConfig:
        """Words as they stand: case tells WHO from who."""
        return TokenConfig(fields=self.fields, lower=False, lemmas=self.lemmas)

    @property
    def spelling(self) -> Spelling:
        return Spelling(self.stem, self.stop_words)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the matches say for each candidate (document, column), by document, then column."""

    rows: Ints
    columns: Ints
    count: Ints  # occurrences
    free: Ints  # those not inside a longer name
    in_title: Ints  # those in the document's first field, its title
    first: Ints  # token where the first one starts
    preferred: Floats  # share that used the preferred name
    longest: Ints  # tokens of the longest one
    bearers: Ints  # concepts that share the least ambiguous name found
    doc_tokens: Ints
    doc_candidates: Ints

    def take(self, chosen: NDArray[Any]) -> Evidence:
        fields = dataclasses.fields(self)
        return Evidence(*(getattr(self, field.name)[chosen] for field in fields))


def gather(corpus: Corpus, names: Names, config: LexicalConfig) -> Evidence:
    """The evidence for every concept named in every document."""
    tokens = tokenise_corpus(corpus, config.tokens)
    found = names.trie.find(tokens, config.spelling)
    bearers = np.diff(names.indptr)[found.names]
    each = np.repeat(np.arange(len(found.names)), bearers)  # an occurrence speaks for each bearer
    inner = np.arange(len(each)) - np.repeat(np.cumsum(bearers) - bearers, bearers)
    owner = names.indptr[found.names[each]] + inner
    n_columns = int(names.columns.max(initial=0)) + 1
    key = found.rows[each] * n_columns + names.columns[owner]
    order = np.argsort(key, kind="stable")  # occurrences of a candidate stay in text order
    key, each, owner = key[order], each[order], owner[order]
    groups = np.flatnonzero(np.diff(key, prepend=-1))
    count = np.diff(np.append(groups, len(key)))
    rows, columns = np.divmod(key[groups], n_columns)
    in_title = found.starts[each] < _title_words(corpus, config)[found.rows[each]]
    preferred = _each(np.add, names.preferred[owner], groups) / np.maximum(count, 1)
    return Evidence(
        rows=rows,
        columns=columns,
        count=count,
        free=count - _each(np.add, found.inside[each], groups),
        in_title=_each(np.add, in_title, groups),
        first=found.starts[each][groups],
        preferred=preferred,
        longest=_each(np.maximum, (found.stops - found.starts)[each], groups),
        bearers=_each(np.minimum, bearers[each], groups),
        doc_tokens=tokens.lengths[rows],
        doc_candidates=np.bincount(rows, minlength=len(tokens))[rows],
    )


def _each(combine: np.ufunc, values: NDArray[Any], groups: Ints) -> Ints:
    """The sum, largest or smallest value of each group; `groups` are where they start."""
    if not len(groups):  # reduceat takes no empty array
        return groups
    return np.asarray(combine.reduceat(values.astype(np.int64), groups))


def _title_words(corpus: Corpus, config: LexicalConfig) -> Ints:
    """About how many tokens the first field of each document has; 0 where it is the only one."""
    lengths = []
    for doc in corpus:
        read = [doc.fields[name] for name in config.fields or doc.fields if name in doc.fields]
        lengths.append(len(read[0].split()) if len(read) > 1 else 0)
    return np.array(lengths, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Record:
    """How the names of each column fared in training."""

    matched: Ints  # training documents that hold one of its names
    right: Ints  # of those, the ones that have the label
    frequency: Ints  # training documents that have the label
    n_docs: int

    def features(
        self, found: Evidence, depth: Ints, smooth: float, own: Ints | None = None
    ) -> Floats:
        """(candidates x 14). `own` = whether a candidate of a *training* document is right: then
        that document is taken out of the counts."""
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
            np.log(found.bearers),
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
class Scorer:
    """Logistic regression on standardised features and their products.

    Features are held to the range they had in fitting: a concept rarer than any seen there is
    treated like the rarest, not extrapolated to.
    """

    low: Floats
    high: Floats
    mean: Floats
    scale: Floats
    weights: Floats  # of the features, of their products, and the bias

    @classmethod
    def fit(cls, features: Floats, right: NDArray[np.bool_], l2: float) -> Scorer:
        if not len(features):
            width = features.shape[1]
            n_weights = width + width * (width + 1) // 2 + 1
            zeros = np.zeros(width)
            return cls(zeros, zeros, zeros, np.ones(width), np.zeros(n_weights))
        mean, scale = features.mean(axis=0), features.std(axis=0) + 1e-6
        x = _products((features - mean) / scale)

        def loss(weights: Floats) -> tuple[float, Floats]:
            z = x @ weights[:-1] + weights[-1]
            error = expit(z) - right
            value = np.logaddexp(0, z).sum() - z[right].sum() + l2 / 2 * weights @ weights
            gradient = np.append(x.T @ error, error.sum()) + l2 * weights
            return float(value), gradient

        start = np.zeros(x.shape[1] + 1)
        done = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 150})
        return cls(features.min(axis=0), features.max(axis=0), mean, scale, done.x)

    def probabilities(self, features: Floats) -> Floats:
        parts = [np.empty(0)]
        for at in range(0, len(features), _ROWS):
            x = np.clip(features[at : at + _ROWS], self.low, self.high)
            x = _products((x - self.mean) / self.scale)
            # Row sums, not a matrix product: its rounding would depend on how many rows there are.
            parts.append((x * self.weights[:-1]).sum(axis=1))
        return np.asarray(expit(np.concatenate(parts) + self.weights[-1]))


def _products(x: Floats) -> Floats:
    first, second = np.triu_indices(x.shape[1])
    return np.hstack([x, x[:, first] * x[:, second]])


@dataclass(frozen=True, eq=False)
class _Fitted:
    labels: LabelSpace
    names: Names
    depth: Ints  # of each column's concept
    record: Record
    scorer: Scorer


class Lexical:
    """Concepts whose names are in the text; it `Explains` by showing where they are."""

    Config = LexicalConfig

    def __init__(self, config: LexicalConfig, *, device: str = "cpu") -> None:
        self.config = config
        self._state: _Fitted | None = None

    @property
    def _fitted(self) -> _Fitted:
        if self._state is None:
            raise RunError("lexical was asked before it was fitted")
        return self._state

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        config = self.config
        names, depth = _known(labels, config)
        found = gather(train, names, config)
        right = _right(found, labels.gold(train))
        record = Record(
            np.bincount(found.columns, minlength=len(labels)),
            np.bincount(found.columns[right], minlength=len(labels)),
            labels.frequency,
            labels.n_docs,
        )
        chosen = np.linspace(0, max(len(train) - 1, 0), min(config.fit_docs, len(train)))
        judged = np.isin(found.rows, chosen.astype(np.int64))
        found, right = found.take(judged), right[judged]
        features = record.features(found, depth, config.smooth, own=right.astype(np.int64))
        scorer = Scorer.fit(features, right, config.l2)
        self._state = _Fitted(labels, names, depth, record, scorer)

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        fitted = self._fitted
        found = gather(corpus, fitted.names, self.config)
        features = fitted.record.features(found, fitted.depth, self.config.smooth)
        indptr = np.searchsorted(found.rows, np.arange(len(corpus) + 1))
        scores = csr_array(
            (fitted.scorer.probabilities(features), found.columns, indptr),
            shape=(len(corpus), len(fitted.labels)),
        )
        return Ranking.of_sparse(scores, k)

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """The places where a name of the concept stands, each as heavy as the label is probable."""
        fitted, corpus = self._fitted, Corpus.of([doc])
        ranking = self.rank(corpus, len(fitted.labels))
        probability = float(ranking.probabilities[ranking.columns == column].sum())
        places = doc_spans(doc, self.config.tokens)
        tokens = tokenise_corpus(corpus, self.config.tokens)
        found = fitted.names.trie.find(tokens, self.config.spelling)
        its_own = np.isin(found.names, fitted.names.of_column(column))
        spans: list[Span] = []
        for start, stop in zip(found.starts[its_own], found.stops[its_own], strict=True):
            span = Span(places[start][0], places[stop - 1][1], probability)
            if not spans or span.end > spans[-1].end:  # else it lies inside the last one
                spans.append(span)
        return spans

    def save(self, folder: Path) -> None:
        write_text(folder / "config.json", json.dumps(dataclasses.asdict(self.config)) + "\n")
        record, scorer = self._fitted.record, self._fitted.scorer
        counts = {"matched": record.matched, "right": record.right}
        store.save_tensors(folder, "lexical", counts | dataclasses.asdict(scorer))

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        try:
            table = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            arrays = store.load_tensors(folder, "lexical")
            matched, right = arrays.pop("matched"), arrays.pop("right")
            scorer = Scorer(**arrays)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{folder}: not a lexical model ({error})") from error
        if not matched.shape == right.shape == (len(labels),):
            raise RunError(
                f"{folder}: counts of {len(matched):,} labels, but the run has {len(labels):,}"
            )
        model = cls(build(LexicalConfig, table, "model"), device=device)
        record = Record(matched, right, labels.frequency, labels.n_docs)
        names, depth = _known(labels, model.config)
        model._state = _Fitted(labels, names, depth, record, scorer)
        return model


def _known(labels: LabelSpace, config: LexicalConfig) -> tuple[Names, Ints]:
    """The names and depths of the label space, from its ontology."""
    ontology = labels.ontology
    if ontology is None:
        raise ConfigError(
            "lexical looks for the names of an ontology's concepts, and there is no ontology",
            hint="give one with --ontology, or choose another --model",
        )
    names = Names.of(ontology, labels.column, config.tokens, config.spelling)
    shallowest, _ = depths(ontology)
    concepts = [ontology.index.get(label, len(ontology)) for label in labels.ids]
    return names, np.append(shallowest, 0)[concepts].astype(np.int64)


def _right(found: Evidence, gold: csr_array) -> NDArray[np.bool_]:
    """Which candidates are true labels of their document."""
    width = gold.shape[1]
    rows = np.repeat(np.arange(gold.shape[0]), np.diff(gold.indptr))
    return np.isin(found.rows * width + found.columns, rows * width + gold.indices)

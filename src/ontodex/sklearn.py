"""scikit-learn: any system as a classifier for pipelines and parameter searches.

    texts or features, y ─ Corpus ─ a tenth set aside ─ fit ─ decide on the tenth
    texts or features ─ Corpus ─ rank ─ decide ─ labels in the form of y

The steps are those of runs/recipe.py, without a run folder. This module imports scikit-learn, so no
other module of the package imports it.
"""

# ruff: noqa: N803  (scikit-learn calls the documents X)
from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, issparse, sparray

from ontodex.corpora.characters import check_text
from ontodex.corpora.split import set_aside
from ontodex.decide.decision import tune_decision
from ontodex.errors import DataError, require
from ontodex.io.device import choose_device
from ontodex.models.interface import Refits
from ontodex.runs.languages import find_corpus_languages
from ontodex.runs.recipe import translate_columns
from ontodex.runs.run import RANKS
from ontodex.runs.settings import resolve
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

base = require("sklearn.base", extra="learn", purpose="OntodexClassifier")
Estimator: Any = base.BaseEstimator
Classifier: Any = base.ClassifierMixin
multiclass = require("sklearn.utils.multiclass", extra="learn", purpose="OntodexClassifier")
validation = require("sklearn.utils.validation", extra="learn", purpose="OntodexClassifier")

Documents = list[str] | csr_array | NDArray[np.float32]


class OntodexClassifier(Classifier, Estimator):  # type: ignore[misc]
    """A system of ontodex for scikit-learn.

    X is a sequence of texts, or a dense or sparse feature matrix. y is a dense or sparse indicator
    (documents x labels), or one class per document; predictions have the form of y. A tenth of the
    documents is set aside for calibration and decision; labels that only they have are never
    predicted.

    model       name of the system
    settings    its settings, as in the table [model] of a config file
    decide      how probabilities become label sets, as in the table [decide]
    device      cpu, cuda or auto

    Fitted: `classes_` (the classes, or the numbers of y's columns), `model_`, `labels_` (the label
    ids are the numbers of `classes_`), `decision_`, `kind_` (text, sparse or dense) and, for
    features, `n_features_in_`.

    >>> texts = ["a trout in the stream", "an old oak"] * 10
    >>> classifier = ontodex.OntodexClassifier("linear").fit(texts, ["fish", "oak"] * 10)
    >>> classifier.predict(["the trout", "the oak"]).tolist()
    ['fish', 'oak']
    """

    def __init__(
        self,
        model: str = "linear",
        *,
        settings: Mapping[str, Any] | None = None,
        decide: Mapping[str, Any] | None = None,
        device: str = "cpu",
    ) -> None:
        self.model = model
        self.settings = settings
        self.decide = decide
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Train on documents and their labels."""
        table = {**(self.settings or {}), "name": self.model}
        chosen = resolve({"model": table, "decide": self.decide or {}})
        gold = self._learn_classes(y)
        documents = self._learn_kind(X)
        validation.check_consistent_length(documents, gold)
        corpus = as_corpus(documents, gold)
        chosen = chosen.read_languages(find_corpus_languages(chosen.train.languages, corpus))
        train, dev = set_aside(corpus)
        labels = LabelSpace.of(train)
        if labels.n_seen == 0:
            raise DataError(
                "no document to learn from has a label",
                hint="a tenth of the documents is set aside: give more documents that have labels",
            )
        model = chosen.model_class(chosen.model, device=choose_device(self.device))
        model.fit(train, dev, labels)
        ranking = model.rank(dev, RANKS)
        if isinstance(model, Refits):
            first, labels = labels, LabelSpace.of(corpus)
            model.refit(corpus, labels)
            ranking = translate_columns(ranking, first, labels)
        self.decision_ = tune_decision(chosen.decide, ranking, labels.gold(dev), labels)
        self.model_, self.labels_ = model, labels
        return self

    def predict(self, X: Any) -> Any:
        """Return label sets in the form of y: an indicator, or the best class of each document."""
        validation.check_is_fitted(self, "model_")
        if self._indicator_ is None:
            return self.classes_[self.predict_proba(X).argmax(axis=1)]
        return to_indicator(
            self._to_classes(self.decision_.apply(self._rank(X, RANKS))), self._indicator_
        )

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities (documents x classes). Those of a 1-D y sum to 1; each label of an
        indicator has its own probability."""
        validation.check_is_fitted(self, "model_")
        found = self._to_classes(self._rank(X, len(self.labels_)))
        probabilities: NDArray[np.float64] = found.toarray().astype(np.float64)
        return probabilities if self._indicator_ is not None else normalise_rows(probabilities)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.classifier_tags.multi_label = True
        return tags

    def _learn_classes(self, y: Any) -> csr_array:
        """Return y as an indicator (documents x classes); its form is kept for predictions."""
        if has_label_lists(y):
            raise DataError(
                "y holds lists of labels, not an indicator matrix",
                hint="y = MultiLabelBinarizer(sparse_output=True).fit_transform(lists)",
            )
        y = validation.validate_data(self, y=y, multi_output=True)
        if issparse(y) or multiclass.is_multilabel(y):
            gold = csr_array(y).astype(np.float64)
            gold.eliminate_zeros()
            if not bool(np.all(gold.data == 1)):
                raise DataError("y, an indicator matrix, may hold only 0 and 1")
            self.classes_ = np.arange(gold.shape[1])
            self._indicator_ = y[:0]
            return gold
        multiclass.check_classification_targets(y)
        y = validation.column_or_1d(y, warn=True)
        self.classes_, columns = np.unique(y, return_inverse=True)
        self._indicator_ = None
        rows = np.arange(len(y) + 1)
        return csr_array((np.ones(len(y)), columns, rows), shape=(len(y), len(self.classes_)))

    def _learn_kind(self, X: Any) -> Documents:
        """Return the checked documents: at least two, one to train on and one to decide on."""
        texts = as_texts(X)
        if texts is None:
            found = validation.validate_data(
                self, X, accept_sparse="csr", dtype=np.float32, ensure_min_samples=2
            )
            self.kind_ = "sparse" if issparse(found) else "dense"
            return as_features(found, self.kind_)
        if len(texts) < 2:
            raise DataError(f"at least two documents are needed to train, not {len(texts)}")
        for name in ("n_features_in_", "feature_names_in_"):  # of an earlier fit on features
            self.__dict__.pop(name, None)
        self.kind_ = "text"
        return texts

    def _rank(self, X: Any, k: int) -> Ranking:
        documents: Documents | None = as_texts(X)
        seen = "features" if documents is None else "texts"
        fitted = "texts" if self.kind_ == "text" else "features"
        if seen != fitted:
            raise DataError(f"the classifier was fitted on {fitted}, but X holds {seen}")
        if documents is None:
            found = validation.validate_data(
                self, X, reset=False, accept_sparse="csr", dtype=np.float32
            )
            documents = as_features(found, self.kind_)
        return self.model_.rank(as_corpus(documents), k)

    def _to_classes(self, ranking: Ranking) -> csr_array:
        """Return (documents x classes): columns of the label space translated to `classes_`."""
        found = ranking.scores(len(self.labels_))
        places = np.array(self.labels_.ids, dtype=np.int64)[found.indices]
        shape = (len(ranking), len(self.classes_))
        scores = csr_array((found.data, places, found.indptr), shape=shape)
        scores.sort_indices()
        return scores


def as_texts(X: Any) -> list[str] | None:
    """Return the texts if X is a sequence of texts, otherwise None."""
    if isinstance(X, str):
        raise DataError("X is one text, not a sequence of texts", hint="put it into a list: [text]")
    if issparse(X) or getattr(X, "ndim", 1) != 1:
        return None
    values = np.asarray(X, dtype=object)
    if values.ndim != 1:
        return None
    texts: list[str] = [value for value in values if isinstance(value, str)]
    if len(values) and not texts:
        return None
    for row, value in enumerate(values):
        if not isinstance(value, str):
            hint = "fill missing texts with '' first"
            raise DataError(f"X[{row}] is {value!r}, not a text", hint=hint)
        check_text(value, f"X[{row}]")
    return texts


def has_label_lists(y: Any) -> bool:
    """Return whether y lists the labels of each document, a form scikit-learn does not have."""
    if not isinstance(y, Iterable) or issparse(y) or str(getattr(y, "dtype", "object")) != "object":
        return False
    rows = [row for row in y if isinstance(row, list | tuple | set | frozenset)]
    names = any(isinstance(label, str) for row in rows for label in row)
    return names or len({len(row) for row in rows}) > 1


def as_features(matrix: Any, kind: str) -> csr_array | NDArray[np.float32]:
    """Return a checked matrix in the container of `kind`, without changing X itself."""
    if kind == "dense":
        return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()
    rows: csr_array = csr_array(matrix)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def as_corpus(documents: Documents, gold: csr_array | None = None) -> Corpus:
    """Return the documents with their rows as ids and the columns of gold as labels."""
    n = len(documents) if isinstance(documents, list) else documents.shape[0]
    labels: list[tuple[str, ...]] = [()] * n
    if gold is not None:
        labels = [tuple(map(str, gold.indices[a:b].tolist())) for a, b in pairwise(gold.indptr)]
    if not isinstance(documents, list):
        return Corpus.of_features(documents, labels)
    return Corpus.of(
        Doc(str(row), {"text": text}, labels=own)
        for row, (text, own) in enumerate(zip(documents, labels, strict=True))
    )


def to_indicator(found: csr_array, y: Any) -> Any:
    """Return labels as an indicator with the container and the number type of y."""
    indicator = csr_array(
        (np.ones(found.nnz, y.dtype), found.indices, found.indptr), shape=found.shape
    )
    if not issparse(y):
        return indicator.toarray()
    return indicator if isinstance(y, sparray) else csr_matrix(indicator)


def normalise_rows(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale rows to a sum of 1; a row of zeros gives every class the same probability."""
    total = probabilities.sum(axis=1, keepdims=True)
    same = np.full_like(probabilities, 1 / probabilities.shape[1])
    return np.divide(probabilities, total, out=same, where=total > 0)


__all__ = ["OntodexClassifier"]

"""A corpus as a feature matrix, for linear systems, neighbours and label trees.

text      tokens, TF-IDF                          csr_array, columns are terms
sparse    its own features, rows of length 1      csr_array, columns are the corpus's own
dense     its own features                        ndarray
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.config import Table, build, check_least
from ontodex.errors import DataError, OntodexError, RunError
from ontodex.features.cache import pick_settings, read_words, write_words
from ontodex.features.languages import OWN
from ontodex.features.tfidf import Tfidf, TfidfConfig, normalise_rows
from ontodex.features.token_config import TokenConfig, check_lemmas
from ontodex.features.tokens import Tokens, check_fields, find_doc_spans, tokenise_corpus
from ontodex.io.files import write_tensors, write_text
from ontodex.io.json_schema import load_json
from ontodex.io.tensors import MAX_WEIGHT, TensorSpec, load_tensor_file
from ontodex.types import Corpus, Doc, Kind

logger = logging.getLogger(__name__)

Matrix = csr_array | NDArray[np.float32]
_FORMAT = 1


@dataclass(frozen=True)
class MatrixConfig(TfidfConfig, TokenConfig):
    """Settings of tokens and TF-IDF in one flat table; a linear system's settings inherit them."""

    normalise_sparse: bool = True  # scale the rows of a sparse corpus to length 1

    def __post_init__(self) -> None:
        TokenConfig.__post_init__(self)
        TfidfConfig.__post_init__(self)


@dataclass(frozen=True)
class LemmaConfig(MatrixConfig):
    """Settings of TF-IDF of lemmas without stop words, each document in its own language."""

    # drop those of a language, or own: of each document's; "" = none. enm, grc, gv, ko and se have
    # no list
    stop_words: str = OWN
    lemmas: str = OWN  # replace words by their lemmas (simplemma): a language, or own; "" = words


class FeatureSpan(NamedTuple):
    """A span of `Doc.text`, its column, and its share of the document's value in that column.

    The shares of all spans of a column add up to the value.
    """

    start: int
    end: int
    column: int
    value: float


@dataclass(frozen=True)
class _MatrixJson:
    """The fields of matrix.json."""

    format: int
    kind: Kind
    n_features: int
    config: Table

    def __post_init__(self) -> None:
        check_least(self, 0, "n_features")


class MatrixFeatures:
    """Features that are fitted on the training corpus and transform any other of the same kind."""

    def __init__(self, config: MatrixConfig) -> None:
        self.config = MatrixConfig(**pick_settings(MatrixConfig, config))
        self.kind: Kind | None = None
        self._tfidf: Tfidf | None = None
        self._n_features = 0

    def fit(self, corpus: Corpus) -> Matrix:
        """Learn the features of the training corpus; return its matrix, (documents x features)."""
        self.kind = corpus.kind
        if corpus.kind == "text":
            check_fields(corpus, self.config)
            tokens = tokenise_corpus(corpus, self.config)
            self._tfidf = Tfidf.fit(tokens, self.config)
            return self._tfidf.transform(tokens)
        self._n_features = corpus.n_features
        return self.transform(corpus)

    def transform(self, corpus: Corpus) -> Matrix:
        """Return the matrix of other documents; features unknown in training are left out."""
        self._check(corpus.kind)
        if self._tfidf is not None:
            return self._tfidf.transform(tokenise_corpus(corpus, self.config))
        matrix = corpus.features()
        if isinstance(matrix, csr_array):
            matrix = self._fit_width(matrix)
            return normalise_rows(matrix) if self.config.normalise_sparse else matrix
        if len(matrix) and matrix.shape[1] != self._n_features:
            raise DataError(
                f"documents have {matrix.shape[1]:,} dense features, but the model was fitted on "
                f"{self._n_features:,}",
                path=corpus.folder,
            )
        return matrix.reshape(-1, self._n_features)

    @property
    def n_features(self) -> int:
        """The number of columns of the matrix."""
        return self._n_features if self._tfidf is None else len(self._tfidf.terms)

    def require_tfidf(self) -> Tfidf:
        """Return the fitted TF-IDF; refuse features that do not come from text."""
        if self._tfidf is None:
            raise RunError("only a run that was trained on text can be exported")
        return self._tfidf

    def name_columns(self, columns: Iterable[int]) -> list[str]:
        """Return the names of features, for people."""
        if self._tfidf is not None:
            return [self._tfidf.terms[column] for column in columns]
        return [f"feature {column}" for column in columns]

    def find_spans(self, doc: Doc) -> list[FeatureSpan]:
        """Return the spans of the text with their columns, in text order; none without text."""
        self._check(doc.kind)
        if self._tfidf is None:
            return []
        found = find_doc_spans(doc, self.config)
        words = [token for _, _, token in found]
        row = self._tfidf.transform(Tokens.of([words]))
        value = dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))
        pair = 1 if self.config.ngrams == 2 else -1  # its slot: a pair ends with its second word
        pieces = [
            # After a repeated title the second word comes earlier in the text.
            (found[i][0], max(found[i][1], found[i + (slot == pair)][1]), column)
            for i, columns in enumerate(self._tfidf.find_columns(words).tolist())
            for slot, column in enumerate(columns)
            if column >= 0
        ]
        times = Counter(column for _, _, column in pieces)
        return [
            FeatureSpan(start, end, column, value[column] / times[column])
            for start, end, column in pieces
        ]

    def save(self, folder: Path) -> None:
        """Write matrix.json and, for text, terms.txt and idf.safetensors into the folder."""
        if self.kind is None:
            raise RunError("the features cannot be saved before they are fitted")
        about = {
            "format": _FORMAT,
            "kind": self.kind,
            "n_features": self.n_features,
            "config": asdict(self.config),
        }
        if self._tfidf is not None:
            write_words(folder / "terms.txt", self._tfidf.terms)
            write_tensors(folder / "idf.safetensors", {"idf": self._tfidf.idf})
        write_text(folder / "matrix.json", json.dumps(about, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read back what `save` wrote."""
        about = load_json(folder / "matrix.json", _MatrixJson)
        try:
            features = cls(build(MatrixConfig, about.config, "features"))
            features.kind, features._n_features = about.kind, about.n_features
            if features.kind == "text":
                check_lemmas(features.config)
                terms = read_words(folder / "terms.txt")
                specs = {"idf": TensorSpec((len(terms),), minimum=0, maximum=MAX_WEIGHT)}
                idf = load_tensor_file(folder / "idf.safetensors", specs)["idf"]
                features._tfidf = Tfidf(features.config, terms, idf)
        except (OSError, ValueError, OntodexError) as error:
            raise RunError(f"{folder}: the features cannot be read ({error})") from error
        if about.format != _FORMAT or features.n_features != about.n_features:
            raise RunError(f"{folder}: matrix.json does not fit the files beside it")
        return features

    def _check(self, kind: Kind) -> None:
        """Refuse documents before the features are fitted, or of another kind."""
        if self.kind is None:
            raise RunError("the features cannot transform documents before they are fitted")
        check_kind(kind, self.kind)

    def _fit_width(self, matrix: csr_array) -> csr_array:
        """Return as many columns as in training; warn of values beyond them, which are left out."""
        matrix.sum_duplicates()
        if matrix.shape[1] > self._n_features:
            beyond = int(np.count_nonzero(matrix.indices >= self._n_features))
            if beyond:
                logger.warning("%s values of features unknown in training are left out", beyond)
            return csr_array(matrix[:, : self._n_features])
        shape = (matrix.shape[0], self._n_features)
        return csr_array((matrix.data, matrix.indices, matrix.indptr), shape=shape)


def check_kind(kind: Kind, fitted: Kind) -> None:
    """Refuse documents of another kind than a model was fitted on."""
    words: dict[Kind, str] = {
        "text": "text", "sparse": "sparse features", "dense": "dense features"
    }  # fmt: skip
    if kind != fitted:
        raise DataError(
            f"the model was fitted on {words[fitted]} and cannot read {words[kind]}",
            hint=f"give it documents with {words[fitted]}, or train a model on this corpus",
        )

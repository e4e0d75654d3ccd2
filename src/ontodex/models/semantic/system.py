"""Rank concepts by the similarity of their names and the text, as a pretrained encoder sees it.

    names of concepts ─ vectors ┐
    title, windows of the text ─ vectors ─ similarity (n,l) ─ standardised by concept ─ P(label)

The similarity of a document and a concept is that of the title and its best name, plus that of the
best window and its best name. Some names are near to every text. So the similarity is standardised
by its mean and deviation over some training documents: a concept counts where it is nearer than
usual. No label is learned; concepts without training documents compete with all others.
See docs/papers/semantic.md.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit

from ontodex.config import Table, build, check_least, check_needed, check_range
from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError, UntrainedError
from ontodex.features.word_pieces import WordPieces
from ontodex.io.files import write_text
from ontodex.io.json_schema import load_json
from ontodex.io.tensors import TensorSpec, load_tensors, save_tensors
from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.pretrained import (
    NEEDED_ENCODER,
    PretrainedEncoder,
    check_pieces,
    load_encoder,
    read_origin,
    save_origin,
)
from ontodex.models.readers import check_text
from ontodex.models.semantic.name_vectors import DocumentVectors, NameVectors
from ontodex.models.semantic.text_vectors import TextVectors, Vectors
from ontodex.models.weights import extract_weights, load_network, save_network, set_weights
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

_AT_ONCE = 64  # documents ranked at once: their scores of all concepts are in memory
_DEV_RANKS = 50
_DEV_DOCS = 500  # dev documents that calibrate
_SPREAD = 4.0  # standard deviations that are a score of one half


@dataclass(frozen=True)
class SemanticConfig:
    """Settings of `semantic`."""

    encoder: str = field(default="", metadata=NEEDED_ENCODER)  # a folder, or hub:user/name
    window: int = 60  # words of a window
    windows: int = 10  # windows read of a document
    background: int = 500  # training documents over which similarities are standardised

    def __post_init__(self) -> None:
        check_least(self, 1, "window", "windows")
        check_least(self, 2, "background")
        check_range(self, 1, 10_000, "window", "windows")


class Passage(NamedTuple):
    """A piece of a document's text."""

    start: int
    text: str


class SemanticSystem:
    """Suggests concepts whose names mean what the text says."""

    Config: ClassVar[type[SemanticConfig]] = SemanticConfig
    learns_labels = False  # dev calibrates its probabilities

    def __init__(self, config: SemanticConfig, *, device: str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.encoder: PretrainedEncoder | None = None
        self.calibration = Calibration.identity()

    def fit(self, train: Corpus, dev: Corpus, labels: LabelSpace) -> None:
        check_text(train)
        check_needed("semantic", self.config)
        encoder = load_encoder(self.config.encoder)
        # Half precision, as in the run folder: a loaded run gives the same answers.
        set_weights(encoder.network, extract_weights(encoder.network))
        self._use(encoder)
        self.names = self._encode_names(labels, range(len(labels)))
        self.background = self._encode_documents(
            train.select(_spread_rows(train, self.config.background))
        )
        self.mean, self.deviation = self._measure_usual(self.names, len(labels))
        if len(dev):
            some = dev.select(_spread_rows(dev, _DEV_DOCS))
            self.calibration = Calibration.fit(self._rank(some, _DEV_RANKS), labels.gold(some))

    def _use(self, encoder: PretrainedEncoder) -> None:
        self.encoder = encoder
        longest = encoder.config.max_position_embeddings
        self.text_vectors = TextVectors(
            encoder, min(2 * self.config.window + 2, longest), self.device
        )

    def _encode_names(self, labels: LabelSpace, columns: Iterable[int]) -> NameVectors:
        pairs = [(column, name) for column in columns for name in _list_names(labels, column)]
        vectors = self.text_vectors.encode([name for _, name in pairs], "names")
        return NameVectors(
            np.array([column for column, _ in pairs], np.int64), vectors.astype(np.float16)
        )

    def _encode_documents(self, corpus: Corpus) -> DocumentVectors:
        """Return the vectors of the passages of each document."""
        passages = [split_passages(doc, self.config) for doc in corpus]
        texts = [passage.text for parts in passages for passage in parts]
        offsets = np.cumsum([0, *map(len, passages)], dtype=np.int64)
        return DocumentVectors(_round(self.text_vectors.encode(texts)), offsets)

    def _measure_usual(self, names: NameVectors, n_columns: int) -> tuple[Vectors, Vectors]:
        """Return mean and deviation (columns,) of the similarity of each concept that has names to
        the documents of the background."""
        mean, deviation = np.zeros(n_columns, np.float32), np.ones(n_columns, np.float32)
        for columns, similarity in names.compare(self.background):
            mean[columns] = similarity.mean(axis=0)
            deviation[columns] = similarity.std(axis=0) + 1e-3
        return mean, deviation

    def _rank(self, corpus: Corpus, k: int) -> Ranking:
        """Return the k best concepts, not calibrated."""
        check_text(corpus)
        documents = self._encode_documents(corpus)
        starts = range(0, len(documents), _AT_ONCE)
        parts = [documents.take(slice(start, start + _AT_ONCE)) for start in starts]
        return Ranking.join([Ranking.top(self._score(part), k) for part in parts], k)

    def _score(self, documents: DocumentVectors) -> Vectors:
        """Return (n, columns): the standardised similarities in [0, 1], 0 without names."""
        scores = np.zeros((len(documents), len(self.mean)), np.float32)
        for columns, similarity in self.names.compare(documents):
            usual = (similarity - self.mean[columns]) / self.deviation[columns]
            scores[:, columns] = expit(usual - _SPREAD)
        return scores

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        self._check_fitted()
        return self.calibration.apply(self._rank(corpus, k))

    def _check_fitted(self) -> None:
        if self.encoder is None:
            raise UntrainedError("semantic")

    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        """Return the words of the window that is nearest to a name of the concept, each with its
        part of the similarity."""
        self._check_fitted()
        own = self.names.find(column)
        if not len(own):
            return []
        windows = split_passages(doc, self.config)[1:]
        products = self.text_vectors.encode([window.text for window in windows]) @ own.T
        best, name = np.unravel_index(int(products.argmax()), products.shape)
        parts = self.text_vectors.explain(windows[best].text, own[name])
        start = windows[best].start
        return [Span(start + first, start + last, weight) for first, last, weight in parts]

    def select_new(self, labels: LabelSpace, is_new: NDArray[np.bool_]) -> SemanticSystem:
        """Return the system for another label space, of which it ranks only the new concepts."""
        self._check_fitted()
        assert self.encoder is not None
        system = SemanticSystem(self.config, device=str(self.device))
        system._use(self.encoder)
        system.background, system.calibration = self.background, self.calibration
        system.names = system._encode_names(labels, np.flatnonzero(is_new).tolist())
        system.mean, system.deviation = system._measure_usual(system.names, len(labels))
        return system

    def save(self, folder: Path) -> None:
        self._check_fitted()
        assert self.encoder is not None
        about = {
            "settings": {**dataclasses.asdict(self.config), "encoder": ""},
            "shape": dataclasses.asdict(self.encoder.config),
            "calibration": self.calibration.to_json(),
        }
        write_text(folder / "semantic.json", json.dumps(about, indent=1) + "\n")
        save_network(folder, "encoder", self.encoder.network)
        self.encoder.pieces.save(folder / "tokenizer.json")
        save_origin(folder, self.encoder.origin)
        background, offsets = self.background
        tensors: dict[str, NDArray[Any]] = {
            "owner": self.names.owner,
            "names": self.names.vectors,
            "mean": self.mean,
            "deviation": self.deviation,
            "background": background.astype(np.float16),
            "offsets": offsets,
        }
        save_tensors(folder, "vectors", tensors)

    @classmethod
    def load(cls, folder: Path, labels: LabelSpace, *, device: str = "cpu") -> Self:
        about = load_json(folder / "semantic.json", _SemanticJson)
        system = cls(build(SemanticConfig, about.settings, "model"), device=device)
        with torch.device("meta"):
            network = Bert(about.shape)
        load_network(folder, "encoder", network)
        pieces = WordPieces.load(folder / "tokenizer.json")
        check_pieces(folder, about.shape, pieces)
        system._use(PretrainedEncoder(about.shape, network, pieces, read_origin(folder)))
        system.calibration = about.calibration
        system._load_vectors(folder, labels)
        return system

    def _load_vectors(self, folder: Path, labels: LabelSpace) -> None:
        sizes = {"width": self.text_vectors.width, "columns": len(labels)}
        arrays = load_tensors(folder, "vectors", _specs(len(labels)), sizes)
        _check_order(folder, arrays)
        background = arrays["background"].astype(np.float32)
        self.background = DocumentVectors(background, arrays["offsets"])
        self.mean, self.deviation = arrays["mean"], arrays["deviation"]
        self.names = NameVectors(arrays["owner"], arrays["names"])


def _list_names(labels: LabelSpace, column: int) -> list[str]:
    ontology, label = labels.ontology, labels.ids[column]
    if ontology is None or label not in ontology:
        return []
    tags = (ontology.language, "und")
    names = [name for tag, name in ontology.names_of(label).items() if tag in tags]
    synonyms = ontology.synonyms_by_language(label).items()
    return list(
        dict.fromkeys([*names, *(one for tag, own in synonyms if tag in tags for one in own)])
    )


def split_passages(doc: Doc, config: SemanticConfig) -> list[Passage]:
    """Return the title and the windows of a document, at least one of each.

    The title is the first field; where it is the only one, the first window stands for it.
    """
    text = doc.text
    words = list(islice(re.finditer(r"\S+", text), config.window * config.windows))
    windows = [
        Passage(some[0].start(), text[some[0].start() : some[-1].end()])
        for some in (words[i : i + config.window] for i in range(0, len(words), config.window))
    ] or [Passage(0, "")]
    first = next(iter(doc.fields.values()), "")
    has_title = len(doc.fields) > 1 and bool(first.strip())
    return [Passage(0, first) if has_title else windows[0], *windows]


def _round(vectors: Vectors) -> Vectors:
    """Return the vectors as they are after saving and loading, in half precision."""
    return vectors.astype(np.float16).astype(np.float32)


def _spread_rows(corpus: Corpus, most: int) -> NDArray[np.int64]:
    """Return at most `most` rows, evenly spread over the corpus."""
    return np.unique(np.linspace(0, len(corpus) - 1, min(most, len(corpus))).astype(np.int64))


@dataclass(frozen=True)
class _SemanticJson:
    """The fields of semantic.json."""

    settings: Table
    shape: BertConfig
    calibration: Calibration


def _specs(n_columns: int) -> dict[str, TensorSpec]:
    return {
        "owner": TensorSpec(("names",), "int", minimum=0, maximum=n_columns - 1),
        "names": TensorSpec(("names", "width"), "float16", minimum=-1.01, maximum=1.01),
        "background": TensorSpec(("passages", "width"), "float16", minimum=-1.01, maximum=1.01),
        "offsets": TensorSpec((None,), "int", minimum=0),
        "mean": TensorSpec(("columns",), minimum=-2.1, maximum=2.1),
        "deviation": TensorSpec(("columns",), minimum=1e-3, maximum=10),
    }


def _check_order(folder: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse names that are not sorted by concept, and documents without a title and a window."""
    owner, offsets = arrays["owner"], arrays["offsets"]
    has_two = len(offsets) > 1 and np.all(np.diff(offsets) >= 2)
    has_ends = has_two and not offsets[0] and offsets[-1] == len(arrays["background"])
    if np.any(np.diff(owner) < 0) or not has_ends:
        raise RunError(
            f"{folder / 'vectors.safetensors'}: names or documents are not in order",
            hint="copy the run folder again, or train again",
        )

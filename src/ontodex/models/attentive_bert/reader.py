"""Documents as `attentive-bert` reads them: windows of word pieces, and words for the bag."""

from __future__ import annotations

import dataclasses
import itertools
import json
from bisect import bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ontodex.config import check_needed
from ontodex.errors import ConfigError
from ontodex.features.tokens import Tokens
from ontodex.features.word_pieces import PIECES, Piece, WordPieces, encode_pieces, join_words
from ontodex.io.files import write_text
from ontodex.io.json_schema import load_json
from ontodex.models.layers.bag import compute_idf
from ontodex.models.layers.bert import Bert, BertConfig
from ontodex.models.layers.mapped_words import Words
from ontodex.models.layers.packed import Packed, pack
from ontodex.models.layers.ragged import Ragged
from ontodex.models.pretrained import check_pieces, load_encoder, read_origin, save_origin
from ontodex.models.readers import WordReader
from ontodex.models.weights import extract_weights, set_weights
from ontodex.types import Corpus, Doc
from ontodex.types.answers import Span

Rows = NDArray[np.int64]
SHAPE = "encoder.json"


class Documents(NamedTuple):
    """The places of a batch's documents among the pieces of all windows."""

    starts: Tensor  # (n,)
    lengths: Tensor  # (n,)
    longest: int


class EncodedDocuments:
    """Pieces and words of documents, on one device."""

    def __init__(self, pieces: Ragged, words: Words, window: int) -> None:
        self.pieces, self.words, self.window = pieces, words, window
        self.lengths: Rows = pieces.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def device(self) -> torch.device:
        return self.pieces.device

    def pad(self, rows: Rows) -> tuple[Packed, Documents, Tensor]:
        """Return the windows of these documents, packed; where each document lies; its words."""
        lengths = self.lengths[rows]
        windows = pack(self.pieces.flatten(rows), split_lengths(lengths, self.window))
        starts = torch.from_numpy(np.cumsum(lengths) - lengths).to(self.device, non_blocking=True)
        on_device = torch.from_numpy(lengths).to(self.device, non_blocking=True)
        documents = Documents(starts, on_device, int(lengths.max(initial=0)))
        return windows, documents, self.words.pad(rows)[0]


def split_lengths(lengths: Rows, window: int) -> Rows:
    """Return the length of each window of documents; every window but a document's last is full."""
    counts = -(-lengths // window)
    found = np.full(int(counts.sum()), window, np.int64)
    found[np.cumsum(counts) - 1] = lengths - window * (counts - 1)
    return found


class PieceReader:
    """Reads word pieces for the encoder and words for the bag; `config` is an
    `AttentiveBertConfig`."""

    vocabulary = None

    def __init__(self, config: Any) -> None:
        self.config = config
        self.words = WordReader(config)
        self.shape: BertConfig | None = None
        self.word_pieces: WordPieces | None = None
        self.origin = ""  # of the encoder's weights
        self.idf: Tensor | None = None  # of the words of the training documents

    def __len__(self) -> int:
        return len(self.words)

    def fit(self, train: Corpus, device: torch.device) -> EncodedDocuments:
        documents, _ = self.fit_with_tokens(train, device)
        self.idf = compute_idf(documents.words, len(self.words))
        return documents

    def fit_with_tokens(
        self, train: Corpus, device: torch.device
    ) -> tuple[EncodedDocuments, Tokens]:
        """As `fit`; return the words of the training documents too."""
        check_needed("attentive-bert", self.config)
        encoder = load_encoder(self.config.encoder)
        self.shape, self.word_pieces, self.origin = encoder.config, encoder.pieces, encoder.origin
        longest = self.shape.max_position_embeddings
        if self.config.window > longest:
            raise ConfigError(
                f"[model] window is {self.config.window}, but the encoder reads at most {longest} "
                "pieces together",
                hint=f"--set model.window={longest}",
            )
        self.pretrained: Bert | None = encoder.network  # until a network has taken its weights
        words, tokens = self.words.fit_with_tokens(train, device)
        pieces = self._encode_pieces(train, device)
        return EncodedDocuments(pieces, words, self.config.window), tokens

    def start_encoder(self, network: Bert) -> None:
        """Give a new network the pretrained weights, once."""
        pretrained, self.pretrained = self.pretrained, None
        assert pretrained is not None
        set_weights(network, extract_weights(pretrained))

    def encode(self, corpus: Corpus, device: torch.device) -> EncodedDocuments:
        pieces = self._encode_pieces(corpus, device)
        return EncodedDocuments(pieces, self.words.encode(corpus, device), self.config.window)

    def _encode_pieces(self, corpus: Corpus, device: torch.device) -> Ragged:
        assert self.word_pieces is not None
        return Ragged(encode_pieces(corpus, self.word_pieces, self.config), device)

    def place_weights(
        self, doc: Doc, pieces: Sequence[float], words: Sequence[float] = ()
    ) -> list[Span]:
        """Return the words of a document: the weight of each is the sum of those of its pieces,
        and of its own in the bag."""
        joined = [Span(*word) for word in join_words(self.locate_pieces(doc), pieces)]
        return add_words(joined, self.words.place_weights(doc, words))

    def locate_pieces(self, doc: Doc) -> list[Piece]:
        """Return the pieces that `encode` reads of a document, with places in `Doc.text`."""
        assert self.word_pieces is not None
        names = [name for name in self.config.fields or doc.fields if name in doc.fields]
        text = "\n".join(doc.fields[name] for name in names)
        (pieces,) = self.word_pieces.divide(
            [text], window=self.config.window, n_windows=self.config.windows
        )
        starts, shifts = _compare_places(doc, names)
        moved = [shifts[max(0, bisect_right(starts, piece.start) - 1)] for piece in pieces]
        return [
            piece._replace(start=piece.start + shift, end=piece.end + shift)
            for piece, shift in zip(pieces, moved, strict=True)
        ]

    def save(self, folder: Path) -> None:
        assert self.shape is not None
        assert self.word_pieces is not None
        self.words.save(folder)
        self.word_pieces.save(folder / PIECES)
        write_text(folder / SHAPE, json.dumps(dataclasses.asdict(self.shape), indent=1) + "\n")
        save_origin(folder, self.origin)

    def load(self, folder: Path) -> None:
        self.words.load(folder)
        self.shape = load_json(folder / SHAPE, BertConfig)
        self.word_pieces = WordPieces.load(folder / PIECES)
        check_pieces(folder, self.shape, self.word_pieces, self.config.window)
        self.origin = read_origin(folder)


def add_words(words: Sequence[Span], more: Sequence[Span]) -> list[Span]:
    """Add the weight of each further word to the word that its first character lies in; a word
    beyond them all stays by itself."""
    starts, found = [word.start for word in words], list(words)
    for word in more:
        place = bisect_right(starts, word.start) - 1
        if place >= 0 and word.start < found[place].end:
            own = found[place]
            found[place] = Span(own.start, own.end, own.weight + word.weight)
        else:
            found.append(word)
    return sorted(found, key=lambda word: word.start)


def _compare_places(doc: Doc, names: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return where each of these fields starts in their joined text, and how much later it starts
    in `Doc.text`."""
    in_doc, at = {}, 0
    for name, text in doc.fields.items():
        in_doc[name] = at
        at += len(text) + 1
    starts = [0, *itertools.accumulate(len(doc.fields[name]) + 1 for name in names[:-1])]
    own = [in_doc.get(name, 0) for name in names] or [0]
    return starts, [after - before for before, after in zip(starts, own, strict=True)]

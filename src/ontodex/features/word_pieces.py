"""Text into the word pieces of a pretrained encoder, with the characters that each piece covers.

    text ─ windows of [CLS] pieces [SEP] ─ ids of one row, (start, end) of each id in the text

The tokenizer is built from four entries of a tokenizer.json: vocabulary, unknown piece, prefix of
continued pieces, normaliser. Nothing else of the file is used, so it cannot ask for other code. The
library `tokenizers` (extra `encoder`) splits the text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ontodex.config import check_least, check_range
from ontodex.errors import DataError, require
from ontodex.features.cache import (
    Parts,
    check_array,
    find_parts,
    load_or_compute,
    pick_settings,
)
from ontodex.features.tokens import choose_id_type, take_rows
from ontodex.features.vocabulary import EncodedTexts
from ontodex.io.files import write_text
from ontodex.io.progress import track
from ontodex.types import Corpus

PIECES = "tokenizer.json"
VERSION = 1  # raised whenever the same text would give other pieces
MAX_BYTES = 20 * 2**20  # of a tokenizer.json; a vocabulary of 250,000 pieces has 9 MB
_UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", _UNKNOWN, "[CLS]", "[SEP]")
_TEXTS_AT_ONCE = 512


@dataclass(frozen=True)
class WindowConfig:
    """The part of a document that a pretrained encoder reads. A system's settings inherit these."""

    fields: tuple[str, ...] = ()  # text fields to read, in this order; none = all
    window: int = 512  # word pieces that are encoded together, with two marks
    windows: int = 2  # windows read of a document

    def __post_init__(self) -> None:
        check_least(self, 3, "window")
        check_least(self, 1, "windows")
        check_range(self, 1, 10_000, "window", "windows")


class Piece(NamedTuple):
    """One id of an encoded text."""

    id: int
    start: int  # characters [start, end) of the text; the special pieces cover none
    end: int
    word: int  # number of its word in the text; -1 for special pieces


@dataclass(frozen=True, eq=False)
class WordPieces:
    """The pieces of an encoder, and how texts are divided into them."""

    ids: dict[str, int]
    is_lower_case: bool
    strips_accents: bool | None  # None: where letters are made lower case

    def __post_init__(self) -> None:
        if sorted(self.ids.values()) != list(range(len(self.ids))):
            raise DataError("the ids of a vocabulary must be 0, 1, 2 ... without a gap")
        missing = [piece for piece in SPECIAL if piece not in self.ids]
        if missing:
            raise DataError(f"the vocabulary of word pieces has no {', '.join(missing)}")
        if self.ids["[PAD]"] != 0:
            raise DataError("the id of [PAD] must be 0")

    @cached_property
    def tokenizer(self) -> Any:
        """The tokenizer of the library, built from the vocabulary and the two switches."""
        tokenizers = require("tokenizers", extra="encoder", purpose="a pretrained encoder")
        model = tokenizers.models.WordPiece(self.ids, unk_token=_UNKNOWN)
        tokenizer = tokenizers.Tokenizer(model)
        tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(
            lowercase=self.is_lower_case, strip_accents=self.strips_accents
        )
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
        return tokenizer

    def __len__(self) -> int:
        return len(self.ids)

    def encode(self, texts: Iterable[str], *, window: int, n_windows: int) -> EncodedTexts:
        """Return each text as the ids of at most `n_windows` windows of at most `window` pieces.

        Every window begins with [CLS] and ends with [SEP], so no row is empty.
        """
        room = window - 2  # beside [CLS] and [SEP]
        rows = [
            self._mark_windows(found.ids[: room * n_windows], room)
            for found in self._encode_batches(texts)
        ]
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return EncodedTexts(np.concatenate([np.empty(0, np.uint16), *rows]), offsets)

    def _mark_windows(self, ids: list[int], room: int) -> NDArray[np.integer[Any]]:
        """Return the ids with [CLS] before and [SEP] behind each window."""
        kind = choose_id_type(len(self))
        inner = np.fromiter(ids, kind, len(ids))
        starts = np.arange(0, max(len(ids), 1), room)
        ends = np.minimum(starts + room, len(ids))
        # Both kinds of marks at once: of equal places, [SEP] of a window precedes the next [CLS].
        places = np.stack([starts, ends], axis=1).ravel()
        marks = np.tile(np.array([self.ids["[CLS]"], self.ids["[SEP]"]], kind), len(starts))
        return np.insert(inner, places, marks)

    def _encode_batches(self, texts: Iterable[str]) -> Iterator[Any]:
        """Yield what the library finds in each text."""
        texts = iter(texts)
        while some := list(islice(texts, _TEXTS_AT_ONCE)):
            yield from self.tokenizer.encode_batch(some, add_special_tokens=False)

    def divide(self, texts: Iterable[str], *, window: int, n_windows: int) -> Iterator[list[Piece]]:
        """Yield the pieces of each text, window by window."""
        room = window - 2  # beside [CLS] and [SEP]
        first, last = (Piece(self.ids[name], 0, 0, -1) for name in ("[CLS]", "[SEP]"))
        for found in self._encode_batches(texts):
            pieces = _read_pieces(found, room * n_windows)
            yield [
                piece
                for start in range(0, max(len(pieces), 1), room)
                for piece in (first, *pieces[start : start + room], last)
            ]

    @cached_property
    def digest(self) -> str:
        """A digest of everything that decides how a text is divided."""
        plan = [self.ids, self.is_lower_case, self.strips_accents]
        return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the entries of a tokenizer.json that `load` reads."""
        normalizer = {
            "type": "BertNormalizer",
            "lowercase": self.is_lower_case,
            "strip_accents": self.strips_accents,
        }
        model = {"type": "WordPiece", "unk_token": _UNKNOWN, "vocab": self.ids}
        pre_tokenizer = {"type": "BertPreTokenizer"}
        table = {"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "model": model}
        write_text(path, json.dumps(table, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> WordPieces:
        """Read a tokenizer.json of the BERT family."""
        table = read_encoder_json(path, MAX_BYTES)
        try:
            model, normalizer = table["model"], table["normalizer"]
            kinds = [part["type"] for part in (model, normalizer, table["pre_tokenizer"])]
            vocabulary = model["vocab"]
            prefix = model.get("continuing_subword_prefix", "##")
            switches = normalizer.get("lowercase", True), normalizer.get("strip_accents")
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"not a tokenizer.json of word pieces ({error} is missing)", path=path
            ) from None
        if kinds != ["WordPiece", "BertNormalizer", "BertPreTokenizer"] or prefix != "##":
            raise DataError(
                f"a tokenizer of the kind {', '.join(map(str, kinds)):.200} is not supported",
                path=path,
                hint="use an encoder of the BERT family: BERT, MiniLM, e5 or bge",
            )
        if not _is_vocabulary(vocabulary) or not all(
            one in (True, False, None) for one in switches
        ):
            raise DataError("has a vocabulary that is no list of pieces with ids", path=path)
        try:
            return cls(vocabulary, bool(switches[0]), switches[1])
        except DataError as error:
            raise DataError(str(error), path=path) from None


def encode_pieces(corpus: Corpus, pieces: WordPieces, config: WindowConfig) -> EncodedTexts:
    """Return a corpus as word pieces, from the cache beside it where it has them."""
    recipe = pieces_recipe(pieces, config)
    if corpus.rows is not None:
        check = partial(_check_pieces, n_docs=len(corpus.whole), n_pieces=len(pieces))
        if (whole := find_parts(corpus.whole, recipe, check)) is not None:
            ids, offsets = whole.arrays["ids"], whole.arrays["offsets"]
            return EncodedTexts(*take_rows(ids, offsets, corpus.rows))

    def compute() -> Parts:
        texts = track(corpus.texts(config.fields), "word pieces", total=len(corpus))
        found = pieces.encode(texts, window=config.window, n_windows=config.windows)
        return Parts({"ids": found.ids, "offsets": found.offsets})

    check = partial(_check_pieces, n_docs=len(corpus), n_pieces=len(pieces))
    arrays = load_or_compute(corpus, recipe, compute, check).arrays
    return EncodedTexts(arrays["ids"], arrays["offsets"])


def _check_pieces(parts: Parts, n_docs: int, n_pieces: int) -> None:
    """Raise a DataError for parts that are not the word pieces of so many documents."""
    check_array(parts, "ids", "u", (None,))
    check_array(parts, "offsets", "i", (n_docs + 1,))
    ids, offsets = parts.arrays["ids"], parts.arrays["offsets"]
    if offsets[0] != 0 or offsets[-1] != len(ids) or np.any(np.diff(offsets) < 0):
        raise DataError("prepared features: offsets must rise from 0 to the end")
    if len(ids) and int(ids.max()) >= n_pieces:
        raise DataError(f"prepared features: an id is past the {n_pieces:,} word pieces")


def pieces_recipe(pieces: WordPieces, config: WindowConfig) -> dict[str, Any]:
    """Return the settings that shape the word pieces of a corpus: their cache key."""
    return {
        "word pieces": VERSION,
        "tokenizer": pieces.digest,
        **pick_settings(WindowConfig, config),
    }


def _read_pieces(found: Any, limit: int) -> list[Piece]:
    numbers = zip(found.ids, found.offsets, found.word_ids, strict=True)
    return [Piece(id_, start, end, word) for id_, (start, end), word in islice(numbers, limit)]


def read_encoder_json(path: Path, max_bytes: int) -> dict[str, Any]:
    """Read a JSON object from a file of a pretrained encoder."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise DataError(f"has {size:,} bytes, more than the {max_bytes:,} allowed", path=path)
        table = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"cannot be read as JSON ({error})", path=path) from None
    if not isinstance(table, dict):
        raise DataError("must be a JSON object", path=path)
    return table


def _is_vocabulary(value: object) -> bool:
    return (
        isinstance(value, dict)
        and all(type(number) is int for number in value.values())
        and all(piece and len(piece) <= 1_000 for piece in value)
    )


def join_words(pieces: Sequence[Piece], weights: Sequence[float]) -> list[tuple[int, int, float]]:
    """Return (start, end, weight) of each word: the weight is the sum over its pieces."""
    words: dict[int, tuple[int, int, float]] = {}
    for piece, weight in zip(pieces, weights, strict=True):
        if piece.word >= 0:
            start, _, total = words.get(piece.word, (piece.start, 0, 0.0))
            words[piece.word] = (start, piece.end, total + weight)
    return list(words.values())

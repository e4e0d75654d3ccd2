"""Word vectors: read from files, aligned with a vocabulary, or trained on sequences with gensim.

Formats: word2vec text and binary, GloVe text (fastText's .vec is word2vec text), each plain or
compressed, and the folder of words.txt and vectors.npy that `write_vectors` writes.
"""

from __future__ import annotations

import hashlib
import io
import logging
import zlib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ontodex.errors import DataError, require
from ontodex.features import cache
from ontodex.features.tokens import Tokens
from ontodex.features.vocabulary import PAD, Vocabulary
from ontodex.io.files import open_bytes
from ontodex.types import Corpus

logger = logging.getLogger(__name__)

# Folders beside a prepared corpus: vectors of its words, keywords (or phrases), and labels.
PREPARED = "vectors"
KEYWORDS = "keyword-vectors"
LABELS = "label-vectors"
MAX_SIZE = 4_096  # numbers per vector; more means a damaged header
MAX_LINE = 2**20
_GENSIM_LINE = 10_000  # gensim silently drops the rest of a longer sequence

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Vectors:
    """`array[i]` belongs to `words[i]`."""

    words: tuple[str, ...]
    array: NDArray[np.floating]

    def __post_init__(self) -> None:
        if self.array.ndim != 2 or len(self.array) != len(self.words):
            raise DataError(f"{len(self.words):,} words do not fit vectors {self.array.shape}")
        if not np.all(np.isfinite(self.array)):
            raise DataError("vectors hold numbers that are not finite")


def read_aligned_vectors(
    path: Path, vocabulary: Vocabulary, *, seed: int = 0, scale: float = 0.1
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (vocabulary x size) vectors, and a mask of those that the file has.

    The others come from `make_random_vectors`; the padding is zero.
    """
    return align_vectors(read_vectors(path, vocabulary.id_of), vocabulary, seed=seed, scale=scale)


def align_vectors(
    vectors: Vectors, vocabulary: Vocabulary, *, seed: int = 0, scale: float = 0.1
) -> tuple[Floats, NDArray[np.bool_]]:
    """Align vectors in memory with a vocabulary, as `read_aligned_vectors` does with a file."""
    array = make_random_vectors(vocabulary.words, vectors.array.shape[1], seed=seed, scale=scale)
    array[PAD] = 0
    found = np.zeros(len(vocabulary), dtype=bool)
    for row, word in enumerate(vectors.words):
        place = vocabulary.id_of.get(word)
        if place is not None:
            array[place], found[place] = vectors.array[row], True
    logger.info("%s of %s words have vectors", f"{found.sum():,}", f"{len(vocabulary) - 2:,}")
    return array, found


def load_prepared(
    train: Corpus, vocabulary: Vocabulary, *, seed: int = 0, kind: str = PREPARED
) -> Floats | None:
    """Return the aligned vectors that were prepared beside a training corpus, or None."""
    if train.folder is None or not (train.folder / kind).is_dir():
        return None
    return read_aligned_vectors(train.folder / kind, vocabulary, seed=seed)[0]


def make_random_vectors(
    words: Sequence[str], size: int, *, seed: int = 0, scale: float = 0.1
) -> Floats:
    """Return uniform numbers in [-scale, scale) that depend on the seed and the word alone.

    They do not depend on the order of the vocabulary, the process, or the version of a library.
    """
    array = np.empty((len(words), size), dtype=np.float32)
    for row, word in enumerate(words):
        bits = hashlib.shake_128(f"{seed}\n{word}".encode()).digest(4 * size)
        array[row] = np.frombuffer(bits, "<u4") / 2**31 - 1
    return array * np.float32(scale)


def write_vectors(folder: Path, vectors: Vectors) -> None:
    """Write words.txt and vectors.npy in half precision, enough as initial weights."""
    parts = cache.Parts({"vectors": vectors.array.astype(np.float16)}, {"words": vectors.words})
    cache.write_parts(folder, {"vectors": 1}, parts)


def read_vectors(path: Path, wanted: Container[str] | None = None) -> Vectors:
    """Return the vectors of a file or folder, of the wanted words only (None = all).

    Of a word that occurs twice, the first counts.
    """
    if path.is_dir():
        parts = cache.read_parts(path)
        try:
            return Vectors(parts.lists["words"], parts.arrays["vectors"].astype(np.float32))
        except KeyError as error:
            raise DataError("not a folder of word vectors", path=path) from error
    with open_bytes(path) as file:
        reader = _Reader(path, cast(io.BufferedReader, file))
        found: dict[str, Floats] = {}
        for word, line, values in reader.records():
            if word not in found and (wanted is None or word in wanted):
                found[word] = reader.numbers(values, line)
    array = np.array(list(found.values()), dtype=np.float32).reshape(len(found), reader.size)
    return Vectors(tuple(found), array)


class _Reader:
    """Records of a vector file, whichever of the three formats it has."""

    def __init__(self, path: Path, file: io.BufferedReader) -> None:
        self.path, self.file = path, file
        head = file.readline(MAX_LINE)
        fields = head.split()
        self.has_header = len(fields) == 2 and all(field.isdigit() for field in fields)
        self.count, self.size = map(int, fields) if self.has_header else (-1, len(fields) - 1)
        if not 1 <= self.size <= MAX_SIZE:
            raise DataError(
                f"vectors of {self.size:,} numbers; the first line starts {head[:40]!r}",
                path=path,
                line=1,
                hint="a word2vec file (text or binary) or a GloVe text file is expected",
            )
        self._first = b"" if self.has_header else head
        self.is_binary = self.has_header and self._looks_binary()

    def records(self) -> Iterator[tuple[str, int, bytes]]:
        """Return (word, line or record number, bytes of its numbers) of each record."""
        return self._binary() if self.is_binary else self._text()

    def numbers(self, values: bytes, line: int) -> Floats:
        """Parse the numbers of a record."""
        try:
            array = (
                np.frombuffer(values, "<f4")
                if self.is_binary
                else np.array(values.split(), dtype=np.float32)
            )
        except ValueError as error:
            raise DataError(f"not a number ({error})", path=self.path, line=line) from error
        if len(array) != self.size or not np.all(np.isfinite(array)):
            seen = f"{len(array)} numbers" if len(array) != self.size else "one that is not finite"
            raise DataError(
                f"{self.size} finite numbers are expected, not {seen}", path=self.path, line=line
            )
        return array

    def _looks_binary(self) -> bool:
        """Tell whether the numbers of the first record are raw bytes, not digits and signs."""
        _, _, rest = self.file.peek(4096).partition(b" ")
        return bool(rest[:4096].split(b"\n")[0].translate(None, b"0123456789+-.eE \t\r"))

    def _text(self) -> Iterator[tuple[str, int, bytes]]:
        """Return the records of a text file."""
        line = 1
        raw = self._first or self.file.readline(MAX_LINE)
        line += self.has_header
        seen = 0
        while raw:
            if len(raw) == MAX_LINE and not raw.endswith(b"\n"):
                raise DataError(f"a line of over {MAX_LINE:,} bytes", path=self.path, line=line)
            if raw.strip():
                seen += 1
                fields = raw.rstrip().rsplit(None, self.size)  # a word may itself hold spaces
                if len(fields) != self.size + 1:
                    raise DataError(
                        f"a word and {self.size} numbers are expected, not {len(fields)} fields",
                        path=self.path,
                        line=line,
                    )
                word, values = fields[0], raw[len(fields[0]) :]
                yield word.decode("utf-8", "replace"), line, values
            raw = self.file.readline(MAX_LINE)
            line += 1
        self._check_count(seen)

    def _binary(self) -> Iterator[tuple[str, int, bytes]]:
        """Return the records of a binary word2vec file."""
        width, buffer, place = 4 * self.size, b"", 0
        for number in range(1, self.count + 1):
            end = buffer.find(b" ", place)
            while end < 0 or len(buffer) < end + 1 + width:
                block = self.file.read(2**20)
                if not block or (end < 0 and len(buffer) - place > MAX_LINE):
                    self._check_count(number - 1)
                buffer, place = buffer[place:] + block, 0
                end = buffer.find(b" ")
            word = buffer[place:end].lstrip(b"\n")
            yield word.decode("utf-8", "replace"), number, buffer[end + 1 : end + 1 + width]
            place = end + 1 + width

    def _check_count(self, seen: int) -> None:
        """Refuse a file with another number of vectors than its header says."""
        if self.has_header and seen != self.count:
            raise DataError(
                f"the first line says {self.count:,} vectors, but the file has {seen:,}",
                path=self.path,
                hint="the file is cut off; download it again",
            )


def train_vectors(
    sequences: Tokens | Sequence[Sequence[str]],
    *,
    size: int = 100,
    seed: int = 0,
    window: int = 5,
    min_count: int = 1,
    epochs: int = 5,
    skip_gram: bool = True,
    subsample: float = 1e-3,
) -> Vectors:
    """Train word2vec vectors of the words, phrases or labels in the sequences.

    Words more frequent than `subsample` are skipped at random; 0 skips none, which suits few
    distinct words. One worker and a fixed hash: the same sequences and seed give the same bits.
    """
    gensim = require("gensim.models", extra="learn", purpose="training word vectors")
    lines = _Lines(sequences)
    if not any(lines):
        raise DataError("there are no words to train vectors on")
    model = gensim.Word2Vec(
        lines,
        vector_size=size,
        window=window,
        min_count=min_count,
        sg=int(skip_gram),
        epochs=epochs,
        sample=subsample,
        seed=seed,
        workers=1,
        hashfxn=lambda word: zlib.crc32(word.encode()),
    )
    return Vectors(tuple(model.wv.index_to_key), np.array(model.wv.vectors, dtype=np.float32))


class _Lines:
    """The sequences for each pass of gensim, in pieces that it reads to the end."""

    def __init__(self, sequences: Tokens | Sequence[Sequence[str]]) -> None:
        self.sequences = sequences

    def __iter__(self) -> Iterator[list[str]]:
        for sequence in self.sequences:
            words = [word for word in sequence if word]  # "" is an unknown word
            for start in range(0, len(words), _GENSIM_LINE):
                yield words[start : start + _GENSIM_LINE]

"""Train, dev and test: by hash of the id, or by year; never by position in a file."""

from __future__ import annotations

import hashlib

import numpy as np

from ontodex.errors import DataError
from ontodex.types import Corpus


def part_of(id_: str) -> str:
    """'test' for one id in ten, 'dev' for another one, else 'train'; the same on every machine."""
    return {0: "test", 1: "dev"}.get(_hash(id_) % 10, "train")


def by_hash(corpus: Corpus) -> tuple[Corpus, Corpus, Corpus]:
    """(train, dev, test) of about 80, 10 and 10 percent."""
    parts = np.array([part_of(id_) for id_ in corpus.ids])
    return _selected(corpus, parts)


def set_aside(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """(train, dev) with a tenth of the documents in dev, at least one of two or more.

    It looks at another digit of the hash than `part_of`: in the train part of `by_hash` no id has
    a last digit of 0 or 1.
    """
    hashes = [_hash(id_) // 10 for id_ in corpus.ids]
    chosen = np.array([value % 10 == 0 for value in hashes], dtype=bool)
    if len(hashes) > 1 and chosen.all() | ~chosen.any():
        chosen[:] = False
        chosen[min(range(len(hashes)), key=hashes.__getitem__)] = True
    return corpus.select(~chosen), corpus.select(chosen)


def by_year(
    corpus: Corpus, *, dev_from: int, test_from: int, key: str = "year"
) -> tuple[Corpus, Corpus, Corpus]:
    """(train, dev, test): years before `dev_from`, from there on, and from `test_from` on."""
    if dev_from > test_from:
        raise DataError(f"dev starts in {dev_from}, after test in {test_from}")
    years = [_year(doc.metadata.get(key), doc.id, key) for doc in corpus]
    parts = ["test" if y >= test_from else "dev" if y >= dev_from else "train" for y in years]
    return _selected(corpus, np.array(parts))


def _selected(corpus: Corpus, parts: np.ndarray) -> tuple[Corpus, Corpus, Corpus]:
    train, dev, test = (corpus.select(parts == name) for name in ("train", "dev", "test"))
    return train, dev, test


def _hash(id_: str) -> int:
    return int(hashlib.sha256(id_.encode()).hexdigest(), 16)


def _year(value: object, id_: str, key: str) -> int:
    try:
        return int(str(value)[:4])
    except ValueError:
        raise DataError(
            f"document {id_!r} has no year in its metadata ({key!r} is {value!r})",
            hint="split by hash of the id instead",
        ) from None

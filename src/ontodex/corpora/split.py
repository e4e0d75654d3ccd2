"""Split a corpus into train, dev and test by a hash of the ids, never by position in a file.

A document stays in its part when others are added to the corpus.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ontodex.types import Corpus


def assign_part(id_: str) -> str:
    """Return 'test' for one id in ten, 'dev' for another one, else 'train'."""
    return {0: "test", 1: "dev"}.get(_hash(id_) % 10, "train")


def split_by_hash(corpus: Corpus) -> tuple[Corpus, Corpus, Corpus]:
    """Return (train, dev, test) of about 80, 10 and 10 percent."""
    parts = np.array([assign_part(id_) for id_ in corpus.ids])
    train, dev, test = (corpus.select(parts == name) for name in ("train", "dev", "test"))
    return train, dev, test


def set_aside(corpus: Corpus) -> tuple[Corpus, Corpus]:
    """Return (train, dev) with a tenth of the documents in dev, at least one of two or more.

    The choice depends on another digit of the hash than `assign_part`, because in the train part
    of `split_by_hash` no id has a last digit of 0 or 1.
    """
    hashes = [_hash(id_) // 10 for id_ in corpus.ids]
    in_dev = np.array([value % 10 == 0 for value in hashes], dtype=bool)
    if len(hashes) > 1 and in_dev.all() | ~in_dev.any():
        in_dev[:] = False
        in_dev[min(range(len(hashes)), key=hashes.__getitem__)] = True
    return corpus.select(~in_dev), corpus.select(in_dev)


def _hash(id_: str) -> int:
    return int(hashlib.sha256(id_.encode()).hexdigest(), 16)


__all__ = ["assign_part", "set_aside", "split_by_hash"]

from __future__ import annotations

import hashlib

import pytest

from ontodex.corpora.split import assign_part, set_aside, split_by_hash
from ontodex.types import Corpus, Doc


def corpus_of(n: int) -> Corpus:
    return Corpus.of(Doc(str(i), {"text": "t"}) for i in range(n))


def test_the_part_of_an_id_is_the_last_digit_of_its_hash() -> None:
    for id_ in ("1", "10028321", "ü"):
        last = int(hashlib.sha256(id_.encode()).hexdigest(), 16) % 10
        assert assign_part(id_) == ("test" if last == 0 else "dev" if last == 1 else "train")


def test_parts_are_disjoint_whole_and_independent_of_order() -> None:
    corpus = corpus_of(1000)
    parts = split_by_hash(corpus)
    ids = [set(part.ids) for part in parts]
    assert set.union(*ids) == set(corpus.ids)
    assert sum(map(len, ids)) == 1000
    assert [len(part) for part in parts] == pytest.approx([800, 100, 100], abs=40)
    backwards = split_by_hash(Corpus.of(reversed(list(corpus))))
    assert [set(part.ids) for part in backwards] == ids


def test_a_tenth_is_set_aside_even_of_a_part_that_was_split_by_hash() -> None:
    train, _, _ = split_by_hash(corpus_of(3000))
    rest, dev = set_aside(train)
    assert len(dev) == pytest.approx(len(train) / 10, rel=0.2)
    assert set(rest.ids) | set(dev.ids) == set(train.ids)
    assert not set(rest.ids) & set(dev.ids)


@pytest.mark.parametrize("n", range(2, 12))
def test_small_corpora_keep_something_on_both_sides(n: int) -> None:
    train, dev = set_aside(corpus_of(n))
    assert len(train) >= 1
    assert len(dev) >= 1

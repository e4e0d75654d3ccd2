"""A corpus of any size with planted structure, made in seconds: for tables of time against size.

    python bench/synthetic.py OUT --labels 200000 --features 800000 --documents 200000
    python bench/synthetic.py OUT --kind tokens --labels 1000000 --features 200000

Writes OUT/train, OUT/dev and OUT/test, corpora that `ontodex train` takes. `sparse`: features with
values; `tokens`: a text corpus without its text, with its words as token ids.

What is planted. Labels come in groups; groups and the labels in them are as unequal as words are
(Zipf). A document has labels of one group mostly. Each label has words of its own, each group too,
and the rest of a document is noise, again Zipf. So labels that belong together meet, words tell
labels, and rare labels are hard. Every label is on at least one training document where there are
as many documents. Numpy only, vectorised; the same shape and seed give the same bits.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ontodex.features import cache
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import Tokens, choose_id_type, to_parts, tokens_recipe
from ontodex.types import Corpus, Doc

Ints = NDArray[np.int64]

_OWN_WORDS = 8  # of a label
_GROUP_WORDS = 16
_STRANGERS = 0.1  # share of a document's further labels that are of any group


@dataclass(frozen=True)
class Shape:
    """The size of a synthetic corpus, and the averages of its documents."""

    labels: int = 10_000
    features: int = 800_000
    documents: int = 200_000
    labels_a_document: float = 5.0
    words_a_label: int = 5  # drawn from the label's own, for each label of a document
    words_of_group: int = 10
    noise_words: int = 40
    group_size: int = 50  # labels
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Drawn:
    """Labels and words of documents, flat: those of document i stand where the owner is i."""

    label_owner: Ints
    labels: Ints
    word_owner: Ints
    words: Ints
    documents: int


def draw(shape: Shape, documents: int, *, part: int, cover: bool) -> Drawn:
    """Documents of one part (0 train, 1 dev, 2 test); `cover` puts every label on a document."""
    random = np.random.default_rng([shape.seed, part])
    n_groups = -(-shape.labels // shape.group_size)
    first = _zipf(random, n_groups, documents) * shape.group_size
    first = np.minimum(first + _zipf(random, shape.group_size, documents), shape.labels - 1)
    if cover:
        covered = random.permutation(documents)[: shape.labels]
        first[covered] = random.permutation(shape.labels)[: len(covered)]
    more = random.poisson(shape.labels_a_document - 1, documents)
    owner = np.repeat(np.arange(documents), more)
    group = first[owner] // shape.group_size
    group = np.where(
        random.random(len(owner)) < _STRANGERS, _zipf(random, n_groups, len(owner)), group
    )
    further = group * shape.group_size + _zipf(random, shape.group_size, len(owner))
    label_owner = np.concatenate([np.arange(documents), owner])
    labels = np.concatenate([first, np.minimum(further, shape.labels - 1)])
    pairs = np.unique(label_owner * shape.labels + labels)  # each label once a document
    label_owner, labels = pairs // shape.labels, pairs % shape.labels
    word_owner, words = _words(shape, random, label_owner, labels, first)
    return Drawn(label_owner, labels, word_owner, words, documents)


def _words(
    shape: Shape, random: np.random.Generator, label_owner: Ints, labels: Ints, first: Ints
) -> tuple[Ints, Ints]:
    """(owner, word): words of the labels, of the first label's group, and noise."""
    n = len(first)
    own_owner = np.repeat(label_owner, shape.words_a_label)
    own = np.repeat(labels, shape.words_a_label)
    own = _hash_numbers(own * _OWN_WORDS + random.integers(0, _OWN_WORDS, len(own)), shape.features)
    group_owner = np.repeat(np.arange(n), shape.words_of_group)
    group = np.repeat(first // shape.group_size, shape.words_of_group)
    group = group * _GROUP_WORDS + random.integers(0, _GROUP_WORDS, len(group))
    group = _hash_numbers(group + shape.labels * _OWN_WORDS, shape.features)
    noise_owner = np.repeat(np.arange(n), shape.noise_words)
    noise = _hash_numbers(_zipf(random, shape.features, len(noise_owner)), shape.features)
    owner = np.concatenate([own_owner, group_owner, noise_owner])
    words = np.concatenate([own, group, noise])
    order = np.lexsort((random.random(len(words)), owner))  # a document's words in random order
    return owner[order], words[order]


def _zipf(random: np.random.Generator, n: int, count: int) -> Ints:
    """Numbers below n, the i-th about 1 / (i + 1) as often as the first."""
    return np.minimum(np.exp(random.random(count) * np.log(n + 1)).astype(np.int64) - 1, n - 1)


def _hash_numbers(numbers: Ints, n: int) -> Ints:
    """Each number's own place below n, all over the range."""
    mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    return ((mixed >> np.uint64(11)) % np.uint64(n)).astype(np.int64)


def label_lists(drawn: Drawn) -> list[list[str]]:
    """The label ids of each document."""
    ends = np.searchsorted(drawn.label_owner, np.arange(drawn.documents + 1)).tolist()
    names = [f"L{label}" for label in drawn.labels.tolist()]
    return [names[a:b] for a, b in pairwise(ends)]


def sparse_corpus(shape: Shape, drawn: Drawn) -> Corpus:
    """In memory: 1 + ln of how often a document has a feature."""
    ones = np.ones(len(drawn.words), dtype=np.float32)
    ends = np.searchsorted(drawn.word_owner, np.arange(drawn.documents + 1))
    rows = csr_array((ones, drawn.words, ends), shape=(drawn.documents, shape.features))
    rows.sum_duplicates()
    rows.data = 1 + np.log(rows.data)
    return Corpus.of_features(rows, label_lists(drawn))


def write_tokens(shape: Shape, drawn: Drawn, folder: Path, config: TokenConfig) -> Corpus:
    """On disk: labels, and the words as token ids where systems with these settings find them."""
    lists = enumerate(label_lists(drawn))
    carried = Corpus.of(Doc(str(i), labels=tuple(own)) for i, own in lists).write_without_text(
        folder
    )
    ends = np.searchsorted(drawn.word_owner, np.arange(drawn.documents + 1)).astype(np.int64)
    words = tuple(f"w{word}" for word in range(shape.features))
    tokens = Tokens(words, drawn.words.astype(choose_id_type(shape.features)), ends)
    recipe = tokens_recipe(config)
    place = cache.locate_parts(carried, recipe)
    assert place is not None  # it lies on disk
    cache.write_parts(place, recipe, to_parts(tokens))
    return carried


def parts(shape: Shape, small: int, *, cover: bool = True) -> dict[str, Drawn]:
    """Train as large as the shape says, dev and test of `small` documents; `cover` puts every label
    on a training document."""
    return {
        "train": draw(shape, shape.documents, part=0, cover=cover),
        "dev": draw(shape, small, part=1, cover=False),
        "test": draw(shape, small, part=2, cover=False),
    }


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("out", type=Path)
    arguments.add_argument("--kind", choices=["sparse", "tokens"], default="sparse")
    arguments.add_argument("--small", type=int, default=5_000, help="documents of dev and of test")
    arguments.add_argument("--stop-words", default="en", help="as the system that will read them")
    for field in dataclasses.fields(Shape):
        name = "--" + field.name.replace("_", "-")
        arguments.add_argument(name, type=type(field.default), default=field.default)
    given = arguments.parse_args()
    shape = Shape(**{f.name: getattr(given, f.name) for f in dataclasses.fields(Shape)})
    started = time.perf_counter()
    for name, drawn in parts(shape, given.small).items():
        if given.kind == "sparse":
            sparse_corpus(shape, drawn).write_without_text(given.out / name)
        else:
            config = TokenConfig(stop_words=given.stop_words)
            write_tokens(shape, drawn, given.out / name, config)
    seconds = time.perf_counter() - started
    sys.stdout.write(f"{given.out}: {shape} in {seconds:.1f} s\n")


if __name__ == "__main__":
    main()

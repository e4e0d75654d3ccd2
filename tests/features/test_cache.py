"""The cache beside a corpus: found by content and recipe, never by accident, never broken."""

import json
import os

import numpy as np
import pytest

from ontodex.errors import DataError
from ontodex.features import cache
from ontodex.features.cache import (
    Parts,
    check_array,
    find_parts,
    load_or_compute,
    locate_parts,
    read_parts,
    write_parts,
)
from ontodex.features.label_graph import LabelGraphConfig, compute_label_vectors
from ontodex.features.token_config import TokenConfig
from ontodex.features.tokens import tokenise_corpus
from ontodex.types import Corpus, Doc, LabelSpace

PARTS = Parts({"numbers": np.arange(5, dtype=np.uint16)}, {"words": ("a", "", "ü\u2028")})


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "WORTH_WRITING", 1)
    return Corpus.write([Doc("1", {"body": "a"}), Doc("2", {"body": "b"})], tmp_path / "corpus")


def check_parts(parts):
    check_array(parts, "numbers", "u", (5,))


class Counted:
    """A recipe's work, counting how often it is done."""

    def __init__(self):
        self.times = 0

    def __call__(self):
        self.times += 1
        return PARTS


def test_a_result_is_made_once_and_then_read(corpus):
    make = Counted()
    for _ in range(3):
        parts = load_or_compute(corpus, {"size": 3}, make, check_parts)
        np.testing.assert_array_equal(parts.arrays["numbers"], np.arange(5))
        assert parts.lists["words"] == ("a", "", "ü\u2028")
    assert make.times == 1
    assert isinstance(parts.arrays["numbers"], np.memmap)


def test_another_recipe_another_content_or_other_rows_are_another_result(corpus, tmp_path):
    other = Corpus.write([Doc("1", {"body": "changed"})], tmp_path / "other")
    places = {
        locate_parts(corpus, {"size": 3}).name,
        locate_parts(corpus, {"size": 4}).name,
        locate_parts(corpus.select([0]), {"size": 3}).name,
        locate_parts(corpus.select([1]), {"size": 3}).name,
        locate_parts(other, {"size": 3}).name,
    }
    assert len(places) == 5
    assert (
        locate_parts(corpus.select([0]), {"size": 3}).parent
        == locate_parts(corpus, {"size": 3}).parent
    )
    assert locate_parts(corpus, {"a": 1, "b": 2}) == locate_parts(corpus, {"b": 2, "a": 1})


def test_a_corpus_in_memory_is_computed_each_time():
    corpus, make = Corpus.of([Doc("1", {"body": "a"})]), Counted()
    for _ in range(2):
        assert load_or_compute(corpus, {}, make, check_parts) is PARTS
    assert make.times == 2


def test_a_handful_of_documents_is_not_worth_writing(tmp_path):
    corpus = Corpus.write([Doc("1", {"body": "a"})], tmp_path / "corpus")
    load_or_compute(corpus, {}, Counted(), check_parts)
    assert not (tmp_path / "corpus" / "features").exists()


@pytest.mark.parametrize("damage", ["truncate", "remove", "junk"])
def test_a_damaged_result_is_reported_and_computed_again(corpus, damage, caplog):
    make = Counted()
    load_or_compute(corpus, {}, make, check_parts)
    folder = locate_parts(corpus, {})
    if damage == "truncate":
        (folder / "numbers.npy").write_bytes((folder / "numbers.npy").read_bytes()[:-4])
    elif damage == "remove":
        (folder / "words.txt").unlink()
    else:
        (folder / "about.json").write_text("{")
    np.testing.assert_array_equal(
        load_or_compute(corpus, {}, make, check_parts).arrays["numbers"], np.arange(5)
    )
    assert make.times == 2
    assert "computed again" in caplog.text
    assert find_parts(corpus, {}, check_parts) is not None


def test_a_folder_that_cannot_be_written_costs_no_result(corpus, caplog):
    (corpus.folder / "features").write_text("in the way")
    assert load_or_compute(corpus, {}, Counted(), check_parts) is PARTS
    assert "computed again next time" in caplog.text


def test_pickled_arrays_are_never_read(tmp_path):
    write_parts(tmp_path / "parts", {}, PARTS)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        np.save(tmp_path / "parts" / "numbers.npy", np.array([{}]), allow_pickle=False)
    np.save(tmp_path / "parts" / "numbers.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(DataError, match="cannot be read"):
        read_parts(tmp_path / "parts")


def test_empty_arrays_and_lists_survive(tmp_path):
    write_parts(
        tmp_path / "parts", {}, Parts({"none": np.empty((0, 3), np.float32)}, {"words": ()})
    )
    parts = read_parts(tmp_path / "parts")
    assert parts.arrays["none"].shape == (0, 3)
    assert parts.lists["words"] == ()


def test_settings_that_a_folder_was_not_prepared_with_are_named(tmp_path):
    corpus = Corpus.of([Doc("a", {"text": "the trout"})]).write_without_text(tmp_path / "carried")
    with pytest.raises(DataError, match=r'not with these settings: .*stop_words = "en"') as e:
        tokenise_corpus(corpus, TokenConfig(stop_words="en"))
    assert "prepare.NAME" in e.value.hint


@pytest.mark.parametrize("content", [b"trout\n\xff\x80\n", b"trout\nsalm", None])
def test_a_damaged_list_of_words_is_refused(content, tmp_path):
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=r"words\.txt"):
        cache.read_words(path)


def _change_array(folder, name, change):
    np.save(folder / f"{name}.npy", change(np.load(folder / f"{name}.npy")))


def _name_a_path(folder):
    about = json.loads((folder / "about.json").read_text())
    about["arrays"] = ["../../docs"]
    (folder / "about.json").write_text(json.dumps(about))


def _put_a_pipe(folder):
    (folder / "words.txt").unlink()
    os.mkfifo(folder / "words.txt")


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: _change_array(folder, "ids", lambda ids: ids + 7),
        lambda folder: _change_array(folder, "ids", lambda ids: ids.astype(float)),
        lambda folder: _change_array(folder, "ids", lambda ids: ids[None]),
        lambda folder: _change_array(folder, "ids", lambda ids: -ids.astype(np.int64)),
        lambda folder: _change_array(folder, "offsets", lambda ends: ends[[0, -1]]),
        lambda folder: _change_array(folder, "offsets", lambda ends: ends.astype(float)),
        lambda folder: _change_array(folder, "limits", lambda limits: limits - 2),
        lambda folder: _change_array(folder, "limits", lambda limits: limits[:1]),
        lambda folder: (folder / "about.json").write_text('{"arrays": [], "lists": []}'),
        lambda folder: (folder / "about.json").write_text("[" * 100_000),
        _name_a_path,
        _put_a_pipe,
    ],
)
def test_planted_features_are_not_used(corpus, change, caplog):
    right = tokenise_corpus(corpus, TokenConfig())
    (folder,) = (corpus.folder / "features").iterdir()
    change(folder)
    found = tokenise_corpus(corpus, TokenConfig())
    assert "computed again" in caplog.text
    assert list(found) == list(right)
    for path in folder.iterdir():
        assert path.is_file()  # the cache is whole again


def test_planted_vectors_of_labels_are_not_used(corpus, monkeypatch, caplog):
    labels = LabelSpace.of(Corpus.of([Doc("1", {"body": "a"}, (), ("x", "y"))]), None)
    config = LabelGraphConfig(label_size=3, walks=1, walk_length=2, walk_passes=1)
    train = Corpus.write(
        [Doc("1", {"body": "a"}, (), ("x", "y")), Doc("2", {"body": "b"}, (), ("x",))],
        corpus.folder.parent / "train",
    )
    right = compute_label_vectors(train, labels, config)
    (folder,) = (train.folder / "features").iterdir()
    for name, change in {
        "vectors": lambda array: array * np.nan,
        "labels": None,
    }.items():
        if change is None:
            (folder / "labels.txt").write_text("x\nunknown\n")
        else:
            _change_array(folder, name, change)
        np.testing.assert_array_equal(compute_label_vectors(train, labels, config), right)
    assert caplog.text.count("computed again") == 2

"""A prepared folder: no text in it, the same results from it, on a machine with only the core."""

import logging
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from ontodex.cli import app
from ontodex.errors import DataError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.phrases import Phrases
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.features.tokens import tokenise_corpus
from ontodex.features.vectors import load_prepared, read_vectors
from ontodex.features.vocabulary import Vocabulary
from ontodex.types import Corpus, Doc

CROPS = ["wheat", "rye", "barley", "oats"]


def write(folder, n, start=0):
    docs = (
        Doc(
            f"d{i}",
            {
                "title": f"Growing {CROPS[i % 4]}",
                "body": f"Soil for {CROPS[i % 3]} {'x' * (i % 9)}",
            },
            keywords=("crop",),
            labels=(CROPS[i % 4],),
            metadata={"secret": "Growing"},
        )
        for i in range(start, start + n)
    )
    return Corpus.write(docs, folder)


@pytest.fixture
def corpora(tmp_path):
    return {"train": write(tmp_path / "a", 30), "dev": write(tmp_path / "b", 8, start=30)}


def test_the_folder_holds_labels_and_ids_but_no_text(corpora, tmp_path):
    carried = prepare(corpora, tmp_path / "out", PrepareConfig())
    train = Corpus.open(tmp_path / "out" / "train")
    assert train.key == corpora["train"].key
    assert not train.has_text
    assert train.ids == corpora["train"].ids
    assert list(train.labels()) == list(corpora["train"].labels())
    assert list(train.keywords()) == list(corpora["train"].keywords())
    for path in (tmp_path / "out").rglob("*.arrow"):
        assert b"Growing" not in path.read_bytes()
    with pytest.raises(DataError, match="prepared without its text") as error:
        list(carried["train"].texts())
    assert "prepare it again" in error.value.hint


@pytest.mark.parametrize("max_length", [0, 3])
def test_everything_computed_from_it_equals_what_the_text_gives(corpora, tmp_path, max_length):
    config = PrepareConfig(min_count=2, max_length=max_length, stop_words="en")
    carried = prepare(corpora, tmp_path / "out", config)
    results = []
    for train, dev in (corpora.values(), carried.values()):
        tokens = tokenise_corpus(train, config)
        vocabulary = Vocabulary.fit(tokens, min_count=2, max_length=max_length)
        sequences = vocabulary.encode(tokenise_corpus(dev, config), max_length=max_length)
        features = MatrixFeatures(
            MatrixConfig(stop_words="en", ngrams=2, min_df=2, max_length=max_length)
        )
        train_matrix, dev_matrix = features.fit(train), features.transform(dev)
        results.append((vocabulary.words, sequences.ids, train_matrix.data, dev_matrix.data))
    for from_text, from_folder in zip(*results, strict=True):
        np.testing.assert_array_equal(from_text, from_folder)


def test_selections_of_a_prepared_corpus_have_their_tokens(corpora, tmp_path):
    config = PrepareConfig(min_count=1)
    carried = prepare(corpora, tmp_path / "out", config)
    ours = tokenise_corpus(carried["train"].select([3, 7]), config)
    assert list(ours) == list(tokenise_corpus(corpora["train"].select([3, 7]), config))


def test_other_token_settings_than_prepared_are_an_error_that_says_so(corpora, tmp_path):
    carried = prepare(corpora, tmp_path / "out", PrepareConfig())
    with pytest.raises(DataError, match="prepared without its text"):
        tokenise_corpus(carried["train"], PrepareConfig(punctuation=True))


def test_settings_that_need_more_than_was_prepared_are_refused(corpora, tmp_path):
    carried = prepare(corpora, tmp_path / "out", PrepareConfig(min_count=3, max_length=2))
    with pytest.raises(DataError, match="min_df = 2, but this corpus was prepared"):
        MatrixFeatures(MatrixConfig(min_df=2)).fit(carried["train"])
    with pytest.raises(DataError, match="the settings need whole documents"):
        MatrixFeatures(MatrixConfig(min_df=3)).fit(carried["train"])


def test_words_come_from_the_training_corpus_alone(tmp_path):
    train = Corpus.write([Doc(str(i), {"b": "common words"}) for i in range(3)], tmp_path / "a")
    dev = Corpus.write([Doc("9", {"b": "common novelty words"})], tmp_path / "b")
    carried = prepare({"train": train, "dev": dev}, tmp_path / "out", PrepareConfig())
    assert list(tokenise_corpus(carried["dev"], PrepareConfig())) == [["common", "", "words"]]


def test_phrases_are_prepared(corpora, tmp_path):
    config = PrepareConfig(phrases=True)
    carried = prepare(corpora, tmp_path / "out", config)
    expected = Phrases.fit(corpora["train"], config)
    found = Phrases.fit(carried["train"], config)
    assert found.frequency == expected.frequency
    assert list(found.extract_corpus(carried["dev"])) == list(
        expected.extract_corpus(corpora["dev"])
    )


def test_rare_phrases_may_be_left_out(corpora, tmp_path):
    config = PrepareConfig(phrases=True, phrase_count=8)
    carried = prepare(corpora, tmp_path / "out", config)
    whole = Phrases.fit(corpora["train"], config).extract_corpus(corpora["train"])
    kept = Phrases.fit(carried["train"], config).extract_corpus(carried["train"])
    counts = dict(zip(whole.words, whole.count_words().tolist(), strict=True))
    assert set(kept.words) - {""} == {word for word, n in counts.items() if n >= 8}
    assert [len(row) for row in kept] == [len(row) for row in whole]


def test_vectors_of_labels_and_keywords_are_prepared_when_set(corpora, tmp_path):
    pytest.importorskip("gensim")
    config = PrepareConfig(set_vectors=True, vector_size=5)
    lists = [["cereals", *labels] for labels in corpora["train"].labels()]
    prepare(corpora, tmp_path / "out", config, label_lists=lists)
    found = read_vectors(tmp_path / "out" / "train" / "label-vectors")
    assert set(found.words) == {"cereals", *CROPS}
    assert found.array.shape[1] == 5
    assert read_vectors(tmp_path / "out" / "train" / "keyword-vectors").words == ("crop",)


def test_vectors_are_read_from_a_file_or_trained(corpora, tmp_path):
    (tmp_path / "file.txt").write_text("wheat 1 2\nunused 3 4\n")
    prepare(corpora, tmp_path / "one", PrepareConfig(vectors=str(tmp_path / "file.txt")))
    assert read_vectors(tmp_path / "one" / "train" / "vectors").words == ("wheat",)
    carried = Corpus.open(tmp_path / "one" / "train")
    aligned = load_prepared(carried, Vocabulary(("", "", "rye", "wheat")))
    np.testing.assert_array_equal(aligned[[0, 3]], [[0, 0], [1, 2]])
    assert load_prepared(corpora["train"], Vocabulary(("", "", "rye"))) is None
    pytest.importorskip("gensim")
    prepare(corpora, tmp_path / "two", PrepareConfig(vectors="train", vector_size=7))
    trained = read_vectors(tmp_path / "two" / "train" / "vectors")
    assert trained.array.shape[1] == 7
    assert {"wheat", "rye", "growing"} <= set(trained.words)


def test_a_corpus_of_features_keeps_them(tmp_path):
    corpus = Corpus.write([Doc("1", features={2: 5.0}, labels=("a",))], tmp_path / "sparse")
    carried = prepare({"train": corpus}, tmp_path / "out", PrepareConfig())["train"]
    assert carried.kind == "sparse"
    np.testing.assert_array_equal(carried.features().toarray(), [[0, 0, 5]])


def test_nothing_is_overwritten(corpora, tmp_path):
    with pytest.raises(DataError, match="exists, and has no record"):
        prepare({"b": corpora["train"]}, tmp_path, PrepareConfig())
    assert Corpus.open(tmp_path / "b").has_text
    (tmp_path / "other").mkdir()
    with pytest.raises(DataError, match="exists, and has no record"):
        prepare({"other": corpora["train"]}, tmp_path, PrepareConfig())
    prepare(corpora, tmp_path / "out", PrepareConfig())
    (tmp_path / "out" / "prepared.json").unlink()  # as earlier versions left it
    with pytest.raises(DataError, match="exists, and has no record"):
        prepare(corpora, tmp_path / "out", PrepareConfig())


def test_a_corpus_is_not_prepared_over_itself(corpora, tmp_path):
    prepare(corpora, tmp_path / "out", PrepareConfig())
    carried = Corpus.open(tmp_path / "out" / "train")
    with pytest.raises(DataError, match="over itself"):
        prepare({"train": carried}, tmp_path / "out", PrepareConfig(max_length=2))


def contents(folder):
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_folder_with_the_same_content_is_left_as_it_is(corpora, tmp_path, caplog):
    first = prepare(corpora, tmp_path / "out", PrepareConfig())
    before = contents(tmp_path / "out")
    with caplog.at_level(logging.INFO):
        again = prepare(corpora, tmp_path / "out", PrepareConfig())
    assert contents(tmp_path / "out") == before
    assert {name: corpus.key for name, corpus in again.items()} == {
        name: corpus.key for name, corpus in first.items()
    }
    assert "already prepared from the same corpora with the same settings" in caplog.text


def test_other_settings_or_corpora_are_refused_by_name(corpora, tmp_path):
    train, dev = corpora.values()
    lists = [["cereals"]] * len(train)
    (tmp_path / "file.txt").write_text("wheat 1 2\n")
    config = PrepareConfig(vectors=str(tmp_path / "file.txt"))
    prepare(corpora, tmp_path / "out", config)
    before = contents(tmp_path / "out")
    (tmp_path / "file.txt").write_text("wheat 3 4\n")
    refused = [
        ({"train": train, "dev": dev}, replace(config, max_length=2), "max_length = 0, not 2"),
        ({"train": dev, "dev": train}, config, "other documents in train"),
        ({"dev": dev, "train": train}, config, "holds train, dev, not dev, train"),
        ({"train": train}, config, "holds train, dev, not train"),
        ({"train": train, "dev": dev}, config, "other contents of"),
    ]
    for chosen, settings, sentence in refused:
        with pytest.raises(DataError, match=sentence) as met:
            prepare(chosen, tmp_path / "out", settings, label_lists=lists)
        assert met.value.hint == "choose another --out, or remove that folder first"
    assert contents(tmp_path / "out") == before


def test_an_unfinished_folder_is_finished_by_the_same_call_alone(corpora, tmp_path, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("ontodex.features.prepare._cut_train_tokens", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(corpora, tmp_path / "out", PrepareConfig())
    with pytest.raises(DataError, match="max_length = 0, not 2"):
        prepare(corpora, tmp_path / "out", PrepareConfig(max_length=2))
    carried = prepare(corpora, tmp_path / "out", PrepareConfig())
    assert len(tokenise_corpus(carried["dev"], PrepareConfig())) == 8


def test_settings_that_are_refused_leave_nothing_behind(corpora, tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.txt"):
        prepare(corpora, tmp_path / "out", PrepareConfig(vectors=str(tmp_path / "nowhere.txt")))
    assert not (tmp_path / "out").exists()


def test_two_corpora_of_one_name_are_refused_before_anything_is_written(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.jsonl").write_text('{"id": "1", "text": "x y"}\n')
    paths = [tmp_path / "a" / "train.jsonl", tmp_path / "b" / "train.jsonl"]
    done = CliRunner().invoke(app, ["prepare", *map(str, paths), "--out", str(tmp_path / "out")])
    assert isinstance(done.exception, DataError)
    assert f"{paths[0]} and {paths[1]} would both be {tmp_path / 'out' / 'train'}" in str(
        done.exception
    )
    assert done.exception.hint
    assert not (tmp_path / "out").exists()


CORE_ONLY = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"gensim", "simplemma", "lxml", "sklearn", "faiss", "omikuji"}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Missing())
from pathlib import Path
from ontodex.features.batches import plan
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.features.prepare import PrepareConfig
from ontodex.features.tokens import tokenise_corpus
from ontodex.features.vectors import load_prepared
from ontodex.features.vocabulary import Vocabulary
from ontodex.types import Corpus
out = Path(sys.argv[1])
train = Corpus.open(out / "train")
tokens = tokenise_corpus(train, PrepareConfig(lemmas="en"))
vocabulary = Vocabulary.fit(tokens, min_count=2)
batches = plan(vocabulary.encode(tokens).lengths, 4, seed=0, epoch=0)
array = load_prepared(train, vocabulary)
matrix = MatrixFeatures(MatrixConfig(lemmas="en")).fit(train)
print(len(batches), array.shape[1], matrix.shape[0], sorted(vocabulary.words)[-1])
"""


def test_a_machine_with_only_the_core_trains_from_the_folder(corpora, tmp_path):
    pytest.importorskip("gensim")
    pytest.importorskip("simplemma")
    config = PrepareConfig(lemmas="en", vectors="train", vector_size=6)
    prepare(corpora, tmp_path / "out", config)
    answer = subprocess.check_output(
        [sys.executable, "-c", CORE_ONLY, str(tmp_path / "out")], text=True
    )
    assert answer.split() == ["8", "6", "30", "xxxxxxxx"]


@pytest.mark.parametrize("wrong", [{"min_count": 0}, {"max_length": -1}, {"vector_size": 0}])
def test_settings_out_of_range_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        PrepareConfig(**wrong)

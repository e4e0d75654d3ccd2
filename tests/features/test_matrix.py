"""One way from any corpus to a matrix: text, sparse, dense; saved and loaded; spans of a text."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.errors import DataError, RunError
from ontodex.features.matrix import MatrixConfig, MatrixFeatures
from ontodex.types import Corpus, Doc

TEXT = Corpus.of(
    Doc(str(i), {"title": title, "body": body})
    for i, (title, body) in enumerate(
        [("Wheat prices", "Prices of wheat rise."), ("Wheat, rye", "rye prices fall; wheat too")]
    )
)
SPARSE = Corpus.of(
    [Doc("1", features={0: 3.0, 2: 4.0}), Doc("2", features={1: 2.0}), Doc("3", features={})]
)
DENSE = Corpus.of([Doc("1", features=(3.0, 4.0)), Doc("2", features=(0.0, -1.0))])


def test_text_becomes_tf_idf_with_named_columns():
    features = MatrixFeatures(MatrixConfig(min_df=2))
    matrix = features.fit(TEXT)
    assert features.name_columns(range(features.n_features)) == ["prices", "wheat"]
    assert matrix.shape == (2, 2)
    np.testing.assert_array_equal(features.transform(TEXT).toarray(), matrix.toarray())


def test_a_sparse_corpus_keeps_its_columns_with_rows_of_length_one():
    features = MatrixFeatures(MatrixConfig())
    expected = [[0.6, 0, 0.8], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(features.fit(SPARSE).toarray(), expected, rtol=1e-6)
    assert features.name_columns([2]) == ["feature 2"]
    plain = MatrixFeatures(MatrixConfig(normalise_sparse=False)).fit(SPARSE)
    np.testing.assert_array_equal(plain.toarray(), [[3, 0, 4], [0, 2, 0], [0, 0, 0]])


def test_a_sparse_corpus_with_other_columns_is_brought_to_those_of_training(caplog):
    features = MatrixFeatures(MatrixConfig())
    features.fit(SPARSE)
    narrow = features.transform(Corpus.of([Doc("n", features={0: 1.0})]))
    assert narrow.shape == (1, 3)
    wide = features.transform(Corpus.of([Doc("w", features={1: 1.0, 7: 9.0})]))
    np.testing.assert_array_equal(wide.toarray(), [[0, 1, 0]])
    assert "1 values of features unknown in training are left out" in caplog.text


def test_dense_features_pass_as_they_are_and_must_have_the_same_width():
    features = MatrixFeatures(MatrixConfig())
    np.testing.assert_array_equal(features.fit(DENSE), [[3, 4], [0, -1]])
    with pytest.raises(DataError, match="3 dense features, but the model was fitted on 2"):
        features.transform(Corpus.of([Doc("1", features=(1.0, 2.0, 3.0))]))


@pytest.mark.parametrize(("fitted", "asked"), [(TEXT, SPARSE), (SPARSE, TEXT), (DENSE, SPARSE)])
def test_a_corpus_of_another_kind_is_refused_in_words(fitted, asked):
    features = MatrixFeatures(MatrixConfig())
    features.fit(fitted)
    with pytest.raises(DataError, match="was fitted on") as error:
        features.transform(asked)
    assert "train a model on this corpus" in error.value.hint


def test_features_cannot_be_used_before_fitting(tmp_path):
    features = MatrixFeatures(MatrixConfig())
    with pytest.raises(RunError, match="before they are fitted"):
        features.transform(TEXT)
    with pytest.raises(RunError, match="before they are fitted"):
        features.save(tmp_path)


@pytest.mark.parametrize("corpus", [TEXT, SPARSE, DENSE])
@pytest.mark.parametrize("ngrams", [1, 2])
def test_loaded_features_give_the_same_bits(corpus, ngrams, tmp_path):
    features = MatrixFeatures(MatrixConfig(min_df=1, ngrams=ngrams, fields=("body", "title")))
    before = features.fit(corpus)
    features.save(tmp_path)
    loaded = MatrixFeatures.load(tmp_path)
    assert loaded.config == features.config
    after = loaded.transform(corpus)
    dense = [m if isinstance(m, np.ndarray) else m.toarray() for m in (before, after)]
    np.testing.assert_array_equal(*dense)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".json", ".txt", ".safetensors"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("matrix.json", b"{"),
        ("matrix.json", b'{"format": 1, "kind": "text", "n_features": 2, "config": {"x": 1}}'),
        ("terms.txt", b"only-one\n"),
        ("terms.txt", b"cut\noff"),
        ("terms.txt", b"\xff\n\n"),
        ("idf.safetensors", b"junk"),
    ],
)
def test_damaged_files_are_refused(name, content, tmp_path):
    features = MatrixFeatures(MatrixConfig())
    features.fit(TEXT)
    features.save(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(RunError, match=r"cannot be read|does not fit"):
        MatrixFeatures.load(tmp_path)


def test_a_systems_settings_may_inherit_the_matrix_settings(tmp_path):
    @dataclass(frozen=True)
    class LinearSettings(MatrixConfig):
        cost: float = 1.0

    features = MatrixFeatures(LinearSettings(min_df=1, cost=2.0))
    features.fit(TEXT)
    features.save(tmp_path)
    assert MatrixFeatures.load(tmp_path).config == MatrixConfig(min_df=1)
    with pytest.raises(ValueError, match="min_df"):
        LinearSettings(min_df=0)
    with pytest.raises(ValueError, match="stop_words"):
        LinearSettings(stop_words="klingon")


WORDS = st.lists(
    st.sampled_from(["wheat", "rye", "prices", "rise", "fall", "in", "the"]), max_size=12
)


@settings(deadline=None, max_examples=40)
@given(
    WORDS,
    WORDS,
    st.sampled_from([1, 2]),
    st.sampled_from([(), ("body",), ("body", "title")]),
    st.sampled_from([1, 3]),
)
def test_the_spans_of_a_text_add_up_to_its_row(title, body, ngrams, fields, weight):
    config = MatrixConfig(min_df=1, ngrams=ngrams, fields=fields, title_weight=weight)
    features = MatrixFeatures(config)
    features.fit(TEXT)
    doc = Doc("1", {"title": " ".join(title), "body": ", ".join(body)})
    row = features.transform(Corpus.of([doc])).toarray()[0]
    sums = defaultdict(float)
    for span in features.find_spans(doc):
        sums[span.column] += span.value
        text = doc.text[span.start : span.end].replace(",", " ").split()
        if span.start < span.end and not fields and weight == 1:
            assert " ".join(text) == features.name_columns([span.column])[0]
    assert sums == pytest.approx({i: v for i, v in enumerate(row.tolist()) if v})


def test_words_of_the_title_count_several_times_where_there_is_more_than_a_title():
    plain, heavy = (
        MatrixConfig(min_df=1, sublinear_tf=False, norm=False, title_weight=w) for w in (1, 3)
    )
    corpus = Corpus.of(
        [Doc("1", {"title": "wheat", "body": "rye"}), Doc("2", {"title": "wheat"}), Doc("3", {})]
    )
    once, thrice = (MatrixFeatures(config).fit(corpus).toarray() for config in (plain, heavy))
    np.testing.assert_allclose(thrice[:, 1] / once[:, 1].clip(1e-9), [3, 1, 0])
    np.testing.assert_allclose(thrice[:, 0], once[:, 0])
    with pytest.raises(ValueError, match="title_weight"):
        MatrixConfig(title_weight=0)


def test_the_parts_of_compounds_count_as_words_even_in_new_compounds():
    texts = ["Umwelt, Schutz, Wirtschaft"] * 3 + ["Umweltschutz und Wirtschaft"]
    config = MatrixConfig(min_df=1, compounds=True, ngrams=2, norm=False)
    features = MatrixFeatures(config)
    features.fit(Corpus.of(Doc(str(i), {"text": text}) for i, text in enumerate(texts)))
    doc = Doc("new", {"text": "die Wirtschaftsumwelt, der Umweltschutz"})
    spans = features.find_spans(doc)
    found = [
        (doc.text[span.start : span.end], features.name_columns([span.column])[0]) for span in spans
    ]
    assert found == [
        ("Wirtschaftsumwelt", "wirtschaft"),
        ("Wirtschaftsumwelt", "umwelt"),
        ("Umweltschutz", "umweltschutz"),
        ("Umweltschutz", "umwelt"),
        ("Umweltschutz", "schutz"),
    ]
    row = features.transform(Corpus.of([doc])).toarray()[0]
    assert sum(span.value for span in spans) == pytest.approx(row.sum())


def test_documents_without_text_have_no_spans():
    features = MatrixFeatures(MatrixConfig())
    features.fit(SPARSE)
    assert features.find_spans(Doc("1", features={0: 1.0})) == []
    with pytest.raises(DataError, match="cannot read text"):
        features.find_spans(Doc("1", {"body": "words"}))

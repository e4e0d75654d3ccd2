"""TF-IDF against its definition in loops, and against scikit-learn."""

from collections import Counter
from itertools import pairwise
from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.errors import DataError
from ontodex.features.tfidf import Tfidf, TfidfConfig, normalise_rows
from ontodex.features.tokens import Tokens

ROWS = st.lists(st.lists(st.sampled_from("abcde"), max_size=7), min_size=1, max_size=7)
CONFIGS = st.builds(
    TfidfConfig,
    min_df=st.integers(1, 3),
    ngrams=st.sampled_from([1, 2]),
    sublinear_tf=st.booleans(),
    norm=st.booleans(),
    max_length=st.sampled_from([0, 3]),
)


def grams(row, config):
    row = row[: config.max_length or None]
    pairs = [f"{a} {b}" for a, b in pairwise(row)] if config.ngrams == 2 else []
    return Counter([*row, *pairs])


def by_loops(train, rows, config):
    """{(row, term): value}, straight from the formula."""
    df = Counter(term for row in train for term in grams(row, config))
    kept = {term for term, count in df.items() if count >= config.min_df}
    values = {}
    for i, row in enumerate(rows):
        here = {
            term: (1 + log(count) if config.sublinear_tf else count)
            * (log((1 + len(train)) / (1 + df[term])) + 1)
            for term, count in grams(row, config).items()
            if term in kept
        }
        length = sqrt(sum(value**2 for value in here.values())) if config.norm else 1
        values |= {(i, term): value / length for term, value in here.items()}
    return values


def as_dict(matrix, terms):
    entries = matrix.tocoo()
    return {
        (int(i), terms[j]): value
        for i, j, value in zip(entries.row, entries.col, entries.data.tolist(), strict=True)
    }


@settings(deadline=None, max_examples=50)
@given(ROWS, ROWS, CONFIGS)
def test_values_are_those_of_the_formula_in_loops(train, others, config):
    tfidf = Tfidf.fit(Tokens.of(train), config)
    for rows in (train, others, [*others, ["unseen", "words"]]):
        matrix = tfidf.transform(Tokens.of(rows))
        assert as_dict(matrix, tfidf.terms) == pytest.approx(by_loops(train, rows, config))


def test_three_documents_by_hand():
    tfidf = Tfidf.fit(Tokens.of([["a", "b", "a"], ["a"], ["c"]]), TfidfConfig(min_df=2, norm=False))
    assert tfidf.terms == ("a",)  # b and c are in one document only
    assert tfidf.idf == pytest.approx([log(4 / 3) + 1])
    matrix = tfidf.transform(Tokens.of([["a", "a"], ["b"]]))
    assert matrix.toarray()[:, 0] == pytest.approx([(1 + log(2)) * (log(4 / 3) + 1), 0])
    assert matrix.dtype == np.float32


@pytest.mark.parametrize("ngrams", [1, 2])
@pytest.mark.parametrize("sublinear", [True, False])
def test_the_matrix_is_scikit_learns(ngrams, sublinear):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    random = np.random.default_rng(1)
    rows = [[f"w{i}" for i in random.integers(0, 30, random.integers(1, 40))] for _ in range(60)]
    theirs = text.TfidfVectorizer(
        analyzer="word", preprocessor=lambda row: row, tokenizer=lambda row: row, lowercase=False,
        token_pattern=None, ngram_range=(1, ngrams), min_df=2, sublinear_tf=sublinear,
    )  # fmt: skip
    expected = theirs.fit_transform(rows).toarray()
    ours = Tfidf.fit(Tokens.of(rows), TfidfConfig(ngrams=ngrams, sublinear_tf=sublinear))
    assert set(ours.terms) == set(theirs.get_feature_names_out())
    columns = [theirs.vocabulary_[term] for term in ours.terms]
    matrix = ours.transform(Tokens.of(rows)).toarray()
    np.testing.assert_allclose(matrix, expected[:, columns], atol=1e-6)


def test_the_most_frequent_features_are_kept_and_ties_go_to_the_earlier_one():
    rows = [["b", "b", "b", "c", "d"], ["a", "c", "d"]]
    tfidf = Tfidf.fit(Tokens.of(rows), TfidfConfig(min_df=1, max_features=2))
    assert tfidf.terms == ("b", "c")


def test_pairs_do_not_reach_across_documents_or_dropped_words():
    tokens = Tokens.of([["a", "b"], ["c"], ["a", "b", "rare", "c"]])
    tfidf = Tfidf.fit(tokens, TfidfConfig(min_df=2, ngrams=2))
    assert tfidf.terms == ("a", "b", "c", "a b")


def test_a_row_does_not_depend_on_its_neighbours():
    random = np.random.default_rng(2)
    rows = [[f"w{i}" for i in random.integers(0, 50, 30)] for _ in range(40)]
    tfidf = Tfidf.fit(Tokens.of(rows), TfidfConfig(ngrams=2))
    together = tfidf.transform(Tokens.of(rows))
    for i, row in enumerate(rows):
        alone = tfidf.transform(Tokens.of([row]))
        np.testing.assert_array_equal(alone.toarray()[0], together[[i]].toarray()[0])


def test_blocks_of_documents_give_the_matrix_of_all_at_once(monkeypatch):
    rows = [["a", "b", "c"], [], ["a"], ["b", "c", "a", "b"], []]
    config = TfidfConfig(min_df=1, ngrams=2)
    whole = Tfidf.fit(Tokens.of(rows), config)
    expected = whole.transform(Tokens.of(rows)).toarray()
    monkeypatch.setattr("ontodex.features.tfidf._BLOCK", 2)
    pieces = Tfidf.fit(Tokens.of(rows), config)
    assert pieces.terms == whole.terms
    np.testing.assert_array_equal(pieces.transform(Tokens.of(rows)).toarray(), expected)


def test_columns_of_a_text_name_words_and_pairs_in_place():
    tfidf = Tfidf.fit(Tokens.of([["a", "b", "x"], ["a", "b"]]), TfidfConfig(min_df=2, ngrams=2))
    a, b, ab = map(tfidf.terms.index, ("a", "b", "a b"))
    assert tfidf.find_columns(["a", "b", "x", "b"]).tolist() == [
        [a, ab],
        [b, -1],
        [-1, -1],
        [b, -1],
    ]
    assert tfidf.find_columns([]).shape == (0, 2)


def test_no_documents_give_no_rows_and_no_words_give_no_columns():
    tfidf = Tfidf.fit(Tokens.of([[], []]), TfidfConfig())
    assert tfidf.transform(Tokens.of([["a"]])).shape == (1, 0)
    assert tfidf.transform(Tokens.of([])).shape == (0, 0)


def test_rare_words_that_a_prepared_corpus_left_out_are_not_silently_missing():
    tokens = Tokens(("", "a"), np.array([0, 1], np.uint16), np.array([0, 1, 2]), min_count=3)
    with pytest.raises(DataError, match="min_df = 2, but this corpus was prepared without words"):
        Tfidf.fit(tokens, TfidfConfig(min_df=2))
    assert Tfidf.fit(tokens, TfidfConfig(min_df=3)).terms == ()


def test_terms_out_of_order_are_refused():
    with pytest.raises(DataError, match="not in order"):
        Tfidf(TfidfConfig(ngrams=2), ("a", "b b", "a b"), np.ones(3, np.float32))
    with pytest.raises(DataError, match="do not fit together"):
        Tfidf(TfidfConfig(), ("a",), np.ones(2, np.float32))
    with pytest.raises(DataError, match="do not fit together"):
        Tfidf(TfidfConfig(), ("a",), np.array([np.nan], np.float32))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3), min_size=1))
def test_unit_rows_have_length_one_or_are_empty(rows):
    from scipy.sparse import csr_array

    dense = np.array(rows, dtype=np.float32)
    lengths = np.linalg.norm(normalise_rows(csr_array(dense)).toarray(), axis=1)
    assert lengths == pytest.approx((np.abs(dense).max(axis=1) > 0).astype(float), abs=1e-5)


@pytest.mark.parametrize("wrong", [{"min_df": 0}, {"max_features": -1}, {"max_length": -1}])
def test_settings_out_of_range_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TfidfConfig(**wrong)

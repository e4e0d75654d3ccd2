"""The scikit-learn face: its own checks, and what people do with it."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, csr_matrix, issparse, random_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import accuracy_score, f1_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils.estimator_checks import parametrize_with_checks

from ontodex import OntodexClassifier
from ontodex.errors import ConfigError, DataError
from ontodex.runs.recipe import train
from ontodex.sklearn import as_texts
from ontodex.types import Corpus, Doc

WORDS = [
    ["trout", "river", "spawn"],
    ["oak", "acorn", "bark"],
    ["newt", "pond", "tail"],
    ["kiln", "clay", "glaze"],
    ["violin", "bow", "string"],
]


def plant_texts(n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Texts that name the labels they have (about one in three) among words that say nothing."""
    rng = np.random.default_rng(seed)
    gold = (rng.random((n, len(WORDS))) < 0.35).astype(np.int64)
    texts = []
    for row in gold:
        words = [word for label in np.flatnonzero(row) for word in rng.choice(WORDS[label], 3)]
        words += rng.choice(["the", "and", "of", "house", "day"], 6).tolist()
        texts.append(" ".join(rng.permutation(words)))
    return texts, gold


TEXTS, GOLD = plant_texts(150, 1)
NEW_TEXTS, NEW_GOLD = plant_texts(60, 2)
TFIDF = TfidfVectorizer().fit(TEXTS)
X, NEW_X = csr_array(TFIDF.transform(TEXTS)), csr_array(TFIDF.transform(NEW_TEXTS))


@pytest.fixture(scope="module")
def fitted() -> OntodexClassifier:
    return OntodexClassifier().fit(TEXTS, csr_array(GOLD))


# Its data sets are not scaled, and liblinear says so.
@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")
@parametrize_with_checks([OntodexClassifier()])
def test_scikit_learns_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks([OntodexClassifier("knn")])
def test_scikit_learns_estimator_checks_pass_with_another_system(estimator, check):
    check(estimator)


def test_labels_of_new_texts_are_found(fitted):
    assert f1_score(NEW_GOLD, fitted.predict(NEW_TEXTS), average="micro") > 0.95
    assert fitted.classes_.tolist() == [0, 1, 2, 3, 4]
    assert not hasattr(fitted, "n_features_in_")


@pytest.mark.parametrize("container", [tuple, np.array, lambda x: np.array(x, dtype=object)])
def test_texts_may_come_in_any_sequence(fitted, container):
    expected = fitted.predict_proba(NEW_TEXTS)
    np.testing.assert_array_equal(fitted.predict_proba(container(NEW_TEXTS)), expected)


@pytest.mark.parametrize("model", ["linear", "knn"])
def test_dense_and_sparse_features_with_the_same_numbers_get_the_same_answer(model):
    raw = OntodexClassifier(model, settings={"normalise_sparse": False})
    dense, sparse = clone(raw).fit(X.toarray(), GOLD), clone(raw).fit(X, GOLD)
    expected = dense.predict_proba(NEW_X.toarray())
    np.testing.assert_allclose(sparse.predict_proba(NEW_X), expected, atol=1e-6)
    # A step before may change its mind about the container.
    np.testing.assert_allclose(dense.predict_proba(NEW_X), expected, atol=1e-6)
    np.testing.assert_allclose(sparse.predict_proba(NEW_X.toarray()), expected, atol=1e-6)
    assert (dense.kind_, sparse.kind_, sparse.n_features_in_) == ("dense", "sparse", X.shape[1])


def test_duplicate_entries_of_a_sparse_matrix_are_summed_and_x_is_not_changed():
    classifier = OntodexClassifier("knn").fit(X, GOLD)
    halves = csr_array(
        (np.repeat(NEW_X.data / 2, 2), np.repeat(NEW_X.indices, 2), NEW_X.indptr * 2),
        shape=NEW_X.shape,
    ).astype(np.float32)
    before = halves.indices.copy()
    np.testing.assert_allclose(
        classifier.predict_proba(halves), classifier.predict_proba(NEW_X), atol=1e-6
    )
    np.testing.assert_array_equal(halves.indices, before)


@pytest.mark.parametrize("n", [0, 3, 2_300])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_a_matrix_becomes_the_corpus_that_its_documents_one_by_one_would(n, kind):
    matrix = random_array((n, 9), density=0.4, format="csr", dtype=np.float32, rng=3)
    labels = [(str(row % 4),) * (row % 3 > 0) for row in range(n)]
    docs = [
        Doc(
            str(row),
            labels=labels[row],
            features=dict(zip(own.indices.tolist(), own.data.tolist(), strict=True))
            if kind == "sparse"
            else tuple(own.toarray().ravel().tolist()),
        )
        for row, own in ((row, matrix[[row]]) for row in range(n))
    ]
    corpus = Corpus.of_features(matrix if kind == "sparse" else matrix.toarray(), labels)
    assert (corpus.kind, corpus.n_features, len(corpus)) == (kind, 9, n)
    assert list(corpus) == docs
    assert list(corpus.select(range(0, n, 7))) == docs[::7]
    assert not n or corpus.key == Corpus.of(docs, n_features=9).key


@pytest.mark.parametrize(
    ("form", "returned"), [(csr_array, csr_array), (csc_array, csr_array), (csr_matrix, csr_matrix)]
)
@pytest.mark.parametrize("dtype", [np.int64, np.float64, bool])
def test_a_sparse_y_gives_a_sparse_prediction(fitted, form, returned, dtype):
    classifier = OntodexClassifier().fit(TEXTS, form(GOLD.astype(dtype)))
    found = classifier.predict(NEW_TEXTS)
    assert type(found) is returned
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.toarray(), fitted.predict(NEW_TEXTS).toarray())


def test_a_dense_y_gives_a_dense_prediction(fitted):
    found = OntodexClassifier().fit(TEXTS, GOLD.tolist()).predict(NEW_TEXTS)
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, fitted.predict(NEW_TEXTS).toarray())


def test_more_than_ten_labels_keep_their_places():
    """Label ids are sorted as texts ("10" before "2"); columns of y are not."""
    gold = np.hstack([np.zeros((150, 7), int), GOLD, np.zeros((150, 1), int)])
    classifier = OntodexClassifier().fit(TEXTS, gold)
    assert f1_score(NEW_GOLD, classifier.predict(NEW_TEXTS)[:, 7:12], average="micro") > 0.95
    probabilities = classifier.predict_proba(NEW_TEXTS)
    assert probabilities.shape == (60, 13)
    assert not probabilities[:, [*range(7), 12]].any()  # labels no training document has


def test_one_class_per_document_gives_predicted_classes():
    classes = np.array(["fish", "tree", "newt", "pot", "fiddle"])
    texts = [f"{' '.join(WORDS[i % 5])} day {i}" for i in range(100)]
    classifier = OntodexClassifier().fit(texts, classes[np.arange(100) % 5])
    assert classifier.classes_.tolist() == sorted(classes)
    new = ["acorn and oak", "glaze", "bow string"]
    assert classifier.predict(new).tolist() == ["tree", "pot", "fiddle"]
    np.testing.assert_allclose(classifier.predict_proba(new).sum(axis=1), 1)


def test_a_document_without_a_known_word_gives_every_class_the_same():
    texts = [f"{' '.join(WORDS[i % 2])}" for i in range(20)]
    classifier = OntodexClassifier("knn").fit(texts, np.arange(20) % 2)
    np.testing.assert_array_equal(classifier.predict_proba(["unheard"]), [[0.5, 0.5]])


@pytest.mark.parametrize("model", ["linear", "knn", "popularity"])
def test_predictions_equal_those_of_a_run_with_the_same_settings(tmp_path, model):
    settings = {"min_df": 1} if model != "popularity" else {}
    choice = {"rule": "top-k", "top_k": 2}
    corpus = Corpus.of(
        Doc(str(row), {"text": text}, labels=tuple(map(str, np.flatnonzero(GOLD[row]))))
        for row, text in enumerate(TEXTS)
    )
    tables = {"model": {"name": model, **settings}, "decide": choice}
    run = train(config=tables, out=tmp_path / "run", train=corpus)
    ranking = run.rank(Corpus.of(Doc(str(i), {"text": t}) for i, t in enumerate(NEW_TEXTS)), 5)

    classifier = OntodexClassifier(model, settings=settings, decide=choice).fit(TEXTS, GOLD)
    expected = ranking.scores(5).toarray()
    np.testing.assert_array_equal(classifier.predict_proba(NEW_TEXTS), expected)
    decided = run.decision.apply(ranking).scores(5).toarray() > 0
    np.testing.assert_array_equal(classifier.predict(NEW_TEXTS), decided)


def test_score_is_the_share_of_documents_whose_whole_set_is_right(fitted):
    right = (fitted.predict(NEW_TEXTS).toarray() == NEW_GOLD).all(axis=1)
    assert fitted.score(NEW_TEXTS, csr_array(NEW_GOLD)) == right.mean()
    assert right.mean() == accuracy_score(NEW_GOLD, fitted.predict(NEW_TEXTS).toarray())


def test_a_clone_has_the_settings_and_nothing_learned(fitted):
    made = OntodexClassifier("knn", settings={"neighbours": 3}, decide={"rule": "threshold"})
    copy = clone(made)
    assert copy.get_params() == made.get_params()
    with pytest.raises(NotFittedError):
        clone(fitted).predict(TEXTS)


def test_the_classifier_is_the_last_step_of_a_pipeline():
    pipeline = make_pipeline(TfidfVectorizer(), OntodexClassifier())
    pipeline.fit(TEXTS, csr_matrix(GOLD))
    assert pipeline[-1].kind_ == "sparse"
    assert f1_score(NEW_GOLD, pipeline.predict(NEW_TEXTS), average="micro") > 0.95


def test_a_search_finds_the_better_cost():
    search = GridSearchCV(
        OntodexClassifier(),
        {"settings": [{"cost": 1e-5}, {"cost": 1.0}]},
        scoring="f1_micro",
        cv=3,
    )
    search.fit(TEXTS, csr_array(GOLD))
    assert search.best_params_ == {"settings": {"cost": 1.0}}
    assert issparse(search.predict(NEW_TEXTS))


def test_cross_validation_takes_texts():
    scores = cross_val_score(OntodexClassifier("knn"), TEXTS, GOLD, scoring="f1_micro", cv=3)
    assert scores.min() > 0.8


def test_a_fitted_classifier_survives_a_pickle(fitted):
    back = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(back.predict_proba(NEW_TEXTS), fitted.predict_proba(NEW_TEXTS))


def test_a_second_fit_forgets_the_first():
    classifier = OntodexClassifier("knn").fit(X, GOLD).fit(TEXTS, np.arange(150) % 2)
    assert not hasattr(classifier, "n_features_in_")
    assert classifier.predict(NEW_TEXTS).shape == (60,)


@pytest.mark.parametrize(
    ("texts", "y", "complaint"),
    [
        ("one text", [1], "X is one text, not a sequence"),
        (["a", None, "b"], [0, 1, 0], r"X\[1\] is None, not a text"),
        (["a", "\ud800", "b"], [0, 1, 0], r"X\[1\]: half a surrogate pair"),
        (["a"], [1], "at least two documents are needed to train, not 1"),
        (["a", "b"], [["x"], ["y"]], "y holds lists of labels"),
        (["a", "b"], [[1, 2], [3]], "y holds lists of labels"),
        (["a", "b"], np.array([{"x"}, {"y"}], dtype=object), "y holds lists of labels"),
        (["a", "b"], np.array([[-1, 1], [1, -1]]), "may hold only 0 and 1"),
        (["a", "b"], csr_array(np.array([[0.5, 0], [0, 0.5]])), "may hold only 0 and 1"),
        (["a", "b"], np.zeros((2, 3), int), "no document to learn from has a label"),
    ],
)
def test_data_that_cannot_be_trained_on_is_refused(texts, y, complaint):
    with pytest.raises(DataError, match=complaint):
        OntodexClassifier("popularity").fit(texts, y)


def test_different_lengths_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        OntodexClassifier("popularity").fit(["a", "b", "c"], [0, 1])


def test_texts_for_a_classifier_of_features_are_refused_and_vice_versa(fitted):
    with pytest.raises(DataError, match="fitted on texts, but X holds features"):
        fitted.predict(NEW_X)
    with pytest.raises(DataError, match="fitted on features, but X holds texts"):
        OntodexClassifier("knn").fit(X, GOLD).predict(NEW_TEXTS)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"model": "linaer"}, "no system 'linaer'; did you mean 'linear'"),
        ({"settings": {"csot": 1.0}}, r"\[model\] has no setting 'csot'; did you mean 'cost'"),
        ({"decide": {"rule": "best"}}, r"\[decide\] rule takes one of 'top-k'"),
        ({"device": "tpu"}, "takes auto, cpu or cuda, not 'tpu'"),
    ],
)
def test_a_bad_parameter_is_refused_when_it_is_used(parameters, complaint):
    with pytest.raises(ConfigError, match=complaint):
        OntodexClassifier(**parameters).fit(TEXTS, GOLD)


def test_an_empty_list_of_texts_gives_no_predictions(fitted):
    assert as_texts([]) == []
    assert fitted.predict([]).shape == (0, 5)


def test_without_scikit_learn_the_package_works_and_the_classifier_says_what_to_install():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "sklearn":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent())
import ontodex
ontodex.load
try:
    ontodex.OntodexClassifier
except ontodex.OntodexError as error:
    print(error, error.hint)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "OntodexClassifier needs the package 'sklearn', which is not installed "
        "pip install 'ontodex[learn]'\n"
    )


def test_label_lists_go_through_the_binarizer(fitted):
    lists = [[f"label {column}" for column in np.flatnonzero(row)] for row in GOLD]
    binarizer = MultiLabelBinarizer(sparse_output=True)
    classifier = OntodexClassifier().fit(TEXTS, binarizer.fit_transform(lists))
    names = binarizer.inverse_transform(classifier.predict(NEW_TEXTS[:5]))
    found = fitted.predict(NEW_TEXTS[:5]).toarray()
    assert names == [tuple(f"label {c}" for c in np.flatnonzero(row)) for row in found]


@pytest.mark.slow
def test_the_example_of_the_guide_prints_what_it_shows():
    page = Path(__file__).parent.parent / "docs" / "guide" / "scikit-learn.md"
    block = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)[0]
    done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True, check=True)
    promised = re.findall(r"^print\(.*\)  # (.*)$", block, re.M)
    assert len(promised) == 2
    assert done.stdout.splitlines()[-2:] == promised

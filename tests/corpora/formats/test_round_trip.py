"""Every format that can be written gives back what it can hold, whatever the text."""

from __future__ import annotations

import string
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ontodex.corpora.detect import detect_format
from ontodex.corpora.formats import FORMATS, list_writable, load_format
from ontodex.corpora.open import open_corpus, read_docs, write_docs
from ontodex.corpora.parsing.capabilities import fit_doc
from ontodex.corpora.parsing.relevance import RELEVANCE
from ontodex.errors import DataError
from ontodex.types import Doc

# A name for a file in each format; where a format is two files, one of them.
NAMES = {
    "corpus": "corpus",
    "parquet": "docs.parquet",
    "pecos-npz": "X.trn.npz",
    "xmc-matrix": "trn_X_Xf.txt",
    "attentionxml": "train_texts.txt",
    "annif-folder": "folder",
}
WRITABLE = list_writable()
OWN_TESTS = ("medline", "bioasq")  # they tidy white space; tests of their own say how
TEXT = [
    name
    for name in WRITABLE
    if name not in OWN_TESTS and "text" in load_format(name).CAPABILITIES.kinds
]
FEATURES = [name for name in WRITABLE if load_format(name).CAPABILITIES.kinds & {"sparse", "dense"}]

SINGLE = (
    "\u2028\u2029\u0085\x0b\x0c\x1c\ufeff\"',;|\\\t\n\r\u00a0<>[]{#% \u00e9\u0301\U0001f600\x7f"
)
HOSTILE = st.sampled_from(
    [
        *SINGLE,
        "\r\n",
        "/SEP/",
        " /SEP/ ",
        "__label__",
        "__label__x ",
        "::",
        "0:1",
        "\\u0000",
        "&amp;",
    ]
)
ANY = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
TEXTS = st.lists(st.one_of(HOSTILE, st.text(ANY, max_size=8)), max_size=6).map("".join)
WORDS = st.text(string.ascii_letters + string.digits + ".-_:/#", min_size=1, max_size=12)
METADATA = WORDS.filter(lambda name: name != RELEVANCE)  # has a form of its own
FIELDS = ("title", "abstract", "body", "text", "id")


@st.composite
def text_docs(draw: st.DrawFn, labels: st.SearchStrategy[str] = WORDS) -> list[Doc]:
    """Documents with different ids whose fields stand in one order."""
    ids = draw(st.lists(WORDS, unique=True, max_size=5))
    return [
        Doc(
            id_,
            {name: draw(TEXTS) for name in FIELDS if draw(st.booleans())},
            tuple(draw(st.lists(TEXTS.filter(bool), max_size=2))),
            tuple(draw(st.lists(labels, unique=True, max_size=4))),
            draw(st.dictionaries(METADATA, TEXTS | st.integers(), max_size=2)),
        )
        for id_ in ids
    ]


@st.composite
def sparse_docs(draw: st.DrawFn) -> list[Doc]:
    values = st.floats(width=32, allow_nan=False, allow_infinity=False)
    ids = range(draw(st.integers(1, 5)))
    return [
        Doc(
            f"d{i}",
            labels=tuple(draw(st.lists(WORDS | st.integers(0, 99).map(str), unique=True))),
            features=draw(st.dictionaries(st.integers(0, 1000), values, max_size=5)),
        )
        for i in ids
    ]


def name_of(format: str) -> str:
    return NAMES.get(format, "docs.txt")


def expect(docs: list[Doc], format: str) -> list[Doc]:
    """Return the documents as the format can store them."""
    capabilities = load_format(format).CAPABILITIES
    kept = [fit_doc(doc, capabilities, Counter()) for doc in docs]
    if not capabilities.id:
        kept = [
            Doc(str(number), doc.fields, doc.keywords, doc.labels, doc.metadata, doc.features)
            for number, doc in enumerate(kept, start=1)
        ]
    return sorted(kept, key=lambda doc: doc.id) if format == "annif-folder" else kept


def comparable(doc: Doc) -> tuple[object, ...]:
    """A document with the order of its fields; matrices alone do not keep the order of labels."""
    labels = frozenset(doc.labels) if doc.kind != "text" else doc.labels
    features = {i: np.float32(v) for i, v in (doc.features or {}).items()}
    return (doc.id, list(doc.fields.items()), doc.keywords, labels, doc.metadata, features)


def round_trip(docs: list[Doc], format: str, ending: str = "") -> list[Doc]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / (name_of(format) + ending)
        assert write_docs(docs, path, format) == len(docs)
        back = list(read_docs(path, format))
    return sorted(back, key=lambda doc: doc.id) if format == "annif-folder" else back


SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
FEW, MANY = settings(SETTINGS, max_examples=10), settings(SETTINGS, max_examples=100)


def check_round_trip(docs: list[Doc], format: str) -> None:
    back = round_trip(docs, format)
    assert [comparable(doc) for doc in back] == [comparable(doc) for doc in expect(docs, format)]


@pytest.mark.parametrize("weights", ["high", {"roofs": "high"}])
def test_weights_of_labels_that_are_no_numbers_are_refused_with_the_document(tmp_path, weights):
    doc = Doc("7", {"text": "slate"}, (), ("roofs",), {RELEVANCE: weights})
    with pytest.raises(DataError, match="document '7': metadata 'relevance' must give a number"):
        write_docs([doc], tmp_path / "docs.txt", "xmc-raw")


@pytest.mark.parametrize("format", TEXT)
@FEW
@given(docs=text_docs())
def test_text_comes_back_from_every_format(format: str, docs: list[Doc]) -> None:
    check_round_trip(docs, format)


@pytest.mark.parametrize("format", FEATURES)
@FEW
@given(docs=sparse_docs())
def test_sparse_features_come_back_from_every_format(format: str, docs: list[Doc]) -> None:
    check_round_trip(docs, format)


@pytest.mark.slow
@pytest.mark.parametrize("format", TEXT)
@MANY
@given(docs=text_docs())
def test_much_text_comes_back_from_every_format(format: str, docs: list[Doc]) -> None:
    check_round_trip(docs, format)


@pytest.mark.slow
@pytest.mark.parametrize("format", FEATURES)
@MANY
@given(docs=sparse_docs())
def test_many_features_come_back_from_every_format(format: str, docs: list[Doc]) -> None:
    check_round_trip(docs, format)


@pytest.mark.parametrize("format", ["corpus", "pecos-npz"])
def test_dense_features_come_back(format: str) -> None:
    docs = [Doc("a", labels=("x",), features=(0.5, 0.0)), Doc("b", features=(0.0, -1.25))]
    assert [doc.features for doc in round_trip(docs, format)] == [(0.5, 0.0), (0.0, -1.25)]


def test_dense_features_become_sparse_where_the_format_has_no_dense_ones() -> None:
    docs = [Doc("a", labels=("3",), features=(0.5, 0.0, 2.0))]
    assert round_trip(docs, "xmc") == [Doc("1", labels=("3",), features={0: 0.5, 2: 2.0})]


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("format", sorted({*WRITABLE} - {"parquet", "corpus", "annif-folder"}))
def test_packed_files_are_written_by_their_ending_and_read_by_content(
    format: str, ending: str, tmp_path: Path
) -> None:
    if format == "pecos-npz":
        pytest.skip("npz is packed inside")
    features = None if format in TEXT or format in OWN_TESTS else {0: 1.0, 3: 0.5}
    fields = {"title": "Rain", "abstract": "It rains."} if features is None else {}
    docs = [Doc("17", fields, labels=("http://e/1", "http://e/2"), features=features)]
    path = tmp_path / (name_of(format) + ending)
    write_docs(docs, path, format)
    magic = {".gz": b"\x1f\x8b", ".xz": b"\xfd7zXZ", ".bz2": b"BZh"}[ending]
    assert path.read_bytes().startswith(magic)
    assert detect_format(path) == format
    (doc,) = read_docs(path)
    assert set(doc.labels) == {"http://e/1", "http://e/2"}


@pytest.mark.parametrize("format", TEXT)
@FEW
@given(labels=st.lists(TEXTS.filter(bool), min_size=1, max_size=3, unique=True))
def test_labels_come_back_as_they_are_or_are_refused(format: str, labels: list[str]) -> None:
    docs = [Doc("1", {"text": "words"}, labels=tuple(labels))]
    forbids = load_format(format).CAPABILITIES.label_forbids
    if forbids and any(map(forbids.search, labels)):
        with pytest.raises(DataError, match="cannot store in a label"):
            round_trip(docs, format)
    else:
        assert round_trip(docs, format)[0].labels == tuple(labels)


@pytest.mark.parametrize("format", TEXT)
@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
def test_characters_that_no_file_can_hold_are_refused(
    format: str, bad: str, tmp_path: Path
) -> None:
    for doc in (
        Doc("1", {"text": bad}),
        Doc("1", {"text": "a"}, labels=(bad,)),
        Doc(bad, {"text": ""}),
    ):
        with pytest.raises(DataError, match=r"NUL|surrogate|cannot hold"):
            write_docs([doc], tmp_path / name_of(format), format)
    assert list(tmp_path.iterdir()) == []  # nothing half-written stays


def test_every_format_in_the_table_has_a_module_that_can_read() -> None:
    for name in FORMATS:
        module = load_format(name)
        assert callable(module.looks_like)
        assert callable(module.read)


def test_labels_of_a_second_corpus_are_added_to_the_list_beside_the_first(tmp_path: Path) -> None:
    train = [Doc("1", labels=("cat", "dog"), features={0: 1.0})]
    test = [Doc("1", labels=("ape", "dog"), features={0: 1.0})]
    write_docs(train, tmp_path / "train.txt", "xmc")
    write_docs(test, tmp_path / "test.txt", "xmc")
    assert (tmp_path / "labels.txt").read_text() == "cat\ndog\nape\n"
    assert [doc.labels for doc in read_docs(tmp_path / "train.txt")] == [("cat", "dog")]
    assert [set(doc.labels) for doc in read_docs(tmp_path / "test.txt")] == [{"ape", "dog"}]


def test_the_width_of_features_survives_when_the_last_ones_are_unused(tmp_path: Path) -> None:
    write_docs(
        [Doc("1", labels=("0",), features={2: 1.0})], tmp_path / "a.txt", "xmc", n_features=9
    )
    write_docs(read_docs(tmp_path / "a.txt"), tmp_path / "b_X_Xf.txt", "xmc-matrix")
    corpus = open_corpus(tmp_path / "b_X_Xf.txt")
    assert corpus.n_features == 9
    np.testing.assert_array_equal(corpus.features().toarray(), [[0, 0, 1, 0, 0, 0, 0, 0, 0]])

"""Hand-made files of every format, read as a person would read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.detect import detect_format
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.corpora.formats import FORMATS, list_writable, load_format
from ontodex.corpora.open import read_docs, write_docs
from ontodex.errors import ConfigError, DataError
from ontodex.types import Doc

FILES = Path(__file__).parent / "files"

EXPECTED = {
    "docs.jsonl": (
        "jsonl",
        [
            Doc(
                "a1",
                {"title": "Rain in spring", "abstract": "It rains more in spring."},
                ("rain", "season"),
                ("D1", "D2"),
                {"year": 1978},
            ),
            Doc("2", {"text": "Snow on the roof."}, labels=("D3",), metadata={"journal": "Roofs"}),
            Doc("a3", {"title": "Untouched"}),
        ],
    ),
    "docs.csv": (
        "csv",
        [
            Doc(
                "a1",
                {"title": "Rain in spring", "abstract": "It rains, more\nin spring."},
                ("rain", "season"),
                ("D1", "D2"),
                {"year": "1978"},
            ),
            Doc("2", {"title": 'Snow "on" the roof'}, labels=("D 3", "D|4")),
            Doc("a3", {"title": "Untouched"}),
        ],
    ),
    "semicolons.csv": ("csv", [Doc("1", {"text": "Rain"}, labels=("D1", "D2"))]),
    "docs.tsv": (
        "tsv",
        [
            Doc("1", {"text": "Rain in spring"}, (), ("D1", "D2"), {"source": "garden"}),
            Doc("2", {"text": "Snow\ton the roof"}, labels=("D3",)),
        ],
    ),
    "docs.parquet": (
        "parquet",
        [
            Doc("7", {"text": "Rain in spring"}, (), ("D1", "D2"), {"year": 1978}),
            Doc("8", {"text": "Snow"}),
        ],
    ),
    "xmc/plain.txt": (
        "xmc",
        [
            Doc("1", labels=("0", "2"), features={0: 1.0, 3: 0.5}),
            Doc("2", features={1: 2.0}),
            Doc("3", labels=("1",), features={}),
        ],
    ),
    "xmc_named/train.txt": (
        "xmc",
        [
            Doc("1", labels=("cats", "apes"), features={0: 1.0, 3: 0.5}),
            Doc("2", features={1: 2.0}),
            Doc("3", labels=("dogs and wolves",), features={}),
        ],
    ),
    "xmc_matrix/trn_X_Y.txt": (
        "xmc-matrix",
        [
            Doc("1", {}, (), ("0", "2"), {"relevance": {"2": 0.25}}, {0: 1.0, 3: 0.5}),
            Doc("2", features={1: 2.0}),
        ],
    ),
    "xmc_raw/trn.json": (
        "xmc-raw",
        [
            Doc(
                "B00",
                {"title": "Rain in spring", "body": "It rains."},
                (),
                ("L0", "L2"),
                {"relevance": {"L2": 0.5}},
            ),
            Doc("B01", {"title": "Snow"}),
        ],
    ),
    "attentionxml/train_labels.txt": (
        "attentionxml",
        [
            Doc("1", {"title": "rain in spring", "body": "it rains"}, labels=("D1", "D2")),
            Doc("2", {"text": "snow on the roof"}),
        ],
    ),
    "pecos/train.txt": (
        "pecos",
        [
            Doc("1", {"text": "Rain in spring"}, labels=("weather", "spring")),
            Doc(
                "2",
                {"text": "Snow on the roof"},
                (),
                ("roofs and houses", "spring"),
                {"relevance": {"roofs and houses": 0.8, "spring": 0.1}},
            ),
            Doc("3", {"text": "Nothing known"}),
        ],
    ),
    "pecos_npz/X.trn.npz": (
        "pecos-npz",
        [
            Doc("1", {}, (), ("0", "2"), {"relevance": {"2": 0.25}}, {0: 1.0, 3: 0.5}),
            Doc("2", features={1: 2.0}),
        ],
    ),
    "pecos_dense/Y.trn.npz": (
        "pecos-npz",
        [
            Doc("1", labels=("weather",), features=(1.0, 0.0, 0.5)),
            Doc("2", labels=("roofs",), features=(0.0, 2.0, 0.0)),
        ],
    ),
    "libmultilabel/with_ids.txt": (
        "libmultilabel",
        [
            Doc("a1", {"text": "Rain in spring"}, labels=("D1", "D2")),
            Doc("2", {"text": "Snow on the roof"}, labels=("D3",)),
            Doc("3", {"text": "Untouched"}),
        ],
    ),
    "libmultilabel/without_ids.txt": (
        "libmultilabel",
        [
            Doc("1", {"text": "Rain in spring"}, labels=("D1", "D2")),
            Doc("2", {"text": "Snow on the roof"}, labels=("D3",)),
        ],
    ),
    "libmultilabel/rows.svm": (
        "libmultilabel-svm",
        [
            Doc("1", labels=("1", "3"), features={0: 0.5, 3: 2.0}),
            Doc("2", features={1: 1.0}),
            Doc("3", labels=("2",), features={}),
        ],
    ),
    "fasttext/train.txt": (
        "fasttext",
        [
            Doc("1", {"text": "Rain in spring"}, labels=("D1", "D2")),
            Doc("2", {"text": "no label here"}),
            Doc("3", {"text": "Snow on the roof"}, labels=("D3",)),
        ],
    ),
    "annif/docs.tsv": (
        "annif-tsv",
        [
            Doc("1", {"text": "Rain in spring"}, labels=("http://e/1", "http://e/2")),
            Doc("2", {"text": "Snow on the roof"}, labels=("http://e/3",)),
            Doc("3", {"text": "Untouched"}),
        ],
    ),
    "annif/docs.csv": (
        "annif-csv",
        [
            Doc(
                "a1",
                {"text": "It rains, more"},
                (),
                ("http://e/1", "http://e/2"),
                {"title": "Rain in spring"},
            ),
            Doc("2", {"text": "Snow on the roof"}, labels=("http://e/3",)),
        ],
    ),
    "annif/docs.jsonl": (
        "annif-json",
        [
            Doc("a1", {"text": "It rains."}, (), ("http://e/1", "Spring"), {"title": "Rain"}),
            Doc("2", {"text": "Snow."}),
        ],
    ),
    "annif/one.json": (
        "annif-json",
        [Doc("a1", {"text": "It rains."}, labels=("http://e/1",))],
    ),
    "annif_folder": (
        "annif-folder",
        [
            Doc("a1", {"text": "It rains.\nMore in spring.\n"}, (), ("http://e/1", "http://e/2")),
            Doc("b/2", {"text": "Snow.\n"}, labels=("weather", "spring rain")),
            Doc("c", {"text": "Untouched.\n"}),
        ],
    ),
    "laws.jsonl": (
        "eurlex57k",
        [
            Doc(
                "31960D0712",
                {
                    "title": "On apples\n",
                    "header": "DECISION on apples",
                    "recitals": ",\nHaving regard to pears;",
                    "main_body": "Article 1\nApples are round.\nArticle 2\nPears are not.",
                },
                (),
                ("1086", "2002"),
                {"type": "Decision", "uri": "http://e/cellar/1"},
            )
        ],
    ),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_format_is_recognised_by_content(name: str) -> None:
    assert detect_format(FILES / name) == EXPECTED[name][0]


@pytest.mark.parametrize("name", EXPECTED)
def test_the_documents_are_read_as_they_stand(name: str) -> None:
    assert list(read_docs(FILES / name)) == EXPECTED[name][1]


@pytest.mark.parametrize("name", [name for name in EXPECTED if "/" not in name[:-1]][:6])
def test_a_misleading_name_does_not_mislead(name: str, tmp_path: Path) -> None:
    if (FILES / name).is_dir():
        pytest.skip("a folder has no ending")
    (tmp_path / "corpus.xyz").write_bytes((FILES / name).read_bytes())
    assert detect_format(tmp_path / "corpus.xyz") == EXPECTED[name][0]


def test_every_format_has_a_hand_made_file_or_tests_of_its_own() -> None:
    own = {"corpus", "medline", "bioasq"}
    assert {format for format, _ in EXPECTED.values()} | own == set(FORMATS)


@pytest.mark.parametrize(
    ("given", "format"),
    [
        ("attentionxml", "attentionxml"),
        ("attentionxml/train", "attentionxml"),
        ("xmc_matrix", "xmc-matrix"),
        ("xmc_matrix/trn", "xmc-matrix"),
        ("pecos_npz", "pecos-npz"),
        ("pecos_dense/trn", "pecos-npz"),
    ],
)
def test_a_pair_is_found_by_folder_and_by_common_beginning(given: str, format: str) -> None:
    assert detect_format(FILES / given) == format
    assert len(list(read_docs(FILES / given))) == 2


def test_a_mistyped_format_is_corrected() -> None:
    with pytest.raises(ConfigError, match="did you mean 'fasttext'"):
        read_docs(FILES / "docs.jsonl", "fastext")


def test_text_fields_are_chosen_where_fields_have_names() -> None:
    (law,) = read_docs(FILES / "laws.jsonl", mapping=FieldMapping(("attachments",)))
    assert list(law.fields) == ["title", "header", "recitals", "main_body", "attachments"]
    doc = list(read_docs(FILES / "docs.jsonl", mapping=FieldMapping(("journal", "text", "title"))))[
        1
    ]
    assert list(doc.fields.items()) == [("journal", "Roofs"), ("text", "Snow on the roof.")]
    first = next(read_docs(FILES / "annif/docs.jsonl", mapping=FieldMapping(("title",))))
    assert first.fields == {"title": "Rain", "text": "It rains."}
    with pytest.raises(ConfigError, match="cannot be chosen in the format fasttext"):
        read_docs(FILES / "fasttext/train.txt", "fasttext", mapping=FieldMapping(("title",)))
    with pytest.raises(DataError, match="columns cannot be named in the format fasttext"):
        read_docs(FILES / "fasttext/train.txt", mapping=FieldMapping(("title",)))


def test_a_format_that_is_only_read_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can be read but not written"):
        write_docs([], tmp_path / "laws.jsonl", "eurlex57k")


def test_what_a_format_cannot_hold_is_counted_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    docs = [
        Doc("1", {"title": "a\nb", "abstract": "c\td"}, ("key",), ("x",), {"year": 1}),
        Doc("2", {"text": "plain"}, labels=("y",)),
    ]
    write_docs(docs, tmp_path / "out.txt", "fasttext")
    assert (tmp_path / "out.txt").read_text() == "__label__x a b c\td\n__label__y plain\n"
    messages = [record.getMessage().split(": ", 1)[1] for record in caplog.records]
    assert sorted(messages) == [
        "fields joined to one text: 1 document",
        "keywords left out: 1 document",
        "line ends or tabs became spaces: 1 document",
        "metadata left out: 1 document",
    ]


def test_a_folder_that_is_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.doc").write_text("years of work")
    for format in ("corpus", "annif-folder"):
        with pytest.raises(DataError, match=r"cannot be replaced.*thesis\.doc"):
            write_docs([Doc("1", {"text": "a"})], tmp_path / "home", format)
    assert (tmp_path / "home" / "thesis.doc").read_text() == "years of work"


def test_the_table_of_what_formats_hold_is_true() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/formats.md").read_text()
    for name in list_writable():
        capabilities = load_format(name).CAPABILITIES
        cells = [
            f"`{name}`",
            ", ".join(sorted(capabilities.kinds)),
            "yes" if capabilities.id else "numbered",
            capabilities.fields,
            "yes" if capabilities.keywords else "no",
            ", ".join(sorted(capabilities.places)) or capabilities.metadata,
        ]
        assert f"| {' | '.join(cells)} |" in page


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be written \(Is a directory\)"):
        write_docs([Doc("1", {"text": "a"})], tmp_path, "jsonl")

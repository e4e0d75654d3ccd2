"""BioASQ JSON in its published layout and in others."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.corpora.detect import detect_format
from ontodex.corpora.formats import bioasq
from ontodex.corpora.open import read_docs, write_docs
from ontodex.errors import DataError
from ontodex.types import Doc

ARTICLES = [
    {
        "abstractText": "It rains ]} often.",
        "journal": "Rain",
        "meshMajor": ["Humans", "Rain, Heavy"],
        "pmid": "1",
        "title": "On rain",
        "year": "2020",
    },
    {"pmid": 2, "title": "No labels", "abstractText": None, "journal": "J", "year": "n.d."},
    {"id": "biblio-3", "title": "Lluvia", "db": "IBECS", "decsCodes": ["28567", "33"]},
]
DOCS = [
    Doc(
        "1",
        {"title": "On rain", "abstract": "It rains ]} often."},
        labels=("Humans", "Rain, Heavy"),
        metadata={"journal": "Rain", "year": 2020},
    ),
    Doc("2", {"title": "No labels"}, metadata={"journal": "J", "year": "n.d."}),
    Doc("biblio-3", {"title": "Lluvia"}, labels=("28567", "33"), metadata={"db": "IBECS"}),
]
LINES = [json.dumps(article) for article in ARTICLES]

LAYOUTS = {
    "published": '{"articles":[\n' + ",\n".join(LINES) + "]}",
    "first article on the first line": '{"articles":[' + ",\n".join(LINES) + "\n]}\n",
    "brackets on lines of their own": '{"articles": [\n' + ",\n".join(LINES) + "\n]\n}\n\n",
    "blank lines, CRLF and BOM": '\ufeff{"articles":[\r\n' + ",\r\n\r\n".join(LINES) + "]}\r\n",
    "indented": json.dumps({"articles": ARTICLES}, indent=2),
    "one line": json.dumps({"articles": ARTICLES}),
}


def put(folder: Path, content: str) -> Path:
    path = folder / "set.json"
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_documents(layout: str, tmp_path: Path) -> None:
    path = put(tmp_path, LAYOUTS[layout])
    assert detect_format(path) == "bioasq"
    assert list(read_docs(path)) == DOCS


@pytest.mark.parametrize(
    ("layout", "lines"),
    [("published", [2, 3, 4]), ("indented", [3, 14, 21]), ("one line", [1] * 3)],
)
def test_documents_know_their_line(layout: str, lines: list[int], tmp_path: Path) -> None:
    docs = bioasq.read(put(tmp_path, LAYOUTS[layout]))
    assert [docs.line for _ in docs] == lines


def test_a_single_article_and_none_at_all(tmp_path: Path) -> None:
    assert list(bioasq.read(put(tmp_path, f'{{"articles":[{LINES[0]}]}}'))) == DOCS[:1]
    assert list(bioasq.read(put(tmp_path, '{"articles":[]}'))) == []
    assert list(bioasq.read(put(tmp_path, '{"articles": [\n]}\n'))) == []


def test_a_damaged_line_is_named_and_the_next_is_read(tmp_path: Path) -> None:
    content = '{"articles":[\n' + ",\n".join([LINES[0], '{"pmid": "x", ', LINES[1]]) + "]}"
    docs = bioasq.read(put(tmp_path, content))
    assert next(docs).id == "1"
    with pytest.raises(DataError, match=r"set\.json:3: not JSON"):
        next(docs)
    assert next(docs).id == "2"


@pytest.mark.parametrize("layout", ["published", "indented"])
def test_a_cut_off_file_is_an_error(layout: str, tmp_path: Path) -> None:
    whole = LAYOUTS[layout]
    cut = whole[: whole.rindex(',\n{"id"' if layout == "published" else ",\n    {\n")]
    docs = bioasq.read(put(tmp_path, cut))
    with pytest.raises(DataError, match="ends inside its list of articles"):
        list(docs)


def test_articles_without_id_are_errors_that_show_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"set\.json:2: no id; this object has \['title'\]"):
        list(bioasq.read(put(tmp_path, '{"articles":[\n{"title":"a"}]}')))


def test_a_large_file_without_one_article_per_line_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bioasq, "LARGEST_WHOLE", 100)
    with pytest.raises(DataError, match="does not have one article per line"):
        list(bioasq.read(put(tmp_path, LAYOUTS["indented"])))
    assert list(bioasq.read(put(tmp_path, LAYOUTS["published"]))) == DOCS  # a stream has no limit


def test_another_json_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="should begin with"):
        bioasq.read(put(tmp_path, '{"documents":[]}'))


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)
IDS = st.text(string.ascii_letters + string.digits, min_size=1, max_size=8)


@settings(deadline=None, max_examples=50)
@given(
    docs=st.lists(
        st.builds(
            Doc,
            IDS,
            st.fixed_dictionaries({"title": TEXTS}, optional={"abstract": TEXTS}),
            labels=st.lists(TEXTS, unique=True, max_size=3).map(tuple),
            metadata=st.fixed_dictionaries(
                {}, optional={"year": st.integers(1900, 2100), "journal": TEXTS, "db": TEXTS}
            ),
        ),
        max_size=4,
    )
)
def test_written_documents_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, docs: list[Doc]
) -> None:
    path = tmp_path_factory.mktemp("bioasq") / "set.json.gz"
    assert write_docs(docs, path, "bioasq") == len(docs)
    assert list(bioasq.read(path)) == docs

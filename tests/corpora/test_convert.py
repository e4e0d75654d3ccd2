from __future__ import annotations

from pathlib import Path

import pytest

from ontodex.corpora.convert import convert
from ontodex.corpora.detect import detect_format
from ontodex.corpora.field_mapping import FieldMapping
from ontodex.corpora.open import open_corpus, read_docs
from ontodex.corpora.sample import get_ontology_path
from ontodex.errors import DataError, OntodexError, UnmappedTableError
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import FORMATS, read_ontology, write_ontology


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text(
        '{"id": "1", "title": "Trout", "labels": ["a", "b"]}\n{"id": "2", "text": "x"}\n'
    )
    return path


def test_a_corpus_becomes_another_format_by_the_name_of_the_target(corpus, tmp_path):
    assert convert(corpus, tmp_path / "out.csv.gz") == (2, "documents")
    assert [doc.labels for doc in read_docs(tmp_path / "out.csv.gz")] == [("a", "b"), ()]


def test_columns_of_other_names_become_the_text_where_they_are_named(tmp_path):
    odd, out = tmp_path / "odd.csv", tmp_path / "out.jsonl"
    odd.write_text("name,body text,title,labels\na,trout,Fish,fish\nb,,Oaks,oak\n")
    named = FieldMapping.of(("body text", "name"))
    assert convert(odd, out, from_format="csv", mapping=named) == (2, "documents")
    assert [(doc.text, doc.labels, doc.metadata) for doc in read_docs(out)] == [
        ("trout\na", ("fish",), {"title": "Fish"}),
        ("b", ("oak",), {"title": "Oaks"}),
    ]


def test_a_table_of_other_columns_is_no_list_of_labels(tmp_path):
    (tmp_path / "odd.csv").write_text("doc,content,topics\n1,trout,fish\n2,oaks,trees\n")
    with pytest.raises(UnmappedTableError, match="the columns are doc, content, topics"):
        convert(tmp_path / "odd.csv", tmp_path / "out.jsonl")


def test_the_labels_that_were_read_are_counted(tmp_path, caplog):
    (tmp_path / "odd.csv").write_text("text,topics\ntrout,fish\noaks,trees\n")
    with caplog.at_level("INFO"):
        convert(tmp_path / "odd.csv", tmp_path / "out.jsonl")
    assert "read 2 documents with 0 labels" in caplog.text
    assert "give --label-field if they are in one of topics" in caplog.text
    caplog.clear()
    with caplog.at_level("INFO"):
        fields = FieldMapping.of(label_field="topics")
        convert(tmp_path / "odd.csv", tmp_path / "named.jsonl", mapping=fields)
    assert "read 2 documents with 2 labels" in caplog.text
    assert "--label-field" not in caplog.text


def test_names_of_concepts_become_ids_with_an_ontology(tmp_path):
    ontology = build_ontology([Concept("D1", {"en": "Fish"}), Concept("D2", {"en": "Trees"})])
    (tmp_path / "in.csv").write_text("text,labels\ntrout,fish|Stones\noaks,D2\n")
    convert(tmp_path / "in.csv", tmp_path / "out.jsonl", ontology=ontology)
    assert [doc.labels for doc in read_docs(tmp_path / "out.jsonl")] == [("D1", "Stones"), ("D2",)]


def test_an_ontology_is_known_for_one(tmp_path):
    count, what = convert(get_ontology_path(), tmp_path / "out.obo")
    assert what == "concepts"
    assert count == len(read_ontology(tmp_path / "out.obo")) > 150


IDS = {
    "numbers": ["1", "2", "3", "4"],
    "words": ["a", "b", "c", "d"],
    "addresses": [f"http://example.org/{i}" for i in range(4)],
    "names": ["Living things", "Water birds", "Song birds", "Wading birds"],
}


@pytest.mark.parametrize("written", [name for name, known in FORMATS.items() if known.write])
@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
def test_every_ontology_format_that_is_written_converts_back_by_its_content(written, ids, tmp_path):
    top, middle, *leaves = ids
    concepts = [Concept(top, {"en": "Top"}), Concept(middle, {"en": "Middle"}, parents=[top])]
    concepts += [Concept(leaf, {"en": f"Leaf {leaf}"}, parents=[middle]) for leaf in leaves]
    write_ontology(build_ontology(concepts), tmp_path / "in.json")
    convert(tmp_path / "in.json", tmp_path / "out", to_format=written)
    assert convert(tmp_path / "out", tmp_path / "back.json") == (4, "concepts")
    assert set(read_ontology(tmp_path / "back.json").ids) == set(ids)


def test_the_sample_converts_there_and_back_in_every_ontology_format(tmp_path):
    whole = len(read_ontology(get_ontology_path()))
    for name, known in FORMATS.items():
        if known.write:
            convert(get_ontology_path(), tmp_path / name, to_format=name)
            assert convert(tmp_path / name, tmp_path / f"{name}.json") == (whole, "concepts"), name


@pytest.mark.parametrize("ids", [["a", "b"], ["1", "2"]])
def test_concepts_that_stand_alone_come_back_from_edges(ids, tmp_path):
    write_ontology(build_ontology(map(Concept, ids)), tmp_path / "in.edges")
    assert convert(tmp_path / "in.edges", tmp_path / "back.json") == (2, "concepts")


def test_turtle_indented_by_tabs_is_no_corpus(tmp_path):
    path = tmp_path / "v.ttl"
    path.write_text("# ours\n@prefix e: <http://e/> .\ne:a\n\te:b 1 ;\n\te:c 2 ;\n\te:d 3 .\n")
    with pytest.raises(DataError, match="has the concepts of an ontology") as met:
        detect_format(path)
    assert "--ontology" in met.value.hint


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("0,2\tfish in rivers\n1\tbirds\n", "pecos"),
        ("\tfish in rivers\n\tbirds on lakes\n", "pecos"),
        ("fish\tin the river\nbird\ton the lake\n", "libmultilabel"),
        ("http://e/0 says much\thttp://e/1\n", "annif-tsv"),
    ],
)
def test_corpora_that_resemble_edges_stay_corpora(text, format, tmp_path):
    (tmp_path / "in.txt").write_text(text)
    assert detect_format(tmp_path / "in.txt") == format
    assert convert(tmp_path / "in.txt", tmp_path / "out.jsonl")[1] == "documents"


@pytest.mark.parametrize("to_format", ["jsonl", "fasttext"])
def test_a_corpus_is_never_written_over_itself(to_format, corpus):
    before = corpus.read_bytes()
    with pytest.raises(DataError, match="already exists") as met:
        convert(corpus, corpus, to_format=to_format)
    assert met.value.hint == "choose another OUT"
    assert corpus.read_bytes() == before


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("out.csv", "out.csv"),
        ("out.csv.gz", "out.csv.gz"),
        ("folder", "folder/docs.arrow"),
        ("x_texts.txt", "x_texts.txt"),
        ("x_texts.txt", "x_labels.txt"),
    ],
)
def test_an_existing_target_is_not_overwritten(target, there, corpus, tmp_path):
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("precious")
    with pytest.raises(DataError, match="already exists"):
        convert(corpus, tmp_path / target)
    assert (tmp_path / there).read_text() == "precious"


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("X.trn.npz", "X.trn.npz"),
        ("X.trn.npz", "Y.trn.npz"),
        ("trn_X_Xf.txt", "trn_X_Y.txt"),
    ],
)
def test_neither_file_of_a_pair_of_matrices_is_written_over(target, there, tmp_path):
    (tmp_path / "in.txt").write_text("1 3 2\n0 1:1 2:0.5\n")
    (tmp_path / there).write_text("precious")
    with pytest.raises(DataError, match="already exists"):
        convert(tmp_path / "in.txt", tmp_path / target)
    assert (tmp_path / there).read_text() == "precious"


def test_an_ontology_is_not_written_over_either(tmp_path):
    (tmp_path / "out.obo").write_text("precious")
    with pytest.raises(DataError, match="already exists"):
        convert(get_ontology_path(), tmp_path / "out.obo")
    assert (tmp_path / "out.obo").read_text() == "precious"


def test_an_empty_folder_is_filled(corpus, tmp_path):
    (tmp_path / "out").mkdir()
    assert convert(corpus, tmp_path / "out") == (2, "documents")


def test_a_format_that_names_both_is_settled_by_content(tmp_path):
    vocabulary = tmp_path / "v.tsv"
    vocabulary.write_text("<http://e/1>\tCats\n<http://e/2>\tDogs\n")
    assert convert(vocabulary, tmp_path / "v.json", from_format="annif-tsv") == (2, "concepts")
    texts = tmp_path / "t.tsv"
    texts.write_text("cats purr\t<http://e/1>\ndogs bark\t<http://e/2>\n")
    assert convert(texts, tmp_path / "t.jsonl", from_format="annif-tsv") == (2, "documents")


def test_the_width_of_features_is_kept_when_the_last_ones_are_unused(tmp_path):
    (tmp_path / "in.txt").write_text("2 9 3\n0 1:1 2:0.5\n2 0:1\n")
    convert(tmp_path / "in.txt", tmp_path / "out", from_format="xmc")
    assert open_corpus(tmp_path / "out").n_features == 9


def test_a_missing_or_unknown_file_is_a_sentence(tmp_path):
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 9)
    for name in ("nothing", "noise.bin"):
        with pytest.raises(OntodexError):
            convert(tmp_path / name, tmp_path / "out.jsonl")


def test_a_format_that_is_not_detected_can_be_converted_as_the_hint_says(tmp_path):
    path = tmp_path / "odd"
    path.write_text("no label here\n" * 100 + "__label__fish trout\n" * 3)
    with pytest.raises(DataError, match="not a known corpus format") as met:
        open_corpus(path)  # as `train`, `evaluate` and `index` do, which take no format
    assert f"ontodex convert {path} OUT.jsonl --from FORMAT" in met.value.hint
    convert(path, tmp_path / "out.jsonl", from_format="fasttext")
    assert list(open_corpus(tmp_path / "out.jsonl").labels())[-1] == ["fish"]

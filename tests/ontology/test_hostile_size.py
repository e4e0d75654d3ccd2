"""Ontologies made to take long or much memory: at most a small multiple of a benign file's cost."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import pytest

from ontodex.errors import DataError
from ontodex.ontology.open import read_ontology, write_ontology
from ontodex.ontology.search import Search
from ontodex.ontology.skos import write as write_skos
from ontodex.ontology.table import write_json
from ontodex.types import Ontology

PREFIXES = (
    "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
    "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n@prefix e: <http://e/> .\n"
)
MANY = 5_000


def tag(number: int) -> str:
    """Return a language tag of four letters."""
    return "x-" + "".join(chr(97 + number // 26**place % 26) for place in range(4))


def make_turtle(language) -> str:
    return PREFIXES + "".join(
        f'e:c{i} a skos:Concept ; skos:prefLabel "name {i}"@{language(i)} ;'
        f' skos:altLabel "other {i}"@{language(i)} .\n'
        for i in range(MANY)
    )


def make_json(language) -> str:
    return json.dumps(
        [
            {"id": f"c{i}", "names": {language(i): f"n {i}"}, "synonyms": {language(i): [f"o {i}"]}}
            for i in range(MANY)
        ]
    )


def read(text: str, tmp_path: Path) -> Ontology:
    path = tmp_path / "ontology"
    path.write_text(text, encoding="utf-8")
    return read_ontology(path)


def read_peak(text: str, tmp_path: Path) -> int:
    """Return the peak of the memory of Python objects."""
    tracemalloc.start()
    try:
        read(text, tmp_path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("make", [make_turtle, make_json])
def test_thousands_of_languages_take_no_table_of_concepts_and_languages(make, tmp_path, costs_like):
    benign, hostile = make(lambda i: "en"), make(tag)
    assert costs_like(lambda: read(hostile, tmp_path), lambda: read(benign, tmp_path))
    assert read_peak(hostile, tmp_path) < 5 * read_peak(benign, tmp_path)


def test_an_ontology_of_thousands_of_languages_is_shown_searched_and_written_in_linear_time(
    tmp_path, costs_like
):
    def use(ontology: Ontology) -> None:
        assert [ontology.name(label)[-1:] for label in ontology.ids[:2]] == ["0", "1"]
        assert all(ontology.name(label) != label for label in ontology.ids)
        assert Search(ontology).find("name 77")[0].label == "http://e/c77"
        for write in (write_json, write_skos):
            write(ontology, io.BytesIO())

    benign = read(make_turtle(lambda i: "en"), tmp_path)
    hostile = read(make_turtle(tag), tmp_path)
    assert costs_like(lambda: use(hostile), lambda: use(benign))
    assert hostile.names_of("http://e/c77") == {tag(77): "name 77"}
    assert hostile.synonyms_of("http://e/c77") == ("other 77",)
    assert hostile.synonyms_of("http://e/c77", tag(77)) == ("other 77",)
    assert hostile.synonyms_of("http://e/c77", "nn") == ()


def test_a_csv_table_of_too_many_cells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ontodex.ontology.table.MAX_CELLS", 1_000_000)
    ontology = read(make_json(tag), tmp_path)
    with pytest.raises(DataError, match="5,000 languages"):
        write_ontology(ontology, tmp_path / "out.csv")


@pytest.mark.parametrize("reverse", [False, True], ids=["top down", "bottom up"])
def test_a_chain_of_classes_is_followed_in_linear_time(reverse, tmp_path, costs_like):
    length = 5_000
    lines = [f"e:k{i} rdfs:subClassOf e:k{i - 1} .\n" for i in range(1, length)]
    lines = ["e:k0 rdfs:subClassOf skos:Concept .\n", *(lines[::-1] if reverse else lines)]
    chain = PREFIXES + "".join(lines) + f'e:x a e:k{length - 1} ; skos:prefLabel "x"@en .\n'
    flat = PREFIXES + "".join(f"e:k{i} a skos:Concept .\n" for i in range(length))
    assert read(chain, tmp_path).ids == ("http://e/x",)
    assert costs_like(lambda: read(chain, tmp_path), lambda: read(flat, tmp_path))


def test_classes_in_a_circle_below_concept_are_read(tmp_path):
    circle = "e:a rdfs:subClassOf e:b . e:b rdfs:subClassOf e:a , skos:Concept . e:x a e:a .\n"
    assert read(PREFIXES + circle, tmp_path).ids == ("http://e/x",)


@pytest.mark.parametrize("as_object", [False, True], ids=["list", "object"])
def test_one_id_given_many_times_is_merged_in_linear_time(as_object, tmp_path, costs_like):
    def make(identifier) -> str:
        records = [
            (identifier(i), {"label": f"name {i}", "alt_labels": [f"other {i}", "same"]})
            for i in range(20_000)
        ]
        if as_object:
            return "{" + ", ".join(f'"{key}": {json.dumps(r)}' for key, r in records) + "}"
        return json.dumps([{"id": key, **record} for key, record in records])

    same, different = make(lambda i: "c"), make(lambda i: f"c{i}")
    hostile = read(same, tmp_path)
    assert costs_like(lambda: read(same, tmp_path), lambda: read(different, tmp_path))
    assert hostile.name("c") == "name 0"
    assert hostile.synonyms_of("c")[:5] == ("other 0", "same", "name 1", "other 1", "name 2")
    assert len(hostile.synonyms_of("c")) == 40_000

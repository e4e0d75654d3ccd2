"""Ontologies made to take long or much memory: both grow with the file, and no faster."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import pytest

from growth import CountedText, count_steps, is_linear
from ontodex.errors import DataError
from ontodex.ontology.graph import Concept, build_ontology
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


def make_turtle(language, size: int) -> str:
    return PREFIXES + "".join(
        f'e:c{i} a skos:Concept ; skos:prefLabel "name {i}"@{language(i)} ;'
        f' skos:altLabel "other {i}"@{language(i)} .\n'
        for i in range(size)
    )


def make_json(language, size: int) -> str:
    return json.dumps(
        [
            {"id": f"c{i}", "names": {language(i): f"n {i}"}, "synonyms": {language(i): [f"o {i}"]}}
            for i in range(size)
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
def test_thousands_of_languages_take_no_table_of_concepts_and_languages(make, tmp_path):
    assert is_linear(lambda size: read(make(tag, size), tmp_path), 500)
    benign, hostile = make(lambda i: "en", MANY), make(tag, MANY)
    assert read_peak(hostile, tmp_path) < 5 * read_peak(benign, tmp_path)


def test_an_ontology_of_thousands_of_languages_is_shown_searched_and_written_in_linear_time(
    tmp_path,
):
    def use(ontology: Ontology) -> None:
        assert [ontology.name(label)[-1:] for label in ontology.ids[:2]] == ["0", "1"]
        assert all(ontology.name(label) != label for label in ontology.ids)
        assert Search(ontology).find("name 77")[0].label == "http://e/c77"
        for write in (write_json, write_skos):
            write(ontology, io.BytesIO())

    made = {size: read(make_turtle(tag, size), tmp_path) for size in (500, 1_000)}
    assert is_linear(lambda size: use(made[size]), 500)
    hostile = made[500]
    assert hostile.names_of("http://e/c77") == {tag(77): "name 77"}
    assert hostile.synonyms_of("http://e/c77") == ("other 77",)
    assert hostile.synonyms_of("http://e/c77", tag(77)) == ("other 77",)
    assert hostile.synonyms_of("http://e/c77", "nn") == ()


def test_a_csv_table_of_too_many_cells_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("ontodex.ontology.table.MAX_CELLS", 1_000_000)
    ontology = read(make_json(tag, MANY), tmp_path)
    with pytest.raises(DataError, match="5,000 languages"):
        write_ontology(ontology, tmp_path / "out.csv")


@pytest.mark.parametrize("reverse", [False, True], ids=["top down", "bottom up"])
def test_a_chain_of_classes_is_followed_in_linear_time(reverse, tmp_path):
    def make(length: int) -> str:
        lines = [f"e:k{i} rdfs:subClassOf e:k{i - 1} .\n" for i in range(1, length)]
        lines = ["e:k0 rdfs:subClassOf skos:Concept .\n", *(lines[::-1] if reverse else lines)]
        return PREFIXES + "".join(lines) + f'e:x a e:k{length - 1} ; skos:prefLabel "x"@en .\n'

    assert read(make(5_000), tmp_path).ids == ("http://e/x",)
    assert is_linear(lambda length: read(make(length), tmp_path), 500)


def test_classes_in_a_circle_below_concept_are_read(tmp_path):
    circle = "e:a rdfs:subClassOf e:b . e:b rdfs:subClassOf e:a , skos:Concept . e:x a e:a .\n"
    assert read(PREFIXES + circle, tmp_path).ids == ("http://e/x",)


@pytest.mark.parametrize("as_object", [False, True], ids=["list", "object"])
def test_one_id_given_many_times_is_merged_in_linear_time(as_object, tmp_path):
    def make(size: int) -> str:
        records = [
            {"label": f"name {i}", "alt_labels": [f"other {i}", "same"]} for i in range(size)
        ]
        if as_object:
            return "{" + ", ".join(f'"c": {json.dumps(record)}' for record in records) + "}"
        return json.dumps([{"id": "c", **record} for record in records])

    assert is_linear(lambda size: read(make(size), tmp_path), 500)
    hostile = read(make(20_000), tmp_path)
    assert hostile.name("c") == "name 0"
    assert hostile.synonyms_of("c")[:5] == ("other 0", "same", "name 1", "other 1", "name 2")
    assert len(hostile.synonyms_of("c")) == 40_000


def test_the_texts_of_an_id_given_many_times_are_compared_in_linear_time():
    def build(size: int) -> Ontology:
        numbered = ([CountedText(f"{kind} {i}") for kind in "abcdef"] for i in range(size))
        return build_ontology(
            Concept(
                "c",
                {"en": name},
                {"en": [synonym]},
                positions=[position],
                schemes=[scheme],
                types=[type_],
                exact_matches=[match],
            )
            for name, synonym, position, scheme, type_, match in numbered
        )

    assert count_steps(lambda: set(map(CountedText, "ab"))) >= 2  # compiled code is counted
    assert is_linear(build, 500)
    built = build(3)
    assert built.synonyms_of("c") == ("b 0", "a 1", "b 1", "a 2", "b 2")
    assert built.schemes == {"c": ("d 0", "d 1", "d 2")}
    assert built.types == {"c": ("e 0", "e 1", "e 2")}

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


RDF = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="%s"%s>'
    "%s</rdf:RDF>"
)
SKOS = "http://www.w3.org/2004/02/skos/core#"
CONCEPT = '<skos:Concept rdf:about="http://e/a"%s><skos:prefLabel>a</skos:prefLabel></skos:Concept>'


def make_jsonld(context: object, nodes: list[dict[str, object]]) -> str:
    concept = {"@id": "http://e/a", "@type": SKOS + "Concept"}
    return json.dumps({"@context": context, "@graph": [concept, *nodes]})


def make_terms(size: int) -> dict[str, object]:
    return {f"t{i}": f"http://e/t{i}" for i in range(size)}


@pytest.mark.parametrize(
    ("context", "node"),
    [
        ({}, {"@context": {}}),
        ({}, {"@context": None}),
        ({"s": {"@id": "http://e/s", "@context": {}}}, {"s": {"http://e/p": "x"}}),
        ({"s": {"@id": "http://e/s", "@context": {}}}, {"@type": "s"}),
        ({"s": {"@id": "http://e/s", "@context": {}}}, {"@type": ["http://e/t", "s"]}),
    ],
    ids=["empty", "null", "of a property", "of a type", "of types"],
)
def test_contexts_that_copy_many_terms_are_refused(context, node, tmp_path):
    nodes = [{"@id": f"http://e/{i}", **node} for i in range(3_000)]
    with pytest.raises(DataError, match="would be copied"):
        read(make_jsonld({**context, **make_terms(3_000)}, nodes), tmp_path)
    assert read(make_jsonld({**context, **make_terms(10)}, nodes), tmp_path).ids == ("http://e/a",)


def test_contexts_of_terms_inside_each_other_are_refused(tmp_path):
    scoped = {f"s{i}": {"@id": f"http://e/s{i}", "@context": {}} for i in range(3_000)}
    with pytest.raises(DataError, match="would be copied"):
        read(make_jsonld({**scoped, **make_terms(3_000)}, []), tmp_path)


def test_nodes_that_each_bring_a_small_context_are_read_however_many_they_are(tmp_path):
    nodes = [{"@context": make_terms(5), "@id": f"http://e/{i}"} for i in range(20_000)]
    assert len(read(make_jsonld(make_terms(5), nodes), tmp_path)) == 1


def make_namespaces(size: int) -> str:
    return "".join(f' xmlns:n{i}="u:{i}"' for i in range(size))


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (RDF % (SKOS, "", CONCEPT % "".join(f' skos:a{i}="b"' for i in range(1_001))), "attrib"),
        (RDF % (SKOS, make_namespaces(500), CONCEPT % make_namespaces(500)), "namespaces"),
        (
            RDF % (SKOS, "", "<skos:Concept>" * 1_001 + "</skos:Concept>" * 1_001),
            "elements inside",
        ),
        (RDF % (SKOS, "", f"<!--{' ' * 2**21}-->"), "bytes in one tag"),
        (RDF % (SKOS, "", CONCEPT % f' skos:notation="{"x" * 2**21}"'), "bytes in one tag"),
    ],
    ids=["attributes", "namespaces", "depth", "comment", "tag"],
)
def test_xml_for_which_the_parser_of_rdf_takes_quadratic_time_is_refused(text, seen, tmp_path):
    with pytest.raises(DataError, match=f"more than .* {seen}"):
        read(text, tmp_path)


def test_namespaces_of_elements_that_have_ended_do_not_count(tmp_path):
    body = "".join(CONCEPT % f' xmlns:n{i}="u:{i}"' for i in range(2_000))
    assert read(RDF % (SKOS, "", body), tmp_path).ids == ("http://e/a",)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (f"{PREFIXES}@prefix l: <http://e/{'a' * 3_000}> . l:a a skos:Concept .", "an IRI of 3,01"),
        (f"{PREFIXES}@prefix l: <http://e/{'a' * 3_000}> . e:a e:b l:c .", "an IRI of 3,01"),
        (f'{PREFIXES}e:a skos:prefLabel "a"@en{"-aaaaaaa" * 20} .', "a language of 162 letters"),
        (RDF % (SKOS, f' xml:lang="en{"-aaaaaaa" * 20}"', CONCEPT % ""), "a language of 162"),
    ],
)
def test_a_long_prefix_or_language_is_not_repeated_in_memory(text, seen, tmp_path):
    with pytest.raises(DataError, match=seen):
        read(text, tmp_path)

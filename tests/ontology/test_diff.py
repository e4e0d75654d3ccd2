"""Two versions of an ontology: each kind of change, and the successors of what is gone."""

from __future__ import annotations

import io

import pytest

from ontodex.ontology import obo, skos, table
from ontodex.ontology.diff import compare_ontologies
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import read_ontology


def named(label, name="", *synonyms, **more):
    names = {"en": name or label.title()}
    return Concept(label, names, {"en": list(synonyms)} if synonyms else {}, **more)


def compare(old, new, **more):
    return compare_ontologies(build_ontology(old), build_ontology(new, **more))


def test_equal_versions_have_no_differences():
    concepts = [named("a"), named("b", parents=["a"])]
    found = compare(concepts, concepts).to_dict()
    assert not any(found.values())


def test_added_removed_renamed_and_moved_concepts():
    old = [named("animals"), named("fish", parents=["animals"]), named("whales", parents=["fish"]),
           named("phlogiston")]  # fmt: skip
    new = [named("animals"), named("fish", "Pisces", parents=["animals"]),
           named("whales", parents=["animals"]), named("newts", parents=["animals"])]  # fmt: skip
    found = compare(old, new)
    assert found.added == ("newts",)
    assert found.removed == ("phlogiston",)
    assert found.renamed == {"fish": ("Fish", "Pisces")}
    assert found.moved == {"whales": (("fish",), ("animals",))}


@pytest.mark.parametrize("stays", [True, False], ids=["deprecated", "retired"])
def test_stated_successors_are_followed_to_a_concept_in_use(stays):
    old = [named("tv"), named("television"), named("telly")]
    gone = [named("tv", deprecated=True, replaced_by="telly"),
            named("telly", deprecated=True, replaced_by="television")]  # fmt: skip
    if stays:
        found = compare(old, [named("television"), *gone])
    else:
        retired = {one.id: one.replaced_by for one in gone}
        found = compare(old, [named("television")], retired=retired)
    assert found.merged == {"television": ("tv", "telly")}
    assert found.find_successor("tv") == "television"
    assert found.successors["tv"].evidence == "replaced by"
    assert found.removed == ()


def test_successors_in_a_circle_end_nowhere():
    gone = [named("a", "x", deprecated=True, replaced_by="b"),
            named("b", "y", deprecated=True, replaced_by="a")]  # fmt: skip
    found = compare([named("a"), named("b"), named("c")], [named("c"), *gone])
    assert found.removed == ("a", "b")


def test_a_new_id_for_the_same_concept_is_a_replacement_not_an_addition():
    old = [named("old-fish", "Fish"), named("trout", parents=["old-fish"])]
    new = [named("new-fish", "Fish", exact_matches=["old-fish"]),
           named("trout", parents=["new-fish"])]  # fmt: skip
    found = compare(old, new)
    assert found.replaced == {"old-fish": "new-fish"}
    assert found.successors["old-fish"].evidence == "exact match"
    assert (found.added, found.moved) == ((), {}), "its child has not moved"


def test_without_statements_names_are_a_guess():
    """As in MeSH: the name of a merged descriptor becomes an entry term of the other one."""
    old = [named("D1", "Dental Models"), named("D2", "Amputation"), named("D3", "Colds")]
    new = [named("D9", "Dental Models"), named("D2", "Amputation, Surgical", "Colds")]
    found = compare(old, new)
    assert {k: v.evidence for k, v in found.successors.items()} == {
        "D1": "same name",
        "D3": "synonym",
    }
    assert all(one.is_guess for one in found.successors.values())
    assert (found.replaced, found.merged) == ({"D1": "D9"}, {"D2": ("D3",)})


def test_an_ambiguous_name_is_no_successor():
    found = compare([named("a", "Bank")], [named("b", "Bank"), named("c", "Bank")])
    assert found.removed == ("a",)


def test_a_synonym_that_becomes_a_concept_splits_the_old_one():
    old = [named("smoking", "Smoking", "Vaping"), named("x")]
    new = [named("smoking", "Smoking"), named("vaping", "Vaping"), named("x", "X", "Vaping")]
    found = compare(old, new)
    assert found.split == {"smoking": ("smoking", "vaping")}
    assert found.added == ("vaping",)


TURTLE = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix dct: <http://purl.org/dc/terms/> .
<urn:transport> a skos:Concept ; owl:deprecated true ; dct:isReplacedBy <urn:road>, <urn:rail> .
<urn:road> a skos:Concept ; skos:exactMatch <urn:other:street> .
<urn:rail> a skos:Concept .
"""
OBO = """format-version: 1.4

[Term]
id: urn:transport
is_obsolete: true
replaced_by: urn:road
replaced_by: urn:rail

[Term]
id: urn:road

[Term]
id: urn:rail
"""


@pytest.mark.parametrize(("suffix", "text"), [(".ttl", TURTLE), (".obo", OBO)])
@pytest.mark.parametrize("kept", ["json", "skos", "obo"])
def test_splits_are_read_and_written(tmp_path, suffix, text, kept):
    (tmp_path / f"new{suffix}").write_text(text)
    new = read_ontology(tmp_path / f"new{suffix}")
    file = io.BytesIO()
    writer = {"json": table.write_json, "skos": skos.write, "obo": obo.write}[kept]
    writer(new, file)
    copy = tmp_path / {"json": "copy.json", "skos": "copy.ttl", "obo": "copy.obo"}[kept]
    copy.write_bytes(file.getvalue())
    for version in (new, read_ontology(copy)):
        old = build_ontology([Concept("urn:transport"), Concept("urn:other:street")])
        found = compare_ontologies(old, version)
        assert set(found.split["urn:transport"]) == {"urn:road", "urn:rail"}
        assert found.find_successor("urn:transport") is None
        if suffix == ".ttl" and kept != "obo":
            assert found.find_successor("urn:other:street") == "urn:road"

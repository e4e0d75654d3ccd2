"""MARC: the field, its indicators, the code of the vocabulary and the number of the concept."""

from __future__ import annotations

import pytest

from ontodex.ontology.open import read_ontology
from ontodex.serve.export_formats import ExportRecord, write_marc
from ontodex.serve.marc import MarcOptions, Subject, escape_marc, format_record, format_subject
from ontodex.serve.prediction.concept_view import ConceptView
from ontodex.serve.prediction.run_metadata import OntologyIndex
from ontodex.types import Corpus, Doc, LabelSpace

VOCABULARY = """
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix gndo: <https://d-nb.info/standards/elementset/gnd#> .
@prefix madsrdf: <http://www.loc.gov/mads/rdf/v1#> .
@prefix gnd: <https://d-nb.info/gnd/> .
@prefix lc: <http://id.loc.gov/authorities/> .
@prefix own: <http://e.org/> .
gnd:4005728-8 a skos:Concept, gndo:TerritorialCorporateBodyOrAdministrativeUnit ;
  skos:prefLabel "Berlin"@de .
gnd:118540238 a skos:Concept, gndo:DifferentiatedPerson ; skos:prefLabel "Goethe, Johann"@de .
gnd:118529579 a skos:Concept, gndo:RoyalOrMemberOfARoyalHouse ; skos:prefLabel "Elisabeth"@de .
gnd:118639811 a skos:Concept, gndo:Family ; skos:prefLabel "Mann, Familie"@de .
gnd:2005615-1 a skos:Concept, gndo:CorporateBody ; skos:prefLabel "Vereinte Nationen"@de .
gnd:1045740-8 a skos:Concept, gndo:ConferenceOrEvent ; skos:prefLabel "Wiener Kongress"@de .
gnd:4099197-7 a skos:Concept, gndo:Work ; skos:prefLabel "Faust"@de .
gnd:4017101-9 a skos:Concept, gndo:SubjectHeadingSensoStricto ; skos:prefLabel "Fische"@de .
gnd:4000000-0 a skos:Concept ; skos:prefLabel "Ohne Klasse"@de .
<http://id.loc.gov/authorities/subjects/sh85048702> a skos:Concept, madsrdf:Topic ;
  skos:prefLabel "Fishes"@en .
<http://id.loc.gov/authorities/names/n79021164> a skos:Concept, madsrdf:Geographic ;
  skos:prefLabel "Berlin (Germany)"@en .
own:1 a skos:Concept, own:Ort ; skos:prefLabel "Ulm"@de .
"""
FIELDS = {
    "https://d-nb.info/gnd/4005728-8": "=651  \\7$aBerlin$2gnd$0(DE-588)4005728-8",
    "https://d-nb.info/gnd/118540238": "=600  17$aGoethe, Johann$2gnd$0(DE-588)118540238",
    "https://d-nb.info/gnd/118529579": "=600  07$aElisabeth$2gnd$0(DE-588)118529579",
    "https://d-nb.info/gnd/118639811": "=600  37$aMann, Familie$2gnd$0(DE-588)118639811",
    "https://d-nb.info/gnd/2005615-1": "=610  27$aVereinte Nationen$2gnd$0(DE-588)2005615-1",
    "https://d-nb.info/gnd/1045740-8": "=611  27$aWiener Kongress$2gnd$0(DE-588)1045740-8",
    "https://d-nb.info/gnd/4099197-7": "=630  07$aFaust$2gnd$0(DE-588)4099197-7",
    "https://d-nb.info/gnd/4017101-9": "=650  \\7$aFische$2gnd$0(DE-588)4017101-9",
    "https://d-nb.info/gnd/4000000-0": "=650  \\7$aOhne Klasse$2gnd$0(DE-588)4000000-0",
    "http://id.loc.gov/authorities/subjects/sh85048702": "=650  \\0$aFishes"
    "$0http://id.loc.gov/authorities/subjects/sh85048702",
    "http://id.loc.gov/authorities/names/n79021164": "=651  \\0$aBerlin (Germany)"
    "$0http://id.loc.gov/authorities/names/n79021164",
    "http://e.org/1": "=650  \\7$aUlm$2local$0http://e.org/1",
}


@pytest.fixture(scope="module")
def concepts(tmp_path_factory):
    """A vocabulary whose concepts have the classes of GND, of MADS and one of its own."""
    path = tmp_path_factory.mktemp("marc") / "vocabulary.ttl"
    path.write_text(VOCABULARY)
    ontology = read_ontology(path)
    docs = Corpus.of([Doc("1", {"text": "x"}, (), tuple(FIELDS))])
    return ConceptView(OntologyIndex(ontology), LabelSpace.of(docs, ontology))


def write_fields(concepts, options):
    record = ExportRecord(Doc("1", {"text": "x"}), 1, tuple(FIELDS), (), ("ada",))
    (text,) = write_marc(iter([record]), concepts, options)
    return text.splitlines()[2:-1]


def test_the_class_of_a_concept_decides_its_field(concepts):
    assert write_fields(concepts, MarcOptions()) == list(FIELDS.values())


def test_a_class_of_another_vocabulary_is_given_its_field(concepts):
    given = MarcOptions("655", fields={"http://e.org/Ort": "651"})
    lines = write_fields(concepts, given)
    assert lines[-1] == "=651  \\7$aUlm$2local$0http://e.org/1"
    assert lines[8].startswith("=655"), "the chosen field is for concepts without a known class"
    assert lines[7].startswith("=650")


def test_uncontrolled_terms_have_the_kind_of_their_class(concepts):
    lines = write_fields(concepts, MarcOptions("653"))
    assert lines[0] == "=653  \\5$aBerlin"
    assert lines[1] == "=653  \\1$aGoethe, Johann"
    assert lines[-1] == "=653  \\\\$aUlm"


def test_marc_signs_are_written_by_name():
    assert escape_marc("a$b{c}\\\nd") == "a{dollar}b{lcub}c{rcub}{bsol} d"


@pytest.mark.parametrize(
    ("label", "line"),
    [
        ("http://zbw.eu/stw/descriptor/1", "=650  \\7$aN$2stw$0http://zbw.eu/stw/descriptor/1"),
        ("D005393", "=650  \\2$aN$0https://id.nlm.nih.gov/mesh/D005393"),
        ("http://id.nlm.nih.gov/mesh/D005393", "=650  \\2$aN$0http://id.nlm.nih.gov/mesh/D005393"),
        ("gnd:4003694-7", "=650  \\7$aN$2gnd$0(DE-588)4003694-7"),
        ("https://d-nb.info/gnd/4003694-7", "=650  \\7$aN$2gnd$0(DE-588)4003694-7"),
        (
            "http://id.loc.gov/authorities/subjects/sh85048702",
            "=650  \\0$aN$0http://id.loc.gov/authorities/subjects/sh85048702",
        ),
        ("http://www.yso.fi/onto/yso/p1", "=650  \\7$aN$2yso/fin$0http://www.yso.fi/onto/yso/p1"),
        ("C0364", "=650  \\7$aN$2local$0C0364"),
        ("D12", "=650  \\7$aN$2local$0D12"),
    ],
)
def test_the_vocabulary_is_found_by_the_id(label, line):
    assert format_subject(Subject(label, "N"), "fi", MarcOptions()) == line


def test_the_code_and_the_field_may_be_given():
    given = MarcOptions("655", "eurovoc")
    report = Subject("1309", "report")
    assert format_subject(report, "en", given) == "=655  \\7$areport$2eurovoc$01309"
    assert format_subject(report, "en", MarcOptions("653")) == "=653  \\\\$areport"
    mesh = MarcOptions("650", "mesh")
    assert format_subject(Subject("x1", "Fishes"), "en", mesh) == "=650  \\2$aFishes$0x1"


def test_a_record_has_a_leader_an_id_and_an_empty_line_behind():
    subjects = [Subject("C1", "c1", "1.2"), Subject("C2", "c2")]
    lines = format_record("a1", subjects, "en", MarcOptions()).split("\n")
    assert lines[0].startswith("=LDR  ")
    assert len(lines[0]) == len("=LDR  ") + 24
    assert lines[1:] == [
        "=001  a1", "=084  \\\\$a1.2$2local",
        "=650  \\7$ac1$2local$0C1", "=650  \\7$ac2$2local$0C2", "", "",
    ]  # fmt: skip

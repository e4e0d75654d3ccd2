"""The real vocabularies load fully; run by hand where they are (-m data)."""

import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest

from ontodex.ontology.detect import detect_format
from ontodex.ontology.diff import compare_ontologies
from ontodex.ontology.graph import compute_ancestors, compute_depths
from ontodex.ontology.levels import UNPLACED, assign_levels
from ontodex.ontology.open import read_ontology, write_ontology
from ontodex.ontology.search import Search

DATA = Path(os.environ.get("ONTODEX_DATA", Path(__file__).parents[2] / "../shared/data"))

pytestmark = pytest.mark.data


def load(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here; set ONTODEX_DATA")
    return read_ontology(path)


def test_mesh_counts_levels_and_categories():
    mesh = load("mesh/mesh_id_label_mappings.tsv.gz")
    assert len(mesh) == 30_764
    assert sum(map(len, mesh.positions)) == 64_457
    assert sum("." not in position for own in mesh.positions for position in own) == 115
    assert len(mesh.categories) == 16
    levels = assign_levels(mesh, max_level=99)
    assert levels.n_levels == 13
    assert len(levels.categories) == 17
    alone = levels.membership[:, [levels.categories.index(UNPLACED)]].nonzero()[0]
    assert [mesh.name(mesh.ids[i]) for i in alone] == ["Female", "Male"]
    assert levels.level[alone].tolist() == [1, 1]
    assert mesh.problems == (
        "1 edge closing a cycle cut: 'D013285' as parent of 'D015835'",
    )  # Strabismus and Ocular Motility Disorders
    assert assign_levels(mesh).n_levels == 7


def test_hp_obo_loads_fully():
    hp = load("vocab/hp.obo.gz")
    assert len(hp) == 19_484
    assert hp.problems == ()
    assert hp.parents.nnz == 23_392
    obsolete = hp.deprecated & set(hp.ids)
    assert len(obsolete) == 450
    assert hp.name("HP:0000003") == "Multicystic kidney dysplasia"
    assert hp.replaced_by["HP:0004715"] == "HP:0000003"  # an alt_id
    assert compute_depths(hp)[1].max() == 17
    assert np.diff(compute_ancestors(hp).indptr)[hp.index["HP:0000001"]] == 0


def test_stw_has_6244_concepts_seven_categories_two_languages():
    stw = load("vocab/stw-skos.ttl.gz")
    assert len(stw) == 6_244
    assert stw.problems == ()
    assert {tag: sum(map(bool, names)) for tag, names in stw.names.items()} == {
        "de": 6_244,
        "en": 6_244,
    }
    assert stw.parents.nnz == 13_252
    assert len(stw.categories) == 7
    assert len(stw.deprecated - set(stw.ids)) == 1_150  # known as retired, no concepts
    assert len(stw.deprecated & set(stw.ids)) == 1
    assert len(stw.replaced_by) == 1_020


def test_eurovoc_is_a_dag_of_six_levels():
    eurovoc = load("eurlex57k/eurovoc.json")
    assert len(eurovoc) == 7_201
    assert eurovoc.problems == ()
    assert compute_depths(eurovoc)[0].max() == 6
    assert (np.diff(eurovoc.parents.indptr) > 1).sum() == 241
    assert assign_levels(eurovoc, max_level=4).n_levels == 4


@pytest.mark.parametrize(
    "name", ["vocab/hp.obo.gz", "vocab/stw-skos.ttl.gz", "mesh/mesh_id_label_mappings.tsv.gz"]
)
def test_real_vocabularies_survive_the_json_of_ontodex(name, tmp_path):
    ontology = load(name)
    write_ontology(ontology, tmp_path / "o.json")
    assert detect_format(tmp_path / "o.json") == "json"
    back = read_ontology(tmp_path / "o.json")
    assert back.ids == ontology.ids
    assert back.names == ontology.names
    assert back.synonyms == ontology.synonyms
    assert (back.parents != ontology.parents).nnz == 0
    assert back.positions == ontology.positions
    assert back.definitions == ontology.definitions
    write_ontology(back, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "o.json").read_bytes()


def test_mesh_is_searched():
    search = Search(load("mesh/mesh_id_label_mappings.tsv.gz"))
    assert search.find("slaughterhouses")[0].label == "D000003"
    assert search.find("diabtes mellitus")[0].label == "D003920"


def test_stw_since_version_8_10_has_merged_853_concepts_and_removed_92(real_data, tmp_path):
    """The older version is made from the history notes of the newer one: concepts that were last
    used in version 8.10 or later are put back into use."""
    with gzip.open(real_data / "vocab" / "stw-skos.ttl.gz", "rt", encoding="utf-8") as file:
        text = file.read()

    def put_back(match):
        block = match[0]
        last = re.search(r"used at last in version (\d+)\.(\d+)", block)
        if "owl:deprecated true" not in block or last is None or int(last[2]) < 10:
            return block
        block = re.sub(r"dcterms:isReplacedBy [^;]*;\n", "", block)
        block = block.replace("owl:deprecated true ;\n", "").replace("rdfs:label", "skos:prefLabel")
        return block.replace("a zbwext:", "a skos:Concept, zbwext:")

    (tmp_path / "old.ttl").write_text(re.sub(r"(?m)^<[^>]+>\n(?: {4}.*\n)+", put_back, text))
    old = read_ontology(tmp_path / "old.ttl")
    new = read_ontology(real_data / "vocab" / "stw-skos.ttl.gz")
    found = compare_ontologies(old, new)
    assert (len(old), len(new)) == (7_188, 6_244)
    assert sum(map(len, found.merged.values())) == 853
    assert {one.evidence for one in found.successors.values()} == {"replaced by"}
    assert len(found.removed) == 92
    small = "http://zbw.eu/stw/descriptor/10042-6"
    assert new.name(found.find_successor(small)) == "Small open economy"

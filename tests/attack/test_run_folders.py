"""The campaign on run folders attacks what it should: a mutant is not refused for its digests."""

from __future__ import annotations

import random
import shutil

import pytest

from attack.run_folders import read_files, renew_digests, write_files
from attack.run_mutations import mutate
from attack.run_operations import run_evaluate, run_learn, run_migrate, try_operation
from attack.run_pairs import mutate_together
from attack.run_seeds import make_corpus, make_ontology
from ontodex.errors import RunError
from ontodex.runs.recipe import train
from ontodex.runs.run import load


@pytest.fixture(scope="module")
def seed(tmp_path_factory):
    out = tmp_path_factory.mktemp("seed") / "run"
    config = {"model": {"name": "popularity"}, "decide": {"rule": "ofo"}}
    train(
        config=config, out=out, train=make_corpus(6), dev=make_corpus(2), ontology=make_ontology()
    )
    return out


def test_a_run_with_renewed_digests_loads(seed, tmp_path):
    """A model card has no digest: with one, every mutant was refused."""
    files = read_files(seed)
    assert "README.md" in files
    write_files(tmp_path / "run", renew_digests(files))
    assert load(tmp_path / "run").suggest("trout") == load(seed).suggest("trout")


def test_a_changed_file_needs_a_renewed_digest(seed, tmp_path):
    files = read_files(seed)
    files["labels.tsv"] = files["labels.tsv"].replace(b"Fish", b"Fisch")  # names are not loaded
    write_files(tmp_path / "old", files)
    with pytest.raises(RunError, match="changed since it was written"):
        load(tmp_path / "old")
    write_files(tmp_path / "new", renew_digests(files))
    load(tmp_path / "new")


def test_files_are_changed_together_and_repeatably(seed):
    files = read_files(seed)
    found = [mutate_together(files, random.Random(i)) for i in range(60)]
    assert found == [mutate_together(files, random.Random(i)) for i in range(60)]
    several = [
        changed for changed, _ in found if sum(changed.get(n) != files[n] for n in files) > 1
    ]
    assert len(several) > 20


@pytest.mark.parametrize("content", [b"[" * 100_000 + b"]" * 100_000, b'{"cut'])
def test_a_file_that_is_no_json_any_more_is_changed_as_bytes(content):
    """A second change met what the first had left, and the campaign ended."""
    files = dict.fromkeys(("model/model.json", "decision.json", "manifest.json"), content)
    changed = [mutate(files, random.Random(i))[0] for i in range(20)]
    assert any(one != files for one in changed)


@pytest.mark.parametrize("operation", [run_evaluate, run_learn, run_migrate])
def test_an_operation_works_on_a_copy_and_leaves_runs_that_load(seed, tmp_path, operation):
    folder = shutil.copytree(seed, tmp_path / "place" / "run")
    before = read_files(folder)
    assert try_operation(folder, operation) == "ended"
    assert read_files(folder) == before

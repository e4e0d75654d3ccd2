"""Earlier versions of a run: kept, listed and restored."""

from __future__ import annotations

import shutil

import pytest

from ontodex.errors import RunError
from ontodex.runs.recipe import train
from ontodex.runs.run import load
from ontodex.runs.update import update
from ontodex.runs.versions import (
    KEPT,
    format_time,
    list_versions,
    name_version,
    replace_run,
    restore_version,
)
from ontodex.types import Corpus, Doc


def make_docs(label, n=6):
    return Corpus.of(Doc(f"{label}{i}", {"text": f"{label} {i}"}, (), (label,)) for i in range(n))


@pytest.fixture
def run(tmp_path):
    train("knn", train=make_docs("fish"), dev=make_docs("fish"), out=tmp_path / "run")
    return tmp_path / "run"


def read_labels(folder):
    return set(load(folder).labels.ids)


def test_an_update_keeps_the_version_before_and_it_can_be_restored(run):
    first = name_version(run)
    update(run, make_docs("oak"))
    second = name_version(run)
    assert [one.name for one in list_versions(run)] == [second, first]
    assert restore_version(run).name == first
    assert read_labels(run) == {"fish"}
    assert restore_version(run, second[:6]).name == second
    assert read_labels(run) == {"fish", "oak"}


def test_only_the_last_versions_are_kept_each_once(run):
    for number in range(KEPT + 2):
        update(run, make_docs(f"label{number}"))
    current, *earlier = list_versions(run)
    assert len(earlier) == KEPT
    for _ in range(3):  # to and fro makes no new versions
        restore_version(run)
    names = [one.name for one in list_versions(run)]
    assert len(names) == len(set(names)) == KEPT + 1
    assert current.name in names


def test_an_unknown_version_is_refused_with_those_there_are(run):
    with pytest.raises(RunError, match=r"has no earlier version$"):
        restore_version(run)
    update(run, make_docs("oak"))
    with pytest.raises(RunError, match=f"it has {list_versions(run)[1].name}"):
        restore_version(run, "ffff")


def test_a_damaged_version_is_not_restored(run):
    update(run, make_docs("oak"))
    (run.with_name("run.versions") / f"0001-{list_versions(run)[1].name}" / "labels.tsv").unlink()
    with pytest.raises(RunError, match="missing from the run folder"):
        restore_version(run)
    assert read_labels(run) == {"fish", "oak"}


def test_a_run_that_changed_meanwhile_is_not_replaced(run):
    with pytest.raises(RunError, match="another process changed the run"), replace_run(run) as new:
        shutil.copytree(run, new, dirs_exist_ok=True)
        update(run, make_docs("oak"))
    assert read_labels(run) == {"fish", "oak"}


def test_a_time_that_no_date_can_name_is_the_nearest():
    times = {
        1.5: "1970-01-01T00:00:01",
        -(2**40): "1970-01-01T00:00:00",
        2**40: "9999-12-31T23:59:59",
    }
    assert {second: format_time(second) for second in times} == {
        second: f"{time}+00:00" for second, time in times.items()
    }

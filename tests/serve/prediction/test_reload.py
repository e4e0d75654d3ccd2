"""A new version of a run is served without a restart, and no request is lost on the way."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from ontodex.runs.update import update
from ontodex.runs.versions import name_version, restore_version
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView
from ontodex.types import Corpus, Doc

NEWTS = Corpus.of(
    Doc(f"n{i}", {"text": f"newts brake in wet moss {i}"}, (), ("newt",)) for i in range(6)
)
ROAD = "http://e.org/road"  # the only training documents with the word "brake"
BODY = {"documents": [{"text": "newts brake in wet moss"}], "limit": 1}


@pytest.fixture
def folder(run_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run_folder, tmp_path / "small"))


@pytest.fixture
def client(start, folder):
    return start({"small": RunView("small", RunMetadata.open(folder))}, watch=0)


def best_label(client):
    (result,) = client.post("/suggest", json=BODY).json()["results"]
    return [suggestion["label"] for suggestion in result["suggestions"]]


def test_an_updated_run_is_served_after_a_reload_and_the_old_one_after_going_back(client, folder):
    old = name_version(folder)
    assert best_label(client) == [ROAD]
    assert client.post("/runs/small/reload").json() == {
        "run": "small", "version": old, "is_changed": False
    }  # fmt: skip
    update(folder, NEWTS)
    assert best_label(client) == [ROAD], "the service has not looked yet"
    new = client.post("/runs/small/reload").json()
    assert (new["is_changed"], new["version"]) == (True, name_version(folder))
    assert best_label(client) == ["newt"]
    batch = {"documents": [{"text": "newts brake in wet moss"}]}
    annif = client.post("/v1/projects/small/suggest-batch?limit=1", json=batch)
    assert [found["uri"] for found in annif.json()[0]["results"]] == ["newt"]
    assert client.get("/runs").json()["runs"][0]["version"] == new["version"]
    versions = client.get("/runs/small/versions").json()["versions"]
    assert [(one["version"], one["is_current"]) for one in versions] == [
        (new["version"], True), (old, False)
    ]  # fmt: skip
    back = client.post("/runs/small/versions/previous/restore").json()
    assert back == {"run": "small", "version": old, "is_changed": True}
    assert best_label(client) == [ROAD]
    assert name_version(folder) == old, "a restart serves it too"


def test_stored_suggestions_are_those_of_the_served_version(client, folder):
    client.post("/documents", json={"documents": [{"text": "newts brake in wet moss"}]})
    (found,) = client.post("/documents/1/suggest", json={"limit": 1}).json()["suggestions"]
    assert found["label"] == ROAD
    update(folder, NEWTS)
    client.post("/runs/small/reload")
    (found,) = client.post("/documents/1/suggest", json={"limit": 1}).json()["suggestions"]
    assert found["label"] == "newt"


def test_a_version_that_cannot_be_loaded_leaves_the_old_one_and_shows_no_path(client, folder):
    update(folder, NEWTS)
    (folder / "labels.tsv").write_text("damaged")
    refused = client.post("/runs/small/reload")
    assert refused.status_code == 409
    assert "changed since it was written" in refused.json()["detail"]
    assert str(folder.parent) not in refused.text
    assert best_label(client) == [ROAD]
    missing = client.post("/runs/small/versions/ffff/restore")
    assert (missing.status_code, str(folder.parent) in missing.text) == (409, False)
    assert client.post("/runs/other/reload").status_code == 404


def test_a_new_version_with_the_same_vocabulary_shares_its_index_and_its_queue(client, folder):
    service = client.app._service
    before = service.find_run("small")
    update(folder, NEWTS)
    client.post("/runs/small/reload")
    after = service.find_run("small")
    assert after is not before
    assert after.metadata.index is before.metadata.index, "building it again takes seconds"
    assert service.get_project(after) == service.get_project(before)


def test_the_run_says_what_it_learns_from_decisions(client):
    assert client.get("/runs/small").json()["learns"] == ["thresholds", "documents"]


@pytest.mark.slow
def test_no_request_is_lost_while_versions_change(launch, folder):
    """Eight clients ask without a pause while the run is updated, restored, and updated again."""
    server = launch("--watch", "0.1", folder=folder)
    is_over = Event()

    def ask() -> list[tuple[int, str]]:
        answers = []
        while not is_over.is_set():
            answer = server.post("/suggest", json=BODY)
            found = answer.json()["results"][0]["suggestions"] if answer.ok else []
            answers.append((answer.status_code, found[0]["label"] if found else ""))
        return answers

    def wait_for(version: str) -> None:
        while server.get("/runs").json()["runs"][0]["version"] != version:
            pass

    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask) for _ in range(8)]
        try:
            old = name_version(folder)
            update(folder, NEWTS)  # found by watching
            new = name_version(folder)
            wait_for(new)
            restored = server.post("/runs/small/versions/previous/restore")
            assert restored.json()["version"] == old
            restore_version(folder)
            wait_for(new)
        finally:
            is_over.set()
        answers = [answer for one in asking for answer in one.result()]
    assert {status for status, _ in answers} == {200}
    assert {label for _, label in answers} == {ROAD, "newt"}
    (found,) = server.post("/suggest", json=BODY).json()["results"][0]["suggestions"]
    assert found["label"] == "newt"
    server.process.terminate()
    assert server.process.wait(120) == 0
    assert "Traceback" not in server.log.read_text()

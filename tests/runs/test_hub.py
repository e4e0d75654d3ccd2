"""Published runs: through a folder, through the hub's own cache, and without a network."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ontodex.corpora.open import write_docs
from ontodex.errors import ConfigError, RunError
from ontodex.io.files import hash_file
from ontodex.models.semantic.system import SemanticSystem
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.evaluate import evaluate
from ontodex.runs.hub import pull, push
from ontodex.runs.recipe import train
from ontodex.runs.retrain import open_sources
from ontodex.runs.run import load
from ontodex.types import Corpus, Doc
from tiny_encoder import write_tiny_encoder

SENTENCES = {"fish": "trout swim in the stream", "oak": "old oaks stand in the forest"}
DOCS = Corpus.of(
    [
        Doc(f"{label}{i}", {"title": f"{text} {i}"}, (), (label,))
        for i in range(15)
        for label, text in SENTENCES.items()
    ]
)
COMMIT = "0123456789" * 4


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("hub") / "knn"
    evaluate(train("knn", train=DOCS, out=out), DOCS, report=True)
    return out


def test_a_run_goes_through_a_folder_and_answers_the_same(run, tmp_path):
    shared = tmp_path / "shared" / "knn"
    assert push(run, str(shared)) == str(shared)
    fetched = pull(str(shared), tmp_path / "fetched")
    text = "trout in the forest"
    assert load(fetched).suggest(text) == load(run).suggest(text)
    assert not (fetched / "README.md").exists()


def test_report_and_log_stay_at_home(run, tmp_path):
    assert (run / "report.html").exists()
    push(run, str(tmp_path / "shared"))
    published = {path.name for path in (tmp_path / "shared").rglob("*")}
    assert {"manifest.json", "metrics.json", "README.md"} <= published
    assert not published & {"report.html", "log.jsonl", "label_metrics.tsv"}


def test_the_card_has_facts_figures_and_the_command(run, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    push(run, str(tmp_path / "trout"))
    card = hub.ModelCard.load(tmp_path / "trout" / "README.md")
    assert card.data.library_name == "ontodex"
    assert "knn" in card.data.tags
    assert "# trout" in card.text
    figure = json.loads((run / "metrics.json").read_text())["P@1"]
    assert f"| P@1 | {100 * figure:.2f} |" in card.text
    assert "ontodex pull" in card.text
    assert 'name = "knn"' in card.text


def test_a_changed_file_is_refused_and_leaves_nothing(run, tmp_path):
    push(run, str(tmp_path / "shared"))
    (tmp_path / "shared" / "labels.tsv").write_text("other")
    with pytest.raises(RunError, match="changed since it was written"):
        pull(str(tmp_path / "shared"), tmp_path / "fetched")
    assert not (tmp_path / "fetched").exists()


def test_nothing_is_overwritten(run, tmp_path):
    with pytest.raises(RunError, match="exists already"):
        push(run, str(tmp_path))
    with pytest.raises(RunError, match="exists already"):
        pull(str(run), tmp_path)


@pytest.mark.parametrize("name", ["metrics.json", "model", "extra.json"])
def test_a_link_in_a_shared_folder_brings_no_other_file_of_this_machine(run, tmp_path, name):
    """Neither `metrics.json` nor files outside of the manifest have a digest."""
    push(run, tmp_path / "shared")
    place = tmp_path / "shared" / name
    if place.exists():
        place.rename(tmp_path / "moved")
    (tmp_path / "secret").write_text('{"password": "x"}')
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(RunError, match="links inside"):
        pull(tmp_path / "shared", tmp_path / "fetched")
    assert not (tmp_path / "fetched").exists()


def test_only_files_of_the_manifest_are_copied(run, tmp_path):
    push(run, tmp_path / "shared")
    with (tmp_path / "shared" / "large.safetensors").open("wb") as file:
        file.truncate(2**30)
    pull(tmp_path / "shared", tmp_path / "fetched")
    assert not (tmp_path / "fetched" / "large.safetensors").exists()


@pytest.mark.parametrize("place", ["name", "a/b/c", "user/../name", "", "https://hf.co/a/b"])
def test_a_place_is_a_repository_or_a_folder(run, tmp_path, place):
    with pytest.raises(ConfigError, match="neither a repository nor a folder"):
        push(run, place)
    with pytest.raises(ConfigError, match="neither a repository nor a folder"):
        pull(place, tmp_path / "out")


@pytest.fixture
def _offline(tmp_path, monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("_offline")
def test_offline_a_run_comes_from_the_cache_of_the_library(run, tmp_path):
    cached = tmp_path / "cache" / "models--ada--trout"
    push(run, str(tmp_path / "published"))
    # The library keeps contents as blobs, and links to them by name.
    snapshot = cached / "snapshots" / COMMIT
    for number, path in enumerate(sorted((tmp_path / "published").rglob("*"))):
        target = snapshot / path.relative_to(tmp_path / "published")
        if path.is_dir():
            continue
        blob = cached / "blobs" / str(number)
        for folder in (blob.parent, target.parent):
            folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, blob)
        target.symlink_to(blob)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    fetched = pull("ada/trout", tmp_path / "fetched")
    assert load(fetched).suggest("trout") == load(run).suggest("trout")


@pytest.mark.usefixtures("_offline")
def test_offline_what_is_not_cached_is_one_sentence(run, tmp_path):
    with pytest.raises(RunError, match="ada/unknown: not fetched before"):
        pull("ada/unknown", tmp_path / "fetched")
    with pytest.raises(RunError, match="HF_HUB_OFFLINE"):
        push(run, "ada/trout")
    assert not (tmp_path / "fetched").exists()
    assert not [path for path in run.parent.iterdir() if path.name.startswith(".")]


def test_the_paths_of_the_corpora_stay_at_home(tmp_path):
    paths = {}
    for name in ("train", "dev"):
        paths[name] = tmp_path / f"secret-{name}.jsonl"
        write_docs(DOCS, paths[name], "jsonl")
    out = tmp_path / "run"
    train("knn", train=paths["train"], dev=paths["dev"], out=out)
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["train"]["path"] == str(paths["train"])
    push(out, str(tmp_path / "shared"))
    published = (path for path in (tmp_path / "shared").rglob("*") if path.is_file())
    assert [path for path in published if b"secret" in path.read_bytes()] == []
    pushed = json.loads((tmp_path / "shared" / "manifest.json").read_text())
    del manifest["train"]["path"], manifest["dev"]["path"]
    assert pushed == manifest


def test_a_pulled_run_names_no_file_that_retraining_would_read(run, tmp_path):
    push(run, str(tmp_path / "shared"))
    place = tmp_path / "shared" / "manifest.json"
    manifest = json.loads(place.read_text())
    manifest["train"]["path"] = manifest["dev"]["path"] = "/etc/passwd"
    place.write_text(json.dumps(manifest))
    fetched = pull(str(tmp_path / "shared"), tmp_path / "fetched")
    assert "passwd" not in (fetched / "manifest.json").read_text()
    with pytest.raises(RunError, match="does not record the path") as refused:
        open_sources(load(fetched))
    assert "--train" in refused.value.hint


def test_a_card_leaves_out_figures_that_are_none(run, tmp_path):
    other = shutil.copytree(run, tmp_path / "other")
    (other / "metrics.json").write_text(json.dumps({"P@1": "high", "documents": "many"}))
    push(other, str(tmp_path / "shared"))
    card = (tmp_path / "shared" / "README.md").read_text()
    assert "On 0 documents" in card
    assert "P@1" not in card


def test_the_card_names_the_data_and_the_weights_of_an_encoder(tmp_path):
    encoder = write_tiny_encoder(tmp_path / "ada-small", ["trout swim here"])
    (encoder / "licence.txt").write_text("Apache-2.0\n")
    write_docs(DOCS, tmp_path / "lakes.jsonl", "jsonl")
    ontology = build_ontology([Concept(label, {"en": label}) for label in SENTENCES])
    out = tmp_path / "run"
    config = {"model": {"name": "semantic", "encoder": str(encoder)}}
    done = train(config=config, train=tmp_path / "lakes.jsonl", ontology=ontology, out=out)
    own = (out / "README.md").read_text()
    push(out, str(tmp_path / "shared"))
    published = (tmp_path / "shared" / "README.md").read_text()
    digest = hash_file(encoder / "model.safetensors")
    for card in (own, published):
        assert f"Encoder: ada-small (SHA-256 of model.safetensors: {digest}). Apache-2.0" in card
        assert done.about["train"]["key"] in card
    assert "lakes.jsonl" in own
    assert "lakes.jsonl" not in published
    done.model.save(tmp_path / "again")
    again = SemanticSystem.load(tmp_path / "again", done.labels)
    assert again.encoder.origin == done.model.encoder.origin != ""

"""Every row of Deep Level-wise XMLC through bench/papers*.py: a rehearsal of the run on a GPU."""

from __future__ import annotations

import importlib
import json
import random
from pathlib import Path

import pytest

from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import write_ontology
from ontodex.types import Corpus, Doc

ROOT = Path(__file__).parents[2]
CITY, FARM = "city", "farm"
SMALL = {
    "width": 16, "maps": 8, "hidden": 8, "bottleneck": 16, "chunks": 4, "windows": [3],
    "dropout": 0.1, "train.batch_size": 16, "train.lr": 0.01,
    "pointer.steps": 16, "pointer.embedding": 16, "pointer.hidden": 16,
}  # fmt: skip


def make_docs(count: int, seed: int) -> list[Doc]:
    """Documents whose lower label is told by two words, of which one is missing in every other
    document: there only the label of the level above can tell."""
    draw = random.Random(seed)
    docs = []
    for number in range(count):
        top, low = draw.choice([CITY, FARM]), draw.choice(["roads", "water"])
        about = top if draw.random() < 0.5 else "somewhere"
        text = f"notes about {low} near {about} in the north"
        docs.append(Doc(f"{seed}-{number}", {"text": text}, (), (top, f"{top} {low}")))
    return docs


@pytest.fixture
def prepared(tmp_path: Path) -> Path:
    """A prepared folder of the made-up corpus, as the commands of docs/lab/papers.md write it."""
    concepts = [Concept(name) for name in (CITY, FARM)]
    concepts += [
        Concept(f"{top} {low}", parents=(top,))
        for top in (CITY, FARM)
        for low in ("roads", "water")
    ]
    sizes = {"train": 240, "dev": 60, "test": 60}
    corpora = {
        part: Corpus.write(make_docs(size, seed), tmp_path / part)
        for seed, (part, size) in enumerate(sizes.items())
    }
    config = PrepareConfig(
        stop_words="en", min_count=3, max_length=200, phrases=True, known_phrases=True,
        phrase_words=4, phrases_per_doc=20, phrase_count=3,
    )  # fmt: skip
    prepare(corpora, tmp_path / "prepared" / "sample-levels", config)
    ontology = tmp_path / "prepared" / "sample-levels" / "ontology.json"
    write_ontology(build_ontology(concepts), ontology)
    return tmp_path / "prepared"


@pytest.mark.slow
def test_every_row_runs_and_gold_neighbours_are_read(monkeypatch, prepared, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "bench")
    jobs, levels, papers, collect = (
        importlib.import_module(name)
        for name in ("papers_jobs", "papers_levels", "papers", "papers_collect")
    )
    out, found = tmp_path / "out", {}
    overrides = [f"model.{name}={value}" for name, value in SMALL.items()]
    for row in jobs.LEVELS:
        job = jobs.BY_NAME[f"sample-{row}-1"]
        assert job.can_start(out)
        levels.run(job, prepared, out, [*overrides, "epochs.levels=6"])
        found[row] = json.loads(job.result(out).read_text())["test"]
    assert set(found) == set(jobs.LEVELS)
    assert {"pass 1", "pass 2", "sampling", "pointer"} == set(found["label"])
    for name in ("pass 2", "sampling"):
        oracle, own, lower = (found[row][name]["MiF"] for row in ("gold", "passes", "shuffled"))
        assert oracle > own > lower
    papers.pack(out)
    monkeypatch.setattr(collect, "RESULTS", tmp_path / "claims")
    line = json.loads(jobs.BY_NAME["sample-passes-1"].result(out).read_text())
    collect.collect(out / "results" / "sample-passes-1.npz", prepared, line)
    assert (tmp_path / "claims" / "sample-levels-passes-1.npz").exists()


@pytest.mark.slow
def test_every_text_row_runs_and_what_is_finished_is_not_run_again(
    monkeypatch, prepared, tmp_path, capsys
):
    monkeypatch.syspath_prepend(ROOT / "bench")
    jobs, text, papers = (
        importlib.import_module(name) for name in ("papers_jobs", "papers_text", "papers")
    )
    corpora = {part: Corpus.open(tmp_path / part) for part in ("train", "dev", "test")}
    config = PrepareConfig(punctuation=True, stop_words="", min_count=3, max_length=500)
    prepare(corpora, prepared / "medline-attention", config)
    out = tmp_path / "out"
    for row, (model, _) in jobs.TEXT.items():
        job = jobs.BY_NAME[f"medline-{row}-1"]
        own = ["model.cluster=2"] if model == "lightattention" else []
        own += ["model.maps=4"] if model == "xmlcnn" else ["model.hidden=4"]
        text.run(job, prepared, out, ["epochs.text=3", "model.width=8", *own])
        assert json.loads(job.result(out).read_text())["test"]["P@1"] > 0
    monkeypatch.setattr("sys.argv", ["papers.py", str(prepared), str(out), "--only", "medline.*-1"])
    papers.main()
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"not finished": [], "seconds": 0} in said


def test_the_share_of_known_tokens_is_printed_for_each_part(prepared, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "bench")
    known_tokens = importlib.import_module("known_tokens")
    monkeypatch.setattr("sys.argv", ["known_tokens.py", str(prepared / "sample-levels")])
    known_tokens.main()
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| train", "| dev", "| test"]
    assert all("| 100.0 % | 100.0 % |" in row for row in rows)

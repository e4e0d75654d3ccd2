"""Rows, stages and refused results of bench/levelwise.py."""

from __future__ import annotations

import importlib
import json
import os
import signal
import time
from multiprocessing import active_children
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from levelwise_made_up import ROOT, SEA, TINY

from ontodex.config import build
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.io.tensors import read_tensors, save_tensors
from ontodex.ontology.open import write_ontology
from ontodex.runs.experiment.plan import read_plan
from ontodex.types import Corpus, Doc


def test_the_bench_and_the_experiment_file_have_the_same_rows(bench):
    plan = read_plan(ROOT / "experiments" / "levelwise.toml")
    systems = {"levelwise", "attentive-levels"}
    ours = {name: s for name, s in plan.systems.items() if s.model in systems}
    assert sorted(ours) == sorted(bench.TABLED)
    for name, system in ours.items():
        config_class = bench.find_system(name).Config
        settings = system.settings.get("model", {})
        expected = build(config_class, bench.ROWS[name], "model")
        assert build(config_class, settings, "model") == expected, name


def test_a_row_may_change_constants_of_the_class(bench):
    assert bench.settings("all-documents", 1, [], []).documents == "all"
    assert bench.settings("ordered", 1, [], []).pointer.order == "forward"
    assert bench.settings("full", 1, [], []).pointer.order == "any"
    assert not bench.settings("attentive-last", 1, [], []).average_passes


def prepare_corpus(folder: Path, *, documents: int = 16, max_length: int = 500) -> list[str]:
    """The arguments of a bench that trains a tiny network on what it writes here."""
    docs = [Doc(str(i), {"text": "deep water"}, (), ("nature", "water")) for i in range(documents)]
    written = folder.parent / f"written-{folder.name}"
    corpora = {part: Corpus.write(docs, written / part) for part in ("train", "dev", "test")}
    phrases = {"phrases": True, "known_phrases": True, "phrases_per_doc": 20, "phrase_count": 1}
    words = {"stop_words": "en", "min_count": 1, "max_length": max_length}
    prepare(corpora, folder, PrepareConfig(**words, **phrases))
    write_ontology(SEA, folder / "ontology.json")
    tiny = {name: value for name, value in TINY.items() if name != "train"}
    over = {**tiny, "train.epochs": 1, "train.batch_size": 8}
    given = [f"--over=model.{name}={value}" for name, value in over.items()]
    out = str(folder.parent / "out")
    return [str(folder), out, "--ontology", str(folder / "ontology.json"), *given, "--rows=words"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The arguments of a bench that has been run."""
    arguments = prepare_corpus(tmp_path_factory.mktemp("bench") / "carried")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        importlib.import_module("levelwise").main(arguments)
    return arguments


def test_a_result_is_found_again_by_what_it_was_made_from(bench, finished, capsys):
    result = Path(finished[1]) / "words-1.json"
    before = result.stat().st_mtime_ns
    bench.main(finished)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["row"] == "words"
    assert result.stat().st_mtime_ns == before


def job(bench: ModuleType, row: str, seed: int = 1) -> Any:
    return bench.Job(Path(row), {"row": row}, bench.settings(row, seed, [], []))


def test_rows_share_the_passes_that_are_trained_alike(bench):
    rows = ("full", "label", "from-scratch", "words", "max")
    passes = {row: job(bench, row).passes for row in rows}
    assert passes["label"] == passes["full"]
    assert len(passes["from-scratch"] & passes["full"]) == 1, "pass 1"
    assert not passes["full"] & (passes["words"] | passes["max"])
    assert not job(bench, "full", seed=2).passes & passes["full"], "another seed, another training"


def test_of_rows_that_share_a_pass_the_first_starts_alone(bench):
    full, label, scratch, words = (
        job(bench, row) for row in ("full", "label", "from-scratch", "words")
    )
    assert bench.find_free_job([full, label], [], set()) is full
    assert bench.find_free_job([label, scratch, words], [full], set()) is words
    assert bench.find_free_job([label, scratch], [full], set()) is None
    assert bench.find_free_job([scratch], [label], full.passes) is scratch, "pass 1 is there"
    again = job(bench, "attentive"), job(bench, "attentive-last")
    assert bench.find_free_job(again[1:], again[:1], set()) is None, "both passes are shared"


@pytest.mark.slow
def test_lanes_train_each_pass_once_and_come_to_the_same_results(bench, tmp_path, capfd):
    arguments = prepare_corpus(tmp_path / "carried")
    rows = ["--rows", "keywords", "threshold", "words"]
    bench.main([*arguments[:-1], *rows])
    alone, out = tmp_path / "alone", tmp_path / "out"
    out.rename(alone)
    capfd.readouterr()
    bench.main([*arguments[:-1], *rows, "--lanes=2"])
    printed = capfd.readouterr().err
    assert all(f" {row}-1 pass 1 fold 2: " in printed for row in ("keywords", "words"))
    assert " threshold-1 pass 1 fold 2: finished before" in printed
    pieces, of_lanes = ({p.name for p in (f / "work").glob("pass*")} for f in (alone, out))
    assert pieces == of_lanes
    assert len(pieces) == 9, "of `words`, of `keywords`, and of pass 2: all documents, two folds"
    for row in rows[1:]:
        one, other = (json.loads((f / f"{row}-1.json").read_text()) for f in (alone, out))
        assert one["test"] == other["test"]
        assert one["passes"] == other["passes"]


@pytest.mark.slow
def test_lanes_that_fail_or_are_killed_are_named_when_the_others_are_done(bench, tmp_path):
    arguments = prepare_corpus(tmp_path / "carried")
    source = bench.Source(Path(arguments[0]), Path(arguments[3]), 1)
    over = [part.removeprefix("--over=") for part in arguments if part.startswith("--over=")]
    jobs = []
    for seed, name in enumerate(("killed", "bad", "good"), start=1):
        (tmp_path / name).mkdir()
        config = bench.settings("words", seed, [], over)
        head = {"row": "words", "seed": seed}
        jobs.append(bench.Job(tmp_path / name / f"{name}-1.json", head, config))
    (tmp_path / "bad" / "work").write_text("in the way")
    killer = Thread(target=kill_the_first_of, args=(2,))
    killer.start()
    status = "killed-1 failed with exit status -9; bad-1 failed with exit status 1: see above"
    with pytest.raises(SystemExit, match=status):
        bench.run_all(jobs, source, 2)
    killer.join()
    assert (tmp_path / "good" / "good-1.json").exists()


def kill_the_first_of(processes: int) -> None:
    """As soon as so many are there, which is long before they have imported anything."""
    while len(active_children()) < processes:
        time.sleep(0.05)
    first = min(active_children(), key=lambda process: process.pid or 0)
    os.kill(first.pid or 0, signal.SIGKILL)


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        (["--over=model.train.epochs=2"], "model.train.epochs is 1, not 2"),
        (["--set=model.max_level=1"], "model.max_level is 0, not 1"),
        (["--min-count=2"], "min_count is 1, not 2"),
    ],
)
def test_a_result_of_other_settings_is_refused(bench, finished, more, differs):
    with pytest.raises(SystemExit) as refused:
        bench.main([*finished, *more])
    printed = str(refused.value)
    assert f"{Path(finished[1]) / 'words-1.json'} was made from other settings or data" in printed
    assert f": {differs}. Use another folder" in printed


def test_a_result_of_other_documents_is_refused(bench, finished, tmp_path):
    others = prepare_corpus(tmp_path / "carried", documents=12)
    with pytest.raises(SystemExit, match=r"corpora\.train is .*corpora\.dev is .*corpora\.test is"):
        bench.main([others[0], *finished[1:]])


def test_a_result_of_the_same_documents_prepared_otherwise_is_refused(bench, finished, tmp_path):
    others = prepare_corpus(tmp_path / "carried", max_length=400)
    with pytest.raises(SystemExit, match=r"data: prepared\.settings\.max_length is 500, not 400\."):
        bench.main([others[0], *finished[1:]])


def test_a_result_of_a_training_that_went_otherwise_is_refused(bench, finished, monkeypatch):
    monkeypatch.setattr(bench, "FORMAT", bench.FORMAT + 1)
    with pytest.raises(SystemExit, match=f"format is {bench.FORMAT - 1}, not {bench.FORMAT}"):
        bench.main(finished)


def test_a_result_without_its_inputs_is_refused(bench, finished, tmp_path):
    old = json.loads((Path(finished[1]) / "words-1.json").read_text())
    del old["made from"]
    (tmp_path / "words-1.json").write_text(json.dumps(old))
    with pytest.raises(SystemExit, match="it is older and does not name"):
        bench.main([finished[0], str(tmp_path), *finished[2:]])


def test_the_memory_of_a_row_is_that_of_its_largest_stage(bench, tmp_path):
    """Pass 1 and its two folds, as made by another process on a GPU with 1, 3 and 2 GiB; nothing is
    named where a piece is older and does not name it."""
    arguments = prepare_corpus(tmp_path / "carried")
    bench.main(arguments)
    result = tmp_path / "out" / "words-1.json"
    assert json.loads(result.read_text())["memory GiB"] is None, "on a CPU"
    pieces = sorted((tmp_path / "out" / "work").glob("pass-1-*"))
    for place, gib, known in zip(pieces, (1, 3, 2), (None, None, 3), strict=True):
        arrays = read_tensors(place, "arrays")
        save_tensors(place, "arrays", {**arrays, "memory": np.array([gib * 2**30])})
        result.unlink()
        bench.main(arguments)
        assert json.loads(result.read_text())["memory GiB"] == known

"""Verdicts on claims: the paired bootstrap over documents, and when nothing is decided."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ontodex.types import Corpus, Doc

ROOT = Path(__file__).parents[2]


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("claims")


def save(folder: Path, claims: ModuleType, side: str, means: list[float]) -> None:
    """A file for each seed: 400 documents with right answers at this rate, not the same ones."""
    for seed, mean in enumerate(means, start=1):
        right = ((np.arange(400) + seed) % 100 < 100 * mean).astype(np.float32)
        figures = dict.fromkeys(claims.METRICS, right)
        np.savez_compressed(folder / f"toy-{side}-{seed}.npz", **figures)


def make(claims: ModuleType, **more: object) -> object:
    table = {"paper": "DXML", "text": "a > b", "corpus": "toy", "first": "a", "second": "b"}
    return claims.Claim(**{**table, **more})


@pytest.mark.parametrize(
    ("second", "verdict"), [(0.5, "held"), (0.9, "not held"), (0.7, "undecided")]
)
def test_the_interval_of_the_difference_decides(claims, tmp_path, second, verdict):
    save(tmp_path, claims, "a", [0.69, 0.7, 0.71])
    save(tmp_path, claims, "b", [second] * 3)
    judged = claims.judge(make(claims), tmp_path)
    assert judged.verdict == verdict
    assert judged.interval.estimate == pytest.approx(0.7 - second, abs=1e-6)


def test_two_seeds_decide_nothing(claims, tmp_path):
    save(tmp_path, claims, "a", [0.9, 0.9])
    save(tmp_path, claims, "b", [0.1, 0.1, 0.1])
    assert claims.judge(make(claims), tmp_path).verdict == "undecided"
    assert claims.judge(make(claims, known="one seed"), tmp_path / "none").numbers == "one seed"


def test_a_side_that_loses_while_it_still_rose_decides_nothing(claims, tmp_path):
    save(tmp_path, claims, "a", [0.6, 0.6, 0.6])
    save(tmp_path, claims, "b", [0.7, 0.7, 0.7])
    verdict = {
        rising: claims.judge(make(claims, rising=rising), tmp_path).verdict
        for rising in ("", "a", "b")
    }
    assert verdict == {"": "not held", "a": "undecided", "b": "not held"}
    other_way = make(claims, first="b", second="a", rising="a", note="cut")
    judged = claims.judge(other_way, tmp_path)
    assert judged.verdict == "undecided"
    assert judged.numbers + ". cut" in claims.format_page([judged])


def test_what_was_not_measured_is_said_so(claims, tmp_path):
    gpu, other = "python bench/papers.py PREPARED out", "python bench/claims.py measure toy"
    judged = [claims.judge(make(claims, command=c), tmp_path) for c in (other, gpu)]
    page = claims.format_page(judged)
    assert "| needs a CPU: command 1 |" in page
    assert "| needs a GPU: command 2 |" in page
    assert f"1. `{other}`\n2. `{gpu}`" in page
    assert "2 undecided. Of the undecided ones 1 need a GPU, 1 a CPU" in page


def test_what_decides_an_open_claim_is_named_behind_its_numbers(claims, tmp_path):
    save(tmp_path, claims, "a", [0.6, 0.61, 0.62])
    save(tmp_path, claims, "b", [0.8, 0.81, 0.82])
    longer = {"decided_by": "python bench/papers.py PREPARED out-50", "note": "cut"}
    cut, lost = (make(claims, rising=one, command="z", **longer) for one in ("a", ""))
    page = claims.format_page([claims.judge(one, tmp_path) for one in (cut, lost)])
    assert "cut; needs a GPU: command 1 |" in page
    assert "cut |" in page  # a decided claim needs nothing


def test_a_smaller_fall_against_the_clean_form_is_what_counts_under_noise(claims, tmp_path):
    for side, mean in {"a": 0.6, "b": 0.65, "a-clean": 0.7, "b-clean": 0.9}.items():
        save(tmp_path, claims, side, [mean] * 3)
    judged = claims.judge(make(claims, first_clean="a-clean", second_clean="b-clean"), tmp_path)
    assert judged.verdict == "held"  # falls of 0.1 and 0.25
    assert judged.interval.estimate == pytest.approx(0.15)


def test_a_quoted_figure_is_compared_with_the_mean_of_random_splits(claims, tmp_path):
    splits = {"toy": {"a": {"P@1": [60.0, 61.0, 62.0, 61.0]}}}
    (tmp_path / "splits.json").write_text(json.dumps(splits))
    verdicts = [
        claims.judge(
            make(claims, second="", quoted="b", quoted_value=value, metric="P@1"), tmp_path
        ).verdict
        for value in (50.0, 61.2, 70.0)
    ]
    assert verdicts == ["held", "undecided", "not held"]


def test_a_claim_to_be_behind_a_quoted_system_is_held_below_it(claims, tmp_path):
    splits = {"toy": {"a": {"P@1": [60.0, 61.0, 62.0, 61.0]}}}
    (tmp_path / "splits.json").write_text(json.dumps(splits))
    verdicts = [
        claims.judge(
            make(claims, first="", second="a", quoted="b", quoted_value=value, metric="P@1"),
            tmp_path,
        ).verdict
        for value in (50.0, 61.2, 70.0)
    ]
    assert verdicts == ["not held", "undecided", "held"]


@pytest.mark.parametrize(("value", "verdict"), [(50.0, "held"), (70.0, "undecided")])
def test_on_the_standard_split_the_documents_give_the_interval(claims, tmp_path, value, verdict):
    save(tmp_path, claims, "a", [0.69, 0.7, 0.71])
    quoted = {"second": "", "quoted": "b", "quoted_value": value, "split": "standard"}
    judged = claims.judge(make(claims, **quoted), tmp_path)
    assert judged.verdict == verdict
    assert judged.numbers.startswith("70.00 ± 1.00, standard split")
    assert judged.interval.estimate == pytest.approx(0.7 - value / 100, abs=1e-6)


def test_one_training_decides_only_where_a_system_is_deterministic(claims, tmp_path):
    save(tmp_path, claims, "a", [0.7])
    save(tmp_path, claims, "b", [0.5, 0.6, 0.4])
    random = claims.judge(make(claims), tmp_path)
    assert (random.verdict, random.numbers) == ("undecided", "1 and 3 trainings")
    sides = {"a": claims.Side("knn", deterministic=True), "b": claims.Side("linear")}
    judged = claims.judge(make(claims), tmp_path, sides)
    assert judged.verdict == "held"
    assert judged.numbers == "70.00 (one training) against 50.00 ± 10.00"


def test_the_same_figures_three_times_are_one_training(claims, tmp_path):
    save(tmp_path, claims, "a", [0.7])
    for seed in (2, 3):
        (tmp_path / f"toy-a-{seed}.npz").write_bytes((tmp_path / "toy-a-1.npz").read_bytes())
    save(tmp_path, claims, "b", [0.5, 0.6, 0.4])
    assert claims.judge(make(claims), tmp_path).numbers == "1 and 3 trainings"


def test_a_quarter_of_the_fifth_that_is_left_learns(claims, monkeypatch):
    docs = [Doc(str(i), {"text": "a"}, (), ("x",)) for i in range(400)]
    monkeypatch.setattr(claims, "open_corpus", lambda path: Corpus.of(docs))
    whole = claims.open_parts("delicious-fifth", Path())
    quarter = claims.open_parts("delicious-quarter", Path())
    assert len(quarter.train) == len(whole.train) // 4
    assert quarter.dev.ids == whole.dev.ids
    assert not set(whole.train.ids) & set(whole.dev.ids)


def test_the_page_has_a_row_for_every_claim_of_the_plan(claims):
    _, plan = claims.read_plan(ROOT / "bench" / "claims.toml")
    page = claims.format_page([claims.judge(claim) for claim in plan])
    assert {claim.paper for claim in plan} == set(claims.PAPERS)
    for claim in plan:
        assert f"| {claim.text} | {claim.corpus} |" in page
        assert claim.command in page

"""The jobs of bench/papers.py, and the verdicts on the counts that come back."""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from ontodex.types import Corpus, Doc, LabelSpace, Ranking

ROOT = Path(__file__).parents[2]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module


def test_a_job_waits_for_the_stages_it_continues_from(load, tmp_path):
    jobs = load("papers_jobs")
    label, none = jobs.BY_NAME["medline-label-1"], jobs.BY_NAME["medline-none-1"]
    assert jobs.BY_NAME["medline-passes-1"].can_start(tmp_path)
    work = tmp_path / "work" / "medline-passes-1"
    for name in ("pass-1-a", "pass-1-fold-1-a", "pass-1-fold-2-a.running"):
        (work / name).mkdir(parents=True)
    assert not none.can_start(tmp_path)
    (work / "pass-1-fold-2-a").mkdir()
    assert none.can_start(tmp_path)
    assert not label.can_start(tmp_path)
    for name in ("pass-2-b", "pass-2-fold-1-b", "pass-2-fold-2-b"):
        (work / name).mkdir()
    assert label.can_start(tmp_path)
    assert len(none.list_stages(tmp_path)) == 3  # pass 2 reads other labels there


def test_lightattention_trains_its_three_levels_for_a_third_of_the_epochs_each(load):
    jobs, text = load("papers_jobs"), load("papers_text")
    _, settings = text.make_settings(jobs.BY_NAME["medline-lightattention-2"], ["epochs.text=12"])
    assert settings["train"]["epochs"] == 4
    assert settings["train"]["seed"] == 2
    _, flat = text.make_settings(jobs.BY_NAME["medline-attentionxml-2"], ["epochs.text=12"])
    assert flat["train"]["epochs"] == 12


def test_archives_come_back_in_groups_of_limited_size(load, tmp_path):
    papers = load("papers")
    paths = [tmp_path / str(number) for number in range(5)]
    for path in paths:
        path.write_bytes(bytes(papers.PACKED_BYTES // 2 - 2048))
    groups = list(papers.group_by_size(paths))
    assert [len(group) for group in groups] == [2, 2, 1]


def write_sets(folder: Path, row: str, hits: int) -> None:
    """A file for each of three seeds: 200 documents with 4 labels, of 4 predicted so many hit."""
    for seed in (1, 2, 3):
        counts = np.tile(np.array([hits, 4, 4], np.uint8), (200, 1))
        # One level; hits of K = 5, best, best by level; hits and predictions of OFO; true labels.
        level = np.tile(np.array([2, 2, 3, hits, 4, 4], np.uint8), (1, 200, 1))
        arrays = {"pass 2": counts, "pass 2, levels": level}
        arrays["pass 2, levels, predicted"] = np.array([[5, 2, 3]])
        np.savez_compressed(folder / f"toy-levels-{row}-{seed}.npz", **arrays)


@pytest.mark.parametrize(("metric", "gap"), [("MiF", 0.25), ("MaF", 0.25), ("MiF by level", 0.25)])
def test_sides_are_compared_by_their_counts(load, tmp_path, metric, gap):
    claims = load("claims_levels")
    write_sets(tmp_path, "a", 3)
    write_sets(tmp_path, "b", 2)
    found = claims.compare_counts("toy", "a: pass 2", "b: pass 2", metric, tmp_path)
    assert found.first == pytest.approx([75.0] * 3)
    assert found.second == pytest.approx([50.0] * 3)
    assert found.difference.low == pytest.approx(gap)
    assert len(found.levels) == ("level" in metric)


def test_ofo_is_compared_with_a_fixed_number_of_labels(load, tmp_path):
    claims = load("claims_levels")
    write_sets(tmp_path, "a", 3)
    found = claims.compare_counts("toy", "a: pass 2", "best K by level", "MiF by level", tmp_path)
    assert found.second == pytest.approx([100 * 6 / 7] * 3)  # 3 hits of 3 predicted, 4 true
    assert claims.compare_counts("toy", "a: pass 2", "b: pass 2", "MiF", tmp_path) is None


def test_a_claim_on_the_pointer_generator_says_in_how_many_trainings_it_learned(load, tmp_path):
    claims, counts = load("claims_levels"), np.tile(np.array([2, 4, 4], np.uint8), (20, 1))
    for seed, kept in ((1, True), (2, False), (3, True)):
        arrays = {"pointer": counts, "pointer is trained": np.array(kept)}
        np.savez_compressed(tmp_path / f"toy-levels-label-{seed}.npz", **arrays)
        np.savez_compressed(tmp_path / f"toy-levels-passes-{seed}.npz", sampling=counts)
    found = claims.compare_counts("toy", "label: pointer", "passes: sampling", "MaF", tmp_path)
    assert found.note == "pointer generator trained in 2 of 3"
    same = claims.compare_counts("toy", "passes: sampling", "passes: sampling", "MaF", tmp_path)
    assert same.note == ""


def test_whether_the_pointer_generator_learned_is_collected(load):
    collect = load("papers_collect")
    line = {"levels": {}, "pointer is trained": False}
    assert not collect.count_levels({}, line)["pointer is trained"]
    assert collect.count_levels({}, {"levels": {}}) == {}


def write_levels(folder: Path) -> None:
    """Two levels; three documents: with labels at both, at the first, and without a prediction."""
    # Hits of K = 5, best, best by level; hits and predictions of OFO; true labels.
    first = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 2, 1], [0, 0, 0, 0, 0, 1]]
    second = [[1, 1, 1, 0, 1, 2], [0, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 0]]
    arrays = {"pass 1, levels": np.array([first, second], np.uint8)}
    arrays["pass 1, levels, predicted"] = np.array([[5, 1, 1]] * 2)
    np.savez_compressed(folder / "toy-levels-knn-1.npz", **arrays)


@pytest.mark.parametrize(
    ("documents", "ofo", "five"),
    [
        ("", [2 * 2 / (3 + 3), 0], [2 * 2 / (15 + 3), 2 / (5 + 2)]),
        ("documents with labels at every level", [1, 0], [2 / (5 + 1), 2 / (5 + 2)]),
        ("documents with a prediction", [2 * 2 / (3 + 2), 0], [2 * 2 / (10 + 2), 2 / (5 + 2)]),
    ],
)
def test_the_documents_that_count_at_a_level_can_be_chosen(load, tmp_path, documents, ofo, five):
    claims = load("claims_levels")
    write_levels(tmp_path)
    for fixed, expected in (("", ofo), ("K = 5", five)):
        (counts,) = claims.load_levels("toy", "knn: pass 1", fixed, tmp_path)
        assert claims.measure_micro_f(counts, documents).tolist() == pytest.approx(expected)
    metric = ", ".join(filter(None, ("MiF by level", documents)))
    found = claims.compare_counts("toy", "knn: pass 1", "K = 5", metric, tmp_path)
    assert found.first == pytest.approx([50 * sum(ofo)])
    assert found.second == pytest.approx([50 * sum(five)])


def test_a_document_without_a_prediction_has_precision_0_or_does_not_count(load, tmp_path):
    claims = load("claims_levels")
    write_levels(tmp_path)
    (counts,) = claims.load_levels("toy", "knn: pass 1", "", tmp_path)
    # Precisions 1, 1/2 and 0, recalls 1, 1 and 0; without the third document 3/4 and 1.
    assert claims.measure_macro_f(counts, "")[0] == pytest.approx(2 * 0.5 * (2 / 3) / (7 / 6))
    chosen = "documents with a prediction"
    assert claims.measure_macro_f(counts, chosen)[0] == pytest.approx(2 * 0.75 / 1.75)
    table = "\n".join(claims.format_levels("toy", "knn: pass 1", tmp_path))
    assert "| documents | 2 | 1 |" in table
    assert "| micro-F, K = 5 | 33.33 | 28.57 |" in table


def test_the_rows_of_a_corpus_that_is_not_there_are_left_out(load, tmp_path, monkeypatch, capsys):
    papers = load("papers")
    monkeypatch.setattr(papers, "share_gpu", contextlib.nullcontext)
    monkeypatch.setattr("sys.argv", ["papers.py", str(tmp_path), str(tmp_path / "out")])
    papers.main()
    assert '"not finished": []' in capsys.readouterr().out


def test_a_row_reads_as_many_words_as_its_corpus_was_prepared_with(load):
    levels, jobs = load("papers_levels"), load("papers_jobs")
    for corpus, length in jobs.MAX_LENGTH.items():
        assert levels.make_config(jobs.BY_NAME[f"{corpus}-gold-1"], []).max_length == length
    notes = (ROOT / "docs" / "lab" / "papers.md").read_text()
    for corpus in ("medline", "eurlex57k"):
        line = next(one for one in notes.splitlines() if f"PREPARED/{corpus}-levels $LEVELS" in one)
        assert line.endswith(f"--set prepare.max_length={jobs.MAX_LENGTH[corpus]}")


def test_a_claim_about_every_level_is_held_where_it_is_held_at_every_level(load):
    claims: ModuleType = load("claims")
    assert claims.decide_all(["held", "held"]) == "held"
    assert claims.decide_all(["held", "undecided"]) == "undecided"
    assert claims.decide_all(["held", "not held", "undecided"]) == "not held"


def test_k_is_chosen_on_dev(load):
    collect = load("papers_collect")
    # Ten documents with one label each: the first answer is right, others never.
    level = np.zeros((10, 13), np.uint16)
    level[:, :11], level[:, 12] = 1, 1
    chosen = collect.choose_k(level[None], np.array([50]))
    assert chosen.tolist() == [[5, 1, 1]]


def test_the_consensus_joins_the_kept_rankings_with_the_trees(load):
    joined = load("papers_consensus")
    test = Corpus.of([Doc(id="1", fields={"text": "a"}, labels=("x", "z"))])
    labels = LabelSpace.of(Corpus.of([Doc(id="0", fields={"text": "a"}, labels=("x", "y", "z"))]))

    def rank(columns: list[int], probabilities: list[float]) -> Ranking:
        return Ranking.sort(np.array([columns]), np.array([probabilities], np.float32), 2)

    network, trees = rank([0, 1], [0.6, 0.5]), rank([2, 1], [0.55, 0.4])
    found = joined.join((network, trees), test, labels)
    assert found.columns[0, :3].tolist() == [1, 0, 2]  # 1 - 0.5 x 0.6 = 0.7
    np.testing.assert_allclose(found.probabilities[0, :3], [0.7, 0.6, 0.55], atol=1e-6)


def test_a_run_with_other_labels_is_refused(load):
    joined = load("papers_consensus")
    one, other = (
        LabelSpace.of(Corpus.of([Doc(id="0", fields={"text": "a"}, labels=(x,))])) for x in "xy"
    )
    joined.check_labels(one, one)
    with pytest.raises(SystemExit, match="train it on the documents"):
        joined.check_labels(one, other)

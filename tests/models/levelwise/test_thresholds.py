"""OFO by level, logit shifts, the mean of passes, and sampling."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from levelwise_planted import ABOVE, BRIEF, CONFIG, DEV, LABELS, TRAIN, PlantedLevelwise, fit_system
from scipy.sparse import csr_array, hstack
from scipy.special import expit, logit

from ontodex.config import vary
from ontodex.decide.entries import mask_above
from ontodex.decide.ofo import OFO
from ontodex.evaluation.sets import set_metrics
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.thresholds import (
    DEPTH,
    LOGIT_SHIFTS,
    MIN_PROBABILITY,
    Sampling,
    average_logits,
    compare_with_thresholds,
    find_best_shifts,
    find_matching_shifts,
    shift_logits,
    trace_ofo,
)
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, LabelSpace, Ranking


def test_logits_of_new_documents_are_shifted_by_a_number_per_level(system):
    """Seen in the first pass, which no neighbours change."""
    first = system.passes[0]
    before = system.predict_levels(DEV)[0]
    by = np.array([0.75, -1.25])
    try:
        system.passes[0] = dataclasses.replace(first, logit_shifts=first.logit_shifts + by)
        after = system.predict_levels(DEV)[0]
    finally:
        system.passes[0] = first
    for old, new, far in zip(before, after, by, strict=True):
        assert new.columns.tolist() == old.columns.tolist()
        np.testing.assert_allclose(
            new.probabilities, shift_logits(old, far).probabilities, rtol=1e-4
        )


def test_logits_are_not_shifted_with_the_settings_of_the_paper(work):
    short = dataclasses.replace(CONFIG.train, epochs=3)  # what is hardly trained moves the most
    pass_1 = {"inputs": "words+keywords", "documents": "level", "train": short}
    assert fit_system(work, **pass_1).passes[0].logit_shifts.any()
    assert not fit_system(work, **pass_1, logit_shift=False).passes[0].logit_shifts.any()


def test_predictions_are_the_mean_of_both_passes_or_those_of_pass_2(system, work):
    alone = fit_system(work, average_passes=False, merge="threshold")
    predicted = [
        [shift_logits(r, -by) for r, by in zip(found, one.logit_shifts, strict=True)]
        for found, one in zip(alone.predict_levels(DEV), alone.passes, strict=True)
    ]
    both = system.predict_levels(DEV)[-1]
    for one, other, mean, by in zip(*predicted, both, system.passes[-1].logit_shifts, strict=True):
        n = len(LABELS)
        odds = [logit(r.scores(n).toarray()[:, one.columns[0]]) for r in (one, other, mean)]
        sure = logit(1 - MIN_PROBABILITY)
        mean_odds = (np.clip(odds[0], -sure, sure) + np.clip(odds[1], -sure, sure)) / 2
        np.testing.assert_allclose(mean_odds + by, odds[2], rtol=1e-3, atol=1e-3)


def test_thresholds_of_a_level_learn_from_its_documents_and_those_for_merging_from_all(monkeypatch):
    """A label at level 2 that is too rare to be learned makes no document one of this level."""
    from ontodex.models.levelwise import system as levelwise
    from ontodex.models.levelwise import thresholds

    rare = [f"rare {i}" for i in range(0, len(TRAIN), 3)]
    ontology = build_ontology(
        [
            *(Concept(top) for top in ("nature", "town")),
            *(Concept(topic, parents=[top]) for topic, top in ABOVE.items()),
            *(Concept(name, parents=["town"]) for name in rare),
        ]
    )
    docs = [
        dataclasses.replace(doc, labels=("town", f"rare {i}")) if i % 3 == 0 else doc
        for i, doc in enumerate(TRAIN)
    ]
    labels = LabelSpace.of(Corpus.of(docs), ontology, min_count=2)
    learned: list[tuple[int, int]] = []
    original = levelwise.learn_thresholds

    def record(config: LevelwiseConfig, ranking: Ranking, gold: csr_array) -> object:
        learned.append((len(ranking), gold.nnz))
        return original(config, ranking, gold)

    monkeypatch.setattr(levelwise, "learn_thresholds", record)
    monkeypatch.setattr(thresholds, "learn_thresholds", record)
    system = PlantedLevelwise(vary(CONFIG, inputs="words", train=BRIEF))
    system.fit(Corpus.of(docs), DEV, labels)
    true = [label for doc in docs for label in doc.labels if label not in rare]
    tops = sum(label in ("nature", "town") for label in true)
    # Two levels, of each its own documents and labels, and all.
    assert learned == [(48, tops), (32, len(true) - tops), (48, len(true))]
    assert [system.curves[level]["documents"][-1] for level in ("1", "2")] == [48, 32]


def test_the_curves_of_ofo_are_stored_for_each_level(system):
    assert list(system.curves) == ["1", "2"]
    assert system.curves["2"]["documents"][-1] == len(TRAIN)
    assert system.curves["2"]["MaF"][-1] > 0.6


def ranking(*rows: list[tuple[int, float]]) -> Ranking:
    width = max(map(len, rows))
    padded = [[*row, *[(-1, 0.0)] * (width - len(row))] for row in rows]
    columns = np.array([[c for c, _ in row] for row in padded])
    return Ranking.sort(columns, np.array([[p for _, p in row] for row in padded]), width)


@pytest.mark.parametrize("prior", [0.0, 5.0])
def test_a_stream_is_decided_document_by_document_and_can_be_cut_anywhere(prior):
    rng = np.random.default_rng(0)
    probabilities = Ranking.top(rng.random((20, 3)), 3)
    gold = csr_array((rng.random((20, 3)) > 0.6).astype(np.int8))
    state, chosen = OFO.start(3, 0.5, prior=prior).choose_and_learn(probabilities, gold)
    one, by_one = OFO.start(3, 0.5, prior=prior), []
    for row in range(20):
        document, truth = probabilities.take(np.array([row])), csr_array(gold[[row]])
        by_one.append(one.choose(document))
        one, _ = one.choose_and_learn(document, truth)
    np.testing.assert_array_equal(chosen, np.concatenate(by_one))
    np.testing.assert_array_equal(state.thresholds, one.thresholds)
    whole = OFO.start(3, 0.5, prior=prior).run_passes(probabilities, gold, 1)
    np.testing.assert_array_equal(state.thresholds, whole.thresholds)


def test_the_curve_of_three_documents_by_hand():
    """lambda starts at 0.5. Document 1: label 0 at 0.9 is chosen, right; lambda becomes 1 / 2.
    Document 2: 0.6 > 1/2 is chosen, wrong, and label 1 is missed; document 3: 0.4 is above
    lambda = 1 / 3 by then."""
    config = vary(LevelwiseConfig(), ofo_prior=0, first_lambda=0.5)
    stream = ranking([(0, 0.9)], [(0, 0.6)], [(0, 0.4)])
    gold = csr_array(np.array([[1, 0], [0, 1], [1, 0]]))
    curve = trace_ofo(config, stream, gold)
    assert curve["documents"] == [1, 2, 3]
    assert curve["MaP"] == pytest.approx([1, 1 / 2, 2 / 3], abs=1e-4)
    assert curve["MaR"] == pytest.approx([1, 1 / 2, 2 / 3], abs=1e-4)


def test_with_a_prior_the_curve_starts_at_the_threshold_that_training_starts_from():
    """All true answers have 0.1: from a first lambda of 0.5 none of them would be chosen."""
    stream = ranking(*[[(0, 0.1), (1, 0.01)]] * 200)
    gold = csr_array(np.array([[1, 0]] * 200))
    curve = trace_ofo(vary(LevelwiseConfig(), ofo_prior=50, first_lambda=0.5), stream, gold)
    assert curve["documents"][-1] == 200
    assert len(curve["documents"]) == 40
    assert curve["MaR"][0] > 0.5


def test_documents_without_a_label_at_the_level_are_not_in_its_curve():
    stream = ranking([(0, 0.9)], [(0, 0.9)])
    curve = trace_ofo(LevelwiseConfig(), stream, csr_array(np.array([[0], [1]])))
    assert curve["documents"] == [1]


def test_sampling_gives_as_many_labels_as_training_documents_with_such_sums_have():
    """Sums 0.5 and 1.7 had one and two gold labels: the same sums get one and two again."""
    union = ranking([(0, 0.3), (1, 0.2)], [(0, 0.9), (1, 0.5), (2, 0.3)])
    gold = csr_array(np.array([[1, 0, 0], [1, 1, 0]]))
    merged = Sampling.fit(union, gold).merge(union)
    assert [row[row >= 0].tolist() for row in merged.columns] == [[0], [0, 1]]


def plant(n: int) -> tuple[Ranking, csr_array]:
    """Four labels a document, each true with its own probability."""
    random = np.random.default_rng(5)
    columns = np.argsort(random.random((n, 8)), axis=1)[:, :4]
    p = np.sort(random.random((n, 4)), axis=1)[:, ::-1]
    gold = np.zeros((n, 8), np.int8)
    np.put_along_axis(gold, columns, (random.random((n, 4)) < p).astype(np.int8), axis=1)
    return Ranking(columns, p.astype(np.float32)), csr_array(gold)


def below(ranking: Ranking) -> Ranking:
    """The same answers by the labels of another level."""
    return Ranking(ranking.columns + 8, ranking.probabilities)


def twice(gold: csr_array) -> csr_array:
    return csr_array(hstack([gold, gold]))


def test_shifted_labels_keep_their_order_and_shift_in_logits():
    ranking = Ranking(np.array([[3, 1, 0, -1]]), np.array([[1.0, 0.5, 0.2, 0.0]], np.float32))
    there = shift_logits(ranking, 1.5)
    assert there.columns.tolist() == ranking.columns.tolist()
    expected = [1.0, expit(1.5), expit(logit(0.2) + 1.5), 0.0]
    assert there.probabilities[0].tolist() == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(
        shift_logits(there, -1.5).probabilities, ranking.probabilities, rtol=1e-6
    )


def test_odds_relative_to_thresholds_are_even_at_the_threshold():
    ranking = Ranking(np.array([[3, 1, 0, -1]]), np.array([[0.9, 0.5, 0.2, 0.0]], np.float32))
    compared = compare_with_thresholds(ranking, np.array([0.2, 0.3, 0.0, 0.6]))
    expected = [expit(logit(0.9) - logit(0.6)), expit(-logit(0.3)), 0.5, 0.0]
    assert compared[0].tolist() == pytest.approx(expected, rel=1e-6)
    sure = Ranking(np.array([[0, 2]]), np.array([[1.0, 1.0]], np.float32))
    assert np.isfinite(compare_with_thresholds(sure, np.array([1.0, 0.5, 0.0]))).all()


def test_the_mean_of_logits_in_loops():
    """Labels that one of both does not name, one that names none, and the k best of all."""
    random = np.random.default_rng(2)
    rankings = []
    for _ in range(2):
        columns = np.argsort(random.random((40, 9)), axis=1)[:, :5]
        p = np.sort(random.random((40, 5)), axis=1)[:, ::-1].astype(np.float32)
        columns[random.random(40) < 0.2, 3:] = -1
        columns[7 if rankings else 8] = -1
        rankings.append(Ranking(columns, np.where(columns < 0, 0, p)))
    [found] = average_logits(*([r] for r in rankings))
    for row in range(40):
        predicted = [
            {c: logit(float(p)) for c, p in zip(r.columns[row], r.probabilities[row], strict=True)
             if c >= 0}
            for r in rankings
        ]  # fmt: skip
        least = [min(one.values(), default=logit(1e-6)) for one in predicted]
        mean = {
            c: expit(sum(one.get(c, low) for one, low in zip(predicted, least, strict=True)) / 2)
            for c in {*predicted[0], *predicted[1]}
        }
        best = sorted(mean, key=lambda c: (-mean[c], c))[:5]
        assert [c for c in found.columns[row] if c >= 0] == best
        chances = found.probabilities[row][: len(best)]
        np.testing.assert_allclose(chances, [mean[c] for c in best], rtol=1e-5)


@pytest.mark.parametrize("by", [-1.0, 0.0, 0.75])
def test_the_best_shifts_undo_the_confidence_that_thresholds_did_not_see(by):
    ranking, gold = plant(4000)
    thresholds = np.full(8, 0.36)  # about the best for these
    at_home = find_best_shifts([ranking], gold, thresholds)
    assert abs(at_home[0]) <= 0.25
    both = find_best_shifts(
        [ranking, shift_logits(below(ranking), by)], twice(gold), np.tile(thresholds, 2)
    )
    np.testing.assert_allclose(both, [at_home[0], at_home[0] - by], atol=0.26)


def test_a_level_that_is_hardly_ever_right_predicts_nothing():
    ranking, gold = plant(2000)
    wrong = csr_array(hstack([gold, csr_array(gold.shape, dtype=np.int8)]))
    fine, silent = find_best_shifts([ranking, below(ranking)], wrong, np.full(16, 0.36))
    assert abs(fine) <= 0.25
    assert silent == min(LOGIT_SHIFTS)


def test_labels_that_no_level_has_count_as_missed():
    """As many again as the level's own: more of these have to be found."""
    ranking, gold = plant(2000)
    thresholds = np.full(8, 0.36)
    [alone] = find_best_shifts([ranking], gold, thresholds)
    [found] = find_best_shifts([ranking], twice(gold), thresholds)
    answers = {by: shift_logits(ranking, by) for by in LOGIT_SHIFTS}
    reached = {
        by: set_metrics(twice(gold), one.keep(mask_above(one, thresholds)))["MiF"]
        for by, one in answers.items()
    }
    assert reached[found] == max(reached.values()) > reached[alone]
    assert found > alone


def test_matching_shifts_give_new_documents_as_many_labels_as_training_documents_have():
    ranking, _ = plant(4000)
    thresholds = np.full(8, 0.4)
    found = find_matching_shifts(
        [ranking, ranking], [shift_logits(ranking, 1.3), ranking], thresholds
    )
    assert found.tolist() == [-1.25, 0.0]


def test_without_dev_nothing_is_shifted():
    ranking, gold = plant(3)
    nothing = csr_array(gold.shape, dtype=np.int8)
    assert find_best_shifts([ranking], nothing, np.full(8, 0.5)).tolist() == [0.0]
    nobody = ranking.take(np.empty(0, np.int64))
    assert find_matching_shifts([ranking], [nobody], np.full(8, 0.5)).tolist() == [0.0]


def test_the_mean_of_two_does_not_depend_on_the_depth():
    rng = np.random.default_rng(4)
    one, other = (Ranking.top(rng.random((50, 90)), 90) for _ in range(2))
    few, many = (average_logits([one.cut(k)], [other.cut(k)])[0] for k in (DEPTH, 90))
    assert (few.k, many.k) == (DEPTH, 90)
    np.testing.assert_array_equal(many.columns[:, :DEPTH], few.columns)
    np.testing.assert_array_equal(many.probabilities[:, :DEPTH], few.probabilities)
    assert all(len(set(row)) == 90 for row in many.columns.tolist())
    for row, columns in zip(many.columns.tolist(), other.columns.tolist(), strict=True):
        assert row[DEPTH:] == [column for column in columns if column not in row[:DEPTH]]

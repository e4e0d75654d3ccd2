from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, hstack
from scipy.special import expit, logit

from ontodex.decide.threshold import above
from ontodex.evaluate.sets import set_metrics
from ontodex.models.level_decide import (
    DEPTH,
    MOVES,
    against,
    best_moves,
    matching_moves,
    mean_odds,
    moved,
)
from ontodex.types import Ranking


def planted(n: int) -> tuple[Ranking, csr_array]:
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


def test_moved_answers_stay_in_their_order_and_move_in_log_odds():
    ranking = Ranking(np.array([[3, 1, 0, -1]]), np.array([[1.0, 0.5, 0.2, 0.0]], np.float32))
    there = moved(ranking, 1.5)
    assert there.columns.tolist() == ranking.columns.tolist()
    expected = [1.0, expit(1.5), expit(logit(0.2) + 1.5), 0.0]
    assert there.probabilities[0].tolist() == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(moved(there, -1.5).probabilities, ranking.probabilities, rtol=1e-6)


def test_odds_against_thresholds_are_even_where_the_decision_turns():
    ranking = Ranking(np.array([[3, 1, 0, -1]]), np.array([[0.9, 0.5, 0.2, 0.0]], np.float32))
    told = against(ranking, np.array([0.2, 0.3, 0.0, 0.6]))
    expected = [expit(logit(0.9) - logit(0.6)), expit(-logit(0.3)), 0.5, 0.0]
    assert told[0].tolist() == pytest.approx(expected, rel=1e-6)
    sure = Ranking(np.array([[0, 2]]), np.array([[1.0, 1.0]], np.float32))
    assert np.isfinite(against(sure, np.array([1.0, 0.5, 0.0]))).all()


def test_the_mean_of_log_odds_in_loops():
    """Labels that one of both does not name, one that names none, and the k best of all."""
    random = np.random.default_rng(2)
    rankings = []
    for _ in range(2):
        columns = np.argsort(random.random((40, 9)), axis=1)[:, :5]
        p = np.sort(random.random((40, 5)), axis=1)[:, ::-1].astype(np.float32)
        columns[random.random(40) < 0.2, 3:] = -1
        columns[7 if rankings else 8] = -1
        rankings.append(Ranking(columns, np.where(columns < 0, 0, p)))
    [found] = mean_odds(*([r] for r in rankings))
    for row in range(40):
        said = [
            {c: logit(float(p)) for c, p in zip(r.columns[row], r.probabilities[row], strict=True)
             if c >= 0}
            for r in rankings
        ]  # fmt: skip
        least = [min(one.values(), default=logit(1e-6)) for one in said]
        mean = {
            c: expit(sum(one.get(c, low) for one, low in zip(said, least, strict=True)) / 2)
            for c in {*said[0], *said[1]}
        }
        best = sorted(mean, key=lambda c: (-mean[c], c))[:5]
        assert [c for c in found.columns[row] if c >= 0] == best
        chances = found.probabilities[row][: len(best)]
        np.testing.assert_allclose(chances, [mean[c] for c in best], rtol=1e-5)


@pytest.mark.parametrize("by", [-1.0, 0.0, 0.75])
def test_the_best_moves_undo_what_made_networks_surer_than_their_thresholds(by):
    ranking, gold = planted(4000)
    thresholds = np.full(8, 0.36)  # about the best for these
    at_home = best_moves([ranking], gold, thresholds)
    assert abs(at_home[0]) <= 0.25
    both = best_moves([ranking, moved(below(ranking), by)], twice(gold), np.tile(thresholds, 2))
    np.testing.assert_allclose(both, [at_home[0], at_home[0] - by], atol=0.26)


def test_a_level_that_is_hardly_ever_right_falls_silent():
    ranking, gold = planted(2000)
    wrong = csr_array(hstack([gold, csr_array(gold.shape, dtype=np.int8)]))
    fine, silent = best_moves([ranking, below(ranking)], wrong, np.full(16, 0.36))
    assert abs(fine) <= 0.25
    assert silent == min(MOVES)


def test_labels_that_no_level_has_are_missed_as_they_are_in_what_is_reported():
    """As many again as the level's own: more of these have to be found."""
    ranking, gold = planted(2000)
    thresholds = np.full(8, 0.36)
    [alone] = best_moves([ranking], gold, thresholds)
    [found] = best_moves([ranking], twice(gold), thresholds)
    answers = {by: moved(ranking, by) for by in MOVES}
    reached = {
        by: set_metrics(twice(gold), one.keep(above(one, thresholds)))["MiF"]
        for by, one in answers.items()
    }
    assert reached[found] == max(reached.values()) > reached[alone]
    assert found > alone


def test_matching_moves_give_new_documents_as_many_labels_as_training_documents_have():
    ranking, _ = planted(4000)
    thresholds = np.full(8, 0.4)
    found = matching_moves([ranking, ranking], [moved(ranking, 1.3), ranking], thresholds)
    assert found.tolist() == [-1.25, 0.0]


def test_without_dev_nothing_moves():
    ranking, gold = planted(3)
    nothing = csr_array(gold.shape, dtype=np.int8)
    assert best_moves([ranking], nothing, np.full(8, 0.5)).tolist() == [0.0]
    nobody = ranking.take(np.empty(0, np.int64))
    assert matching_moves([ranking], [nobody], np.full(8, 0.5)).tolist() == [0.0]


def test_the_mean_of_two_does_not_change_with_how_much_is_asked_for():
    rng = np.random.default_rng(4)
    one, other = (Ranking.top(rng.random((50, 90)), 90) for _ in range(2))
    few, many = (mean_odds([one.cut(k)], [other.cut(k)])[0] for k in (DEPTH, 90))
    assert (few.k, many.k) == (DEPTH, 90)
    np.testing.assert_array_equal(many.columns[:, :DEPTH], few.columns)
    np.testing.assert_array_equal(many.probabilities[:, :DEPTH], few.probabilities)
    assert all(len(set(row)) == 90 for row in many.columns.tolist())
    for row, columns in zip(many.columns.tolist(), other.columns.tolist(), strict=True):
        assert row[DEPTH:] == [column for column in columns if column not in row[:DEPTH]]

from __future__ import annotations

from ontodex.models.auto.rungs import make_rungs
from ontodex.types import LabelSpace


def test_a_large_dev_is_ranked_by_systems_that_learn_more_and_more_of_train(make_corpus):
    train, dev = make_corpus(5_000, 1), make_corpus(600, 2)
    labels = LabelSpace.of(train)
    rungs = make_rungs(train, dev, labels, folds=0, seed=1)
    assert [rung.documents for rung in rungs] == [312, 1_250, 5_000]
    assert all(len(rung.splits) == 1 for rung in rungs)
    (last,) = rungs[-1].splits
    assert last.train is train
    assert last.labels is labels
    assert rungs[-1].gold.shape[0] == 600
    small = set(rungs[0].splits[0].train.ids)
    assert small < set(train.ids)


def test_with_a_small_dev_every_document_is_ranked_once_by_a_system_that_did_not_learn_it(
    make_corpus,
):
    train, dev = make_corpus(40, 1), make_corpus(11, 2)
    rungs = make_rungs(train, dev, LabelSpace.of(train), folds=0, seed=1)
    assert [len(rung.splits) for rung in rungs] == [1, 2, 3, 5]
    assert [rung.part for rung in rungs] == [None, *rungs[:-1]]
    last = rungs[-1]
    assert rungs[1].splits == last.splits[:2]
    ranked = [id_ for split in last.splits for id_ in split.held_out.ids]
    assert sorted(ranked) == sorted([*train.ids, *dev.ids])
    for split in last.splits:
        assert not set(split.train.ids) & set(split.held_out.ids)
        assert len(split.train) + len(split.held_out) == 51
    assert last.gold.shape[0] == 51


def test_a_dev_of_a_hundred_documents_is_the_first_fold(make_corpus):
    train, dev = make_corpus(300, 1), make_corpus(100, 2)
    labels = LabelSpace.of(train)
    *_, last = make_rungs(train, dev, labels, folds=0, seed=1)
    first, *others = last.splits
    assert (first.train, first.held_out, first.labels) == (train, dev, labels)
    ranked = [id_ for split in others for id_ in split.held_out.ids]
    assert sorted(ranked) == sorted(train.ids)
    for split in others:
        assert set(dev.ids) < set(split.train.ids)
        assert not set(split.train.ids) & set(split.held_out.ids)
    assert len(others) == 4


def test_two_folds_do_not_learn_dev_alone(make_corpus):
    train, dev = make_corpus(300, 1), make_corpus(100, 2)
    *_, last = make_rungs(train, dev, LabelSpace.of(train), folds=2, seed=1)
    assert [len(split.train) for split in last.splits] == [200, 200]


def test_labels_that_only_some_folds_have_keep_one_column(make_corpus):
    train = make_corpus(30, 1)
    labels = LabelSpace.of(train.select(range(20)))
    *_, last = make_rungs(train, train.select([]), labels, folds=3, seed=1)
    own = [doc.labels for split in last.splits for doc in split.held_out]
    for row, names in enumerate(own):
        columns = last.gold.indices[last.gold.indptr[row] : last.gold.indptr[row + 1]]
        known = {labels.ids[column] for column in columns if column < len(labels)}
        assert known == set(names) & set(labels.ids)
        assert len(columns) == len(names)


def test_one_document_ranks_itself(make_corpus):
    one = make_corpus(1, 1)
    (rung,) = make_rungs(one, one.select([]), LabelSpace.of(one), folds=0, seed=1)
    assert rung.documents == 1

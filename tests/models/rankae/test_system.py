"""Rank-AE as a system: any kind of features, both inputs, explanations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.errors import ConfigError, OntodexError
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.models import text_network
from ontodex.models.interface import Explains
from ontodex.models.rankae.config import RankAEConfig
from ontodex.models.rankae.system import RankAESystem
from ontodex.training import loop
from ontodex.types import Corpus, Doc, LabelSpace

TRAINING = {"epochs": 30, "batch_size": 16, "lr": 0.01, "patience": 0, "ema_rate": 0.05}
WIDTHS = {"width": 16, "hidden": 16, "label_hidden": 32}
SETTINGS = {**WIDTHS, "min_count": 1, "reconstruction_weight": 0.5, "train": TRAINING}
WORDS = {"fish": "trout river", "oak": "leaf bark", "bread": "oven crust"}


def make(**more: object) -> RankAESystem:
    return RankAESystem(build(RankAEConfig, {**SETTINGS, **more}, "model"))


def texts() -> Corpus:
    return Corpus.of(
        Doc(str(i), {"title": f"alpha {words} beta"}, labels=(label,))
        for i, (label, words) in enumerate(list(WORDS.items()) * 16)
    )


def features(dense: bool) -> Corpus:
    rng = np.random.default_rng(3)
    kinds = rng.integers(0, 4, 64)
    matrix = np.zeros((64, 12), dtype=np.float32)
    for row, kind in enumerate(kinds):
        matrix[row, 3 * kind + rng.choice(3, 2, replace=False)] = rng.uniform(0.5, 1.5, 2)
    labels = [[f"t{kind}"] for kind in kinds]
    return Corpus.of_features(matrix if dense else csr_array(matrix), labels)


def precision_at_1(system: RankAESystem, corpus: Corpus, labels: LabelSpace) -> float:
    return float(score_documents(precision, 1, labels.gold(corpus), system.rank(corpus, 1)).mean())


@pytest.fixture(scope="module", params=["set", "lstm"])
def reader(request: pytest.FixtureRequest) -> RankAESystem:
    system = make(input=request.param)
    system.fit(texts(), texts(), LabelSpace.of(texts()))
    return system


@pytest.mark.parametrize("dense", [True, False], ids=["dense", "sparse"])
@pytest.mark.parametrize("loss", ["margin", "bce"])
def test_features_of_both_kinds_are_learned_with_both_losses(dense, loss):
    corpus = features(dense)
    labels = LabelSpace.of(corpus)
    system = make(loss=loss, attention="on" if dense else "off")
    system.fit(corpus, corpus, labels)
    assert precision_at_1(system, corpus, labels) > 0.9


def test_refitting_trains_for_the_epochs_that_dev_found_best_and_keeps_the_calibration(monkeypatch):
    corpus = features(dense=False)
    labels = LabelSpace.of(corpus)
    scores = iter([0.3, 0.9, 0.1, 0.2])
    monkeypatch.setattr(text_network, "compute_ndcg", lambda gold, ranking: next(scores))
    system = make(train={**TRAINING, "epochs": 4})
    system.fit(corpus, corpus, labels)
    assert system.epochs == 2
    calibration = system.calibration
    epochs = []
    fit = loop.fit

    def watch(*arguments, **options):
        epochs.append(options["stop"])
        return fit(*arguments, **options)

    monkeypatch.setattr(loop, "fit", watch)
    system.refit(corpus, labels)
    assert epochs == [2]
    assert system.calibration is calibration


def test_words_support_their_label_and_filler_does_not(reader):
    labels = LabelSpace.of(texts())
    assert isinstance(reader, Explains)
    doc = Doc("x", {"title": "alpha trout river beta", "note": "unheard"})
    spans = reader.explain(doc, labels.column["fish"])
    weight = {doc.text[s.start : s.end]: s.weight for s in spans}
    assert [s.start for s in spans] == sorted(s.start for s in spans)
    assert min(weight["trout"], weight["river"]) > 0
    assert weight["trout"] + weight["river"] > 2 * abs(weight["alpha"] + weight["beta"])
    against = reader.explain(doc, labels.column["bread"])
    assert sum(s.weight for s in against) < sum(s.weight for s in spans)


def test_shares_of_a_repeated_word_add_up():
    system = make()
    system.fit(texts(), texts(), LabelSpace.of(texts()))
    once = system.explain(Doc("x", {"title": "trout"}), 0)
    thrice = system.explain(Doc("x", {"title": "trout trout trout"}), 0)
    assert len(thrice) == 3
    # Weights of a document have length 1, so a lone word weighs the same however often it stands.
    assert sum(s.weight for s in thrice) == pytest.approx(once[0].weight, rel=1e-4)


def test_the_highlight_is_the_summed_channel_attention_whatever_the_label(reader):
    spans = reader.highlight(Doc("x", {"title": "alpha trout"}))
    assert len(spans) == 2
    assert all(0 < span.weight < reader.config.width for span in spans)
    off = make(attention="off")
    off.fit(texts(), texts(), LabelSpace.of(texts()))
    assert off.highlight(Doc("x", {"title": "alpha trout"})) == []


def test_an_empty_document_and_an_unseen_label_have_no_explanation(reader):
    assert reader.explain(Doc("x", {"title": ""}), 0) == []
    assert reader.explain(Doc("x", {"title": "trout"}), 99) == []


def test_a_prepared_folder_without_text_trains_the_same_system(tmp_path):
    corpus, labels = texts(), LabelSpace.of(texts())
    config = PrepareConfig(min_count=1)
    carried = prepare({"train": corpus}, tmp_path / "carried", config)["train"]
    assert not carried.has_text
    rankings = []
    for source in (corpus, carried):
        system = make()
        system.fit(source, source, labels)
        rankings.append(system.rank(source, 3).probabilities)
    np.testing.assert_array_equal(*rankings)


def test_another_kind_of_documents_is_refused(reader):
    with pytest.raises(OntodexError, match="text"):
        reader.rank(features(dense=False), 3)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("margin", 1.5), ("reconstruction_weight", -1.0), ("reduction", 0)],
)
def test_settings_out_of_range_are_refused(setting, value):
    with pytest.raises(ConfigError, match=setting):
        make(**{setting: value})

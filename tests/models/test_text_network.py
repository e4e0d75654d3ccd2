"""The base of text networks: its loss against loops, where labels start, how epochs are chosen."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import nn

from ontodex.errors import RunError
from ontodex.features.vocabulary import EncodedTexts
from ontodex.models import text_network
from ontodex.models.layers.ragged import Ragged
from ontodex.models.network_training import compute_log_odds
from ontodex.models.text_network import (
    BestLabels,
    TextNetworkConfig,
    TextNetworkSystem,
    rank_documents,
)
from ontodex.training import loop
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.loop_config import LoopConfig

CPU = torch.device("cpu")


class Counts(nn.Module):
    """A network whose logits are learned from how often each word occurs."""

    def __init__(self, config, n_words, log_odds, vectors):
        super().__init__()
        self.rows = nn.Embedding(n_words, len(log_odds), padding_idx=0)
        self.bias = nn.Parameter(log_odds.clone())

    def forward(self, tokens, lengths):
        return self.rows(tokens).sum(1) + self.bias


class CountsSystem(TextNetworkSystem):
    Network = Counts


def corpus(n: int) -> Corpus:
    return Corpus.of(
        Doc(str(i), {"t": f"word{i % 4} filler"}, labels=(f"l{i % 4}",)) for i in range(n)
    )


def system(**more: object) -> CountsSystem:
    settings = LoopConfig(epochs=3, batch_size=8, patience=0, lr=0.1)
    return CountsSystem(TextNetworkConfig(min_count=1, train=settings, **more))  # type: ignore[arg-type]


def test_the_loss_is_equation_6_of_attentionxml_times_the_number_of_labels():
    """The mean over documents, and the sum over labels where the paper has the mean."""
    fitted = system()
    logits = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.0, -0.5], [9.0, 9.0, 9.0]])
    fitted.n_labels = 3
    fitted.network = lambda tokens, lengths: logits[tokens[:, 0]]
    data = Ragged(EncodedTexts(np.array([0, 1, 2]), np.arange(4)), CPU)
    gold = Ragged.of_gold(csr_array(np.array([[1, 0, 1], [0, 0, 1], [0, 1, 0]])), 3, CPU)
    expected = 0.0
    for n, true in ((0, {0, 2}), (1, {2})):
        for label in range(3):
            p = 1 / (1 + math.exp(-float(logits[n, label])))
            expected -= math.log(p if label in true else 1 - p)
    found = fitted.compute_loss(np.array([0, 1]), data, gold)
    assert found.item() == pytest.approx(expected / 2)


def test_labels_start_at_their_log_odds_in_training():
    """One of eight documents has label l0, with half a count added on both sides."""
    docs = [Doc(str(i), {"t": "a"}, labels=("l0",) if i == 0 else ("l1",)) for i in range(8)]
    labels = LabelSpace.of(Corpus.of(docs))
    odds = compute_log_odds(labels)
    assert float(odds[labels.column["l0"]]) == pytest.approx(math.log(1.5 / 7.5))
    assert float(odds[labels.column["l1"]]) == pytest.approx(math.log(7.5 / 1.5))


def test_training_keeps_the_epoch_with_the_best_dev_score(monkeypatch):
    scores = iter([0.2, 0.8, 0.5])
    monkeypatch.setattr(text_network, "compute_ndcg", lambda gold, ranking: next(scores))
    fitted = system()
    fitted.fit(corpus(32), corpus(8), LabelSpace.of(corpus(32)))
    assert fitted.epochs == 2


def test_a_second_fit_may_take_all_epochs_again(monkeypatch):
    fitted, labels, stops = system(), LabelSpace.of(corpus(32)), []
    fit = loop.fit

    def watch(*arguments, **options):
        stops.append(options["stop"])
        return fit(*arguments, **options)

    scores = iter([0.9, 0.1, 0.1] * 2)
    monkeypatch.setattr(loop, "fit", watch)
    monkeypatch.setattr(text_network, "compute_ndcg", lambda gold, ranking: next(scores))
    for _ in range(2):
        fitted.fit(corpus(32), corpus(8), labels)
        assert fitted.epochs == 1
    assert stops == [3, 3]


def test_weights_are_rounded_to_fp16_before_ranking():
    fitted = system()
    fitted.fit(corpus(32), corpus(8), LabelSpace.of(corpus(32)))
    for weight in fitted.network.state_dict().values():
        assert torch.equal(weight, weight.half().float())


def test_batches_by_length_come_back_in_the_order_of_the_documents():
    data = Ragged(EncodedTexts(np.arange(6), np.array([0, 1, 4, 6])), CPU)

    def predict(batch: tuple[torch.Tensor, ...], n_best: int) -> BestLabels:
        tokens, lengths = batch
        return BestLabels(lengths[:, None] / 10, tokens[:, :1])

    ranking = rank_documents(predict, data, 1, 7)
    assert ranking.columns[:, 0].tolist() == [0, 1, 4]
    assert ranking.probabilities[:, 0].tolist() == pytest.approx([0.1, 0.3, 0.2])


def test_a_system_without_training_says_so():
    with pytest.raises(RunError, match="before it was trained"):
        system().rank(corpus(2), 3)


def test_features_that_are_no_text_are_refused():
    numbers = Corpus.of_features(csr_array(np.eye(3, dtype=np.float32)), [["a"], ["b"], ["a"]])
    with pytest.raises(RunError, match="reads text; the corpus has sparse features"):
        system().fit(numbers, numbers, LabelSpace.of(numbers))

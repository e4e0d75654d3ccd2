"""The number of epochs of `attentive` follows the corpus."""

from __future__ import annotations

import pytest

from ontodex.models.attentive.config import AttentiveConfig, CorpusLoopConfig


@pytest.mark.parametrize(
    ("n_docs", "epochs"),
    [(45_000, 8), (17_000, 14), (1_000_000, 8), (100, 20), (0, 20)],
    ids=["EURLEX57K", "the corpus the rule was found on", "many", "few", "none"],
)
def test_epochs_are_enough_for_the_least_steps(n_docs, epochs):
    assert AttentiveConfig().train.fit_to_corpus(n_docs).epochs == epochs


def test_a_number_of_epochs_that_is_set_stays():
    assert CorpusLoopConfig(epochs=3).fit_to_corpus(17_000).epochs == 3


def test_smaller_batches_need_fewer_epochs():
    assert CorpusLoopConfig(batch_size=32).fit_to_corpus(17_000).epochs == 8

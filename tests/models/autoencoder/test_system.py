"""`autoencoder`: several networks, and what its loss adds to that of Rank-AE."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.errors import ConfigError
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models.autoencoder.network import DroppingRankAE
from ontodex.models.autoencoder.system import (
    AutoencoderConfig,
    AutoencoderSystem,
    compute_balanced_loss,
)
from ontodex.models.layers.ragged import Ragged
from ontodex.types import Corpus, LabelSpace

TRAINING = {"epochs": 30, "batch_size": 16, "lr": 0.01, "patience": 0, "ema_rate": 0.05}
WIDTHS = {"width": 16, "hidden": 16, "label_hidden": 32}


def make(**more: object) -> AutoencoderSystem:
    settings = {**WIDTHS, "networks": 2, "min_count": 1, "train": TRAINING, **more}
    return AutoencoderSystem(build(AutoencoderConfig, settings, "model"))


def features() -> Corpus:
    rng = np.random.default_rng(3)
    kinds = rng.integers(0, 4, 64)
    matrix = np.zeros((64, 12), dtype=np.float32)
    for row, kind in enumerate(kinds):
        matrix[row, 3 * kind + rng.choice(3, 2, replace=False)] = rng.uniform(0.5, 1.5, 2)
    return Corpus.of_features(csr_array(matrix), [[f"t{kind}"] for kind in kinds])


CORPUS = features()
LABELS = LabelSpace.of(CORPUS)


def test_several_networks_differ_and_answer_with_the_mean_of_their_logits(tmp_path):
    system = make()
    system.fit(CORPUS, CORPUS, LABELS)
    batch = system.encode(CORPUS).pad(np.arange(8))
    with torch.inference_mode():
        one, other = (part(*batch) for part in system.network.parts)
        assert not torch.allclose(one, other)
        torch.testing.assert_close(system.network(*batch), (one + other) / 2)
    system.save(tmp_path)
    again = AutoencoderSystem.load(tmp_path, LABELS)
    ranking = again.rank(CORPUS, 3)
    np.testing.assert_array_equal(ranking.columns, system.rank(CORPUS, 3).columns)
    assert score_documents(precision, 1, LABELS.gold(CORPUS), ranking).mean() == 1.0


@pytest.mark.parametrize("direct", [0.0, 0.7])
def test_a_step_minimises_the_objectives_and_the_cross_entropy_of_the_predictions(direct):
    """In loops: the squares of x_h - y_h, the balanced margin loss, and each label's logarithm."""
    system = make(reconstruction_weight=3.0, direct_weight=direct)
    system.fit(CORPUS, CORPUS, LABELS)
    rows = np.arange(5)
    data = system.encode(CORPUS)
    gold = Ragged.of_gold(LABELS.gold(CORPUS), LABELS.n_seen, system.device)
    target = gold.to_multi_hot(rows, LABELS.n_seen).bool()
    expected = 0.0
    with torch.no_grad():
        for part in system.network.parts:
            tokens, lengths, weights = data.pad(rows)
            x = part.embed_words(part.weigh(tokens, weights), lengths)
            y = part.encode(*gold.pad(rows))
            expected += float((x - y).square().mean())
            expected += 3 * float(compute_balanced_loss(part.decode(y), target, 0.2))
            for p, is_true in zip(part.decode(x).sigmoid().ravel(), target.ravel(), strict=True):
                expected -= direct * math.log(float(p if is_true else 1 - p)) / 5
        found = system.compute_loss(rows, data, gold)
    assert found.item() == pytest.approx(expected, rel=1e-4)


def test_each_side_of_the_margin_loss_is_divided_by_its_labels():
    """0.3 over one false label and 0.3 over two true ones; the other document adds nothing."""
    gold = torch.tensor([[True, True, False], [False] * 3])
    logits = torch.tensor([[0.6, 0.3, 0.4], [0.1, 0.2, 0.3]]).logit()
    found = compute_balanced_loss(logits, gold, 0.2).item()
    assert found == pytest.approx((0.3 / 1 + 0.3 / 2) / 2)


def test_some_words_are_left_out_in_training():
    torch.manual_seed(0)
    shape = {"width": 4, "hidden": 3, "label_hidden": 5, "reduction": 2}
    network = DroppingRankAE(9, 6, None, word_dropout=0.5, **shape)
    tokens, weights = torch.tensor([[3, 5, 7]]), torch.ones(1, 3)
    whole = network.eval().weigh(tokens, weights)
    parts = network.train().weigh(tokens.expand(64, 3), weights.expand(64, 3))
    kept = parts[:, :, 0] != 0
    assert 0.3 < kept.float().mean() < 0.7
    torch.testing.assert_close(parts[kept], 2 * whole.expand(64, 3, 4)[kept])


@pytest.mark.parametrize(
    ("setting", "value"),
    [("margin", 1.5), ("reconstruction_weight", -1.0), ("dropout", 1.0), ("networks", 0)],
)
def test_settings_out_of_range_are_refused(setting, value):
    with pytest.raises(ConfigError, match=setting):
        make(**{setting: value})

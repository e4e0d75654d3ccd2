"""`attentive-tree` over a pretrained encoder: its first weights, its run folder, explanations."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from ontodex.models.attentive_tree.config import AttentiveTreeConfig
from ontodex.models.attentive_tree.system import AttentiveTreeSystem
from ontodex.models.pretrained import load_encoder
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.loop_config import LoopConfig
from tiny_encoder import write_tiny_encoder

NAMES = ["trout", "oak", "bread", "glacier", "copper", "violin", "harbour", "poem", "comet", "mare"]
DOCS = Corpus.of(
    Doc(f"{name}{i}", {"title": f"{name} and more", "body": f"the old {name}"}, (), (name,))
    for i in range(3)
    for name in NAMES
)
LABELS = LabelSpace.of(DOCS)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_encoder(tmp_path_factory.mktemp("encoder"), DOCS.texts())


def fit(encoder: Path, **settings: object) -> AttentiveTreeSystem:
    config = AttentiveTreeConfig(
        encoder=str(encoder), window=6, windows=2, layers=(8,), bag=8, cluster=2, candidates=6,
        min_count=1, stop_words="", dropout=0.1,
        train=LoopConfig(epochs=20, batch_size=5, lr=0.05), **settings,
    )  # fmt: skip
    system = AttentiveTreeSystem(config)
    system.fit(DOCS, DOCS, LABELS)
    return system


def test_it_learns_and_a_saved_run_needs_no_encoder_folder(tmp_path):
    encoder = write_tiny_encoder(tmp_path / "encoder", DOCS.texts())
    system = fit(encoder)
    assert system.network.encode.width == 16
    ranking = system.rank(DOCS, 3)
    assert np.mean(ranking.columns[:, 0] == LABELS.gold(DOCS).indices) > 0.9
    shutil.rmtree(encoder)
    (tmp_path / "run").mkdir()
    system.save(tmp_path / "run")
    loaded = AttentiveTreeSystem.load(tmp_path / "run", LABELS)
    again = loaded.rank(DOCS, 3)
    np.testing.assert_array_equal(again.columns, ranking.columns)
    np.testing.assert_allclose(again.probabilities, ranking.probabilities, atol=1e-5)


def test_the_encoder_starts_with_its_weights_and_learns_at_its_own_rate(encoder):
    pretrained = load_encoder(encoder).network.state_dict()
    name = "encoder.layer.0.output.dense.weight"
    for rate, is_same in ((1e-9, True), (0.05, False)):
        found = fit(encoder, encoder_lr=rate).network.encode.state_dict()[name]
        assert (float((found - pretrained[name]).abs().max()) < 1e-3) == is_same


def test_contributions_of_pieces_and_words_add_up_to_the_logit_without_its_bias(encoder):
    system = fit(encoder)
    batch = system.encode(DOCS).pad(np.array([0, 4]))
    network = system.network
    torch.nn.init.zeros_(network.bag.bias)  # its share belongs to no word
    for column in range(len(LABELS)):
        place = torch.full((2, 1), network.find_place(column))
        with torch.no_grad():
            logits = network.levels[-1](network.encode_documents(*batch).labels, place)[:, 0]
            bias = network.levels[-1].table(place)[:, 0, -1]
            added = sum(part.sum(dim=1) for part in network.explain_logit(*batch, column))
        torch.testing.assert_close(added, logits - bias)
    spans = system.explain(DOCS[0], 0)
    assert [DOCS[0].text[span.start : span.end] for span in spans] == DOCS[0].text.split()

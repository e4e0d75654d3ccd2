"""`attentive-bert` as a whole: rates, epochs, explanation by words, a run folder of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from ontodex.models.attentive_bert.config import AttentiveBertConfig, BertLoopConfig
from ontodex.models.attentive_bert.reader import add_words
from ontodex.models.attentive_bert.system import AttentiveBertSystem
from ontodex.models.pretrained import load_encoder
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, LabelSpace
from ontodex.types.answers import Span
from tiny_encoder import write_tiny_encoder

DOCS = Corpus.of(
    Doc(str(i), {"title": title, "body": body}, (), (label,))
    for i, (title, body, label) in enumerate(
        [("trout", "in the river", "fish"), ("oak", "an old tree", "wood")] * 6
    )
)
ONTOLOGY = build_ontology([Concept("fish", {"en": "trout"}), Concept("wood", {"en": "oak tree"})])
LABELS = LabelSpace.of(DOCS, ONTOLOGY)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_encoder(tmp_path_factory.mktemp("encoder"), DOCS.texts())


def make_system(encoder: Path, **settings: object) -> AttentiveBertSystem:
    train = BertLoopConfig(epochs=2, batch_size=4, lr=0.01)
    config = AttentiveBertConfig(
        encoder=str(encoder), value_dim=8, bag=8, window=16, min_count=1, stop_words="",
        train=train, **settings,  # type: ignore[arg-type]
    )  # fmt: skip
    return AttentiveBertSystem(config)


def test_the_encoder_starts_with_its_weights_and_learns_at_its_own_rate(encoder):
    system = make_system(encoder, encoder_lr=1e-9)
    system.fit(DOCS, Corpus.of([]), LABELS)
    pretrained = load_encoder(encoder).network.state_dict()
    for name, weight in system.network.encode.state_dict().items():
        torch.testing.assert_close(weight, pretrained[name], atol=1e-3, rtol=1e-3)
    faster = make_system(encoder, encoder_lr=0.05)
    faster.fit(DOCS, Corpus.of([]), LABELS)
    name = "encoder.layer.0.output.dense.weight"
    assert float((faster.network.encode.state_dict()[name] - pretrained[name]).abs().max()) > 0.01


@pytest.mark.parametrize(("n_docs", "epochs"), [(45_000, 6), (11_847, 20), (37_700, 7), (100, 20)])
def test_epochs_follow_the_size_of_the_corpus(n_docs, epochs):
    assert BertLoopConfig().fit_to_corpus(n_docs).epochs == epochs


def test_a_saved_run_needs_no_encoder_folder(tmp_path):
    encoder = write_tiny_encoder(tmp_path / "encoder", DOCS.texts())
    system = make_system(encoder)
    system.fit(DOCS, DOCS, LABELS)
    shutil.rmtree(encoder)
    folder = tmp_path / "run"
    folder.mkdir()
    system.save(folder)
    loaded = AttentiveBertSystem.load(folder, LABELS)
    ours, theirs = system.rank(DOCS, 2), loaded.rank(DOCS, 2)
    np.testing.assert_array_equal(ours.columns, theirs.columns)
    np.testing.assert_allclose(ours.probabilities, theirs.probabilities, atol=1e-6)


def test_explanations_are_of_whole_words_through_attention_and_bag(encoder):
    system = make_system(encoder)
    system.fit(DOCS, DOCS, LABELS)
    doc = DOCS[0]
    for column in range(2):
        spans = system.explain(doc, column)
        assert [doc.text[span.start : span.end] for span in spans] == doc.text.split()
        pieces, words = system._weigh(doc, column, "explain_logit")
        attended = {span.start: span.weight for span in system.reader.place_weights(doc, pieces)}
        bag = {span.start: span.weight for span in system.reader.words.place_weights(doc, words)}
        for span in spans:
            assert span.weight == pytest.approx(attended[span.start] + bag[span.start])
    attention = system.attend(doc, 0)
    assert 0 < sum(span.weight for span in attention) < 1  # [CLS] and [SEP] have the rest
    assert system.explain(doc, 2) == []


def test_weights_of_words_beyond_the_windows_stand_by_themselves():
    words = [Span(0, 4, 1.0), Span(5, 9, 2.0)]
    more = [Span(6, 9, 0.5), Span(20, 24, 0.25)]
    assert add_words(words, more) == [Span(0, 4, 1.0), Span(5, 9, 2.5), Span(20, 24, 0.25)]
    assert add_words([], more) == more

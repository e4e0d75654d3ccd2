"""`semantic`: similarity of names and texts by hand, passages, new concepts, explanations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ontodex.errors import ConfigError, RunError
from ontodex.models.semantic import name_vectors
from ontodex.models.semantic.name_vectors import DocumentVectors, NameVectors
from ontodex.models.semantic.system import (
    Passage,
    SemanticConfig,
    SemanticSystem,
    split_passages,
)
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, LabelSpace
from tiny_encoder import write_tiny_encoder

TEXTS = ["trout in the cold river", "old oak and young oak", "bread from the oven", "cold bread"]
CONCEPTS = [
    Concept("fish", {"en": "trout"}, {"en": ["river", "fish of the river"]}),
    Concept("oak", {"en": "oak"}),
    Concept("bread", {"en": "bread"}),
    Concept("cold", {"en": "cold"}),
]
TRAIN = Corpus.of(
    Doc(str(i), {"title": text, "text": f"{text} the the"}, (), (label,))
    for i, (text, label) in enumerate(zip(TEXTS, ("fish", "oak", "bread", "bread"), strict=True))
)
LABELS = LabelSpace.of(TRAIN, build_ontology(CONCEPTS))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> SemanticSystem:
    words = [*TEXTS, "the fish glacier of"]
    encoder = write_tiny_encoder(tmp_path_factory.mktemp("encoder"), words)
    fresh = SemanticSystem(SemanticConfig(encoder=str(encoder), window=3, background=4))
    fresh.fit(TRAIN, Corpus.of([]), LABELS)
    return fresh


def similarity_by_loops(system: SemanticSystem, doc: Doc, column: int) -> float:
    names = system.names.find(column)
    title, *windows = (
        system.text_vectors.encode([passage.text])[0]
        for passage in split_passages(doc, system.config)
    )
    best_window = max(float(window @ name) for window in windows for name in names)
    return max(float(title @ name) for name in names) + best_window


def test_scores_are_similarities_standardised_over_training_documents(system):
    doc = Doc("x", {"title": "cold river", "text": "the young trout and the old bread oven"})
    expected = []
    for column in range(4):
        usual = [similarity_by_loops(system, other, column) for other in TRAIN]
        score = (similarity_by_loops(system, doc, column) - np.mean(usual)) / (np.std(usual) + 1e-3)
        expected.append(1 / (1 + np.exp(4 - score)))
    ranking = system.rank(Corpus.of([doc]), 4)
    assert ranking.columns[0].tolist() == np.argsort(expected)[::-1].tolist()
    assert ranking.probabilities[0] == pytest.approx(sorted(expected, reverse=True), rel=0.02)


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_title_and_best_window_are_as_near_as_their_best_names(monkeypatch, at_once):
    monkeypatch.setattr(name_vectors, "_NAMES_AT_ONCE", at_once)
    names = NameVectors(np.array([0, 0, 2]), np.array([[1, 0], [0, 1], [0.5, 0.75]], np.float16))
    passages = np.array([[1, 0], [0.5, 0.75], [0, 1], [0, 1], [1, 0]], np.float32)
    documents = DocumentVectors(passages, np.array([0, 3, 5]))
    parts = list(names.compare(documents))
    assert np.concatenate([columns for columns, _ in parts]).tolist() == [0, 2]
    # The title of the first document is [1, 0], its windows are [0.5, 0.75] and [0, 1].
    expected = [[1 + 1, 0.5 + 0.8125], [1 + 1, 0.75 + 0.5]]
    np.testing.assert_allclose(np.concatenate([part for _, part in parts], axis=1), expected)
    last = documents.take(slice(1, 3))
    np.testing.assert_array_equal(last.vectors, passages[3:])
    assert last.offsets.tolist() == [0, 2]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"title": "A b", "text": "c d\n e"}, [(0, "A b"), (0, "A b\nc"), (4 + 2, "d\n e")]),
        ({"text": "a b"}, [(0, "a b"), (0, "a b")]),
        ({"title": " ", "text": "a"}, [(2, "a"), (2, "a")]),
        ({"text": ""}, [(0, ""), (0, "")]),
        ({"text": "a b c d e f g h"}, [(0, "a b c"), (0, "a b c"), (6, "d e f")]),
    ],
)
def test_passages_are_the_title_and_the_windows(fields, expected):
    found = split_passages(Doc("x", fields), SemanticConfig(window=3, windows=2))
    assert found == [Passage(*pair) for pair in expected]


def test_the_words_of_an_explanation_add_up_to_the_similarity(system):
    doc = Doc("x", {"text": "the trout oven"})
    spans = system.explain(doc, LABELS.column["fish"])
    assert [doc.text[span.start : span.end] for span in spans] == ["the", "trout", "oven"]
    own = system.names.find(LABELS.column["fish"])
    vector = system.text_vectors.encode([doc.text])[0]
    parts = system.text_vectors.explain(doc.text, own[int((own @ vector).argmax())])
    assert [span.weight for span in spans] == [weight for *_, weight in parts]
    ends = system.text_vectors.pieces.encode([""], window=5, n_windows=1)[0]
    assert len(ends) == 2  # [CLS] and [SEP] have the rest of the sum
    assert sum(weight for *_, weight in parts) < float((own @ vector).max()) + 1


def test_a_concept_without_names_is_never_suggested(system):
    labels = LabelSpace.of(TRAIN)  # no ontology: no names
    fresh = SemanticSystem(system.config)
    fresh.fit(TRAIN, Corpus.of([]), labels)
    assert not fresh.rank(TRAIN, 3).probabilities.any()
    assert fresh.explain(TRAIN[0], 0) == []


def test_new_concepts_of_another_vocabulary_are_suggested_without_training(system, tmp_path):
    more = build_ontology([*CONCEPTS, Concept("ice", {"en": "glacier"})])
    labels = LabelSpace((*LABELS.ids, "ice"), np.append(LABELS.frequency, 0), 4, more)
    new = system.select_new(labels, np.array([False] * 4 + [True]))
    docs = Corpus.of([Doc(text, {"text": text}) for text in ("glacier glacier", "trout")])
    ranking = new.rank(docs, 5)
    assert ranking.columns[:, 0].tolist() == [4, 4]
    assert ranking.probabilities[0, 0] > ranking.probabilities[1, 0]
    assert not ranking.probabilities[:, 1:].any(), "known concepts are not ranked"
    new.save(tmp_path)
    loaded = SemanticSystem.load(tmp_path, labels).rank(docs, 5)
    np.testing.assert_array_equal(loaded.probabilities, ranking.probabilities)


def test_without_an_encoder_the_message_says_how_to_get_one():
    with pytest.raises(ConfigError, match="needs a pretrained encoder") as caught:
        SemanticSystem(SemanticConfig()).fit(TRAIN, TRAIN, LABELS)
    assert "ontodex data get minilm" in caught.value.hint


def test_vectors_out_of_order_are_refused(system, tmp_path):
    from ontodex.io.tensors import read_tensors, save_tensors

    system.save(tmp_path)
    arrays = {name: array.copy() for name, array in read_tensors(tmp_path, "vectors").items()}
    wrong = [{name: arrays[name][::-1].copy()} for name in ("owner", "offsets")]
    wrong.append({name: np.append(arrays[name], 1).astype("f4") for name in ("mean", "deviation")})
    wrong.append({name: arrays[name][:-1] for name in ("mean", "deviation")})
    for other in wrong:
        save_tensors(tmp_path, "vectors", arrays | other)
        with pytest.raises(RunError, match=r"not in order|tensor '(mean|deviation)'"):
            SemanticSystem.load(tmp_path, LABELS)


def test_the_weights_of_an_explanation_are_finite_even_where_a_text_has_no_direction(tmp_path):
    encoder = write_tiny_encoder(tmp_path / "encoder", TEXTS)
    system = SemanticSystem(SemanticConfig(encoder=str(encoder), window=3, background=4))
    system.fit(TRAIN, Corpus.of([]), LABELS)
    with torch.no_grad():  # the square of such a vector is 0
        norm = system.text_vectors.network.encoder.layer[-1].output.LayerNorm
        norm.weight.fill_(1e-30)
        norm.bias.zero_()
    spans = system.explain(Doc("x", {"text": "trout in the river"}), 0)
    assert spans
    assert np.isfinite([span.weight for span in spans]).all()

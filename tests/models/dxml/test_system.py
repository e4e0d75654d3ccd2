from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.errors import DataError, RunError
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.features.label_graph import compute_label_vectors
from ontodex.models.baselines.sparse_rows import to_csr
from ontodex.models.dxml.network import DxmlConfig
from ontodex.models.dxml.system import DxmlSystem
from ontodex.models.dxml.targets import average_label_vectors, whiten_vectors
from ontodex.models.interface import Explains, Refits, Resumes, Updates
from ontodex.models.layers.sparse_input import SparseInput
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.training.sparse_gradients import find_sparse_tables
from ontodex.types import Corpus, Doc, LabelSpace

TOPICS = {"sea": "wave ship tide", "sky": "cloud wind star", "soil": "root worm clay"}
TRAINING = {"epochs": 12, "batch_size": 16, "lr": 0.02, "patience": 0, "ema_rate": 0.05}
SMALL = {"networks": 1, "hidden": 32, "label_size": 8, "walk_passes": 1, "train": TRAINING}


def corpus(n: int, seed: int) -> Corpus:
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n):
        topics = rng.choice(list(TOPICS), size=rng.integers(1, 3), replace=False)
        words = [w for t in topics for w in rng.choice(TOPICS[t].split(), 2)] + ["the", "of"]
        docs.append(Doc(f"{seed}-{i}", {"text": " ".join(words)}, labels=tuple(topics)))
    return Corpus.of(docs)


TRAIN, DEV, TEST = corpus(80, 0), corpus(30, 1), corpus(30, 2)
LABELS = LabelSpace.of(TRAIN)


def fit_dxml(**more: object) -> DxmlSystem:
    model = DxmlSystem(build(DxmlConfig, {**SMALL, **more}, "model"))
    model.fit(TRAIN, DEV, LABELS)
    return model


@pytest.fixture(scope="module")
def model() -> DxmlSystem:
    return fit_dxml()


def p_at_1(model: DxmlSystem, test: Corpus, labels: LabelSpace = LABELS) -> float:
    return float(score_documents(precision, 1, labels.gold(test), model.rank(test, 1)).mean())


def test_dev_chooses_epochs_neighbours_exponent_and_probes(model):
    assert 1 <= model.epochs <= 12
    assert model.neighbours in (10, 20, 40, 80, 160)
    assert model.exponent in (0.0, 5.0, 10.0, 20.0, 40.0)
    assert 1 <= model.probe <= len(model.memory.centres) == round(80**0.5)
    assert p_at_1(model, TEST) > 0.9


def test_settings_win_over_dev():
    chosen = fit_dxml(neighbours=7, exponent=3.0, clusters=4, probe=2)
    assert (chosen.neighbours, chosen.exponent, chosen.probe) == (7, 3.0, 2)
    assert len(chosen.memory.centres) == 4


def test_the_embedding_is_the_mean_of_several_networks(model):
    two = fit_dxml(networks=2)
    assert two.embed(TEST).shape == model.embed(TEST).shape
    data = two._encode(TEST).batch(np.arange(len(TEST)))
    one, other = (part(*data).detach().numpy() for part in two._require_network().parts)
    assert not np.allclose(one, other)
    mean = (one + other) / np.linalg.norm(one + other, axis=1, keepdims=True)
    np.testing.assert_allclose(two.embed(TEST), mean, atol=1e-5)
    assert p_at_1(two, TEST) > 0.9


def test_a_long_table_is_learned_by_row_and_learns_as_well(model, monkeypatch):
    monkeypatch.setattr("ontodex.models.layers.sparse_input.ROW_UPDATE_FEATURES", 1)
    by_row = fit_dxml()
    assert len(find_sparse_tables(by_row.network)) == len(by_row.network.parts)
    assert find_sparse_tables(model.network) == []
    assert p_at_1(by_row, TEST) >= p_at_1(model, TEST) - 0.1
    paper = fit_dxml(train={**TRAINING, "optimizer": "sgd"})  # plain SGD moves whole tables
    assert find_sparse_tables(paper.network) == []


def unit(f: np.ndarray) -> np.ndarray:
    return f / np.linalg.norm(f, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def by_kernel() -> DxmlSystem:
    return fit_dxml(embedding="kernel")


def test_kernel_regression_gives_the_embedding_of_the_formula(by_kernel):
    assert by_kernel.network is None
    assert by_kernel.ridge in (0.1, 0.3, 1.0, 3.0)
    assert by_kernel.target_share in (0.0, 0.25, 0.5)
    assert p_at_1(by_kernel, TEST) > 0.9
    train, test = (by_kernel.features.transform(c).toarray() for c in (TRAIN, TEST))  # unit rows
    kernel = np.exp(2 * (train @ train.T - 1)) + by_kernel.ridge * np.eye(80)
    vectors = whiten_vectors(
        compute_label_vectors(TRAIN, LABELS, by_kernel.config), LABELS.frequency
    )
    targets = average_label_vectors(by_kernel.gold, vectors, unit=True)
    weights = np.linalg.solve(kernel, targets)

    expected = unit(np.exp(2 * (test @ train.T - 1)) @ weights)
    np.testing.assert_allclose(by_kernel.embed(TEST), expected, atol=1e-3)
    left_out = unit(targets - weights / np.diag(np.linalg.inv(kernel))[:, None])
    expected = unit((1 - by_kernel.target_share) * left_out + by_kernel.target_share * targets)
    np.testing.assert_allclose(by_kernel.memory.vectors, expected, atol=2e-3)


@pytest.mark.parametrize("whiten", [True, False])
@pytest.mark.parametrize("unit_targets", [True, False])
def test_targets_are_the_mean_label_vectors_that_the_settings_name(whiten, unit_targets):
    """Documents with one and with two labels, in a loop."""
    settings = {"whiten_labels": whiten, "unit_targets": unit_targets, "ridge": 0.3}
    model = fit_dxml(embedding="kernel", **settings)
    vectors = compute_label_vectors(TRAIN, LABELS, model.config)
    if whiten:
        vectors = whiten_vectors(vectors, LABELS.frequency)
    targets = []
    for doc in TRAIN:
        own = [vectors[LABELS.column[label]].astype(np.float64) for label in doc.labels]
        mean = sum(own) / len(own)
        targets.append(mean / np.linalg.norm(mean) if unit_targets else mean)
    assert {len(doc.labels) for doc in TRAIN} == {1, 2}
    rows = model.features.transform(TRAIN).toarray()
    kernel = np.exp(2 * (rows @ rows.T - 1)) + 0.3 * np.eye(80)
    scale = np.abs(targets).max()
    np.testing.assert_allclose(
        model.weights / scale, np.linalg.solve(kernel, targets) / scale, atol=1e-3
    )


def test_leave_one_out_predictions_choose_the_best_settings():
    """Against every choice in a loop, with labels that are often wrong, so that choices differ."""
    random = np.random.default_rng(3)
    topics = list(TOPICS)
    wrong = [tuple(random.choice(topics, 1)) if random.random() < 0.4 else () for _ in TRAIN]
    noisy = Corpus.of(
        [Doc(d.id, d.fields, labels=w or d.labels) for d, w in zip(TRAIN, wrong, strict=True)]
    )
    labels = LabelSpace.of(noisy)
    config = build(DxmlConfig, {**SMALL, "embedding": "kernel"}, "model")
    model = DxmlSystem(config)
    model.fit(noisy, DEV, labels)
    rows = model.features.transform(noisy).toarray()
    vectors = whiten_vectors(compute_label_vectors(noisy, labels, config), labels.frequency)
    targets = average_label_vectors(model.gold, vectors, unit=True)
    gold = labels.gold(noisy).toarray()[:, : len(labels)]
    kernel = np.exp(2 * (rows @ rows.T - 1))

    def evaluate(ridge: float, share: float, k: int, exponent: float) -> float:
        inverse = np.linalg.inv(kernel + ridge * np.eye(80))
        predicted = unit(targets - inverse @ targets / np.diag(inverse)[:, None])
        memory = unit((1 - share) * predicted + share * targets)
        total = 0.0
        for own in range(80):
            similarity = memory @ predicted[own]
            similarity[own] = -np.inf
            near = np.argsort(-similarity, kind="stable")[: min(k, 79)]
            votes = np.maximum(similarity[near], 0) ** exponent @ gold[near]
            best = np.argsort(-votes, kind="stable")[:5]
            gains = 1 / np.log2(np.arange(2, 7))
            total += gold[own][best] @ gains[: len(best)] / gains[: gold[own].sum()].sum()
        return total / 80

    chosen = (model.ridge, model.target_share, model.neighbours, model.exponent)
    others = product((0.1, 0.3, 1.0, 3.0), (0.0, 0.25, 0.5), (10, 20, 40), (0.0, 5.0, 20.0))
    scores = [evaluate(*other) for other in others]
    assert evaluate(*chosen) >= max(scores) - 0.005
    assert evaluate(*chosen) > np.median(scores)


def test_fewer_landmarks_than_documents_do_as_well():
    few = fit_dxml(embedding="kernel", landmarks=40, ridge=0.1)
    assert len(few.landmarks) == 40
    assert len(few.memory) == 80
    assert p_at_1(few, TEST) > 0.9


@pytest.mark.parametrize("embedding", ["network", "kernel"])
def test_new_documents_with_new_labels_are_found_after_an_update(tmp_path, embedding):
    model = fit_dxml(embedding=embedding)
    assert isinstance(model, Updates)
    before = model.embed(TEST)
    new = Corpus.of([Doc(f"n{i}", {"text": "cloud ship clay"}, labels=("mix",)) for i in range(90)])
    labels = LABELS.extend(new)
    model.update(new, labels)
    best = model.rank(Corpus.of([Doc("x", {"text": "clay cloud ship"})]), 1)
    assert labels.ids[best.columns[0, 0]] == "mix"
    np.testing.assert_array_equal(model.embed(TEST), before)  # nothing was retrained
    model.save(tmp_path)
    loaded = DxmlSystem.load(tmp_path, labels)
    np.testing.assert_array_equal(loaded.rank(TEST, 3).columns, model.rank(TEST, 3).columns)


@pytest.mark.parametrize("name", ["model", "by_kernel"])
def test_refitting_keeps_the_choices_of_dev_and_adds_all_documents(name, request):
    model = request.getfixturevalue(name)
    again = fit_dxml(embedding=model.config.embedding)
    assert isinstance(again, Refits)
    everything = TRAIN.join(DEV)
    labels = LabelSpace.of(everything)
    again.refit(everything, labels)
    for chosen in ("epochs", "neighbours", "exponent", "probe", "ridge", "target_share"):
        assert getattr(again, chosen) == getattr(model, chosen)
    assert len(again.memory) == 110
    assert again.calibration.to_json() == model.calibration.to_json()
    assert p_at_1(again, TEST, labels) > 0.9


@pytest.mark.parametrize("name", ["model", "by_kernel"])
def test_explaining_points_at_the_words_of_the_label(name, request):
    model = request.getfixturevalue(name)
    assert isinstance(model, Explains)
    doc = Doc("x", {"text": "wave ship worm"})
    weights = {
        doc.text[s.start : s.end]: s.weight for s in model.explain(doc, LABELS.column["sea"])
    }
    assert weights["wave"] + weights["ship"] > 2 * weights["worm"]


@pytest.mark.parametrize("name", ["model", "by_kernel"])
def test_words_are_weighted_by_the_gradient(name, request):
    """Against finite differences of the component towards the label's neighbours."""
    model = request.getfixturevalue(name)
    doc, sea = Doc("x", {"text": "wave ship worm"}), LABELS.column["sea"]
    row = to_csr(model.features.transform(Corpus.of([doc]))).toarray()[0].astype(np.float64)
    f_x = model.embed(Corpus.of([doc]))
    votes = model._search(f_x).weigh(model.neighbours, model.exponent, 80).toarray()[0]
    has = model.gold[:, [sea]].toarray()[:, 0] > 0
    direction = sum(
        sign * (votes * side) @ model.memory.vectors / max((votes * side).sum(), 1e-12)
        for sign, side in ((1, has), (-1, ~has))
    )

    def embed(x: np.ndarray) -> np.ndarray:
        if model.landmarks is not None:
            near = np.exp(2 * (model.landmarks.rows.toarray() @ x - 1))
            return near @ model.weights.astype(np.float64)
        [part] = model.network.parts
        data = SparseInput(csr_array(x[None].astype(np.float32)), torch.device("cpu"))
        embedded = part.embed_unnormalised(*data.batch(np.array([0])))
        return embedded.detach().numpy()[0].astype(np.float64)

    length = np.linalg.norm(embed(row))
    spans = model.explain(doc, sea)
    assert len(spans) == 3
    for span in spans:
        word = doc.text[span.start : span.end]
        [column] = [c for c in range(len(row)) if model.features.name_columns([c]) == [word]]
        step = np.zeros_like(row)
        step[column] = 1e-3
        slope = (embed(row + step) - embed(row - step)) @ direction / 2e-3 / length
        assert span.weight == pytest.approx(row[column] * slope, rel=0.02, abs=2e-3)


def test_an_ontology_may_give_the_label_graph():
    concepts = [Concept("earth", {"en": "earth"})]
    concepts += [Concept(topic, {"en": topic}, parents=("earth",)) for topic in TOPICS]
    labels = LabelSpace.of(TRAIN, build_ontology(concepts))
    model = DxmlSystem(build(DxmlConfig, {**SMALL, "graph": "ontology"}, "model"))
    model.fit(TRAIN, DEV, labels)
    assert p_at_1(model, TEST, labels) > 0.9


def test_documents_without_labels_are_left_out_of_training():
    blank = Corpus.of([Doc(f"b{i}", {"text": "wave star"}) for i in range(20)])
    model = DxmlSystem(build(DxmlConfig, SMALL, "model"))
    model.fit(TRAIN.join(blank), DEV, LABELS)
    assert len(model.memory) == model.gold.shape[0] == 80
    assert len(model.rank(Corpus.of([Doc("empty", {"text": ""})]), 2)) == 1
    with pytest.raises(DataError, match="no training document has a label"):
        DxmlSystem(build(DxmlConfig, SMALL, "model")).fit(blank, DEV, LABELS)


def test_damaged_files_are_refused(model, tmp_path):
    model.save(tmp_path)
    with pytest.raises(RunError, match=r"gold.safetensors: tensor 'matrix' has shape"):
        DxmlSystem.load(tmp_path, LabelSpace.of(TRAIN.select([0])))


def test_a_finished_training_is_resumed_from_its_checkpoint(model, tmp_path):
    """The checkpoint of a finished training is loaded, and nothing is trained again."""
    one = DxmlSystem(build(DxmlConfig, SMALL, "model"))
    assert isinstance(one, Resumes)
    one.work = tmp_path
    one.fit(TRAIN, DEV, LABELS)
    two = DxmlSystem(build(DxmlConfig, SMALL, "model"))
    two.work = tmp_path
    two.fit(TRAIN, DEV, LABELS)
    assert two.epochs == one.epochs == model.epochs
    np.testing.assert_array_equal(two.embed(TEST), model.embed(TEST))

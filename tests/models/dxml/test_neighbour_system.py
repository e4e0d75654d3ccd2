"""What `dxml`, `graphknn` and `landmark` share: memory, vote, updates and explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from topic_documents import DEV, LABELS, TEST, TOPICS, TRAIN

from ontodex.config import build
from ontodex.errors import DataError, RunError
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models import find_model
from ontodex.models.baselines.sparse_rows import to_csr
from ontodex.models.dxml.neighbour_system import NeighbourSystem
from ontodex.models.interface import Explains, Refits, Resumes, Updates
from ontodex.models.layers.sparse_input import SparseInput
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, LabelSpace

LABEL_VECTORS = {"label_size": 8, "walk_passes": 1}
NETWORK = {"hidden": 32, **LABEL_VECTORS}
ADAM = {"epochs": 12, "batch_size": 16, "lr": 0.02, "patience": 0, "ema_rate": 0.05}
SMALL: dict[str, dict[str, Any]] = {
    "dxml": {**NETWORK, "train": {"epochs": 80, "batch_size": 16, "patience": 0}},
    "graphknn": {"networks": 2, **NETWORK, "train": ADAM},
    "landmark": LABEL_VECTORS,
}


def fit(
    name: str, train: Corpus = TRAIN, labels: LabelSpace = LABELS, **more: object
) -> NeighbourSystem:
    system_class: Any = find_model(name)
    model = system_class(build(system_class.Config, {**SMALL[name], **more}, "model"))
    model.fit(train, DEV, labels)
    return model


@pytest.fixture(scope="module")
def systems() -> dict[str, NeighbourSystem]:
    return {name: fit(name) for name in SMALL}


@pytest.fixture(params=list(SMALL))
def model(request, systems) -> NeighbourSystem:
    return systems[request.param]


def name_of(model: NeighbourSystem) -> str:
    return next(name for name in SMALL if find_model(name) is type(model))


def p_at_1(model: NeighbourSystem, test: Corpus, labels: LabelSpace = LABELS) -> float:
    return float(score_documents(precision, 1, labels.gold(test), model.rank(test, 1)).mean())


def test_the_vote_of_the_neighbours_finds_the_labels(model):
    assert p_at_1(model, TEST) > 0.9


def test_new_documents_with_new_labels_are_found_after_an_update(model, tmp_path):
    model = fit(name_of(model), neighbours=40)
    assert isinstance(model, Updates)
    before = model.embed(TEST)
    new = Corpus.of([Doc(f"n{i}", {"text": "cloud ship clay"}, labels=("mix",)) for i in range(90)])
    labels = LABELS.extend(new)
    model.update(new, labels)
    best = model.rank(Corpus.of([Doc("x", {"text": "clay cloud ship"})]), 1)
    assert labels.ids[best.columns[0, 0]] == "mix"
    np.testing.assert_array_equal(model.embed(TEST), before)  # nothing was retrained
    model.save(tmp_path)
    loaded = type(model).load(tmp_path, labels)
    np.testing.assert_array_equal(loaded.rank(TEST, 3).columns, model.rank(TEST, 3).columns)


def test_refitting_keeps_the_choices_of_dev_and_adds_all_documents(model):
    again = fit(name_of(model))
    assert isinstance(again, Refits)
    everything = TRAIN.join(DEV)
    labels = LabelSpace.of(everything)
    again.refit(everything, labels)
    assert again.chosen == model.chosen
    assert len(again.memory) == 110
    assert again.calibration.to_json() == model.calibration.to_json()
    assert p_at_1(again, TEST, labels) > 0.9


def test_explaining_points_at_the_words_of_the_label(model):
    assert isinstance(model, Explains)
    doc = Doc("x", {"text": "wave ship worm"})
    weights = {
        doc.text[s.start : s.end]: s.weight for s in model.explain(doc, LABELS.column["sea"])
    }
    assert weights["wave"] + weights["ship"] > 2 * weights["worm"]


def embed_unnormalised(model: NeighbourSystem, x: np.ndarray) -> list[np.ndarray]:
    """The embedding of one document before its length is made 1, of each network of a system."""
    if name_of(model) == "landmark":
        near = np.exp(2 * (model.landmarks.rows.toarray() @ x - 1))
        return [near @ model.weights.astype(np.float64)]
    data = SparseInput(csr_array(x[None].astype(np.float32)), torch.device("cpu"))
    parts = [model.network] if name_of(model) == "dxml" else model.network.parts
    found = [part.embed_unnormalised(*data.batch(np.array([0]))) for part in parts]
    return [one.detach().numpy()[0].astype(np.float64) for one in found]


def test_words_are_weighted_by_the_gradient(model):
    """Against finite differences of the component towards the label's neighbours."""
    doc, sea = Doc("x", {"text": "wave ship worm"}), LABELS.column["sea"]
    row = to_csr(model.features.transform(Corpus.of([doc]))).toarray()[0].astype(np.float64)
    f_x, chosen = model.embed(Corpus.of([doc])), model.chosen
    votes = model.search(f_x).weigh(chosen.neighbours, chosen.exponent, 80).toarray()[0]
    has = model.gold[:, [sea]].toarray()[:, 0] > 0
    direction = sum(
        sign * (votes * side) @ model.memory.vectors / max((votes * side).sum(), 1e-12)
        for sign, side in ((1, has), (-1, ~has))
    )
    spans = model.explain(doc, sea)
    assert len(spans) == 3
    for span in spans:
        word = doc.text[span.start : span.end]
        [column] = [c for c in range(len(row)) if model.features.name_columns([c]) == [word]]
        step = np.zeros_like(row)
        step[column] = 1e-3
        places = (embed_unnormalised(model, x) for x in (row, row + step, row - step))
        slopes = [
            (above - below) @ direction / 2e-3 / np.linalg.norm(here)
            for here, above, below in zip(*places, strict=True)
        ]
        assert span.weight == pytest.approx(row[column] * np.mean(slopes), rel=0.02, abs=2e-3)


def test_an_ontology_may_give_the_label_graph(model):
    concepts = [Concept("earth", {"en": "earth"})]
    concepts += [Concept(topic, {"en": topic}, parents=("earth",)) for topic in TOPICS]
    labels = LabelSpace.of(TRAIN, build_ontology(concepts))
    assert p_at_1(fit(name_of(model), labels=labels, graph="ontology"), TEST, labels) > 0.9


def test_documents_without_labels_are_left_out_of_training(model):
    blank = Corpus.of([Doc(f"b{i}", {"text": "wave star"}) for i in range(20)])
    more = fit(name_of(model), TRAIN.join(blank))
    assert len(more.memory) == more.gold.shape[0] == 80
    assert len(more.rank(Corpus.of([Doc("empty", {"text": ""})]), 2)) == 1
    with pytest.raises(DataError, match="no training document has a label"):
        fit(name_of(model), blank)


def test_damaged_files_are_refused(model, tmp_path):
    model.save(tmp_path)
    with pytest.raises(RunError, match=r"gold.safetensors: tensor 'matrix' has shape"):
        type(model).load(tmp_path, LabelSpace.of(TRAIN.select([0])))


@pytest.mark.parametrize("name", ["dxml", "graphknn"])
def test_a_finished_training_is_resumed_from_its_checkpoint(name, systems, tmp_path):
    """The checkpoint of a finished training is loaded, and nothing is trained again."""
    system_class: Any = find_model(name)
    for _ in range(2):
        one = system_class(build(system_class.Config, SMALL[name], "model"))
        assert isinstance(one, Resumes)
        one.work = tmp_path
        one.fit(TRAIN, DEV, LABELS)
        assert one.chosen.epochs == systems[name].chosen.epochs
        np.testing.assert_array_equal(one.embed(TEST), systems[name].embed(TEST))

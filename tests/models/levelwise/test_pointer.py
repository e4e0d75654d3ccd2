"""The pointer generator: training, decoding and files."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, hstack

from ontodex.config import vary
from ontodex.errors import RunError
from ontodex.evaluation.sets import set_metrics
from ontodex.models.levelwise import pointer as pointer_module
from ontodex.models.levelwise.config import PointerConfig
from ontodex.models.levelwise.pointer import (
    CandidateBatches,
    CandidateLabels,
    Hierarchy,
    Pointer,
    build_targets,
    resize_label_vectors,
)
from ontodex.models.levelwise.pointer_beam_search import search
from ontodex.models.levelwise.pointer_network import PointerNetwork
from ontodex.types import Ranking
from ontodex.types.loop_config import LoopConfig

# Four roots (0-3), four leaves below each (4-19).
LEVEL = np.array([1] * 4 + [2] * 16)


PARENT = np.arange(16) // 4  # of each leaf


N_LABELS = len(LEVEL)


ABOVE = csr_array((np.ones(16, bool), (np.arange(4, 20), PARENT)), shape=(20, 20))


CONFIG = vary(
    PointerConfig(embedding=16, hidden=16, steps=0),
    beam=3,
    dropout=0.1,
    max_labels=10,
    order="forward",
    length_reward=True,
    epochs=3,
    train=LoopConfig(epochs=3, lr=2e-2, ema_rate=0.1, patience=0),
)


HIERARCHY = Hierarchy(LEVEL, ABOVE, np.arange(N_LABELS, 0, -1))


def plant(n: int, seed: int) -> tuple[CandidateLabels, csr_array]:
    """One or two leaves a document, and the roots above them. The levels predict most true labels,
    and false leaves, just as sure of these: only their missing roots give them away."""
    random = np.random.default_rng(seed)
    gold = np.zeros((n, N_LABELS), np.int8)
    for row in gold:
        leaves = random.choice(16, random.integers(1, 3), replace=False)
        row[4 + leaves] = row[PARENT[leaves]] = 1
    false = (gold == 0) & (LEVEL == 2) & (random.random(gold.shape) < 0.15)
    kept = ((gold > 0) & (random.random(gold.shape) < 0.97)) | false
    columns = np.where(kept, np.arange(N_LABELS), -1)
    return CandidateLabels.of(columns, random.uniform(0.5, 1, gold.shape), LEVEL), csr_array(gold)


TRAIN, TRAIN_GOLD = plant(600, 1)


DEV, DEV_GOLD = plant(60, 2)


TEST, TEST_GOLD = plant(200, 3)


FEW, FEW_GOLD = plant(100, 4)


NOTHING = CandidateLabels.of(np.full((2, 3), -1), np.zeros((2, 3)), LEVEL)


@pytest.fixture(scope="module")
def trained() -> Pointer:
    pointer = Pointer(CONFIG, HIERARCHY)
    pointer.fit(TRAIN, TRAIN_GOLD, DEV, DEV_GOLD)
    return pointer


def quick(**settings) -> PointerConfig:
    """One epoch."""
    return vary(CONFIG, epochs=1, **settings)


def row(predicted: CandidateLabels, n: int) -> CandidateLabels:
    return CandidateLabels(
        *(getattr(predicted, f.name)[[n]] for f in dataclasses.fields(CandidateLabels))
    )


def test_it_beats_every_threshold_where_false_labels_lack_ancestors(trained):
    thresholds = [
        Ranking.sort(np.where(TEST.probabilities >= t, TEST.columns, -1), TEST.probabilities, 30)
        for t in np.linspace(0.5, 1, 11)
    ]
    best = max(set_metrics(TEST_GOLD, ranking)["MiF"] for ranking in thresholds)
    found = set_metrics(TEST_GOLD, trained.decode(TEST))
    assert found["MiF"] > best + 0.05
    assert found["MaF"] > best + 0.05


def test_without_a_reward_for_length_none_is_looked_for_on_dev():
    """Dev documents that have every label predicted ask for one."""
    true = np.zeros((60, N_LABELS), np.int8)
    rows, places = np.nonzero(DEV.columns >= 0)
    true[rows, DEV.columns[rows, places]] = 1
    found = {}
    for wanted in (True, False):
        pointer = Pointer(quick(length_reward=wanted), HIERARCHY)
        pointer.fit(FEW, FEW_GOLD, DEV, csr_array(true))
        found[wanted] = pointer.length_reward
    assert found[True] > 0
    assert found[False] == 0


def test_the_untrained_network_is_kept_where_training_does_not_help_on_dev(caplog):
    """Training documents whose gold is another document's teach nothing but harm."""
    shuffled = csr_array(FEW_GOLD[np.random.default_rng(0).permutation(100)])
    likely = DEV.probabilities > 0.6
    true = np.zeros((60, N_LABELS), np.int8)
    true[np.nonzero(likely)[0], DEV.columns[likely]] = 1  # dev: whatever is likely is true
    pointer = Pointer(quick(), HIERARCHY)
    with caplog.at_level("WARNING"):
        pointer.fit(FEW, shuffled, DEV, csr_array(true))
    assert ["did not help on dev" in message for message in caplog.messages] == [True]
    torch.manual_seed(LoopConfig().seed)
    fresh = PointerNetwork(quick(), HIERARCHY).half().float()
    for name, value in fresh.state_dict().items():
        assert torch.equal(pointer.require_network().state_dict()[name], value), name
    assert set_metrics(csr_array(true), pointer.decode(DEV))["MiF"] > 0.7


def test_clusters_are_read_and_never_predicted(trained):
    """Decoding and dev use labels only: here the last four columns are none."""
    clustered = Hierarchy(LEVEL, ABOVE, HIERARCHY.frequency, n_clusters=4)
    pointer = Pointer.load(CONFIG, clustered, trained.to_tensors())
    everything, answers = trained.decode(TEST), pointer.decode(TEST)
    assert (everything.columns >= clustered.n_answers).any()
    expected = everything.keep(everything.columns < clustered.n_answers)
    np.testing.assert_array_equal(answers.columns, expected.columns)


def test_dev_documents_without_known_labels_are_not_scored():
    """As without dev: the last epoch is kept, and no reward is looked for."""
    unknown = csr_array(np.hstack([np.zeros((60, N_LABELS), np.int8), np.ones((60, 1), np.int8)]))
    empty = CandidateLabels.of(np.empty((0, 3), int), np.empty((0, 3)), LEVEL)
    learned = []
    for dev, gold in ((DEV, unknown), (empty, csr_array((0, N_LABELS)))):
        pointer = Pointer(CONFIG, HIERARCHY)
        pointer.fit(FEW, FEW_GOLD, dev, gold)
        learned.append(pointer.to_tensors())
    for name, array in learned[0].items():
        np.testing.assert_array_equal(array, learned[1][name])


def test_an_ontology_may_have_more_levels_than_a_byte_can_count():
    deep = CandidateLabels.of(np.array([[1, 0]]), np.array([[0.5, 0.9]]), np.array([1, 300]))
    assert (deep.columns.tolist(), deep.levels.tolist()) == ([[0, 1]], [[1, 300]])


def test_no_label_comes_twice_and_probabilities_are_probabilities(trained):
    ranking = trained.decode(TEST)
    for columns, chances in zip(ranking.columns, ranking.probabilities, strict=True):
        chosen = columns[columns >= 0]
        assert len(set(chosen.tolist())) == len(chosen)
        assert bool((chances[columns >= 0] > 0).all())
    assert ranking.k == CONFIG.max_labels


def test_stopping_is_learned(trained):
    sizes = (trained.decode(TEST).columns >= 0).sum(axis=1)
    true = TEST_GOLD.toarray().sum(axis=1)
    assert np.corrcoef(sizes, true)[0, 1] > 0.5


def test_a_document_is_decoded_alike_alone_and_among_others(trained):
    together = trained.decode(TEST)
    for n in range(12):
        alone = trained.decode(row(TEST, n))
        np.testing.assert_array_equal(alone.columns[0], together.columns[n])
        np.testing.assert_allclose(alone.probabilities[0], together.probabilities[n], atol=1e-5)


def test_a_saved_pointer_decodes_the_same(trained):
    again = Pointer.load(CONFIG, HIERARCHY, trained.to_tensors())
    assert again.length_reward == trained.length_reward
    np.testing.assert_array_equal(again.decode(TEST).columns, trained.decode(TEST).columns)
    np.testing.assert_array_equal(
        again.decode(TEST).probabilities, trained.decode(TEST).probabilities
    )


@pytest.mark.parametrize("damage", ["missing", "shape", "infinite"])
def test_damaged_tensors_are_refused(trained, damage):
    tensors = trained.to_tensors()
    if damage == "missing":
        del tensors["switch.weight"]
    elif damage == "shape":
        tensors["switch.weight"] = tensors["switch.weight"][:, :-1]
    else:
        tensors["switch.weight"] = np.full_like(tensors["switch.weight"], np.inf)
    with pytest.raises(RunError, match=r"switch\.weight"):
        Pointer.load(CONFIG, HIERARCHY, tensors)


def test_a_document_without_predictions_can_be_decoded(trained):
    ranking = trained.decode(NOTHING)
    assert len(ranking) == 2
    np.testing.assert_array_equal(ranking.columns[0], ranking.columns[1])
    mixed = CandidateLabels(
        np.vstack([TEST.columns[:1], np.full_like(TEST.columns[:1], -1)]),
        np.vstack([TEST.probabilities[:1], np.zeros_like(TEST.probabilities[:1])]),
        np.vstack([TEST.levels[:1], np.zeros_like(TEST.levels[:1])]),
    )
    np.testing.assert_array_equal(trained.decode(mixed).columns[1], ranking.columns[0])


def test_no_documents_give_no_sets(trained):
    empty = CandidateLabels.of(np.empty((0, 3), int), np.empty((0, 3)), LEVEL)
    assert len(trained.decode(empty)) == 0


def test_the_same_seed_gives_the_same_bits():
    def fit_few() -> dict[str, np.ndarray]:
        pointer = Pointer(quick(), HIERARCHY)
        pointer.fit(FEW, FEW_GOLD, DEV, DEV_GOLD)
        return pointer.to_tensors()

    first, second = fit_few(), fit_few()
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])


@pytest.mark.parametrize("gate", ["path", "printed", "off"])
@pytest.mark.parametrize("unit", ["level", "label"])
def test_every_variant_trains_without_dev_and_with_one_level(unit, gate):
    flat = Hierarchy(np.ones(N_LABELS, int), csr_array((N_LABELS, N_LABELS)), HIERARCHY.frequency)
    for hierarchy in (HIERARCHY, flat):
        train = CandidateLabels.of(FEW.columns[:40], FEW.probabilities[:40], hierarchy.level)
        no_dev = CandidateLabels.of(np.empty((0, 1), int), np.empty((0, 1)), hierarchy.level)
        pointer = Pointer(quick(unit=unit, ancestor_gate=gate, order="any"), hierarchy)
        pointer.fit(train, FEW_GOLD[:40], no_dev, FEW_GOLD[:0])
        assert all(np.isfinite(array).all() for array in pointer.to_tensors().values())
        pointer.length_reward = 9.0  # after so few steps it would rather stop
        assert pointer.decode(train).columns.min() >= 0


def test_labels_come_in_their_order_unless_any_will_do(trained):
    rank = HIERARCHY.rank
    candidates = CandidateBatches(TEST, CONFIG, HIERARCHY, torch.device("cpu")).batch(
        np.arange(len(TEST))
    )
    with torch.inference_mode():
        found = search(trained.require_network(), candidates, beam=3, max_labels=10, reward=2.0)
    for labels in found.columns.tolist():
        ranks = [rank[label] for label in labels if label >= 0]
        assert ranks == sorted(set(ranks))


def test_training_goes_on_from_its_folder(tmp_path):
    straight = Pointer(quick(), HIERARCHY)
    straight.fit(FEW, FEW_GOLD, DEV, DEV_GOLD, tmp_path)
    assert (tmp_path / "checkpoint.safetensors").exists()
    again = Pointer(quick(), HIERARCHY)
    again.fit(FEW, FEW_GOLD, DEV, DEV_GOLD, tmp_path)  # finished: nothing is trained again
    for name, array in straight.to_tensors().items():
        np.testing.assert_array_equal(array, again.to_tensors()[name])


def test_label_vectors_of_any_width_start_the_labels():
    random = np.random.default_rng(0)
    wide = random.normal(size=(N_LABELS, 5)) @ random.normal(size=(5, 24))
    for vectors in (wide, wide[:, :8]):
        start = resize_label_vectors(vectors, CONFIG.embedding)
        # Narrower or not, labels lie to each other as before: the dot products, up to one factor.
        products = vectors @ vectors.T
        found = start.numpy() @ start.numpy().T
        factor = products[0, 0] / found[0, 0]
        np.testing.assert_allclose(found * factor, products, atol=1e-3)
        network = PointerNetwork(CONFIG, HIERARCHY, start)
        assert torch.equal(network.labels.weight[:N_LABELS, : start.shape[1]], start)


def test_wide_label_vectors_keep_what_varies_most_whatever_the_order_and_sign():
    random = np.random.default_rng(1)
    spread = np.array([9, 1, 4, 25, 16, 36])  # of six directions at right angles to each other
    turn = np.linalg.qr(random.normal(size=(6, 6)))[0]
    vectors = (random.normal(size=(400, 6)) * spread) @ turn
    start = resize_label_vectors(vectors, 3).numpy()
    best = vectors @ np.linalg.svd(vectors)[2][:3].T
    factor = np.abs(start[0, 0] / best[0, 0])
    np.testing.assert_allclose(np.abs(start), factor * np.abs(best), rtol=1e-4, atol=1e-6)
    order = random.permutation(400)
    np.testing.assert_allclose(
        resize_label_vectors(vectors[order], 3).numpy(), start[order], atol=1e-6
    )
    np.testing.assert_allclose(resize_label_vectors(-vectors, 3).numpy(), -start, atol=1e-6)


def test_fewer_labels_than_the_width_have_as_many_directions_as_labels():
    vectors = np.random.default_rng(2).normal(size=(5, 24))
    start = resize_label_vectors(vectors, 8).numpy()
    assert start.shape == (5, 5)
    factor = (vectors[0] @ vectors[0]) / (start[0] @ start[0])
    np.testing.assert_allclose(start @ start.T * factor, vectors @ vectors.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("most", "documents"), [(1, 1), (5 * 3 * (N_LABELS + 1), 5)])
def test_a_batch_decodes_as_many_documents_as_beams_and_labels_leave_room_for(
    trained, monkeypatch, most, documents
):
    expected, seen = trained.decode(TEST), []
    monkeypatch.setattr(pointer_module, "MAX_PROBABILITIES", most)
    hook = trained.require_network().labels.register_forward_pre_hook(
        lambda _, x: seen.append(len(x[0]))
    )
    found = trained.decode(TEST)
    hook.remove()
    assert max(seen) == documents
    np.testing.assert_array_equal(found.columns, expected.columns)
    np.testing.assert_allclose(found.probabilities, expected.probabilities, rtol=1e-4)


@pytest.mark.parametrize(("most", "documents"), [(1, 1), (3 * 5 * (N_LABELS + 1), 3)])
def test_training_computes_as_many_documents_as_steps_and_labels_leave_room_for(
    monkeypatch, most, documents
):
    """The longest target has two leaves, two roots and the stop symbol; a batch has 8 documents."""
    learned, seen = [], []
    for room in (pointer_module.MAX_LOGITS, most):
        monkeypatch.setattr(pointer_module, "MAX_LOGITS", room)
        pointer = Pointer(quick(dropout=0.0), HIERARCHY)
        original = PointerNetwork.forward

        def record(network, candidates, targets, coverage, original=original):
            seen.append(len(targets))
            return original(network, candidates, targets, coverage)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PointerNetwork, "forward", record)
            pointer.fit(FEW, FEW_GOLD, NOTHING, csr_array((2, N_LABELS), dtype=np.int8))
        learned.append(pointer.to_tensors()["labels.weight"])
        assert max(seen) == (8 if room > most else documents)
        seen.clear()
    np.testing.assert_allclose(*learned, atol=2e-3)


def test_decoding_before_fitting_is_an_error():
    with pytest.raises(RunError, match="before it was trained"):
        Pointer(CONFIG, HIERARCHY).decode(TEST)


def test_targets_go_by_level_then_frequency_and_end_with_stop():
    frequency = np.ones(N_LABELS, int)
    frequency[1], frequency[5], frequency[7], frequency[19] = 2, 4, 9, 50
    hierarchy = Hierarchy(LEVEL, ABOVE, frequency)
    gold = np.zeros((3, N_LABELS), np.int8)
    gold[0, [5, 7, 2, 1]] = 1
    unknown = csr_array(np.array([[1], [1], [0]], np.int8))  # a column past the labels
    targets = build_targets(csr_array(hstack([csr_array(gold), unknown])), hierarchy, 10)
    assert targets.tolist() == [
        [1, 2, 7, 5, N_LABELS],
        [N_LABELS, -1, -1, -1, -1],
        [N_LABELS, -1, -1, -1, -1],
    ]
    assert build_targets(csr_array(gold), hierarchy, 3)[0].tolist() == [1, 2, 7]


def test_predictions_are_put_in_order():
    found = CandidateLabels.of(
        np.array([[9, -1, 0, 10, 1]]), np.array([[0.2, 0, 0.1, 0.6, 0.3]]), LEVEL
    )
    assert found.columns.tolist() == [[1, 0, 10, 9]]
    assert found.levels.tolist() == [[1, 1, 2, 2]]
    with pytest.raises(ValueError, match="by level, then by falling probability"):
        CandidateLabels(found.columns, found.probabilities[:, ::-1].copy(), found.levels)
    with pytest.raises(ValueError, match="padding"):
        CandidateLabels(
            np.array([[-1, 0]]), np.zeros((1, 2), np.float32), np.array([[0, 1]], np.int8)
        )


def test_settings_out_of_range_are_named():
    with pytest.raises(ValueError, match="embedding must be even"):
        PointerConfig(embedding=5)
    with pytest.raises(ValueError, match="steps must be at least 0"):
        PointerConfig(steps=-1)


def test_a_huge_length_reward_emits_every_label_once(trained):
    config = vary(CONFIG, order="any")
    used = PointerNetwork(config, HIERARCHY).state_dict().keys()  # `any` has no weights of ranks
    weights = {name: array for name, array in trained.to_tensors().items() if name in used}
    eager = Pointer.load(config, HIERARCHY, {**weights, "length_reward": np.array([99.0])})
    ranking = eager.decode(row(TEST, 0))
    assert (ranking.columns >= 0).sum() == CONFIG.max_labels
    assert len(set(ranking.columns[0].tolist())) == CONFIG.max_labels


def test_attention_of_each_step_is_reported(trained):
    document = row(TEST, 0)
    steps = trained.explain_set(document)
    chosen = trained.decode(document).columns[0]
    assert set(steps.chosen.tolist()) == set(chosen[chosen >= 0].tolist())
    assert steps.attention.shape == (len(steps.chosen), int((document.columns >= 0).sum()))
    np.testing.assert_allclose(steps.attention.sum(axis=1), 1, atol=1e-5)
    for level in (1, 2):
        inside = steps.attention[:, steps.predicted_levels == level].sum(axis=1)
        np.testing.assert_allclose(steps.level_attention[:, level - 1], inside)
    np.testing.assert_allclose(steps.coverage, steps.level_attention.cumsum(axis=0))
    assert sorted(steps.predicted.tolist()) == sorted(document.columns[document.columns >= 0])
    by_column = dict(zip(document.columns[0], document.probabilities[0], strict=True))
    for column, probability in zip(steps.predicted, steps.predicted_probabilities, strict=True):
        assert by_column[column] == probability


def test_a_set_without_predictions_can_be_explained(trained):
    steps = trained.explain_set(row(NOTHING, 0))
    assert steps.attention.shape == (len(steps.chosen), 0)
    assert steps.coverage.shape == (len(steps.chosen), 2)


@pytest.mark.parametrize(("steps", "epochs"), [(0, 3), (2_000, 200), (25, 3)])
def test_a_pointer_generator_is_trained_for_the_least_steps(steps, epochs):
    """80 documents in batches of 8 are 10 steps."""
    pointer = Pointer(vary(CONFIG, steps=steps), HIERARCHY)
    assert pointer.plan_training(80, 8).epochs == epochs


def test_whether_the_untrained_network_was_kept_is_saved(trained):
    pointer = Pointer.load(CONFIG, HIERARCHY, {**trained.to_tensors(), "is_trained": np.zeros(1)})
    assert not pointer.is_trained
    old = {name: array for name, array in trained.to_tensors().items() if name != "is_trained"}
    assert Pointer.load(CONFIG, HIERARCHY, old).is_trained, "version 0.1 did not say"

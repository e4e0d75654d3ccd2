from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontodex.config import dump
from ontodex.errors import ConfigError, DataError, RunError
from ontodex.models.baselines.lexical import LexicalConfig, LexicalSystem
from ontodex.models.baselines.popularity import PopularityConfig, PopularitySystem
from ontodex.models.consensus.member_selection import measure_ndcg
from ontodex.models.consensus.reranker import LabelCounts
from ontodex.models.consensus.system import Consensus, ConsensusConfig, merge_spans
from ontodex.models.interface import Explains
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.ontology.open import write_ontology
from ontodex.runs.folder import save_labels, write_manifest
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.answers import Span

DOCS = Corpus.of([Doc("1", {"text": "a cat"}), Doc("2", {"text": "a dog"})])


def space(*ids: str) -> LabelSpace:
    return LabelSpace(ids, np.ones(len(ids), np.int64), 10)


class ConstantModel:
    """A system that predicts the same probabilities for every document."""

    Config = PopularityConfig

    def __init__(self, probabilities: Sequence[float], spans: Sequence[Span] = ()) -> None:
        self.probabilities = np.array(probabilities)
        self.spans = spans

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return Ranking.top(np.tile(self.probabilities, (len(corpus), 1)), k)


class ExplainingModel(ConstantModel, Explains):
    def explain(self, doc: Doc, column: int) -> Sequence[Span]:
        return self.spans


@dataclass(frozen=True)
class FakeMember:
    labels: LabelSpace
    model: ConstantModel
    folder: Path = Path("nowhere")


def probabilities(ranking: Ranking, n: int) -> list[float]:
    return ranking.scores(n).toarray()[0].tolist()


def test_equation_9_by_hand():
    labels = space("a", "b", "c")
    consensus = Consensus.of(
        [
            FakeMember(labels, ConstantModel([0.5, 0.2, 1.0])),
            FakeMember(labels, ConstantModel([0.4, 0.0, 0.3])),
        ],
        labels,
    )
    ranking = consensus.rank(DOCS, 3)
    # 1 - 0.5 * 0.6 = 0.7      1 - 0.8 * 1 = 0.2      1 - 0 * 0.7 = 1
    assert probabilities(ranking, 3) == pytest.approx([0.7, 0.2, 1.0])
    assert ranking.columns.tolist() == [[2, 0, 1], [2, 0, 1]]


@given(
    st.lists(st.lists(st.floats(0, 1, width=32), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=4, max_size=4),
)
@settings(max_examples=50, deadline=None)
def test_the_product_over_members_in_loops(rows, weights):
    labels = space("a", "b", "c")
    weights = weights[: len(rows)]
    consensus = Consensus.of(
        [FakeMember(labels, ConstantModel(row)) for row in rows], labels, weights=weights
    )
    expected = []
    for label in range(3):
        complement = 1.0
        for row, weight in zip(rows, weights, strict=True):
            complement *= (1 - row[label]) ** weight
        expected.append(1 - complement)
    assert probabilities(consensus.rank(DOCS, 3), 3) == pytest.approx(expected, abs=1e-6)


def test_mean_log_odds_by_hand():
    labels = space("a", "b", "c")
    members = [
        FakeMember(labels, ConstantModel([0.8, 0.9, 0.0])),
        FakeMember(labels, ConstantModel([0.8, 0.0, 0.5])),
    ]
    ranking = Consensus.of(members, labels, join="odds").rank(DOCS, 3)
    # Both have odds of 4:1 for a. b: 9:1 and the floor's 1:99, so sqrt(9/99):1. c: 1:99 and 1:1.
    odds = [4.0, (9 / 99) ** 0.5, (1 / 99) ** 0.5]
    assert probabilities(ranking, 3) == pytest.approx([o / (1 + o) for o in odds])
    assert ranking.columns[0].tolist() == [0, 1, 2]
    weighted = Consensus.of(members, labels, join="odds", weights=[3.0, 1.0]).rank(DOCS, 3)
    assert probabilities(weighted, 3)[1] == pytest.approx(1 / (1 + (9**3 / 99) ** -0.25))


def test_a_member_without_a_concept_is_left_out_of_its_mean_log_odds():
    members = [
        FakeMember(space("a", "b"), ConstantModel([0.5, 0.3])),
        FakeMember(space("b"), ConstantModel([0.3])),
    ]
    labels = space("a", "b")
    both = Consensus.of(members, labels, join="odds")
    assert probabilities(both.rank(DOCS, 2), 2) == pytest.approx([0.5, 0.3])
    silent = Consensus.of(members, labels, join="odds", weights=[0.0, 1.0])
    assert probabilities(silent.rank(DOCS, 2), 2) == pytest.approx([0.0, 0.3])


def test_labels_are_matched_by_concept_id():
    consensus = Consensus.of(
        [
            FakeMember(space("a", "b"), ConstantModel([0.5, 0.1])),
            FakeMember(space("x", "b", "a"), ConstantModel([0.9, 0.2, 0.4])),
        ],
        space("b", "c", "a"),
    )
    # a: 1 - 0.5 * 0.6    b: 1 - 0.9 * 0.8    c: no member has it    x: not in the consensus
    assert probabilities(consensus.rank(DOCS, 3), 3) == pytest.approx([0.28, 0, 0.7])


def test_members_rank_more_labels_than_the_result_has():
    labels = space("a", "b", "c")
    consensus = Consensus.of(
        [
            FakeMember(labels, ConstantModel([0.6, 0.5, 0.0])),
            FakeMember(labels, ConstantModel([0.0, 0.5, 0.6])),
        ],
        labels,
    )
    # b is the second of both members: 1 - 0.5 * 0.5 = 0.75 is more than 0.6
    assert consensus.rank(DOCS, 1).columns.tolist() == [[1], [1]]


def test_overlapping_spans_add_up():
    spans = [Span(0, 5, 1.0), Span(3, 8, 0.5), Span(10, 12, -1.0)]
    assert merge_spans(spans) == [
        Span(0, 3, 1.0), Span(3, 5, 1.5), Span(5, 8, 0.5), Span(10, 12, -1.0),
    ]  # fmt: skip
    assert merge_spans([]) == []


def test_explanations_of_all_members_that_explain():
    doc = next(iter(DOCS))
    consensus = Consensus.of(
        [
            FakeMember(space("a"), ExplainingModel([0.5], [Span(2, 5, 8.0)])),
            FakeMember(
                space("b", "a"), ExplainingModel([0.5, 0.5], [Span(0, 1, 0.1), Span(2, 5, 0.2)])
            ),
            FakeMember(space("a"), ConstantModel([0.5])),
        ],
        space("a", "b", "c"),
    )
    assert consensus.explain(doc, 0) == [Span(0, 1, 0.5), Span(2, 5, 2.0)]
    with pytest.raises(RunError, match="no member of this consensus can explain 'c'"):
        consensus.explain(doc, 2)


ONTOLOGY = build_ontology(
    Concept(word, names={"en": word}) for word in ["cat", "dog", "owl", "yak"]
)
TRAIN = Corpus.of(
    Doc(str(i), {"title": f"the {word}", "body": f"of {word} and {other}"}, labels=(word,))
    for i, (word, other) in enumerate([("cat", "dog"), ("dog", "cat"), ("cat", "owl")] * 20)
)
LABELS = LabelSpace.of(TRAIN, ONTOLOGY)


def run_folder(folder: Path, name: str) -> Path:
    """Write the run folder of one of two systems."""
    model = {
        "lexical": LexicalSystem(LexicalConfig()),
        "popularity": PopularitySystem(PopularityConfig()),
    }[name]
    model.fit(TRAIN, TRAIN, LABELS)
    (folder / "model").mkdir(parents=True)
    model.save(folder / "model")
    (folder / "config.toml").write_text(dump({"model": {"name": name}}))
    (folder / "decision.json").write_text("{}")
    save_labels(LABELS, folder / "labels.tsv")
    write_ontology(ONTOLOGY, folder / "ontology.json", "json")
    write_manifest(folder, {})
    return folder


@pytest.fixture
def folders(tmp_path) -> tuple[str, ...]:
    names = ("lexical", "popularity")
    return tuple(str(run_folder(tmp_path / name, name)) for name in names)


def test_a_saved_consensus_does_not_need_the_folders_of_its_members(folders, tmp_path):
    consensus = Consensus(ConsensusConfig(members=folders))
    consensus.fit(TRAIN, TRAIN, LABELS)
    test = Corpus.of([Doc("new", {"title": "a yak", "body": "no cat"})])
    before = consensus.rank(test, 4)
    run = tmp_path / "consensus"
    (run / "model").mkdir(parents=True)
    consensus.save(run / "model")
    for folder in folders:
        shutil.rmtree(folder)

    new_place = shutil.move(run, tmp_path / "elsewhere")
    again = Consensus.load(Path(new_place) / "model", LABELS)
    after = again.rank(test, 4)
    np.testing.assert_array_equal(before.columns, after.columns)
    np.testing.assert_array_equal(before.probabilities, after.probabilities)
    spans = again.explain(next(iter(test)), LABELS.column["yak"])
    assert [next(iter(test)).text[span.start : span.end] for span in spans] == ["yak"]

    files = [path for path in Path(new_place).rglob("*") if path.is_file()]
    assert not any(path.name in ("decision.json", "manifest.json") for path in files)
    assert not any(str(tmp_path).encode() in path.read_bytes() for path in files)


def test_a_consensus_with_a_member_that_reads_keywords_reads_them(folders, tmp_path):
    consensus = Consensus(ConsensusConfig(members=folders))
    consensus.fit(TRAIN, TRAIN, LABELS)
    consensus.save(tmp_path)
    assert not Consensus.reads_keywords(tmp_path)
    member = tmp_path / "members" / "1"
    (member / "config.toml").write_text(dump({"model": {"name": "levelwise"}}))
    (member / "model" / "keywords.txt").write_text("cat\n")
    assert Consensus.reads_keywords(tmp_path)


def test_weights_chosen_on_dev_are_lower_for_a_bad_member(folders):
    dev = Corpus.of(
        Doc(str(i), {"body": f"once a {word}, and much else that has no name"}, labels=(word,))
        for i, word in enumerate(["owl"] * 8 + ["cat"] * 2)
    )
    # popularity always ranks cat first; lexical finds owls but gives them a low probability.
    paper = Consensus(ConsensusConfig(members=folders))
    paper.fit(TRAIN, dev, LABELS)
    tuned = Consensus(ConsensusConfig(members=folders, weights="dev"))
    tuned.fit(TRAIN, dev, LABELS)

    def count_correct(model: Consensus) -> int:
        best = model.rank(dev, 1).columns[:, 0]
        return sum(
            LABELS.ids[column] == doc.labels[0] for column, doc in zip(best, dev, strict=True)
        )

    assert count_correct(paper) == 2
    assert count_correct(tuned) == 10
    assert tuned.weights[1] < tuned.weights[0]


@pytest.mark.parametrize("join", ["any", "odds"])
def test_weights_chosen_on_dev_come_with_a_calibration_that_is_saved(folders, tmp_path, join):
    consensus = Consensus(ConsensusConfig(members=folders, weights="dev", join=join))
    consensus.fit(TRAIN, TRAIN, LABELS)
    ranking, gold = consensus.rank(TRAIN, 4), LABELS.gold(TRAIN)
    claimed = float(ranking.probabilities.sum())
    assert claimed == pytest.approx(gold.nnz, rel=0.1)
    bare = Consensus(ConsensusConfig(members=folders))
    bare.fit(TRAIN, TRAIN, LABELS)
    assert float(bare.rank(TRAIN, 4).probabilities.sum()) > 1.3 * gold.nnz  # Eq. 9 overestimates
    consensus.save(tmp_path)
    again = Consensus.load(tmp_path, LABELS).rank(TRAIN, 4)
    np.testing.assert_array_equal(again.probabilities, ranking.probabilities)


def test_members_and_weights_are_selected_on_dev_and_saved(folders, tmp_path, caplog):
    dev = Corpus.of(
        Doc(str(i), {"body": f"once a {word}, and much else that has no name"}, labels=(word,))
        for i, word in enumerate(["owl"] * 8 + ["dog"] * 2)
    )
    settings = ConsensusConfig(members=(*folders, folders[1]), weights="select", join="best")
    with caplog.at_level("INFO"):
        consensus = Consensus(settings)
        consensus.fit(TRAIN, dev, LABELS)
    # lexical finds every name; popularity, given twice, knows only that cats are frequent
    assert [member.folder.name for member in consensus.members] == ["lexical"]
    assert "1 of 3 runs chosen on 10 dev documents" in caplog.text
    assert caplog.text.count("left out: adds less than") == 2
    consensus.save(tmp_path)
    again = Consensus.load(tmp_path, LABELS)
    assert again.join == consensus.join
    np.testing.assert_array_equal(
        again.rank(dev, 4).probabilities, consensus.rank(dev, 4).probabilities
    )


@dataclass(frozen=True)
class TableModel:
    """A system that has a row of probabilities for each document, by its id."""

    rows: np.ndarray

    def rank(self, corpus: Corpus, k: int) -> Ranking:
        return Ranking.top(self.rows[[int(id_) for id_ in corpus.ids]], k)


def test_the_first_labels_are_ranked_again_if_that_helps_and_is_asked_for(caplog):
    rng = np.random.default_rng(1)
    n_docs, n_labels = 300, 40
    share = np.linspace(0.3, 0.02, n_labels)
    gold = rng.random((n_docs, n_labels)) < share
    ids = [str(column) for column in range(n_labels)]
    docs = Corpus.of(
        Doc(str(row), {"text": "."}, labels=tuple(np.array(ids)[gold[row]]))
        for row in range(n_docs)
    )
    labels = LabelSpace(tuple(ids), gold.sum(axis=0), n_docs)
    half = np.arange(n_labels) < n_labels // 2  # each member knows one half of the labels
    members = [
        FakeMember(labels, TableModel(np.clip(0.3 + 0.4 * gold + noise, 0, 0.99)))
        for noise in (
            np.where(one, 0.1, 0.6) * rng.standard_normal(gold.shape) for one in (half, ~half)
        )
    ]
    matrix = labels.gold(docs)
    counts = LabelCounts.of(labels, matrix)
    plain = Consensus.of(members, labels, join="best", rerank=False)
    plain.select(docs, matrix, counts)
    assert plain.reranker is None
    again = Consensus.of(members, labels, join="best")
    with caplog.at_level("INFO"):
        again.select(docs, matrix, counts)
    assert "ranking the first labels again: nDCG@5" in caplog.text
    before, after = (measure_ndcg(matrix, model.rank(docs, 5)) for model in (plain, again))
    assert after > before + 0.02
    assert again.rank(docs, 40).k == 40


def test_members_cannot_be_selected_without_labelled_dev_documents(folders):
    with pytest.raises(DataError, match="no dev document has a label"):
        Consensus(ConsensusConfig(members=folders, weights="select")).fit(TRAIN, DOCS, LABELS)
    with pytest.raises(ValueError, match="need weights"):
        ConsensusConfig(max_latency=50)


def test_members_that_are_missing_or_too_few_are_refused(folders):
    with pytest.raises(ConfigError, match="needs two runs or more, not 1"):
        Consensus(ConsensusConfig(members=folders[:1])).fit(TRAIN, TRAIN, LABELS)
    with pytest.raises(RunError, match="no such run folder"):
        Consensus(ConsensusConfig(members=(folders[0], "nowhere"))).fit(TRAIN, TRAIN, LABELS)
    with pytest.raises(RunError, match="before it was trained"):
        Consensus(ConsensusConfig()).rank(DOCS, 3)


def test_a_member_that_was_trained_on_dev_documents_is_named(folders, caplog):
    Consensus(ConsensusConfig(members=folders)).fit(TRAIN, TRAIN, LABELS)
    assert not caplog.records
    config = Path(folders[1]) / "config.toml"
    config.write_text(dump({"model": {"name": "popularity"}, "train": {"refit": True}}))
    write_manifest(Path(folders[1]), {})
    Consensus(ConsensusConfig(members=folders)).fit(TRAIN, TRAIN, LABELS)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "popularity was also trained on its dev documents" in caplog.text


def test_a_member_that_changed_since_training_is_refused(folders):
    labels = Path(folders[1]) / "labels.tsv"
    labels.write_text(labels.read_text() + "extra\t0\textra\n")
    with pytest.raises(RunError, match="changed since it was written"):
        Consensus(ConsensusConfig(members=folders)).fit(TRAIN, TRAIN, LABELS)


@pytest.mark.parametrize("weights", [[-1.0, 1.0], ["x", 1.0], [float("nan"), 1.0]])
def test_damaged_weights_are_refused(folders, tmp_path, weights):
    consensus = Consensus(ConsensusConfig(members=folders))
    consensus.fit(TRAIN, TRAIN, LABELS)
    consensus.save(tmp_path)
    table = json.loads((tmp_path / "consensus.json").read_text())
    (tmp_path / "consensus.json").write_text(json.dumps(table | {"weights": weights}))
    with pytest.raises(RunError):
        Consensus.load(tmp_path, LABELS)

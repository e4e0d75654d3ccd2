"""The contract, asked of every system in MODELS with its small settings.

The suite finds a new system in the registry. small_settings.toml gives it settings that train in a
second or two; `EXEMPT` says which checks do not apply to it, and why.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.config import build
from ontodex.errors import ConfigError, OntodexError, RunError
from ontodex.evaluation.ranking import precision, score_documents
from ontodex.models import MODELS, find_model
from ontodex.models.interface import Model
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking
from tiny_encoder import write_tiny_encoder

SMALL: dict[str, dict[str, Any]] = tomllib.loads(
    (Path(__file__).parents[1] / "small_settings.toml").read_text()
)
# Eight documents are one batch: memorising them takes more than twenty-five steps.
LONGER = {
    "attentionxml": 150, "attentive": 150, "xmlrnn": 150, "xmlcnn": 150, "bowcnn": 150,
    "rankae": 150, "levelwise": 60, "attentive-levels": 60, "lightattention": 60,
    "attentive-tree": 60, "autoencoder": 150, "attentive-bert": 100, "dxml": 200,
    "graphknn": 80, "averaged": 80,
}  # fmt: skip
MEMORISE: dict[str, dict[str, Any]] = {
    name: {"train": {**SMALL[name]["train"], "epochs": epochs}} for name, epochs in LONGER.items()
}
POINTER = {"embedding": 32, "hidden": 32, "steps": 20}
LEARN_ON_GPU = (
    "attentionxml", "attentive", "attentive-bert", "xmlrnn", "xmlcnn", "bowcnn", "averaged",
    "rankae", "autoencoder", "dxml", "graphknn", "lightattention", "attentive-tree", "levelwise",
    "attentive-levels",
)  # fmt: skip
ONLY_ON_GPU: dict[str, dict[str, Any]] = {
    "attentive-tree": {"beam": 100},  # else CPU and GPU may keep different nodes of equal score
    "levelwise": {"hidden": 64, "merge": "pointer", "pointer": POINTER},
    "attentive-levels": {"hidden": 64, "merge": "pointer", "pointer": POINTER},
}
EXEMPT: dict[str, dict[str, str]] = {
    "lightattention": {"text only": "it reads words"},
    "attentive-tree": {"text only": "it reads words"},
    "levelwise": {"text only": "it reads words, level by level of an ontology"},
    "attentive-levels": {"text only": "it reads words, level by level of an ontology"},
    "popularity": {
        "overfits": "it never reads a document",
        "beats the floor": "it is the floor",
    },
    "lexical": {
        "text only": "it finds names in text",
        "overfits": "it finds names that are in the text, no others",
    },
    "semantic": {
        "text only": "it compares texts",
        "overfits": "it learns no label",
        "beats the floor": "the weights of its encoder are random here",
        "unseen last": "all concepts compete by their names",
    },
    "landmark": {"overfits": "predictions for left-out documents choose its settings"},
    "parabel": {"same bits": "omikuji, which trains it, has no seed"},
    "bonsai": {"same bits": "omikuji, which trains it, has no seed"},
    "attentionxml": {"text only": "it reads words"},
    "attentive": {"text only": "it reads words"},
    "attentive-bert": {"text only": "it reads word pieces"},
    "xmlrnn": {"text only": "it reads words"},
    "xmlcnn": {"text only": "it reads words"},
    "bowcnn": {"text only": "it reads words"},
    "auto": {"same bits": "it records the seconds that its trials took"},
    "consensus": {
        "overfits": "it learns nothing; its members did",
        "renamed labels": "its members keep the labels they were trained on",
        "features": "its members read text here",
    },
}

BELOW_0 = {
    "graphknn": ["exponent"],
    "landmark": ["exponent"],
}  # settings for which -1 means something


TOPICS = {
    "water": ["river", "trout", "flood", "stream", "bank"],
    "trees": ["oak", "leaf", "forest", "bark", "root"],
    "roads": ["bridge", "tarmac", "lorry", "lane", "kerb"],
    "homes": ["roof", "kitchen", "tenant", "brick", "stair"],
    "music": ["choir", "violin", "concert", "drum", "stage"],
    "bread": ["flour", "oven", "yeast", "crust", "baker"],
}


def ontology() -> Ontology:
    tops = [Concept("nature", {"en": "nature"}), Concept("town", {"en": "town"})]
    above = dict.fromkeys(("water", "trees"), "nature") | dict.fromkeys(
        ("roads", "homes", "music", "bread"), "town"
    )
    topics = [
        Concept(topic, {"en": topic}, {"en": tuple(words[:2])}, parents=(above[topic],))
        for topic, words in TOPICS.items()
    ]
    return build_ontology(
        [*tops, *topics, Concept("unseen", {"en": "glacier"}, parents=("nature",))]
    )


def make_corpus(n: int, seed: int) -> Corpus:
    """Documents of one to three topics, with words of each and filler; topics differ in share."""
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    share = np.array([0.3, 0.22, 0.17, 0.13, 0.1, 0.08])
    docs = []
    for i in range(n):
        topics = rng.choice(len(names), size=rng.integers(1, 4), replace=False, p=share)
        words = [w for t in topics for w in rng.choice(TOPICS[names[t]], size=4)]
        words += list(rng.choice(["the", "and", "of", "is", "was"], size=6))
        rng.shuffle(words)
        labels = tuple(names[t] for t in topics)
        docs.append(
            Doc(f"{seed}-{i}", {"title": words[0], "abstract": " ".join(words[1:])}, (), labels)
        )
    return Corpus.of(docs)


TRAIN, DEV, TEST = make_corpus(160, 1), make_corpus(40, 2), make_corpus(40, 3)
LABELS = LabelSpace.of(TRAIN, ontology())
ODD = Corpus.of(
    [
        Doc("empty", {"title": ""}),
        Doc("one", {"title": "trout"}),
        Doc("unknown", {"title": "xyzzy plugh"}),
        Doc("symbols", {"title": "?!… \u200b \U0001f41f"}),
        Doc("long", {"title": "river oak " * 600}),
    ]
)


def make(name: str, device: str = "cpu", **more: Any) -> Model:
    model_class = find_model(name)
    settings = build(model_class.Config, {**SMALL.get(name, {}), **more}, "model")
    return model_class(settings, device=device)


@pytest.fixture(scope="module", autouse=True)
def _members(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The runs that a consensus joins, and the encoder of systems that read with one."""
    folders = [tmp_path_factory.mktemp("members") / name for name in ("knn", "lexical")]
    for folder in folders:
        tables = {"model": {"name": folder.name}}
        train(config=tables, out=folder, train=TRAIN, dev=DEV, ontology=ontology())
    SMALL["consensus"] = {"members": [str(folder) for folder in folders]}
    encoder = write_tiny_encoder(tmp_path_factory.mktemp("encoder"), TRAIN.texts())
    SMALL["semantic"] = {"encoder": str(encoder)}
    SMALL["attentive-bert"]["encoder"] = str(encoder)
    MEMORISE["attentive-bert"]["encoder"] = str(encoder)


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str) -> Model:
    fresh = make(name)
    fresh.fit(TRAIN, DEV, LABELS)
    return fresh


@pytest.fixture
def unless_exempt(name: str) -> Callable[[str], None]:
    def skip(check: str) -> None:
        if reason := EXEMPT.get(name, {}).get(check):
            pytest.skip(f"{name}: {reason}")

    return skip


def assert_same(one: Ranking, two: Ranking, tolerance: float = 0.0) -> None:
    np.testing.assert_allclose(one.probabilities, two.probabilities, atol=tolerance)
    if tolerance == 0.0:
        np.testing.assert_array_equal(one.columns, two.columns)


def p_at_1(model: Model, corpus: Corpus, labels: LabelSpace = LABELS) -> float:
    return float(score_documents(precision, 1, labels.gold(corpus), model.rank(corpus, 1)).mean())


def number_settings(settings: Any) -> Iterator[tuple[str, ...]]:
    """Yield the path of each numeric setting through the tables it is in."""
    for name, value in vars(settings).items():
        if dataclasses.is_dataclass(value):
            yield from ((name, *inner) for inner in number_settings(value))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (name,)


@pytest.mark.parametrize("wrong", [float("nan"), -1])
def test_a_number_that_means_nothing_is_refused_before_any_work(name, wrong):
    config = find_model(name).Config
    for *tables, setting in number_settings(config()):
        table: dict[str, Any] = {setting: wrong}
        for outer in reversed(tables):
            table = {outer: table}
        if wrong != -1 or setting not in BELOW_0.get(name, ()):
            with pytest.raises(ConfigError, match=rf"\b{setting}\b"):
                build(config, table, "model")


def test_a_ranking_is_sorted_padded_and_names_no_label_twice(model):
    ranking = model.rank(TEST, 5)  # Ranking itself refuses unsorted rows and padding in the middle
    assert ranking.columns.shape == (len(TEST), 5)
    for row in ranking.columns:
        kept = row[row >= 0]
        assert len(set(kept)) == len(kept)
        assert kept.max(initial=-1) < len(LABELS)


def test_batching_does_not_change_the_answer(model):
    together = model.rank(TEST, 3)
    alone = [model.rank(TEST.select([row]), 3) for row in range(len(TEST))]
    assert_same(Ranking.join(alone, 3), together, 1e-5)


def test_the_order_of_documents_does_not_change_an_answer(model):
    docs = list(TEST)
    backwards = model.rank(Corpus.of(docs[::-1]), 3)
    assert_same(backwards.take(np.arange(len(docs))[::-1]), model.rank(TEST, 3), 1e-5)


def test_asking_for_more_ranks_keeps_the_first_ones(model):
    few, many = model.rank(TEST, 2), model.rank(TEST, 50)
    np.testing.assert_allclose(few.probabilities, many.probabilities[:, :2], atol=1e-6)
    assert many.k == 50
    assert many.columns[0, -1] == -1, "there are not 50 labels"


def test_gold_labels_are_not_read_when_ranking(model):
    blind = Corpus.of([Doc(doc.id, doc.fields, doc.keywords) for doc in TEST])
    assert_same(model.rank(blind, 3), model.rank(TEST, 3))


def test_ids_are_not_read_when_ranking(model):
    renamed = Corpus.of([Doc(f"x{i}", doc.fields, doc.keywords) for i, doc in enumerate(TEST)])
    assert_same(model.rank(renamed, 3), model.rank(TEST, 3))


def test_strange_documents_get_an_answer(model):
    ranking = model.rank(ODD, 3)
    assert ranking.columns.shape == (len(ODD), 3)
    assert np.isfinite(ranking.probabilities).all()
    assert ranking.probabilities[ranking.columns < 0].sum() == 0


def test_no_documents_give_an_empty_ranking(model):
    assert model.rank(TEST.select([]), 3).columns.shape == (0, 3)


def test_saved_and_loaded_is_the_same_system(model, name, tmp_path):
    model.save(tmp_path)
    loaded = find_model(name).load(tmp_path, LABELS)
    assert_same(loaded.rank(TEST, 4), model.rank(TEST, 4))


def test_a_saved_system_is_plain_files_without_training_text(model, tmp_path):
    model.save(tmp_path)
    sentence = TRAIN[0].text.encode()
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert path.suffix in {".safetensors", ".json", ".tsv", ".txt", ".toml"}, path
            content = path.read_bytes()
            start = content[8:] if path.suffix == ".safetensors" else content  # after a length
            assert not start.startswith(b"\x80"), f"{path} looks pickled"
            assert sentence not in content


def test_the_same_settings_learn_the_same_bits(model, name, unless_exempt, tmp_path):
    unless_exempt("same bits")
    again = make(name)
    again.fit(TRAIN, DEV, LABELS)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    model.save(tmp_path / "one")
    again.save(tmp_path / "two")
    assert files(tmp_path / "one") == files(tmp_path / "two")


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_ranking_before_fitting_is_an_error_that_says_so(name, unless_exempt):
    unless_exempt("rank before fit")
    with pytest.raises(RunError, match="before it was trained"):
        make(name).rank(TEST, 3)


def test_eight_documents_are_memorised(name, unless_exempt):
    unless_exempt("overfits")
    few = TRAIN.select(np.arange(8))
    labels = LabelSpace.of(few, ontology())
    fresh = make(name, **MEMORISE.get(name, {}))
    fresh.fit(few, few, labels)
    assert p_at_1(fresh, few, labels) == 1.0


def test_it_beats_popularity_on_topics_with_words_of_their_own(model, unless_exempt):
    unless_exempt("beats the floor")
    floor = make("popularity")
    floor.fit(TRAIN, DEV, LABELS)
    assert p_at_1(model, TEST) > p_at_1(floor, TEST) + 0.2


def test_one_training_document_and_no_dev_documents_are_enough(name, unless_exempt):
    unless_exempt("one document")
    one = TRAIN.select([0])
    fresh = make(name)
    labels = LabelSpace.of(one, ontology())
    fresh.fit(one, one.select([]), labels)
    assert len(fresh.rank(TEST, 2)) == len(TEST)


def test_renaming_labels_renames_the_answer(model, name, unless_exempt):
    """Column numbers mean nothing: with labels in another order, the same concepts come out."""
    unless_exempt("renamed labels")
    new_name = {label: f"z{9 - i}" for i, label in enumerate(TOPICS)}
    old_name = {new: old for old, new in new_name.items()}

    def rename(corpus: Corpus) -> Corpus:
        return Corpus.of(
            [Doc(d.id, d.fields, d.keywords, tuple(new_name[x] for x in d.labels)) for d in corpus]
        )

    known = ontology()
    concepts = [
        Concept(
            new_name.get(c, c),
            {"en": known.name(c)},
            {"en": known.synonyms_of(c)},
            parents=tuple(new_name.get(parent, parent) for parent in known.parents_of(c)),
        )
        for c in known.ids
    ]
    labels = LabelSpace.of(rename(TRAIN), build_ontology(concepts))
    fresh = make(name)
    fresh.fit(rename(TRAIN), rename(DEV), labels)
    mine, theirs = fresh.rank(TEST, 1), model.rank(TEST, 1)
    agree = [
        old_name.get(labels.ids[a], labels.ids[a]) == LABELS.ids[b]
        for a, b in zip(mine.columns[:, 0], theirs.columns[:, 0], strict=True)
    ]
    assert np.mean(agree) >= 0.7  # documents have several labels, and initial weights differ


def test_labels_without_training_documents_are_not_ranked_above_learned_ones(model, unless_exempt):
    unless_exempt("unseen last")
    best = model.rank(TEST, 1).columns[:, 0]
    assert np.mean(best < LABELS.n_seen) > 0.9


def test_sparse_features_are_learned_or_refused_in_a_sentence(name, unless_exempt):
    unless_exempt("features")
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 4, 60)
    docs = [
        Doc(
            str(i),
            features={int(4 * r + f): 1.0 for f in rng.choice(4, 2, replace=False)},
            labels=(f"t{r}",),
        )
        for i, r in enumerate(rows)
    ]
    corpus = Corpus.of(docs, n_features=16)
    labels = LabelSpace.of(corpus)
    fresh = make(name)
    if "text only" in EXEMPT.get(name, {}):
        with pytest.raises(OntodexError, match=r"text|ontology"):
            fresh.fit(corpus, corpus, labels)
        return
    fresh.fit(corpus, corpus, labels)
    gold: csr_array = labels.gold(corpus)
    ranking = fresh.rank(corpus, 1)
    if name != "popularity":
        assert score_documents(precision, 1, gold, ranking).mean() > 0.9


def test_its_settings_survive_the_run_folder(name):
    """config.toml builds the same settings again."""
    from ontodex.config import dump

    settings = make(name).config  # type: ignore[attr-defined]
    table = tomllib.loads(dump({"model": dataclasses.asdict(settings)}))["model"]
    assert build(type(settings), table, "model") == settings
    assert json.dumps(table)


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")  # compiling makes torch warn about itself
@pytest.mark.parametrize("learner", LEARN_ON_GPU)
def test_a_system_trained_on_a_gpu_ranks_alike_on_a_cpu(learner, tmp_path):
    fresh = make(learner, device="cuda", **ONLY_ON_GPU.get(learner, {}))
    fresh.fit(TRAIN, DEV, LABELS)
    assert p_at_1(fresh, TEST) > 0.6
    fresh.save(tmp_path)
    loaded = find_model(learner).load(tmp_path, LABELS)
    assert_same(loaded.rank(TEST, 3), fresh.rank(TEST, 3), 0.05)

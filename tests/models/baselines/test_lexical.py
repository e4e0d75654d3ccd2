from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ontodex.errors import ConfigError, RunError
from ontodex.features import tokens
from ontodex.features.languages import load_lemmatiser
from ontodex.models.baselines.lexical import LexicalConfig, LexicalSystem, gather_evidence
from ontodex.models.baselines.name_trie import ConceptNames
from ontodex.models.interface import Explains
from ontodex.ontology.graph import Concept, build_ontology
from ontodex.types import Corpus, Doc, LabelSpace

WORDS = ["river", "lake", "ocean", "glacier", "peak", "canyon", "desert", "island", "marsh", "fen"]
ONTOLOGY = build_ontology(
    [
        Concept("who", names={"en": "World Health Organization"}, synonyms={"en": ["WHO"]}),
        Concept("law", names={"en": "law"}, synonyms={"en": ["legal act", "statutes"]}),
        Concept("sealaw", names={"en": "law of the sea"}, parents=["law"]),
        Concept("anemia", names={"en": "Anemia, Sickle Cell"}),
        Concept("bank1", names={"en": "bank (finance)"}),
        Concept("bank2", names={"en": "bank (river)"}),
    ]
)


def make_corpus(n_docs: int, seed: int, words: list[str]) -> Corpus:
    """Return documents whose label is the concept of the title, not another one in the body."""
    rng = np.random.default_rng(seed)
    docs = []
    for i in range(n_docs):
        subject, passing = rng.choice(len(words), 2, replace=False)
        docs.append(
            Doc(
                f"{seed}-{i}",
                {
                    "title": f"About the {words[subject]}",
                    "body": f"It was said of {words[subject]} and once of {words[passing]} too",
                },
                labels=(words[subject],),
            )
        )
    return Corpus.of(docs)


@pytest.fixture(scope="module")
def trained() -> tuple[LexicalSystem, LabelSpace]:
    """Return a system trained on eight of ten words, and its labels."""
    ontology = build_ontology(Concept(word, names={"en": word}) for word in WORDS)
    train = make_corpus(300, 0, WORDS[:8])
    labels = LabelSpace.of(train, ontology)
    model = LexicalSystem(LexicalConfig())
    model.fit(train, Corpus.of([]), labels)
    return model, labels


def test_the_concept_of_the_title_comes_first_even_when_never_seen(trained):
    model, labels = trained
    unseen = WORDS[8:]
    assert {labels.column[word] for word in unseen} == {8, 9}
    assert labels.n_seen == 8
    test = make_corpus(60, 1, WORDS)
    ranking = model.rank(test, 2)
    best = [labels.ids[column] for column in ranking.columns[:, 0]]
    assert best == [doc.labels[0] for doc in test]


def test_probabilities_are_calibrated(trained):
    model, _ = trained
    test = make_corpus(300, 2, WORDS[:8])
    ranking = model.rank(test, 2)
    assert ranking.probabilities[:, 0].mean() == pytest.approx(1, abs=0.05)
    assert ranking.probabilities[:, 1].mean() == pytest.approx(0, abs=0.05)


def test_a_ranking_does_not_depend_on_other_documents(trained):
    model, _ = trained
    test = make_corpus(25, 3, WORDS)
    together = model.rank(test, 3)
    for i in range(len(test)):
        alone = model.rank(test.select([i]), 3)
        np.testing.assert_array_equal(alone.columns[0], together.columns[i])
        np.testing.assert_array_equal(alone.probabilities[0], together.probabilities[i])


def test_evidence_by_hand():
    config = LexicalConfig(languages=("en",))
    columns = {label: i for i, label in enumerate(ONTOLOGY.ids)}
    names = ConceptNames.of(ONTOLOGY, columns, {"en": config.tokens}, config.spelling)
    text = {"title": "Law today", "body": "The law of the sea is no statute of banks"}
    found = gather_evidence(Corpus.of([Doc("d", text)]), names, config)
    seen = {
        ONTOLOGY.ids[column]: i for i, column in enumerate(found.columns)
    }  # law: tokens 0, 3 (inside "law of the sea"), 9; sealaw: 3 to 7; both banks: 11
    assert set(seen) == {"law", "sealaw", "bank1", "bank2"}
    law, sea, bank = seen["law"], seen["sealaw"], seen["bank1"]
    assert (found.count[law], found.free[law], found.in_title[law], found.first[law]) == (
        3,
        2,
        1,
        0,
    )
    assert found.preferred[law] == pytest.approx(2 / 3)
    assert (found.first[sea], found.longest[sea], found.in_title[sea]) == (3, 4, 0)
    assert (found.ambiguity[bank], found.ambiguity[law]) == (2, 1)
    assert set(found.doc_tokens) == {12}
    assert set(found.doc_candidates) == {4}


def test_a_training_document_is_left_out_of_its_own_counts(trained):
    model, _ = trained
    statistics, depth = model._state.statistics, model._state.depth
    found = gather_evidence(make_corpus(1, 0, WORDS[:8]), model._state.names, model.config)
    own = np.array([1, 0])
    with_it = statistics.compute_features(found, depth, 5.0)
    without = statistics.compute_features(found, depth, 5.0, own=own)
    columns = found.columns
    expected = np.log(statistics.frequency[columns] - own + 0.5)
    assert without[:, 11].tolist() == expected.tolist()
    assert with_it[:, 11].tolist() != expected.tolist()
    assert without[:, 10].tolist() == np.log1p(statistics.matched[columns] - 1).tolist()


def test_a_saved_and_loaded_system_ranks_alike(trained, tmp_path):
    model, labels = trained
    model.save(tmp_path)
    again = LexicalSystem.load(tmp_path, labels)
    test = make_corpus(20, 4, WORDS)
    here, there = model.rank(test, 3), again.rank(test, 3)
    np.testing.assert_array_equal(here.columns, there.columns)
    np.testing.assert_array_equal(here.probabilities, there.probabilities)
    fewer = LabelSpace(labels.ids[:-1], labels.frequency[:-1], labels.n_docs, labels.ontology)
    with pytest.raises(RunError, match=r"has shape \(10,\); expected \(labels=9\)"):
        LexicalSystem.load(tmp_path, fewer)


def test_explanations_are_the_occurrences_of_the_name(trained):
    model, labels = trained
    assert isinstance(model, Explains)
    doc = Doc("x", {"title": "The two rivers", "body": "A lake, and a River."})
    column = labels.column["river"]
    spans = model.explain(doc, column)
    assert [doc.text[span.start : span.end] for span in spans] == ["rivers", "River"]
    ranking = model.rank(Corpus.of([doc]), len(labels))
    own = float(ranking.probabilities[0, ranking.columns[0].tolist().index(column)])
    assert own > 0
    assert [span.weight for span in spans] == [own, own]
    assert model.explain(doc, labels.column["marsh"]) == []


def test_an_unseen_concept_starts_at_the_average_of_the_names_of_known_ones():
    """`river` is right in two of its four matches; nothing is known of `lake`, met once."""
    ontology = build_ontology(Concept(word, names={"en": word}) for word in ("river", "lake"))
    texts = [("river", "river"), ("river", "river"), ("river", "sea"), ("river lake", "sea")]
    train = Corpus.of(
        Doc(str(i), {"text": text}, labels=(label,)) for i, (text, label) in enumerate(texts)
    )
    labels = LabelSpace.of(train, ontology)
    model = LexicalSystem(LexicalConfig())
    model.fit_unseen(train, labels, np.array([name == "river" for name in labels.ids]))
    statistics = model._state.statistics
    matched = dict(zip(labels.ids, statistics.matched.tolist(), strict=True))
    right = dict(zip(labels.ids, statistics.right.tolist(), strict=True))
    assert (matched["river"], matched["lake"]) == (4, 1)
    # The average is (2 + 1) / (4 + 2), and counts are whole.
    assert (right["river"], right["lake"]) == (2, 0)


def test_texts_without_names_get_no_suggestion(trained):
    model, _ = trained
    empty = Corpus.of([Doc("1", {"text": ""}), Doc("2", {"text": "nothing of note"})])
    assert (model.rank(empty, 3).columns == -1).all()
    assert model.rank(Corpus.of([]), 3).columns.shape == (0, 3)


def test_a_corpus_in_which_no_name_occurs_can_be_learned_from():
    ontology = build_ontology([Concept("moon", names={"en": "moon"})])
    train = Corpus.of([Doc("1", {"text": "sun"}, labels=("moon",))])
    model = LexicalSystem(LexicalConfig())
    model.fit(train, Corpus.of([]), LabelSpace.of(train, ontology))
    ranking = model.rank(Corpus.of([Doc("2", {"text": "moon"})]), 1)
    assert ranking.columns.tolist() == [[0]]


def test_it_needs_an_ontology_and_training():
    train = make_corpus(3, 0, WORDS)
    with pytest.raises(ConfigError, match="lexical needs an ontology"):
        LexicalSystem(LexicalConfig()).fit(train, train, LabelSpace.of(train))
    with pytest.raises(RunError, match="before it was trained"):
        LexicalSystem(LexicalConfig()).rank(train, 3)


@pytest.mark.data
def test_eurlex_laws_reach_the_recorded_precision(tmp_path):
    """P@1, 3 and 5 on dev as docs/papers/lexical.md has them; takes a minute or two."""
    from ontodex.corpora.open import open_corpus
    from ontodex.evaluation.ranking import precision, score_documents
    from ontodex.ontology.open import read_ontology

    data = Path(os.environ.get("ONTODEX_DATA", Path(__file__).parents[4] / "shared" / "data"))
    folder = data / "eurlex57k"
    if not folder.exists():
        pytest.skip(f"{folder} is not there")
    ontology = read_ontology(folder / "eurovoc.json")
    train = open_corpus(folder / "train.jsonl.xz")
    dev = open_corpus(folder / "dev.jsonl.xz")
    labels = LabelSpace.of(train, ontology)
    model = LexicalSystem(LexicalConfig(languages=("en",)))
    model.fit(train, dev, labels)
    gold, ranking = labels.gold(dev), model.rank(dev, 5)
    recorded = {1: 0.8163, 3: 0.5913, 5: 0.4364}
    for k, value in recorded.items():
        assert score_documents(precision, k, gold, ranking).mean() == pytest.approx(
            value, abs=0.003
        )


@pytest.fixture
def finnish(tmp_path) -> tuple[Path, LabelSpace, Corpus]:
    """Return the folder of a system that matches lemmas, its labels and a text."""
    ontology = build_ontology(
        [Concept("fish", names={"fi": "kalat"}), Concept("net", names={"fi": "verkko"})]
    )
    train = Corpus.of([Doc("a", {"text": "kala"}, labels=("fish",)), Doc("b", {"text": "vesi"})])
    labels = LabelSpace.of(train, ontology)
    model = LexicalSystem(LexicalConfig(languages=("fi",)))
    model.fit(train, Corpus.of([]), labels)
    model.save(tmp_path)
    return tmp_path, labels, Corpus.of([Doc("c", {"text": "kalaa verkossa"})])


def test_loading_looks_no_lemma_of_a_name_up_again(finnish, monkeypatch):
    folder, labels, text = finnish
    looked_up: list[str] = []

    def load_counting(language: str):
        lemma = load_lemmatiser(language)
        return lambda word: looked_up.append(word) or lemma(word)

    monkeypatch.setattr(tokens, "load_lemmatiser", load_counting)
    loaded = LexicalSystem.load(folder, labels)
    assert looked_up == []
    found = loaded.rank(text, 2)
    assert sorted(labels.ids[column] for column in found.columns[0]) == ["fish", "net"]
    assert sorted(looked_up) == ["kalaa", "verkossa"], "of the text, not of the names"


def test_lemmas_of_other_dictionaries_are_not_used(finnish):
    folder, labels, text = finnish
    path = folder / "lemmas.tsv"
    first, *rows = path.read_text(encoding="utf-8").splitlines()
    assert rows == ["fi\tkalat\tkala", "fi\tverkko\tverkko"]
    wrong = ["fi\tkalat\tvesi", "fi\tverkko\tvesi"]
    path.write_text("\n".join([first, *wrong]) + "\n", encoding="utf-8")
    assert not (LexicalSystem.load(folder, labels).rank(text, 2).columns >= 0).any()
    path.write_text("\n".join(["simplemma 0.1", *wrong]) + "\n", encoding="utf-8")
    assert (LexicalSystem.load(folder, labels).rank(text, 2).columns >= 0).all()
    path.write_text(first + "\nfi\tkalat\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"lemmas.tsv:2: expected a language, a word and its lemma"):
        LexicalSystem.load(folder, labels)

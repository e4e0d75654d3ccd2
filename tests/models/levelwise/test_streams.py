"""Word, keyword and label streams."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from levelwise_planted import (
    BRIEF,
    CONFIG,
    DEV,
    LABELS,
    ONTOLOGY,
    TEST,
    TRAIN,
    PlantedLevelwise,
    fit_system,
)

from ontodex.config import vary
from ontodex.errors import DataError
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.features.vocabulary import EncodedTexts
from ontodex.models.interface import Describes
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.streams import (
    StreamEncoder,
    drop_unknown,
    encode_labels,
    make_neighbour_streams,
)
from ontodex.ontology.levels import add_ancestors
from ontodex.types import Corpus, Doc, LabelSpace, Ranking
from ontodex.types.loop_config import LoopConfig


def test_a_saved_run_tells_whether_it_was_trained_with_author_keywords(system, work, tmp_path):
    silent = Corpus.of([dataclasses.replace(doc, keywords=()) for doc in TRAIN])
    phrases = PlantedLevelwise(vary(CONFIG, train=BRIEF))
    phrases.fit(silent, DEV, LABELS)
    words = fit_system(work, inputs="words", train=BRIEF)
    assert isinstance(system, Describes)
    for name, one, learned in (("a", system, True), ("b", phrases, False), ("c", words, False)):
        (tmp_path / name).mkdir()
        one.save(tmp_path / name)
        assert PlantedLevelwise.reads_keywords(tmp_path / name) is learned


def test_sparse_features_are_read_as_words_and_text_is_refused(system, tmp_path):
    fitted_on_text = system
    docs = [
        Doc(str(i), features={i % 3: 1.0, 3 + i % 2: 1.0}, labels=(f"t{i % 3}",)) for i in range(48)
    ]
    corpus = Corpus.of(docs, n_features=5)
    labels = LabelSpace.of(corpus)
    system = PlantedLevelwise(vary(CONFIG, ontology="cluster"))
    system.fit(corpus, corpus, labels)
    best = system.rank(corpus, 1).columns[:, 0]
    assert np.mean(best == np.arange(48) % 3) > 0.9
    system.save(tmp_path)
    for one in (system, PlantedLevelwise.load(tmp_path, labels)):
        with pytest.raises(DataError, match="fitted on sparse features and cannot read text"):
            one.rank(TEST, 1)
    with pytest.raises(DataError, match="fitted on text and cannot read sparse features"):
        fitted_on_text.rank(corpus, 1)


def test_author_keywords_are_read_if_there_are_any_else_phrases(system):
    assert system.stream_encoder is not None
    assert system.stream_encoder.phrases is None
    assert "water" in system.stream_encoder.keywords.id_of
    silent = Corpus.of([dataclasses.replace(doc, keywords=()) for doc in TRAIN])
    other = PlantedLevelwise(vary(CONFIG, train=BRIEF, inputs="words+keywords"))
    other.fit(silent, DEV, LABELS)
    assert other.stream_encoder is not None
    assert other.stream_encoder.phrases is not None


def test_training_starts_from_prepared_vectors_of_words_keywords_and_labels(tmp_path):
    pytest.importorskip("gensim")
    on_disk = {
        name: Corpus.write(
            (dataclasses.replace(doc, keywords=()) for doc in corpus), tmp_path / "corpora" / name
        )
        for name, corpus in (("train", TRAIN), ("dev", DEV))
    }
    config = PrepareConfig(
        stop_words="en",
        min_count=1,
        phrases=True,
        phrase_words=CONFIG.phrase_words,
        known_phrases=True,
        phrases_per_doc=CONFIG.phrases_per_doc,
        vectors="train",
        vector_size=8,
        set_vectors=True,
    )
    lists = add_ancestors(ONTOLOGY, TRAIN.labels())
    carried = prepare(on_disk, tmp_path / "carried", config, label_lists=lists)
    assert not carried["train"].has_text
    system = PlantedLevelwise(vary(CONFIG, train=LoopConfig(epochs=1, batch_size=64, lr=1e-9)))
    system.fit(carried["train"], carried["dev"], LABELS)
    from ontodex.features import vectors

    folder = tmp_path / "carried" / "train"
    assert system.stream_encoder is not None
    assert system.stream_encoder.keywords is not None
    for kind, table in (
        (vectors.PREPARED, system.passes[1].network.words),
        (vectors.KEYWORDS, system.passes[1].network.keywords),
        (vectors.LABELS, system.passes[1].network.labels),
    ):
        made = vectors.read_vectors(folder / kind)
        word = next(w for w in made.words if w in ("water", "trees"))
        assert table is not None
        known = {
            vectors.PREPARED: system.stream_encoder.words.id_of,
            vectors.KEYWORDS: system.stream_encoder.keywords.id_of,
            vectors.LABELS: {label: 1 + c for label, c in LABELS.column.items()},
        }[kind]
        row = table.table.weight[known[word], :8].detach()
        expected = torch.from_numpy(made.array[made.words.index(word)])
        torch.testing.assert_close(row, expected, atol=2e-3, rtol=1e-2)


def test_documents_without_known_keywords_are_warned_of_once(system, monkeypatch, caplog):
    silent = Corpus.of([dataclasses.replace(doc, keywords=()) for doc in TEST])
    some = Corpus.of([TEST[0], *silent])
    monkeypatch.setattr(system, "has_warned", False)
    system.rank(some, 1)
    assert caplog.messages == []
    strange = Corpus.of([dataclasses.replace(doc, keywords=("never met",)) for doc in TEST])
    for documents in (silent, strange):
        monkeypatch.setattr(system, "has_warned", False)
        system.rank(documents, 1)
        system.explain(documents[0], 0)
    predicted = (
        "this run was trained with authors' keywords, and these documents have none that it knows"
    )
    assert [message.partition(":")[0] for message in caplog.messages] == [predicted] * 2


def test_predicted_labels_are_read_best_first():
    columns, chances = [[1, 3, 2], [5, -1, -1]], [[0.2, 0.9, 0.5], [0.4, 0, 0]]
    ranking = Ranking.sort(np.array(columns), np.array(chances), 3)
    encoded = encode_labels(ranking)
    assert encoded.ids.tolist() == [4, 3, 2, 6], "column j is row j + 1 of the table"
    assert encoded.offsets.tolist() == [0, 3, 4]
    (cut,) = make_neighbour_streams([ranking], 2, torch.device("cpu"))
    assert cut.pad(np.array([0]))[0].tolist() == [[4, 3]]


def test_unknown_keywords_are_left_out_and_the_next_known_ones_are_read():
    encoded = EncodedTexts(np.array([5, 1, 6, 7, 1, 1, 8]), np.array([0, 4, 6, 7]))
    found = drop_unknown(encoded, 2)
    assert [found[row].tolist() for row in range(3)] == [[5, 6], [], [8]]


def test_a_run_of_the_paper_keeps_its_known_phrases(tmp_path):
    silent = Corpus.of([dataclasses.replace(doc, keywords=()) for doc in TRAIN])
    config = LevelwiseConfig(min_count=2, stop_words="")
    encoder = StreamEncoder.fit(silent, config)
    encoder.save(tmp_path)
    again = StreamEncoder.load(tmp_path, config, "text")
    one, other = (e.encode(silent, torch.device("cpu")).keywords for e in (encoder, again))
    assert one is not None
    assert other is not None
    rows = np.arange(len(silent))
    assert torch.equal(one.pad(rows)[0], other.pad(rows)[0])
    assert not (one.pad(rows)[0] == 1).any(), "none is unknown"
    assert int(one.lengths.sum()) > 0

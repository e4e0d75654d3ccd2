from __future__ import annotations

import numpy as np
import pytest

from ontodex.config import build
from ontodex.errors import ConfigError
from ontodex.models import MODELS, find_model
from ontodex.models.auto.candidates import (
    SPACE,
    check_systems,
    choose_systems,
    estimate_bert_seconds,
    list_alternatives,
)
from ontodex.models.auto.trials import nest_settings
from ontodex.types import Corpus, Doc, LabelSpace


def test_the_candidates_of_a_small_corpus_of_texts(make_corpus, ontology):
    train = make_corpus(50, 1)
    chosen = choose_systems(train, LabelSpace.of(train, ontology), "cpu")
    assert {name for name, reason in chosen.items() if not reason} == {
        "lexical", "linear", "kernel", "knn",
    }  # fmt: skip
    assert chosen["attentive"] == "needs a GPU"
    assert "labels or more" in chosen["bonsai"]
    assert not choose_systems(train, LabelSpace.of(train, ontology), "cuda")["attentive"]
    without = choose_systems(train, LabelSpace.of(train), "cpu")
    assert "ontology" in without["lexical"]


def test_an_encoder_makes_candidates_of_the_systems_that_read_with_one(make_corpus, ontology):
    train = make_corpus(50, 1)
    labels = LabelSpace.of(train, ontology)
    on_cpu, on_gpu = (choose_systems(train, labels, device, "minilm") for device in ("cpu", "cuda"))
    assert not on_cpu["semantic"]
    assert "GPU" in on_cpu["attentive-bert"]
    assert not on_gpu["attentive-bert"]
    assert on_gpu["attentive"]  # one network is enough
    assert "encoder" in choose_systems(train, labels, "cuda")["attentive-bert"]
    assert "ontology" in choose_systems(train, LabelSpace.of(train), "cpu", "minilm")["semantic"]


def test_attentive_bert_is_tried_on_a_cpu_where_the_budget_is_long_enough(make_corpus, ontology):
    train = make_corpus(50, 1)
    labels = LabelSpace.of(train, ontology)
    needed = estimate_bert_seconds(train)
    short, long = (
        choose_systems(train, labels, "cpu", "minilm", seconds=factor * needed)
        for factor in (0.5, 2.0)
    )
    assert "on this CPU: needs such a budget, or a GPU" in short["attentive-bert"]
    assert not long["attentive-bert"]
    # Longer texts, more of them: more time.
    assert estimate_bert_seconds(make_corpus(100, 1)) > needed


def test_features_are_no_texts():
    docs = [Doc(str(i), features={0: 1.0}, labels=("a",)) for i in range(4)]
    corpus = Corpus.of(docs, n_features=2)
    chosen = choose_systems(corpus, LabelSpace.of(corpus), "cuda")
    assert chosen["lexical"]
    assert chosen["attentive"]
    names = {name for name, _ in list_alternatives("linear", "sparse")}
    assert names == {"cost"}


def test_compounds_are_split_where_a_language_has_them():
    for languages, is_tried in (((), True), (("en", "de"), True), (("en", "fr"), False)):
        names = {name for name, _ in list_alternatives("linear", "text", languages=languages)}
        assert ("compounds" in names) == is_tried


def test_a_title_is_weighed_where_there_are_several_fields():
    for n_fields, is_tried in ((1, False), (2, True)):
        names = {name for name, _ in list_alternatives("linear", "text", n_fields=n_fields)}
        assert ("title_weight" in names) == is_tried


def test_a_kernel_whose_weights_would_not_fit_is_left_out(make_corpus):
    train = make_corpus(30, 1)
    many = LabelSpace(tuple(map(str, range(10**6))), np.ones(10**6, np.int64), 30)
    assert choose_systems(train, many, "cpu")["kernel"]


@pytest.mark.parametrize("system", [name for name in MODELS if name not in ("auto", "consensus")])
def test_every_alternative_is_a_setting_and_no_default(system):
    config = find_model(system).Config
    for name, value in list_alternatives(system, "text"):
        changed = build(config, nest_settings({name: value}), "model")
        assert changed != config()
    assert SPACE.keys() <= MODELS.keys()


def test_systems_that_join_others_are_no_candidates():
    check_systems(["linear", "lexical"])
    with pytest.raises(ConfigError, match="'consensus' joins other systems"):
        check_systems(["consensus"])
    with pytest.raises(ConfigError, match="there is no system 'liner'"):
        check_systems(["liner"])

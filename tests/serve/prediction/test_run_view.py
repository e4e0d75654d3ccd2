"""A run as the routes show it."""

from __future__ import annotations

import json

import numpy as np

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.recipe import train
from ontodex.runs.run import predict
from ontodex.serve.prediction.run_metadata import RunMetadata
from ontodex.serve.prediction.run_view import RunView, SuggestOptions, make_url_name
from ontodex.types import Corpus, Doc, Ranking
from ontodex.types.answers import PredictionResult


def test_parents_outside_the_path_are_listed(tmp_path):
    tops = [Concept("animals", {"en": "Animals"}), Concept("food", {"en": "Food"})]
    ontology = build_ontology([*tops, Concept("fish", {"en": "Fish"}, parents=["animals", "food"])])
    docs = Corpus.of([Doc("1", {"text": "trout"}, (), ("fish",))])
    tables = {"model": {"name": "popularity"}}
    run = train(config=tables, out=tmp_path / "run", train=docs, dev=docs, ontology=ontology)
    served = RunView("run", RunMetadata.open(run.folder))
    (fish,) = served.build_suggestions(predict(run, docs), SuggestOptions())
    assert [step["name"] for step in fish["path"]] == ["Animals", "Fish"]
    assert fish["other_parents"] == [{"label": "food", "name": "Food", "notation": ""}]


def ranking(served, **probabilities):
    columns = [[served.metadata.labels.column[label] for label in probabilities]]
    return Ranking.sort(np.array(columns), np.array([list(probabilities.values())]), 3)


def test_a_predicted_concept_lists_close_more_specific_ones_by_standalone_probability(served):
    chosen = ranking(served, animals=0.9)
    standalone = ranking(served, animals=0.4, fish=0.35, newt=0.3)
    found = PredictionResult(ranking(served, animals=0.9, fish=0.1, newt=0.1), chosen, standalone)
    kept = json.loads(json.dumps(served.encode_result(found)))
    animals, fish, newt = served.build_suggestions(
        served.decode_result(kept), SuggestOptions(language="de")
    )
    assert animals["more_specific"] == [
        {"label": "fish", "name": "Fische", "notation": "12", "standalone_probability": 0.35}
    ]
    assert (animals["probability"], animals["standalone_probability"]) == (0.9, 0.4), (
        "0.35 is close to 0.4"
    )
    assert [each["standalone_probability"] for each in (fish, newt)] == [0.35, 0.3]
    assert fish["more_specific"] == newt["more_specific"] == []
    for ask in (SuggestOptions(exclude=["fish"]), SuggestOptions(include=["fish"])):
        answer = served.build_suggestions(found, ask)
        assert [near for each in answer for near in each["more_specific"]] == []


def test_standalone_probabilities_are_stored_only_where_they_differ(served):
    one = ranking(served, fish=0.5)
    kept = served.encode_result(PredictionResult(one, one, one))
    assert kept == {"ranked": [("fish", 0.5)], "chosen": [("fish", 0.5)]}
    assert served.decode_result(kept).standalone.columns.tolist() == [
        [served.metadata.labels.column["fish"]]
    ]


def test_predictions_that_version_0_1_stored_are_read(served):
    stored = {"ranked": [("fish", 0.5)], "chosen": [], "apart": [("fish", 0.25)]}
    assert served.decode_result(stored).standalone.probabilities.tolist() == [[0.25]]
    now = served.encode_result(served.decode_result(stored))
    assert now["standalone"] == [("fish", 0.25)]
    assert "apart" not in now


def test_the_url_name_of_a_run_is_its_folder_name(tmp_path):
    assert make_url_name(tmp_path / "my run #1") == "my-run-1"

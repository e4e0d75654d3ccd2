"""Run folders of version 0.1, one a system, load and give the rankings and label sets recorded when
they were written (tests/runs/0.1/expected.json)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ontodex

RUNS = Path(__file__).parent / "0.1"
EXPECTED = json.loads((RUNS / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", EXPECTED["runs"])
def test_a_run_of_version_0_1_gives_the_ranking_it_gave_then(name):
    run = ontodex.load(RUNS / name)
    texts = enumerate(EXPECTED["texts"])
    corpus = ontodex.Corpus.of([ontodex.Doc(str(number), {"text": text}) for number, text in texts])
    ranking, label_sets = run.rank(corpus, 5), run.decide(corpus)
    for row, expected in enumerate(EXPECTED["runs"][name]["ranking"]):
        columns = [column for column in ranking.columns[row] if column >= 0]
        probabilities = ranking.probabilities[row][: len(columns)].tolist()
        assert probabilities == pytest.approx([p for _, p in expected], abs=1e-3)
        gaps = [one - two for one, two in zip(probabilities, [*probabilities[1:], 0], strict=True)]
        if min(gaps) > 2e-3:  # else another processor may exchange neighbours
            assert [run.labels.ids[column] for column in columns] == [
                label for label, _ in expected
            ]
        chosen = {run.labels.ids[column] for column in label_sets.columns[row] if column >= 0}
        assert len(chosen ^ set(EXPECTED["runs"][name]["label_sets"][row])) <= 1

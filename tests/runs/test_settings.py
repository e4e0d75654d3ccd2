"""Settings of a run: bad ones are refused."""

from __future__ import annotations

import pytest

from ontodex.errors import ConfigError
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc

DOCS = Corpus.of(
    [
        Doc(str(i), {"title": f"trout {i}"}, (), ("fish",) if i % 3 else ("fish", "oak"))
        for i in range(30)
    ]
)


@pytest.mark.parametrize(
    ("tables", "complaint"),
    [
        ({}, r"\[model\] has no name"),
        ({"model": {"name": "popularty"}}, "did you mean 'popularity'"),
        ({"modle": {}}, "no table .modle.; did you mean 'model'"),
        ({"model": {"name": "popularity", "x": 1}}, r"\[model\] has no setting 'x'"),
        ({"model": {"name": "popularity"}, "labels": {"min_count": 0}}, "at least 1, not 0"),
    ],
)
def test_a_bad_setting_is_refused_before_anything_is_written(tmp_path, tables, complaint):
    with pytest.raises(ConfigError, match=complaint):
        train(config=tables, out=tmp_path / "run", train=DOCS)
    assert not (tmp_path / "run").exists()

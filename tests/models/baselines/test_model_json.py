from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from ontodex.decide.calibrate import Calibration
from ontodex.errors import RunError
from ontodex.models.baselines.knn import KnnConfig
from ontodex.models.baselines.model_json import ModelJson, load_model_json, save_model_json


@dataclass(frozen=True)
class WithChoices(ModelJson):
    chosen: dict[str, float]


def test_settings_calibration_and_choices_come_back(tmp_path):
    save_model_json(
        tmp_path, KnnConfig(neighbours=7), Calibration.identity(), chosen={"exponent": 2.0}
    )
    about = load_model_json(tmp_path, WithChoices)
    assert about.config["neighbours"] == 7
    assert about.chosen == {"exponent": 2.0}
    assert isinstance(about.calibration, Calibration)


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"calibration": 3}'])
def test_a_damaged_file_is_refused_by_name(tmp_path, text):
    if text is not None:
        (tmp_path / "model.json").write_text(text)
    with pytest.raises(RunError, match=r"model\.json"):
        load_model_json(tmp_path, ModelJson)


def test_the_file_is_plain_json(tmp_path):
    save_model_json(tmp_path, KnnConfig(), Calibration.identity())
    assert json.loads((tmp_path / "model.json").read_text()).keys() == {"config", "calibration"}

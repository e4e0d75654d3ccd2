from __future__ import annotations

from ontodex.models import MODELS
from ontodex.models.advice import ADVICE, list_systems


def test_every_system_has_a_line_of_advice():
    assert set(ADVICE) == set(MODELS)
    assert all(20 < len(line) < 90 for line in ADVICE.values())
    assert next(iter(list_systems())) == "auto"

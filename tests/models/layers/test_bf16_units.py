"""bf16 products on a CPU: only where its units make them fast and safe."""

from __future__ import annotations

import os

import pytest
import torch

from ontodex.models.layers import bf16_units
from ontodex.models.layers.bf16_units import LIMIT, has_bf16_units, limit_onednn


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.delenv(LIMIT, raising=False)
    has_bf16_units.cache_clear()
    yield
    has_bf16_units.cache_clear()


@pytest.mark.parametrize("units", [True, False])
def test_onednn_is_limited_where_there_are_no_units(monkeypatch, units):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: units)
    limit_onednn()
    assert has_bf16_units() == units
    assert os.environ.get(LIMIT) == (None if units else bf16_units.WITHOUT_BF16)


def test_a_user_who_limits_onednn_gets_fp32(monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)
    monkeypatch.setenv(LIMIT, "AVX2")
    limit_onednn()
    assert not has_bf16_units()
    assert os.environ[LIMIT] == "AVX2"

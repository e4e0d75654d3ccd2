"""A campaign that attacked nothing is a finding: it must not look like one that found nothing."""

from __future__ import annotations

import importlib
from types import SimpleNamespace

import pytest

from attack.__main__ import run_campaign
from attack.campaign import Result


@pytest.mark.parametrize(("tried", "keys"), [(0, ["readers: nothing"]), (1, [])])
def test_a_campaign_that_tries_nothing_is_a_finding(tried, keys, tmp_path, monkeypatch):
    module = SimpleNamespace(run=lambda seconds, seed, out: Result(tried=tried))
    monkeypatch.setattr(importlib, "import_module", lambda name: module)
    assert [one.key for one in run_campaign("readers", 1, 1, tmp_path).findings] == keys

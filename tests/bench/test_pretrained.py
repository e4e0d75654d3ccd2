"""The benches of `attentive-bert` run in tiny form on a CPU; the loss of R-Drop by hand."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from types import ModuleType

import pytest
import torch

from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.types import Corpus, Doc
from tiny_encoder import write_tiny_encoder

ROOT = Path(__file__).parents[2]
SENTENCES = {"fish": "trout swim in the cold stream", "oak": "old oak trees stand in the forest"}
DOCS = [
    Doc(f"{label}{i}", {"text": text}, (), (label,))
    for i in range(4)
    for label, text in SENTENCES.items()
]


@pytest.fixture
def variants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("pretrained_variants")


def test_rdrop_is_the_cross_entropy_and_both_divergences_by_loops(variants):
    torch.manual_seed(1)
    first, second = torch.randn(2, 3, 4)
    target = (torch.rand(3, 4) < 0.5).float()
    expected = 0.0
    for z, other, y in zip(
        first.flatten().tolist(), second.flatten().tolist(), target.flatten().tolist(), strict=True
    ):
        p, q = 1 / (1 + math.exp(-z)), 1 / (1 + math.exp(-other))
        for one in (p, q):
            expected -= 0.5 * math.log(one if y else 1 - one)
        for a, b in ((p, q), (q, p)):
            divergence = a * math.log(a / b) + (1 - a) * math.log((1 - a) / (1 - b))
            expected += 3.0 * divergence / 4
    found = float(variants.compute_rdrop(first, second, target, 3.0))
    assert found == pytest.approx(expected, rel=1e-5)


def test_variants_are_trained_once_and_compared(variants, tmp_path, monkeypatch, capsys):
    encoder = write_tiny_encoder(tmp_path / "encoder", SENTENCES.values())
    corpora = {"train": Corpus.of(DOCS), "dev": Corpus.of(DOCS[:3])}
    config = PrepareConfig(encoder=str(encoder), window=60, min_count=1, stop_words="en")
    prepare(corpora, tmp_path / "carried", config)
    out = tmp_path / "variants.jsonl"
    given = [str(tmp_path / "carried"), str(encoder), str(out), "--only", "default", "rdrop-1"]
    small = ["train.epochs=2", "value_dim=8", "bag=8", "min_count=1", "max_length=20", "window=60"]
    given += [part for one in small for part in ("--set", f"model.{one}")]
    monkeypatch.setattr("sys.argv", ["pretrained_variants", *given])
    variants.main()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["variant"] for line in lines] == ["default", "rdrop-1"]
    assert all(0 <= line["nDCG@5"] <= 100 for line in lines)
    capsys.readouterr()
    variants.main()
    assert [json.loads(line) for line in out.read_text().splitlines()] == lines
    assert "| rdrop-1 | 1 |" in capsys.readouterr().out

"""A small corpus and the plan of a small experiment."""

from __future__ import annotations

from pathlib import Path

from ontodex.types import Corpus, Doc

WORDS = {"fish": "trout river", "oak": "leaf bark", "bread": "oven crust"}
PLAN = """
title = "Small"
note = "Made in a hurry."
[corpora.small]
train = "train.jsonl"
test = "test.jsonl"
[[systems]]
name = "floor"
model = "popularity"
[[systems]]
name = "near"
model = "knn"
[[systems]]
name = "both"
consensus = ["floor", "near"]
[published.small."A & B"]
source = "a paper, Table 1"
"P@1" = 61.5
"""


def corpus(n: int) -> Corpus:
    return Corpus.of(
        Doc(f"{n}-{i}", {"title": f"{words} {i % 5}"}, (), (label, "fish") if i % 4 else (label,))
        for i, (label, words) in enumerate(list(WORDS.items()) * n)
    )


def plan(folder: Path, text: str) -> Path:
    (folder / "plan.toml").write_text(text)
    return folder / "plan.toml"

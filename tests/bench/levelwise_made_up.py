"""Made-up result files and prepared folders for the tests of bench/levelwise*.py."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

from ontodex.ontology.graph import Concept
from ontodex.ontology.graph import build_ontology as ontology_of

ROOT = Path(__file__).parents[2]


KEPT = ROOT / "bench" / "results" / "levelwise"


MEASURES = ("MiP", "MiR", "MiF", "MaP", "MaR", "MaF")


RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")


def level(top_k: float, ofo: float, *, micro: float | None = None, k: int = 2) -> dict[str, Any]:
    """Macro figures, and micro ones where OFO has others."""
    chosen = dict.fromkeys(MEASURES, ofo)
    if micro is not None:
        chosen |= dict.fromkeys(MEASURES[:3], micro)
    return {
        "documents": 1234,
        "labels": 3,
        "K": k,
        "K macro": k + 1,
        "top K": dict.fromkeys(MEASURES, top_k),
        "OFO": chosen,
    }


def result(
    row: str, seed: int, f: float, *passes: dict[str, Any], hit: int = 0, predicted: int = 50
) -> dict[str, Any]:
    return {
        "row": row,
        "seed": seed,
        "made from": {"format": 4},
        "hardware": "a machine",
        "keywords": "none" if row == "words" else "phrases",
        "seconds": {"pass 1": 60.0, "pass 2": 40.0, "pointer": 7.0, "in all": 107.0},
        "memory GiB": 3.25,
        "documents a second": 1200,
        "test": dict.fromkeys((*MEASURES, *RANKED), f),
        "dev": dict.fromkeys(MEASURES, f),
        "passes": [{"levels": levels} for levels in passes],
        "rare": {"10 to 14": {"labels": 3, "true": 40, "predicted": predicted, "hit": hit}},
        "curves": {"1": {"documents": [1, 2], **{n: [0.1, 0.2] for n in ("MaP", "MaR", "MaF")}}},
        "share of a step": {"shared": 0.4, "1": 0.2, "2": 0.4},
    }


def write_results(folder: Path) -> None:
    """Neighbour levels help at level 1 and not at level 2; max pooling is better here; at level 2
    OFO's micro-F of words alone is below that of the best K."""
    words = {"1": level(40, 48, k=1), "2": level(30, 44, micro=29, k=4)}
    first = {"1": level(40, 50), "2": level(30, 45)}
    second = {"1": level(41, 60), "2": level(31, 44)}
    other = {"1": level(41, 60, k=5), "2": level(31, 44)}
    results = [
        result("full", 1, 70, first, second),
        result("full", 2, 72, first, other),
        result("words", 1, 50, words),
        result("keywords", 1, 61, first, hit=10),
        result("threshold", 1, 62, first, second, hit=14),
        result("max", 1, 73, first, second),
        result("sampling", 1, 60, first, second),
    ]
    for one in results:
        (folder / f"{one['row']}-{one['seed']}.json").write_text(json.dumps(one))


def read_claims(tables: ModuleType, folder: Path, **beside: dict[str, float]) -> dict[str, str]:
    """Each row of the claims by its claim."""
    lines = tables.list_claims(tables.read_results(folder), beside).splitlines()
    return {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}


def row_of(text: str, *starts: str) -> list[str]:
    """The cells of the line of a table that begins with these."""
    lines = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines()]
    return next(line for line in lines if line[: len(starts)] == list(starts))


TINY = {
    "width": 8, "maps": 4, "hidden": 8, "bottleneck": 8, "min_count": 1,
    "merge": "threshold",
    "train": {"epochs": 1, "batch_size": 8},
}  # fmt: skip


SEA = ontology_of([Concept("nature"), Concept("water", parents=["nature"])])


def page_section(title: str, page: str = "lab/levelwise-rows.md", mark: str = "##") -> str:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return text.split(f"\n{mark} {title}")[1].split(f"\n{mark} ")[0]

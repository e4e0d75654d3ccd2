"""The tables, claims and figures that bench/levelwise_tables.py makes of result files."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "bench" / "levelwise_tables.py"


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("levelwise_tables", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(f: float) -> dict[str, float]:
    return dict.fromkeys(("MiP", "MiR", "MiF", "MaP", "MaR", "MaF"), f)


def level(top_k: float, ofo: float) -> dict[str, Any]:
    return {"documents": 9, "labels": 3, "K": 2, "top K": figures(top_k), "OFO": figures(ofo)}


def rare(hit: int) -> dict[str, Any]:
    return {"10 to 14": {"labels": 3, "true": 40, "predicted": 50, "hit": hit}}


def result(row: str, seed: int, f: float, *passes: dict[str, Any]) -> dict[str, Any]:
    return {
        "row": row,
        "seed": seed,
        "hardware": "a machine",
        "seconds": {"pass 1": 60.0, "pass 2": 40.0, "pointer": 7.0, "in all": 107.0},
        "memory GiB": 3.25,
        "documents a second": 1200,
        "test": {
            **figures(f),
            **dict.fromkeys(("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5"), f),
        },
        "dev": figures(f),
        "passes": list(passes),
        "curves": {"1": {"documents": [1, 2], **{n: [0.1, 0.2] for n in ("MaP", "MaR", "MaF")}}},
        "share of a step": {"1": 0.25, "2": 0.75},
    }


def written(folder: Path) -> None:
    """Neighbour levels help at level 1 and not at level 2; max pooling is better here."""
    first = {"levels": {"1": level(40, 50), "2": level(30, 45)}, "rare": rare(10)}
    second = {"levels": {"1": level(41, 60), "2": level(31, 44)}, "rare": rare(14)}
    results = [
        result("full", 1, 70, first, second),
        result("full", 2, 72, first, second),
        result("max", 1, 73, first, second),
        result("sampling", 1, 60, first, second),
    ]
    for one in results:
        (folder / f"{one['row']}-{one['seed']}.json").write_text(json.dumps(one))


def test_claims_are_held_or_not_held_with_their_numbers(tables, tmp_path):
    written(tmp_path)
    claims = tables.claims_list(tables.read_results(tmp_path)).splitlines()
    said = {line.split(":")[0]: line for line in claims if line.startswith("-")}
    assert (
        "**held**: MaF level 1 41.00 -> 60.00"
        in said["- OFO beats the best fixed K at every level"]
    )
    neighbours = said["- neighbour levels add at every level"]
    assert "**not held** (at 1 of 2)" in neighbours
    assert "level 2 45.00 -> 44.00" in neighbours
    pooling = said["- dynamic pooling beats max pooling"]
    assert "**not held**: MaF 71.00 (70.00 to 72.00) of `full`, 73.00 of `max`" in pooling
    assert "**held**" in said["- the pointer generator beats sampling"]
    assert not any("label-based" in line for line in claims), "that row was not measured"


def test_rare_labels_are_a_sentence_with_recall_and_precision(tables, tmp_path):
    """10 of 40 occurrences are 25 %, of 50 predictions 20 %; 14 are 35 % and 28 %."""
    written(tmp_path)
    (line,) = tables.rare_sentence(tables.read_results(tmp_path))
    assert "of the 40 test occurrences of 3 labels" in line
    assert "25.0 % are found without neighbour levels and 35.0 % with them" in line
    assert "precision 20.0 and 28.0 %" in line


def test_the_paper_stands_beside_ours_where_asked(tables, tmp_path):
    written(tmp_path)
    results = tables.read_results(tmp_path)
    with_paper = tables.level_table(results, tables.MACRO, tables.TABLE_3)
    assert "60.00 / 82.96" in with_paper, "MaF of OFO at level 1, all inputs"
    assert " / " not in tables.level_table(results, tables.MACRO, "")
    assert "Dynamic pooling & level-based: 53.22, 70.65, 60.77" in tables.merge_table(results, True)


def test_training_time_is_divided_among_the_levels(tables, tmp_path):
    """Both passes took 100 s, of which level 1 has a quarter."""
    written(tmp_path)
    costs = tables.cost_table(tables.read_results(tmp_path))
    assert "| full | 107 | 1: 25, 2: 75 | 7 | 3.2 | 1,200 |" in costs


def test_the_quoted_tables_are_whole(tables):
    for text in (tables.TABLE_2, tables.TABLE_3):
        rows = [line.split() for line in text.split("\n") if line]
        assert [len(row) for row in rows] == [18] * 7


def test_figures_are_drawn(tables, tmp_path):
    pytest.importorskip("matplotlib")
    written(tmp_path)
    full = tables.read_results(tmp_path)["full"][0]
    tables.draw_streams(full["curves"], tmp_path / "five.png")
    tables.draw_rare(full["passes"], tmp_path / "rare.png")
    assert (tmp_path / "five.png").stat().st_size > 1000
    assert (tmp_path / "rare.png").stat().st_size > 1000

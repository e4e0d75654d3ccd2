"""The tables, claims and figures that bench/levelwise_tables.py makes of result files."""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from ontodex.config import build, merged
from ontodex.experiment import read_plan
from ontodex.features.prepare import PrepareConfig, prepare
from ontodex.models.levelwise import Levelwise
from ontodex.ontology import write_ontology
from ontodex.ontology.graph import Concept
from ontodex.ontology.graph import build as ontology_of
from ontodex.train import store
from ontodex.types import Corpus, Doc, LabelSpace, Ranking

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "bench" / "results" / "levelwise"
MEASURES = ("MiP", "MiR", "MiF", "MaP", "MaR", "MaF")
RANKED = ("P@1", "P@3", "P@5", "nDCG@1", "nDCG@3", "nDCG@5")


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("levelwise_tables")


@pytest.fixture
def claims(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("levelwise_claims")


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("levelwise")


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "bench")
    return importlib.import_module("levelwise_measure")


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


def written(folder: Path) -> None:
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


def said_of(tables: ModuleType, folder: Path, **beside: dict[str, float]) -> dict[str, str]:
    """Each line of the claims by what stands before its first colon."""
    lines = tables.claims_list(tables.read_results(folder), beside).splitlines()
    return {line.split(":")[0]: line for line in lines if line.startswith("-")}


def row_of(text: str, *starts: str) -> list[str]:
    """The cells of the line of a table that begins with these."""
    lines = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines()]
    return next(line for line in lines if line[: len(starts)] == list(starts))


def test_claims_are_held_or_not_held_with_their_numbers(tables, tmp_path):
    """Of `max` there is only seed 1, so that seed 2 of `full`, a better one, does not count."""
    written(tmp_path)
    said = said_of(tables, tmp_path)
    neighbours = said["- neighbour levels add at every level, MaF"]
    assert "**not held** (`full`, seeds 1, 2): 1 of 2 levels: level 1 50.00 -> 60.00" in neighbours
    assert "level 2 45.00 -> 44.00" in neighbours
    pooling = said["- dynamic pooling beats max pooling"]
    assert "**not held** (one seed, 1): MaF 70.00 of `full`, 73.00 of `max`" in pooling
    assert "**held** (one seed, 1)" in said["- the pointer generator beats sampling"]
    assert not any("label-based" in line for line in said), "that row was not measured"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        ({1: 70.0}, {1: 70.1}, "**held**"),
        ({1: 70.0}, {1: 70.0}, "**not held**"),
        ({1: 70.0, 2: 70.2}, {1: 70.5, 2: 70.6}, "**held**"),
        ({1: 70.0, 2: 70.2}, {1: 70.5, 2: 69.9}, "**within the spread of seeds**"),
        ({1: 70.5, 2: 69.9}, {1: 70.0, 2: 70.2}, "**within the spread of seeds**"),
        ({1: 70.5, 2: 70.6}, {1: 70.0, 2: 70.2}, "**not held**"),
        ({1: 70.0, 2: 80.0}, {1: 70.1, 3: 60.0}, "**held**"),
    ],
)
def test_a_gain_below_the_range_of_either_sides_shared_seeds_is_neither(claims, low, high, verdict):
    """Gains: 0.1, 0, 0.45 with ranges up to 0.2, 0.1 with ranges up to 0.6, its opposite, -0.45;
    and 0.1 of seed 1, which alone both have."""
    assert claims.Pair.of(low, high).verdict() == verdict


def test_rows_without_a_seed_in_common_are_not_compared(tables, tmp_path):
    levels = {"1": level(40, 50)}
    for one in (result("full", 2, 70, levels, levels), result("words", 1, 50, levels)):
        (tmp_path / f"{one['row']}-{one['seed']}.json").write_text(json.dumps(one))
    (tmp_path / "max-1.json").write_text(json.dumps(result("max", 1, 60, levels, levels)))
    said = said_of(tables, tmp_path)
    assert "- neighbour levels add at every level, MaF" in said, "both of seed 2"
    assert not any("phrases add" in line or "pooling" in line for line in said)


def test_a_claim_about_every_level_is_as_good_as_its_worst_level(tables, tmp_path):
    """Level 1 gains 10 in both seeds; level 2 gains 5 and loses 3, 1 on average in a range of 8."""
    before = {"1": level(40, 50), "2": level(40, 50)}
    after = {
        1: {"1": level(40, 60), "2": level(40, 55)},
        2: {"1": level(40, 60), "2": level(40, 47)},
    }
    for seed, levels in after.items():
        text = json.dumps(result("full", seed, 70, before, levels))
        (tmp_path / f"full-{seed}.json").write_text(text)
    line = said_of(tables, tmp_path)["- neighbour levels add at every level, MaF"]
    assert (
        "**within the spread of seeds** (`full`, seeds 1, 2): 1 of 2 levels (1 within the spread)"
        in line
    )


def test_ofo_is_judged_in_every_block_by_macro_and_by_micro_f(tables, tmp_path):
    written(tmp_path)
    said = said_of(tables, tmp_path)
    macro = said["- OFO beats the best fixed K at every level, MaF"]
    assert "**held**" in macro
    assert "2 of 2 levels with words (`words`, one seed, 1), 2 of 2 levels with words, ph" in macro
    assert "2 of 2 levels with words, phrases, levels (`full`, seeds 1, 2); the last: " in macro
    assert "the last: level 1 41.00 -> 60.00" in macro
    micro = said["- OFO beats the best fixed K at every level, MiF"]
    assert "**not held**: 1 of 2 levels with words (`words`, one seed, 1), 2 of 2" in micro


def test_what_is_said_of_levels_names_its_rows_and_seeds(tables, tmp_path):
    written(tmp_path)
    said = said_of(tables, tmp_path)
    added = said["- phrases add at every level, MaF"]
    assert "**held** (`words`, `full`, one seed, 1): 2 of 2 levels" in added
    text = tables.level_table(tables.read_results(tmp_path), tables.MICRO, "")
    assert "Rows: words: `words`, one seed, 1; words, phrases: `full`, seeds 1, 2;" in text


def test_levels_of_the_default_are_judged_in_lines_of_their_own(tables, tmp_path):
    written(tmp_path)
    passes = {"1": level(40, 50)}, {"1": level(41, 55)}
    (tmp_path / "attentive-3.json").write_text(json.dumps(result("attentive", 3, 74, *passes)))
    said = said_of(tables, tmp_path)
    ofo = said["- (ours) with the default OFO beats the best fixed K at every level, MiF"]
    assert "1 of 1 levels with words, phrases (`attentive`, one seed, 3)" in ofo
    second = said["- (ours) the default's second pass adds at every level, MaF"]
    assert "**held** (`attentive`, one seed, 3): 1 of 1 levels: level 1 50.00 -> 55.00" in second


def test_phrases_are_not_called_keywords(tables, tmp_path):
    written(tmp_path)
    said = said_of(tables, tmp_path)
    assert "**held**" in said["- phrases add at every level, MaF"]
    assert not any(line.startswith("- keywords add") for line in said)
    text = tables.level_table(tables.read_results(tmp_path), tables.MICRO, "")
    assert "words, phrases, levels: MiF" in text
    assert "Phrases are extracted from the text" in text


def test_keywords_of_authors_are_called_keywords(tables, tmp_path):
    written(tmp_path)
    for path in tmp_path.glob("*.json"):
        path.write_text(path.read_text().replace('"phrases"', '"keywords"'))
    said = said_of(tables, tmp_path)
    assert "- keywords add at every level, MiF" in said
    text = tables.level_table(tables.read_results(tmp_path), tables.MICRO, tables.TABLE_2)
    assert "words, keywords: MiF" in text
    assert "phrases" not in text.lower()


def test_rare_labels_are_a_sentence_about_two_rows_that_were_tuned_alike(tables, claims, tmp_path):
    """10 of 40 occurrences are 25 %, of 50 predictions 20 %, F 20 / 90; 14 are 35 % and 28 %."""
    written(tmp_path)
    (line,) = claims.rare_sentence(tables.read_results(tmp_path))
    assert "**held** (one seed, 1): of the 40 test occurrences of 3 labels" in line
    without = "F 22.2 (`keywords`: recall 25.0, precision 20.0, 50 predictions)"
    assert f"without neighbour levels {without}" in line
    assert "with them F 31.1 (`threshold`: recall 35.0, precision 28.0, 50 predictions)" in line
    (tmp_path / "keywords-1.json").unlink()
    assert claims.rare_sentence(tables.read_results(tmp_path)) == []


def test_rare_labels_are_not_helped_by_more_predictions_alone(claims, tmp_path):
    """12 of 40 are more than 10; but among 120 predictions F is 24 / 160, below 20 / 90."""
    levels = {"1": level(40, 50)}
    few = result("keywords", 1, 60, levels, hit=10)
    many = result("threshold", 1, 60, levels, levels, hit=12, predicted=120)
    (line,) = claims.rare_sentence({"keywords": [few], "threshold": [many]})
    assert "**not held**" in line
    assert "F 15.0 (`threshold`: recall 30.0, precision 10.0, 120 predictions)" in line


def test_every_block_shows_its_own_k_and_every_level_its_documents(tables, tmp_path):
    """K is 1 with words, 2 with phrases, and 2 or 5 with levels, by the seed; one more for macro
    figures."""
    written(tmp_path)
    results = tables.read_results(tmp_path)
    micro = row_of(tables.level_table(results, tables.MICRO, ""), "level 1", "1,234", "top K")
    assert [micro[3], micro[7], micro[11]] == ["1", "2", "2 to 5"]
    macro = row_of(tables.level_table(results, tables.MACRO, ""), "level 2", "1,234", "top K")
    assert [macro[3], macro[7], macro[11]] == ["5", "3", "3"]
    ofo = row_of(tables.level_table(results, tables.MICRO, ""), "level 1", "1,234", "OFO")
    assert [ofo[3], ofo[7], ofo[11]] == ["", "", ""]


def test_readers_are_told_that_ofo_is_tuned_on_dev_too(tables, tmp_path):
    written(tmp_path)
    text = tables.level_table(tables.read_results(tmp_path), tables.MACRO, "")
    assert "moved by one number a level, chosen on dev in the same way" in text


def test_the_paper_stands_beside_ours_where_asked(tables, tmp_path):
    written(tmp_path)
    results = tables.read_results(tmp_path)
    with_paper = tables.level_table(results, tables.MACRO, tables.TABLE_3)
    assert "60.00 / 82.96" in with_paper, "MaF of OFO at level 1, all inputs"
    assert "| 2 / 5 |" in with_paper, "its K"
    assert " / " not in tables.level_table(results, tables.MACRO, "")
    merged_sets = tables.merge_table(results, True, {})
    assert "Dynamic pooling & level-based: 53.22, 70.65, 60.77" in merged_sets
    assert row_of(merged_sets, "DeepMesh (quoted)")[1:4] == ["53.80", "55.05", "54.42"]
    assert "quoted" not in tables.merge_table(results, False, {})
    ranking = tables.ranking_table(results, True)
    assert row_of(ranking, "XML-CNN")[1:] == ["95.06", "79.86", "63.91", "95.06", "89.48", "87.06"]
    assert row_of(tables.amazon_table(), "level 5", "OFO")[2:] == ["20.88", "99.91", "34.54"]


def test_the_quoted_tables_are_whole(tables):
    for text in (tables.TABLE_2, tables.TABLE_3):
        rows = [line.split() for line in text.split("\n") if line]
        assert [len(row) for row in rows] == [18] * 7
    assert [len(line.split()) for line in tables.TABLE_2_AMAZON.split("\n") if line] == [6] * 5


def test_quoted_figures_that_contradict_themselves_are_named(tables):
    """2 * 50 * 50 / 100 is 50; 33.33 and 66.67 give 44.44, and 44.45 may be rounding."""
    quoted = {"right": (50.0, 50.0, 50.0), "rounded": (33.33, 66.67, 44.45)}
    assert tables.contradictions(quoted) == ""
    assert "; " not in tables.contradictions({**quoted, "wrong": (50.0, 50.0, 51.0)})
    assert "wrong: 51.00 (50.00)" in tables.contradictions({"wrong": (50.0, 50.0, 51.0)})
    macro = tables.about_quoted_levels(tables.quoted_levels(tables.TABLE_3), "keywords")
    assert "level 6, OFO, words, keywords: 79.63 (76.94)" in macro
    assert macro.count("); level") == 5, "six cells of Table 3"
    assert "MeSHLabeler: 50.54 (53.07)" in tables.merge_table({}, True, {})


def test_other_systems_join_table_4_and_the_claims(tables, tmp_path):
    written(tmp_path)
    beside = {"parabel, OFO": {"MiF": 70.5}}
    text = tables.merge_table(tables.read_results(tmp_path), False, beside)
    assert row_of(text, "parabel, OFO") == ["parabel, OFO", "", "", "", "", "", "70.50", ""]
    line = said_of(tables, tmp_path, **beside)["- (ours) `full` beats parabel, OFO"]
    within = "**within the spread of seeds** (seeds 1, 2): MiF 71.00 (70.00 to 72.00), 70.50 of"
    assert within in line, "0.5 better, but our own seeds are 2 apart"
    assert not any("`attentive`" in line for line in said_of(tables, tmp_path, **beside))


def test_a_file_of_other_systems_may_lie_among_the_results(tables, tmp_path):
    written(tmp_path)
    (tmp_path / "beside-eurlex.json").write_text('{"parabel, OFO": {"MaF": 60.0}}')
    assert set(tables.read_results(tmp_path)) == {
        "full", "words", "keywords", "threshold", "max", "sampling",
    }  # fmt: skip


def test_training_time_is_divided_among_the_levels_and_what_they_share(tables, tmp_path):
    """Both passes took 100 s, of which all levels share 40 and level 1 has 20; with another seed
    they waited for other trainings. Of a result without shares nothing is said by level."""
    written(tmp_path)
    results = tables.read_results(tmp_path)
    results["full"][0]["seconds"] = {"pass 1": 900.0, "pass 2": 40.0, "in all": 940.0}
    results["words"][0]["share of a step"] = {}
    costs = tables.cost_table(results)
    assert "| full | 107 | shared: 40, 1: 20, 2: 40 | 7 | 3.2 | 1,200 |" in costs
    assert "| words | 107 |  | 7 | 3.2 | 1,200 |" in costs


def test_one_call_writes_tables_and_figures(tables, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    written(tmp_path)
    (tmp_path / "beside.json").write_text('{"parabel, OFO": {"MaF": 60.0}}')
    tables.main([str(tmp_path), "--paper", "--beside", str(tmp_path / "beside.json")])
    text = (tmp_path / "tables.md").read_text()
    assert capsys.readouterr().out == text
    for title in ("Table 2, micro", "AmazonCat-13K", "Table 3, macro", "Table 4", "Claims"):
        assert title in text
    for name in ("figure5-1.png", "figure5-2.png", "rare-1.png"):
        assert (tmp_path / name).stat().st_size > 1000
    assert not (tmp_path / "rare-2.png").exists(), "no second seed of these rows"


def test_a_few_rows_make_the_tables_they_can(tables, tmp_path):
    written(tmp_path)
    for path in tmp_path.glob("*.json"):
        if path.stem != "keywords-1":
            path.unlink()
    tables.main([str(tmp_path), "--paper"])
    text = (tmp_path / "tables.md").read_text()
    assert "Table 2, micro" not in text
    assert "Table 2 of the paper" in text
    assert row_of(text, "keywords")[1] == "61.00"


def test_the_bench_and_the_experiment_file_have_the_same_rows(bench):
    """Under the same names, or with -4 for four levels."""
    plan = read_plan(ROOT / "experiments" / "levelwise.toml")
    ours = {name: s for name, s in plan.systems.items() if s.model == "levelwise"}
    for corpus in plan.corpora:
        there = [
            name.removesuffix("-4") for name, s in ours.items() if corpus in (s.on or [corpus])
        ]
        assert sorted(there) == sorted(bench.TABLED), corpus
    for name, system in ours.items():
        four = {"max_level": 4} if name.endswith("-4") else {}
        row = merged(four, bench.ROWS[name.removesuffix("-4")])
        settings = system.settings.get("model", {})
        expected = build(Levelwise.Config, row, "model")
        assert build(Levelwise.Config, settings, "model") == expected, name


def test_what_the_page_has_figures_of_is_run_without_being_asked_for(bench):
    page = (ROOT / "docs" / "papers" / "levelwise.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"^\| `([a-z-]+)`: ", page, flags=re.MULTILINE))
    assert {"full", "attentive"} <= shown <= set(bench.TABLED)


def test_the_rows_of_the_tables_are_all_that_the_claims_name(bench, tables, claims, tmp_path):
    levels = {"1": level(40, 50)}
    for row in bench.TABLED:
        text = json.dumps(result(row, 1, 50, levels, levels))
        (tmp_path / f"{row}-1.json").write_text(text)
    results = tables.read_results(tmp_path)
    assert all({better, worse} <= results.keys() for *_, better, worse in claims.CLAIMS)
    assert claims.claims_list(results, {}).count("\n- ") == 10 + len(claims.CLAIMS) + 1


def test_levels_are_also_compared_with_a_flat_network_that_differs_in_nothing_else(bench, claims):
    """Both metrics, in the paper's form and in the default."""
    for better, worse in (("keywords", "flat"), ("attentive-keywords", "attentive-flat")):
        metrics = {metric for _, metric, *rows in claims.CLAIMS if rows == [better, worse]}
        assert metrics == {"MaF", "MiF"}
        one, other = (build(Levelwise.Config, bench.ROWS[row], "model") for row in (better, worse))
        # One level has no neighbours: it reads words and keywords whatever `inputs` says.
        assert replace(other, max_level=one.max_level, inputs=one.inputs) == one


TINY = {
    "width": 8, "maps": 4, "set_maps": 4, "hidden": 8, "value": 8, "bag": 0, "bottleneck": 8,
    "min_count": 1, "keyword_count": 1, "merge": "threshold",
    "train": {"epochs": 1, "batch": 8},
}  # fmt: skip


SEA = ontology_of([Concept("nature"), Concept("water", parents=["nature"])])


@pytest.mark.parametrize(("encoder", "keywords"), [("shared", "author"), ("level", "phrases")])
def test_a_result_holds_what_the_tables_ask_for(measures, tables, tmp_path, encoder, keywords):
    docs = [Doc(str(i), {"text": "deep water"}, ("sea",), ("nature", "water")) for i in range(16)]
    corpora = {name: Corpus.write(docs, tmp_path / name) for name in ("train", "dev", "test")}
    if keywords == "phrases":  # what travels to a GPU machine has no text
        told = PrepareConfig(
            stop_words="en", phrases=True, phrase_words=2, phrases_per_doc=20, min_count=1
        )
        corpora = prepare(corpora, tmp_path / "carried", told)
    settings = {**TINY, "encoder": encoder, "keywords": keywords}
    system = Levelwise(build(Levelwise.Config, settings, "model"))
    labels = LabelSpace.of(corpora["train"], SEA)
    head = {"row": "full", "seed": 1, "made from": {"format": 4}}
    found = {**head, **measures.measure(system, corpora, labels)}
    assert found["keywords"] == {"author": "keywords", "phrases": "phrases"}[keywords]
    assert list(found["share of a step"]) == ["shared", "1", "2"]
    assert sum(found["share of a step"].values()) == pytest.approx(1, abs=0.01)
    assert found["rare"]["15 to 19"]["true"] == 32, "two labels of 16 documents"
    (tmp_path / "full-1.json").write_text(json.dumps(found))
    text = tables.level_table(tables.read_results(tmp_path), tables.MACRO, "")
    assert row_of(text, "level 2", "16", "top K")[3] == "1"


def test_what_is_compiled_in_the_first_batch_is_no_part_of_a_step(measures, monkeypatch):
    """Every batch but the first: what is shared takes 2 s, levels 1 and 2 take 1 s each."""
    corpus = Corpus.of([Doc(str(i), {"text": "deep"}, (), ("nature", "water")) for i in range(16)])
    settings = {**TINY, "inputs": "words", "merge": "threshold"}
    system = Levelwise(build(Levelwise.Config, settings, "model"))
    system.fit(corpus, corpus, LabelSpace.of(corpus, SEA))
    times = iter([0, 2, 99, 100, *(s + at for s in (200, 300, 400) for at in (0, 2, 3, 4))])
    monkeypatch.setattr(measures, "clock", lambda device: next(times))
    shares = measures.level_shares(system, corpus, [], batches=4)
    assert shares == {"shared": 0.5, "1": 0.25, "2": 0.25}


def carried(folder: Path, *, documents: int = 16, max_length: int = 500) -> list[str]:
    """The arguments of a bench that trains a tiny network on what it writes here."""
    docs = [Doc(str(i), {"text": "deep water"}, (), ("nature", "water")) for i in range(documents)]
    written = folder.parent / f"written-{folder.name}"
    corpora = {part: Corpus.write(docs, written / part) for part in ("train", "dev", "test")}
    told = {"stop_words": "en", "phrases": True, "phrase_words": 2, "phrases_per_doc": 20}
    prepare(corpora, folder, PrepareConfig(**told, min_count=1, max_length=max_length))
    write_ontology(SEA, folder / "ontology.json")
    tiny = {name: value for name, value in TINY.items() if name != "train"}
    over = {**tiny, "train.epochs": 1, "train.batch": 8}
    given = [f"--over=model.{name}={value}" for name, value in over.items()]
    out = str(folder.parent / "out")
    return [str(folder), out, "--ontology", str(folder / "ontology.json"), *given, "--rows=words"]


@pytest.mark.parametrize("row", ["full", "unordered", "sampling", "threshold"])
def test_what_a_document_costs_is_measured_with_as_many_labels_as_is_said(monkeypatch, row):
    """16 that are merged, in the mean, and 8 of them that are emitted, of labels with random
    weights."""
    monkeypatch.syspath_prepend(ROOT / "bench")
    latency = importlib.import_module("levelwise_latency")
    tops = [f"t{i}" for i in range(30)]
    ontology = ontology_of([*map(Concept, tops), *(Concept(f"b{t}", parents=[t]) for t in tops)])
    corpus = Corpus.of(
        Doc(t, {"text": " ".join(tops[: i + 1])}, (), (t, f"b{t}")) for i, t in enumerate(tops)
    )
    over = {name: value for name, value in TINY.items() if name not in ("merge", "train")}
    given = [f"model.{name}={value}" for name, value in over.items()]
    given += [f"model.pointer.max_labels={latency.EMITTED}"]
    system = latency.begin(latency.settings(row, 1, [], given))
    corpora = {"train": corpus, "dev": corpus}
    latency.untrained(system, corpora, LabelSpace.of(corpus, ontology), corpus)
    rankings = system.level_rankings(corpus)[-1]
    if system.config.merge == "pointer":
        merged = system.merging.predicted(rankings, system.thresholds)
    else:
        merged = system.merging.union(rankings, system.thresholds)
    assert (merged.columns >= 0).sum(axis=1).mean() == pytest.approx(16, abs=0.5)
    if row != "threshold":
        assert ((system.decide(corpus).columns >= 0).sum(axis=1) == 8).all()


def test_pass_2_is_continued_in_all_rows_that_stand_for_the_papers_form(bench):
    for row in (*bench.PAPER, "paper"):
        assert bench.ROWS[row]["second"] == ("anew" if row == "anew" else "continued")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The arguments of a bench that has been run."""
    arguments = carried(tmp_path_factory.mktemp("bench") / "carried")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "bench")
        importlib.import_module("levelwise").main(arguments)
    return arguments


def test_a_result_is_found_again_by_what_it_was_made_from(bench, finished, capsys):
    result = Path(finished[1]) / "words-1.json"
    before = result.stat().st_mtime_ns
    bench.main(finished)
    assert json.loads(capsys.readouterr().out.splitlines()[0])["row"] == "words"
    assert result.stat().st_mtime_ns == before


def job(bench: ModuleType, row: str, seed: int = 1) -> Any:
    return bench.Job(Path(row), {}, bench.settings(row, seed, [], []))


def test_rows_share_the_passes_that_are_trained_alike(bench):
    rows = ("full", "label", "anew", "words", "max")
    passes = {row: job(bench, row).passes for row in rows}
    assert passes["label"] == passes["full"]
    assert len(passes["anew"] & passes["full"]) == 1, "pass 1"
    assert not passes["full"] & (passes["words"] | passes["max"])
    assert not job(bench, "full", seed=2).passes & passes["full"], "another seed, another training"


def test_of_rows_that_share_a_pass_the_first_goes_ahead_and_then_all_may(bench):
    full, label, anew, words = (job(bench, row) for row in ("full", "label", "anew", "words"))
    assert bench.free([full, label], [], set()) is full
    assert bench.free([label, anew, words], [full], set()) is words
    assert bench.free([label, anew], [full], set()) is None
    assert bench.free([anew], [label], full.passes) is anew, "pass 1 is there"
    again = job(bench, "attentive-continued"), job(bench, "attentive-continued-last")
    first = job(bench, "attentive").passes
    assert bench.free(again[1:], again[:1], first) is None, "their own pass 2 is not"


@pytest.mark.slow
def test_lanes_train_each_pass_once_and_come_to_the_same_results(bench, tmp_path, capfd):
    arguments = carried(tmp_path / "carried")
    rows = ["--rows", "keywords", "threshold", "words"]
    bench.main([*arguments[:-1], *rows])
    alone, out = tmp_path / "alone", tmp_path / "out"
    out.rename(alone)
    capfd.readouterr()
    bench.main([*arguments[:-1], *rows, "--lanes=2"])
    said = capfd.readouterr().err
    assert all(f" {row}-1 pass 1 fold 2: " in said for row in ("keywords", "words"))
    assert " threshold-1 pass 1 fold 2: finished before" in said
    pieces, of_lanes = ({p.name for p in (f / "work").glob("pass*")} for f in (alone, out))
    assert pieces == of_lanes
    assert len(pieces) == 9, "of `words`, of `keywords`, and of pass 2: all documents, two folds"
    for row in rows[1:]:
        one, other = (json.loads((f / f"{row}-1.json").read_text()) for f in (alone, out))
        assert one["test"] == other["test"]
        assert one["passes"] == other["passes"]


@pytest.mark.slow
def test_lanes_that_fail_or_are_killed_are_named_when_the_others_are_done(bench, tmp_path):
    arguments = carried(tmp_path / "carried")
    source = bench.Source(Path(arguments[0]), Path(arguments[3]), 1)
    over = [part.removeprefix("--over=") for part in arguments if part.startswith("--over=")]
    jobs = []
    for seed, name in enumerate(("killed", "bad", "good"), start=1):
        (tmp_path / name).mkdir()
        config = bench.settings("words", seed, [], over)
        head = {"row": "words", "seed": seed}
        jobs.append(bench.Job(tmp_path / name / f"{name}-1.json", head, config))
    (tmp_path / "bad" / "work").write_text("in the way")
    killer = Thread(target=kill_the_first_of, args=(2,))
    killer.start()
    status = "killed-1 failed with exit status -9; bad-1 failed with exit status 1: see above"
    with pytest.raises(SystemExit, match=status):
        bench.train_all(jobs, source, 2)
    killer.join()
    assert (tmp_path / "good" / "good-1.json").exists()


def kill_the_first_of(processes: int) -> None:
    """As soon as so many are there, which is long before they have imported anything."""
    while len(active_children()) < processes:
        time.sleep(0.05)
    first = min(active_children(), key=lambda process: process.pid or 0)
    os.kill(first.pid or 0, signal.SIGKILL)


@pytest.mark.parametrize(
    ("more", "differs"),
    [
        (["--over=model.train.epochs=2"], "model.train.epochs is 1, not 2"),
        (["--set=model.max_level=1"], "model.max_level is 7, not 1"),
        (["--min-count=2"], "min_count is 1, not 2"),
    ],
)
def test_a_result_of_other_settings_is_refused(bench, finished, more, differs):
    with pytest.raises(SystemExit) as refused:
        bench.main([*finished, *more])
    said = str(refused.value)
    assert f"{Path(finished[1]) / 'words-1.json'} was made from something else" in said
    assert f": {differs}. Take another folder" in said


def test_a_result_of_other_documents_is_refused(bench, finished, tmp_path):
    others = carried(tmp_path / "carried", documents=12)
    with pytest.raises(SystemExit, match=r"corpora\.train is .*corpora\.dev is .*corpora\.test is"):
        bench.main([others[0], *finished[1:]])


def test_a_result_of_the_same_documents_prepared_otherwise_is_refused(bench, finished, tmp_path):
    others = carried(tmp_path / "carried", max_length=400)
    with pytest.raises(SystemExit, match=r"now: prepared\.settings\.max_length is 500, not 400\."):
        bench.main([others[0], *finished[1:]])


def test_a_result_of_a_training_that_went_otherwise_is_refused(bench, finished, monkeypatch):
    monkeypatch.setattr(bench, "FORMAT", bench.FORMAT + 1)
    with pytest.raises(SystemExit, match=f"format is {bench.FORMAT - 1}, not {bench.FORMAT}"):
        bench.main(finished)


def test_a_result_that_does_not_say_what_it_was_made_from_is_refused(bench, finished, tmp_path):
    old = json.loads((Path(finished[1]) / "words-1.json").read_text())
    del old["made from"]
    (tmp_path / "words-1.json").write_text(json.dumps(old))
    with pytest.raises(SystemExit, match="it is older and does not say"):
        bench.main([finished[0], str(tmp_path), *finished[2:]])


def test_the_memory_of_a_row_is_that_of_its_most_costly_piece_whoever_made_it(bench, tmp_path):
    """Pass 1 and its two folds, as made by another process on a GPU with 1, 3 and 2 GiB; nothing is
    said where a piece is older and does not say it."""
    arguments = carried(tmp_path / "carried")
    bench.main(arguments)
    result = tmp_path / "out" / "words-1.json"
    assert json.loads(result.read_text())["memory GiB"] is None, "on a CPU"
    pieces = sorted((tmp_path / "out" / "work").glob("pass-1-*"))
    for place, gib, known in zip(pieces, (1, 3, 2), (None, None, 3), strict=True):
        arrays = store.load_tensors(place, "arrays")
        store.save_tensors(place, "arrays", {**arrays, "memory": np.array([gib * 2**30])})
        result.unlink()
        bench.main(arguments)
        assert json.loads(result.read_text())["memory GiB"] == known


def test_the_row_of_the_paper_is_refused_with_other_labels_than_the_papers(bench, tmp_path, capsys):
    arguments = [*carried(tmp_path / "carried"), "--rows=paper"]
    with pytest.raises(SystemExit):
        bench.main([*arguments, "--min-count=9"])
    assert "not 9: add --min-count 10" in capsys.readouterr().err
    bench.main([*arguments, "--min-count=10", "--steps=1"])
    assert json.loads(capsys.readouterr().out)["row"] == "paper"


def test_k_and_the_move_of_a_level_are_those_with_the_highest_f_asked_for(measures):
    """One document has four labels at 0.4, four others have one at 0.6: to find all eight takes
    K = 4, but most documents are best with one; and with thresholds of 0.5 a move upwards."""
    columns = np.array([[0, 1, 2, 3], *[[4, 5, 6, 7]] * 4])
    p = np.array([[0.4] * 4, *[[0.6, 0.1, 0.1, 0.1]] * 4], np.float32)
    gold = csr_array(np.array([[1] * 4 + [0] * 4, *[[0] * 4 + [1] + [0] * 3] * 4], np.int8))
    ranking = Ranking(columns.astype(np.int32), p)
    assert measures.best_k(gold, ranking, "MaF") == 1
    by = measures.best_move(gold, ranking, np.full(8, 0.5), "MiF")
    assert 0.4 < by < 2, "0.4 comes above the threshold, 0.1 does not"
    own = measures.each_by_its_own(gold, {"MiF": ranking.cut(1), "MaF": ranking.cut(4)})
    assert own["MiP"] == 100
    assert own["MaR"] == 100
    assert own["MaP"] == 40


@pytest.mark.parametrize(
    ("corpus", "section"), [("eurlex57k", "EURLEX57K + EuroVoc"), ("medline", "MEDLINE + MeSH")]
)
def test_the_page_has_the_figures_of_the_results_that_were_kept(tables, corpus, section):
    part = page_section(section)
    kept = tables.read_results(KEPT / corpus)
    names = next(line for line in part.splitlines() if line.startswith("| row | seeds |"))
    columns = [name.strip() for name in names.split("|")]
    lines = dict(re.findall(r"^\| `([a-z-]+)`: (.*)$", part, flags=re.MULTILINE))
    assert lines.keys() == kept.keys()
    for row, line in lines.items():
        shown = dict(zip(columns, ["", *map(str.strip, line.split("|"))], strict=True))
        runs = tables.by_seed(kept, row)
        assert shown["seeds"] == ", ".join(map(str, sorted(runs)))
        for name in ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "MaP", "MaR", "MaF", "MiF"):
            own = tables.mean([run["test"][name] for run in runs.values()])
            assert float(shown[name]) == pytest.approx(own, abs=0.006), (row, name)
        dev = tables.mean([run["dev"]["MiF"] for run in runs.values()])
        assert float(shown["MiF on dev"]) == pytest.approx(dev, abs=0.006), row


def page_section(title: str) -> str:
    page = (ROOT / "docs" / "papers" / "levelwise.md").read_text(encoding="utf-8")
    return page.split(f"\n### {title}")[1].split("\n###")[0]


@pytest.mark.parametrize(("place", "corpus"), [(2, "eurlex57k"), (3, "medline")])
def test_the_short_list_of_claims_has_the_figures_of_the_long_one(place, corpus):
    table = re.findall(r"^\| .*\|$", page_section("Claims, held or not"), flags=re.MULTILINE)
    long = (ROOT / "docs" / "papers" / f"levelwise-{corpus}.md").read_text(encoding="utf-8")
    shown = re.findall(r"\b\d\d\.\d\d\b", " ".join(line.split("|")[place] for line in table))
    assert len(shown) > 20
    assert set(shown) <= set(re.findall(r"\b\d\d\.\d\d\b", long))


@pytest.mark.parametrize(
    ("corpus", "epochs"),
    [
        ("eurlex57k", "six epochs, as in the table"),
        ("eurlex57k-8", "eight"),
        ("eurlex57k-12", "twelve"),
    ],
)
def test_longer_trainings_stand_on_the_page_as_they_were_kept(tables, corpus, epochs):
    runs = tables.by_seed(tables.read_results(KEPT / corpus), "flat")
    seeds = ", ".join(map(str, sorted(runs)))
    figures = [
        tables.mean([run[part][metric] for run in runs.values()])
        for part in ("test", "dev")
        for metric in ("MiF", "MaF")
    ]
    line = " | ".join([epochs, seeds, *(f"{figure:.2f}" for figure in figures)])
    assert f"| {line} |" in page_section("Longer training")


@pytest.mark.parametrize(
    ("corpus", "claim"),
    [
        (
            "eurlex57k",
            "levels beat one flat network: **held** (seeds 1, 2, 3): "
            "MaF 72.76 (72.31 to 73.17) of `full`, 70.70 (70.30 to 71.01) of `flat`",
        ),
        (
            "eurlex57k",
            "both passes beat the second: **not held** (one seed, 1): "
            "MiF 71.77 of `averaged`, 71.90 of `full`",
        ),
        (
            "medline",
            "pass 2 continued beats pass 2 anew: **held** (one seed, 1): "
            "MiF 39.56 of `full`, 39.17 of `anew`",
        ),
    ],
)
def test_claims_of_the_kept_results_name_the_better_row_first(tables, claims, corpus, claim):
    said = claims.claims_list(tables.read_results(KEPT / corpus), {})
    assert f"- (ours) {claim}\n" in said

"""Claims are held, not held or undecided."""

from __future__ import annotations

import json
import re

import pytest
from levelwise_made_up import KEPT, ROOT, level, page_section, read_claims, result, write_results


def test_claims_are_held_or_not_held_with_their_numbers(tables, tmp_path):
    """Of `max` there is only seed 1, so that seed 2 of `full`, a better one, does not count."""
    write_results(tmp_path)
    rows = read_claims(tables, tmp_path)
    neighbours = rows["neighbour levels add at every level, MaF"]
    assert "| not held | `full`, seeds 1, 2 | 1 of 2 levels: level 1 50.00 -> 60.00" in neighbours
    assert "level 2 45.00 -> 44.00" in neighbours
    pooling = rows["dynamic pooling beats max pooling, MaF"]
    assert "| undecided | one seed, 1 | 70.00 of `full`, 73.00 of `max` |" in pooling
    assert "| undecided | one seed, 1 |" in rows["the pointer generator beats sampling, MaF"]
    assert not any("label-based" in line for line in rows), "that row was not measured"


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        ({1: 70.0}, {1: 75.0}, "undecided"),
        ({1: 70.0, 2: 70.0}, {1: 70.0, 2: 70.0}, "not held"),
        ({1: 70.0, 2: 70.2}, {1: 70.5, 2: 70.6}, "held"),
        ({1: 70.0, 2: 70.2}, {1: 70.5, 2: 69.9}, "undecided"),
        ({1: 70.5, 2: 69.9}, {1: 70.0, 2: 70.2}, "undecided"),
        ({1: 70.5, 2: 70.6}, {1: 70.0, 2: 70.2}, "not held"),
        ({1: 70.0, 2: 80.0}, {1: 70.1, 3: 60.0}, "undecided"),
    ],
)
def test_a_gain_of_one_seed_or_below_the_range_of_shared_seeds_is_undecided(
    claims, low, high, verdict
):
    """Gains: 5 of one seed; 0; 0.45 with ranges up to 0.2; 0.1 with ranges up to 0.6; its opposite;
    -0.45; and 0.1 of seed 1, which alone both have."""
    assert claims.Pair.of(low, high).verdict() == verdict


def test_rows_without_a_seed_in_common_are_not_compared(tables, tmp_path):
    levels = {"1": level(40, 50)}
    for one in (result("full", 2, 70, levels, levels), result("words", 1, 50, levels)):
        (tmp_path / f"{one['row']}-{one['seed']}.json").write_text(json.dumps(one))
    (tmp_path / "max-1.json").write_text(json.dumps(result("max", 1, 60, levels, levels)))
    rows = read_claims(tables, tmp_path)
    assert "neighbour levels add at every level, MaF" in rows, "both of seed 2"
    assert not any("phrases add" in line or "pooling" in line for line in rows)


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
    line = read_claims(tables, tmp_path)["neighbour levels add at every level, MaF"]
    assert "| undecided | `full`, seeds 1, 2 | 1 of 2 levels (1 undecided): level 1 50.00" in line


def test_ofo_is_judged_in_every_block_by_macro_and_by_micro_f(tables, tmp_path):
    write_results(tmp_path)
    rows = read_claims(tables, tmp_path)
    macro = rows["OFO beats the best fixed K at every level, MaF"]
    assert "| undecided | words: `words`, one seed, 1; words, phrases: `full`, seeds" in macro
    assert "| 0 of 2 levels (2 undecided) with words; 2 of 2 levels with words, ph" in macro
    assert "2 of 2 levels with words, phrases, levels; the last: " in macro
    assert "the last: level 1 41.00 -> 60.00" in macro
    micro = rows["OFO beats the best fixed K at every level, MiF"]
    assert "2 of 2 levels with words, phrases;" in micro


def test_claims_about_levels_name_their_rows_and_seeds(tables, tmp_path):
    write_results(tmp_path)
    rows = read_claims(tables, tmp_path)
    added = rows["phrases add at every level, MaF"]
    assert "| undecided | `words`, `full`, one seed, 1 | 0 of 2 levels (2 undecided)" in added
    text = tables.make_level_table(tables.read_results(tmp_path), tables.MICRO, "")
    assert "Rows: words: `words`, one seed, 1; words, phrases: `full`, seeds 1, 2;" in text


def test_levels_of_the_default_are_judged_in_lines_of_their_own(tables, tmp_path):
    write_results(tmp_path)
    passes = {"1": level(40, 50)}, {"1": level(41, 55)}
    (tmp_path / "attentive-3.json").write_text(json.dumps(result("attentive", 3, 74, *passes)))
    rows = read_claims(tables, tmp_path)
    ofo = rows["(ours) with the default OFO beats the best fixed K at every level, MiF"]
    assert "words, phrases: `attentive`, one seed, 3; words, phrases, levels" in ofo
    second = rows["(ours) the default's second pass adds at every level, MaF"]
    assert "`attentive`, one seed, 3 | 0 of 1 levels (1 undecided): level 1 50.00 -> 55" in second


def test_rare_labels_compare_two_rows_that_were_tuned_alike(tables, claims, tmp_path):
    """10 of 40 occurrences are 25 %, of 50 predictions 20 %, F 20 / 90; 14 are 35 % and 28 %."""
    write_results(tmp_path)
    (line,) = claims.compare_rare_labels(tables.read_results(tmp_path))
    assert "| undecided | one seed, 1 | 40 test occurrences of 3 labels" in line
    without = "F 22.2 (`keywords`: recall 25.0, precision 20.0, 50 predictions)"
    assert f"without neighbour levels {without}" in line
    assert "with them F 31.1 (`threshold`: recall 35.0, precision 28.0, 50 predictions)" in line
    (tmp_path / "keywords-1.json").unlink()
    assert claims.compare_rare_labels(tables.read_results(tmp_path)) == []


def test_rare_labels_are_not_helped_by_more_predictions_alone(claims, tmp_path):
    """12 of 40 are more than 10; but among 120 predictions F is 24 / 160, below 20 / 90."""
    levels = {"1": level(40, 50)}
    few = [result("keywords", seed, 60, levels, hit=10) for seed in (1, 2)]
    many = [result("threshold", seed, 60, levels, levels, hit=12, predicted=120) for seed in (1, 2)]
    (line,) = claims.compare_rare_labels({"keywords": few, "threshold": many})
    assert "| not held |" in line
    assert "F 15.0 (`threshold`: recall 30.0, precision 10.0, 120 predictions)" in line


def test_the_rows_of_the_tables_are_all_that_the_claims_name(bench, tables, claims, tmp_path):
    levels = {"1": level(40, 50)}
    # Of earlier versions: attention over pooled streams, and logits shifted by thresholds.
    for row in (*bench.ROWS, "attention", "logit-shift", "attentive-logit-shift"):
        text = json.dumps(result(row, 1, 50, levels, levels))
        (tmp_path / f"{row}-1.json").write_text(text)
    results = tables.read_results(tmp_path)
    assert all({better, worse} <= results.keys() for *_, better, worse in claims.CLAIMS)
    assert claims.list_claims(results, {}).count("\n| ") == 2 + 10 + len(claims.CLAIMS) + 1


def test_levels_are_also_compared_with_a_flat_network_that_differs_in_nothing_else(bench, claims):
    """Both metrics, in the paper's form and in the default."""
    for better, worse in (("keywords", "flat"), ("attentive-keywords", "attentive-flat")):
        metrics = {metric for _, metric, *rows in claims.CLAIMS if rows == [better, worse]}
        assert metrics == {"MaF", "MiF"}
        one, other = ({**bench.ROWS[row], "max_level": 1} for row in (better, worse))
        # One level has no neighbours: it reads words and keywords whatever a row says.
        for row in (one, other):
            row.pop("inputs", None), row.pop("reads_levels", None)
        assert one == other


@pytest.mark.parametrize(("place", "corpus"), [(2, "eurlex57k"), (3, "medline")])
def test_the_short_list_of_claims_has_the_figures_of_the_long_one(place, corpus):
    table = re.findall(r"^\| .*\|$", page_section("Claims"), flags=re.MULTILINE)
    long = (ROOT / "docs" / "lab" / f"levelwise-{corpus}.md").read_text(encoding="utf-8")
    shown = re.findall(r"\b\d\d\.\d\d\b", " ".join(line.split("|")[place] for line in table))
    assert len(shown) > 20
    assert set(shown) <= set(re.findall(r"\b\d\d\.\d\d\b", long))


@pytest.mark.parametrize(
    ("corpus", "claim"),
    [
        (
            "eurlex57k",
            "levels beat one flat network, MaF | held | seeds 1, 2, 3 | "
            "72.76 (72.31 to 73.17) of `full`, 70.70 (70.30 to 71.01) of `flat`",
        ),
        (
            "eurlex57k",
            "both passes beat the second, MiF | undecided | one seed, 1 | "
            "71.77 of `averaged`, 71.90 of `full`",
        ),
        (
            "medline",
            "pass 2 continued beats pass 2 from scratch, MiF | undecided | one seed, 1 | "
            "39.56 of `full`, 39.17 of `from-scratch`",
        ),
    ],
)
def test_claims_of_the_kept_results_name_the_better_row_first(tables, claims, corpus, claim):
    table = claims.list_claims(tables.read_results(KEPT / corpus), {})
    assert f"| (ours) {claim} |\n" in table

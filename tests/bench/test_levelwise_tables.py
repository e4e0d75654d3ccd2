"""Tables and figures of result files, and the pages made of them."""

from __future__ import annotations

import re

import pytest
from levelwise_made_up import KEPT, page_section, read_claims, row_of, write_results


def test_phrases_are_not_called_keywords(tables, tmp_path):
    write_results(tmp_path)
    rows = read_claims(tables, tmp_path)
    assert "| undecided |" in rows["phrases add at every level, MaF"]
    assert not any(line.startswith("- keywords add") for line in rows)
    text = tables.make_level_table(tables.read_results(tmp_path), tables.MICRO, "")
    assert "words, phrases, levels: MiF" in text
    assert "Phrases are extracted from the text" in text


def test_keywords_of_authors_are_called_keywords(tables, tmp_path):
    write_results(tmp_path)
    for path in tmp_path.glob("*.json"):
        path.write_text(path.read_text().replace('"phrases"', '"keywords"'))
    rows = read_claims(tables, tmp_path)
    assert "keywords add at every level, MiF" in rows
    text = tables.make_level_table(tables.read_results(tmp_path), tables.MICRO, tables.TABLE_2)
    assert "words, keywords: MiF" in text
    assert "phrases" not in text.lower()


def test_every_block_shows_its_own_k_and_every_level_its_documents(tables, tmp_path):
    """K is 1 with words, 2 with phrases, and 2 or 5 with levels, by the seed; one more for macro
    figures."""
    write_results(tmp_path)
    results = tables.read_results(tmp_path)
    micro = row_of(tables.make_level_table(results, tables.MICRO, ""), "level 1", "1,234", "top K")
    assert [micro[3], micro[7], micro[11]] == ["1", "2", "2 to 5"]
    macro = row_of(tables.make_level_table(results, tables.MACRO, ""), "level 2", "1,234", "top K")
    assert [macro[3], macro[7], macro[11]] == ["5", "3", "3"]
    ofo = row_of(tables.make_level_table(results, tables.MICRO, ""), "level 1", "1,234", "OFO")
    assert [ofo[3], ofo[7], ofo[11]] == ["", "", ""]


def test_the_table_names_the_tuning_of_ofo_on_dev(tables, tmp_path):
    write_results(tmp_path)
    text = tables.make_level_table(tables.read_results(tmp_path), tables.MACRO, "")
    assert "one logit shift per level is tuned on dev in the same way" in text


def test_the_numbers_of_the_paper_follow_ours_on_request(tables, tmp_path):
    write_results(tmp_path)
    results = tables.read_results(tmp_path)
    with_paper = tables.make_level_table(results, tables.MACRO, tables.TABLE_3)
    assert "60.00 / 82.96" in with_paper, "MaF of OFO at level 1, all inputs"
    assert "| 2 / 5 |" in with_paper, "its K"
    assert " / " not in tables.make_level_table(results, tables.MACRO, "")
    merged_sets = tables.make_merge_table(results, True, {})
    assert "Dynamic pooling & level-based: 53.22, 70.65, 60.77" in merged_sets
    assert row_of(merged_sets, "DeepMesh (quoted)")[1:4] == ["53.80", "55.05", "54.42"]
    assert "quoted" not in tables.make_merge_table(results, False, {})
    ranking = tables.make_ranking_table(results, True)
    assert row_of(ranking, "XML-CNN")[1:] == ["95.06", "79.86", "63.91", "95.06", "89.48", "87.06"]
    assert row_of(tables.make_amazon_table(), "level 5", "OFO")[2:] == ["20.88", "99.91", "34.54"]


def test_the_quoted_tables_are_whole(tables):
    for text in (tables.TABLE_2, tables.TABLE_3):
        rows = [line.split() for line in text.split("\n") if line]
        assert [len(row) for row in rows] == [18] * 7
    assert [len(line.split()) for line in tables.TABLE_2_AMAZON.split("\n") if line] == [6] * 5


def test_quoted_figures_that_contradict_themselves_are_named(tables):
    """2 * 50 * 50 / 100 is 50; 33.33 and 66.67 give 44.44, and 44.45 may be rounding."""
    quoted = {"right": (50.0, 50.0, 50.0), "rounded": (33.33, 66.67, 44.45)}
    assert tables.list_contradictions(quoted) == ""
    named = tables.list_contradictions({**quoted, "wrong": (50.0, 50.0, 51.0)})
    assert named == '"wrong": F 51.00 contradicts P and R, which give 50.00.'
    macro = tables.describe_quoted_levels(tables.parse_quoted_levels(tables.TABLE_3), "keywords")
    assert (
        '"level 6, OFO, words, keywords": F 79.63 contradicts P and R, which give 76.94.' in macro
    )
    assert macro.count(" contradicts ") == 6, "six cells of Table 3"
    merged = tables.make_merge_table({}, True, {})
    assert '"MeSHLabeler": F 50.54 contradicts P and R, which give 53.07.' in merged


def test_other_systems_join_table_4_and_the_claims(tables, tmp_path):
    write_results(tmp_path)
    beside = {"parabel, OFO": {"MiF": 70.5}}
    text = tables.make_merge_table(tables.read_results(tmp_path), False, beside)
    assert row_of(text, "parabel, OFO") == ["parabel, OFO", "", "", "", "", "", "70.50", ""]
    line = read_claims(tables, tmp_path, **beside)["(ours) `full` beats parabel, OFO, MiF"]
    within = "| undecided | seeds 1, 2 | 71.00 (70.00 to 72.00), 70.50 of"
    assert within in line, "0.5 better, but our own seeds are 2 apart"
    assert not any("`attentive`" in line for line in read_claims(tables, tmp_path, **beside))


def test_a_file_of_other_systems_may_lie_among_the_results(tables, tmp_path):
    write_results(tmp_path)
    (tmp_path / "beside-eurlex.json").write_text('{"parabel, OFO": {"MaF": 60.0}}')
    assert set(tables.read_results(tmp_path)) == {
        "full", "words", "keywords", "threshold", "max", "sampling",
    }  # fmt: skip


def test_training_time_is_divided_among_the_levels_and_what_they_share(tables, tmp_path):
    """Both passes took 100 s, of which all levels share 40 and level 1 has 20; with another seed
    they waited for other trainings. Of a result without shares nothing is rows by level."""
    write_results(tmp_path)
    results = tables.read_results(tmp_path)
    results["full"][0]["seconds"] = {"pass 1": 900.0, "pass 2": 40.0, "in all": 940.0}
    results["words"][0]["share of a step"] = {}
    costs = tables.make_cost_table(results)
    assert "| full | 107 | shared: 40, 1: 20, 2: 40 | 7 | 3.2 | 1,200 |" in costs
    assert "| words | 107 |  | 7 | 3.2 | 1,200 |" in costs


def test_one_call_writes_tables_and_figures(tables, tmp_path, capsys):
    pytest.importorskip("matplotlib")
    write_results(tmp_path)
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
    write_results(tmp_path)
    for path in tmp_path.glob("*.json"):
        if path.stem != "keywords-1":
            path.unlink()
    tables.main([str(tmp_path), "--paper"])
    text = (tmp_path / "tables.md").read_text()
    assert "Table 2, micro" not in text
    assert "Table 2 of the paper" in text
    assert row_of(text, "keywords")[1] == "61.00"


@pytest.mark.parametrize(
    ("corpus", "section"), [("eurlex57k", "EURLEX57K + EuroVoc"), ("medline", "MEDLINE + MeSH")]
)
def test_the_page_has_the_numbers_of_the_result_files(tables, corpus, section):
    part = page_section(section)
    kept = tables.read_results(KEPT / corpus)
    names = next(line for line in part.splitlines() if line.startswith("| row | seeds |"))
    columns = [name.strip() for name in names.split("|")]
    lines = dict(re.findall(r"^\| `([a-z-]+)`: (.*)$", part, flags=re.MULTILINE))
    assert lines.keys() == kept.keys()
    for row, line in lines.items():
        shown = dict(zip(columns, ["", *map(str.strip, line.split("|"))], strict=True))
        runs = tables.group_by_seed(kept, row)
        assert shown["seeds"] == ", ".join(map(str, sorted(runs)))
        for name in ("P@1", "P@3", "P@5", "nDCG@3", "nDCG@5", "MaP", "MaR", "MaF", "MiF"):
            own = tables.mean([run["test"][name] for run in runs.values()])
            assert float(shown[name]) == pytest.approx(own, abs=0.006), (row, name)
        dev = tables.mean([run["dev"]["MiF"] for run in runs.values()])
        assert float(shown["MiF on dev"]) == pytest.approx(dev, abs=0.006), row


@pytest.mark.parametrize(
    ("corpus", "epochs"),
    [
        ("eurlex57k", "six epochs, as in the table"),
        ("eurlex57k-8", "eight"),
        ("eurlex57k-12", "twelve"),
    ],
)
def test_longer_trainings_are_on_the_page_as_measured(tables, corpus, epochs):
    runs = tables.group_by_seed(tables.read_results(KEPT / corpus), "flat")
    seeds = ", ".join(map(str, sorted(runs)))
    figures = [
        tables.mean([run[part][metric] for run in runs.values()])
        for part in ("test", "dev")
        for metric in ("MiF", "MaF")
    ]
    line = " | ".join([epochs, seeds, *(f"{figure:.2f}" for figure in figures)])
    assert f"| {line} |" in page_section("Longer training", "lab/levelwise.md", "###")

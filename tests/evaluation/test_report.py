"""report.html: one file, nothing from outside, every text escaped, all sections there."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
from lxml import html
from scipy.sparse import csr_array

from ontodex.evaluation.metrics import evaluate
from ontodex.evaluation.plots import draw_lines
from ontodex.evaluation.report import write_report
from ontodex.types import Corpus, Doc, LabelSpace, Ontology, Ranking
from ontodex.types.answers import Illustration, Panel
from ontodex.types.sparse_column import SparseColumn

HOSTILE = '<script>alert("x")</script><img src=x onerror=alert(1)>&amp;\x07\ud800'


@pytest.fixture(scope="module")
def parts():
    """60 documents; 0 animals > 1 mammals > 2 cats (hostile name), 3 dogs; 4 plants.

    Cats are always found, plants never; the other documents have "mammals" where "dogs" is true.
    """
    names = ["Animals", "Mammals", f"Cats {HOSTILE}", "Dogs", "Plants"]
    parents = csr_array((np.ones(3, np.int8), ([1, 2, 3], [0, 1, 1])), shape=(5, 5))
    ontology = Ontology(tuple("abcde"), {"en": SparseColumn.of(names, "")}, parents)
    labels = LabelSpace(ontology.ids, np.array([4000, 500, 30, 5, 0]), 5000, ontology)
    rows = [[2] if i % 3 == 0 else [3, 4] if i % 3 == 1 else [5] for i in range(59)]
    indptr = np.cumsum([0, *map(len, rows), 0])
    gold = csr_array((np.ones(indptr[-1], np.int8), np.concatenate(rows), indptr), shape=(60, 6))
    columns = np.array([[2, 0] if i % 3 == 0 else [1, 3] for i in range(60)], dtype=np.int32)
    ranking = Ranking(columns, np.tile(np.array([0.8, 0.3], np.float32), (60, 1)))
    docs = Corpus.of(
        Doc(f"doc <{i}>", {"title": "On <b>cats</b>", "body": "\x01meow " * 300}) for i in range(60)
    )
    above = csr_array(
        np.array([[0] * 5, [1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0] * 5])
    )
    return gold, ranking, labels, docs, above


@pytest.fixture(scope="module")
def metrics(parts):
    gold, ranking, labels, _, above = parts
    return evaluate(
        gold, ranking, ranking, labels, levels=np.array([1, 2, 3, 3, 1]), ancestors=above
    )


@pytest.fixture(scope="module")
def report(parts, metrics, tmp_path_factory):
    gold, ranking, labels, docs, above = parts
    path = tmp_path_factory.mktemp("run") / "report.html"
    write_report(
        path,
        metrics,
        title=f"popularity {HOSTILE}",
        gold=gold,
        ranking=ranking,
        label_sets=ranking,
        labels=labels,
        corpus=docs,
        ancestors=above,
        about={"corpus": HOSTILE},
    )
    return path


@pytest.fixture(scope="module")
def page(report):
    return html.fromstring(report.read_text(encoding="utf-8"))


def text_of(element) -> str:
    return " ".join(element.text_content().split())


def test_nothing_in_a_name_or_a_document_becomes_markup(page, report):
    assert not page.xpath("//script | //img | //b | //@onerror")
    assert "<b>cats</b>" in text_of(page)
    raw = report.read_bytes()
    assert b"\x07" not in raw
    assert b"\x01" not in raw


def test_the_page_loads_nothing_from_the_network(page, report):
    assert not page.xpath("//@src | //@href | //link | //iframe | //object")
    source = report.read_text(encoding="utf-8")
    assert "url(" not in source
    assert "@import" not in source
    assert "default-src 'none'" in page.xpath("//meta[@http-equiv]/@content")[0]


def test_headline_metrics_have_their_intervals(page, metrics):
    cards = [text_of(card) for card in page.xpath("//div[@class='card']")]
    interval = metrics.intervals["P@1"]
    assert cards[0] == (
        f"{metrics['P@1']:.1%}of first suggestions are correct "
        f"P@1; {interval.low:.1%} to {interval.high:.1%}"
    )
    assert any("MiF" in card for card in cards)
    assert "59 documents with 4 different labels; left out: 1 document without labels" in text_of(
        page
    )
    assert "1 of the labels are unknown to the system" in text_of(page)


def test_there_is_a_plot_for_frequency_level_threshold_and_probabilities(page):
    plots = page.xpath("//figure/svg/@aria-label")
    assert len(plots) == 4
    assert "training documents" in plots[0]
    assert "level" in plots[1]
    assert "threshold" in plots[2]
    assert "probability" in plots[3]


def test_bars_are_as_high_as_their_values(page, metrics):
    bars = page.xpath("//figure[1]/svg/rect[@class='series-1'][title]")
    heights = [float(bar.get("height")) for bar in bars]
    values = [group.values["P@1"] for group in metrics.by_frequency]
    assert heights == pytest.approx([196 * value for value in values], abs=0.1)
    tops = [float(bar.get("y")) + float(bar.get("height")) for bar in bars]
    assert tops == pytest.approx([234] * len(bars), abs=0.2)


def test_labels_are_ordered_by_f_and_shown_with_their_place(page):
    best, worst = page.xpath("//h3[text()='Best' or text()='Worst']/following::table[1]")
    first = [text_of(cell) for cell in best.xpath(".//tbody/tr[1]/td")]
    assert first[0].startswith("Cats <script>")
    assert first[0].endswith("Animals › Mammals")  # noqa: RUF001
    assert first[1:] == ["30", "20", "20", "20", "100.0%"]
    assert text_of(worst.xpath(".//tbody/tr[1]/td[1]")[0]) == "Plants"


def test_examples_show_hits_near_misses_wrong_and_missed_labels(page):
    kinds = {li.get("class") for li in page.xpath("//article//li")}
    assert kinds == {"hit", "near", "wrong", "missed"}
    dogs = page.xpath("//article[.//li[@class='missed'][contains(., 'Plants')]]")[0]
    assert [text_of(li) for li in dogs.xpath(".//li")] == [
        "nearMammals 80% Animals",
        "hitDogs 30% Animals › Mammals",  # noqa: RUF001
        "missedPlants",
    ]
    unknown = page.xpath("//article[.//li[contains(., 'a label unknown to the system')]]")
    assert unknown
    assert text_of(page.xpath("//article/h3")[0]).startswith("doc <")


def test_long_documents_are_cut_short(page):
    texts = [text_of(p) for p in page.xpath("//article/p")]
    assert all(len(text) <= 701 and text.endswith("…") for text in texts)


def test_every_metric_is_in_the_table_at_the_end(page, metrics):
    rows = page.xpath("//details//table[1]/tbody/tr")
    assert {
        text_of(row[0]): text_of(row[1]) for row in rows if text_of(row[0]) in metrics.values
    } == {name: f"{value:.4f}" for name, value in metrics.values.items()}


def test_a_bare_ranking_without_ontology_or_sets_still_makes_a_report(tmp_path, rank, truth):
    gold, ranking = truth([0], [1], n=2), rank([0, 1], [0, -1])
    labels = LabelSpace(("a", "b"), np.array([1, 1]), 2)
    corpus = Corpus.of([Doc("1", {"text": "x"}), Doc("2", {"text": "y"})])
    metrics = evaluate(gold, ranking, None, labels, ks=(1,), replicates=0)
    path = tmp_path / "report.html"
    write_report(
        path, metrics, title="t", gold=gold, ranking=ranking, label_sets=None, labels=labels,
        corpus=corpus,
    )  # fmt: skip
    page = html.fromstring(path.read_text(encoding="utf-8"))
    assert len(page.xpath("//article")) == 2
    assert "50.0%" in text_of(page.xpath("//div[@class='card']")[0])
    assert "level" not in " ".join(page.xpath("//svg/@aria-label"))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_shows_it_light_and_dark(report, tmp_path):
    image = pytest.importorskip("PIL.Image")
    colours = {}
    for scheme, number in (("dark", 0), ("light", 1)):
        shot = tmp_path / f"{scheme}.png"
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu",
             "--disable-background-networking", f"--user-data-dir={tmp_path / scheme}",
             f"--blink-settings=preferredColorScheme={number}",
             f"--screenshot={shot}", report.as_uri()],
            check=True, capture_output=True, timeout=600,
        )  # fmt: skip
        with image.open(shot) as picture:
            colours[scheme] = picture.convert("RGB").getpixel((2, 2))
    assert colours == {"dark": (0x15, 0x18, 0x1C), "light": (0xFB, 0xFA, 0xF7)}


def test_an_illustration_is_a_section_with_a_plot_for_each_panel(parts, metrics, tmp_path):
    gold, ranking, labels, docs, _ = parts
    panels = [Panel(f"level {m}", [10, 2000], {"MaP": [0.0, 1.0]}) for m in (1, 2)]
    write_report(
        tmp_path / "report.html",
        metrics,
        title="drawn",
        gold=gold,
        ranking=ranking,
        label_sets=None,
        labels=labels,
        corpus=docs,
        illustrations=[Illustration("Settled <script>", "Over time.", "documents", panels)],
    )
    page = html.fromstring((tmp_path / "report.html").read_text(encoding="utf-8"))
    drawn = [svg for svg in page.iter("svg") if "Settled" in svg.get("aria-label")]
    assert [svg.get("aria-label").rsplit(", ", 1)[1] for svg in drawn] == ["level 1", "level 2"]
    assert "2,000" in text_of(drawn[0]), "the axis ends at the last x"
    start, end = drawn[0].find(".//polyline").get("points").split()
    assert [start.split(",")[1], end.split(",")[1]] == ["234.0", "38.0"], "from 0 to 1"
    assert float(end.split(",")[0]) == 626
    assert not page.xpath("//script|//img")


@pytest.mark.parametrize(
    ("most", "ticks"),
    [
        (1.0, "0.0 0.2 0.4 0.6 0.8 1.0"),
        (6, "0 1 2 3 4 5 6"),
        (13, "0 2.5 5 7.5 10 12.5"),
        (41, "0 10 20 30 40"),
        (1_270, "0 250 500 750 1,000 1,250"),
        (23_000, "0 5,000 10,000 15,000 20,000"),
    ],
)
def test_the_ticks_of_an_axis_are_round_and_stand_where_they_belong(most, ticks):
    drawn = html.fromstring(
        draw_lines([0, most], {"MaP": [0, 1]}, about="", x_name="steps", most=most)
    )
    below = [text for text in drawn.iter("text") if text.get("y") == "252.0"]
    assert " ".join(text_of(text) for text in below) == ticks
    last, place = text_of(below[-1]), float(below[-1].get("x"))
    assert place == pytest.approx(46 + 580 * float(last.replace(",", "")) / most, abs=0.05)


@pytest.mark.parametrize("most", [1.0, 50, 2_000, 20_000, 1_000_000])
def test_the_last_label_of_an_axis_stays_in_the_picture(most):
    drawn = html.fromstring(
        draw_lines([0, most], {"MaP": [0, 1]}, about="", x_name="steps", most=most)
    )
    written = f"{most:.1f}" if most == 1 else f"{most:,.0f}"
    (last,) = drawn.xpath(f"//text[text()='{written}']")
    half = sum(3.9 if sign in ",." else 7.7 for sign in written) / 2  # DejaVu Sans, a wide one
    assert last.get("text-anchor") == "middle"
    assert float(last.get("x")) + half <= 640
    if len(written) < 4:
        assert float(last.get("x")) == 626, "a short one stands below the end of the axis"

"""The curator's story: a multilingual vocabulary, from the first screen to the export."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ontodex.ontology.open import read_ontology
from ontodex.runs.evaluate import evaluate
from ontodex.runs.recipe import train
from ontodex.types import Corpus, Doc

pytestmark = pytest.mark.slow

VOCABULARY = """@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix dct: <http://purl.org/dc/terms/> . @prefix e: <http://e.example/> .
e:all a skos:ConceptScheme ; dct:title "Waters and woods"@en .
e:Place skos:prefLabel "place"@en .
e:nature a skos:Concept ; skos:inScheme e:all ; 
  skos:prefLabel "Nature"@en , "Luonto"@fi , "Natur"@de .
e:fish a skos:Concept ; skos:inScheme e:all ; skos:prefLabel "Fish"@en , "Kalat"@fi , "Fische"@de ;
  skos:broader e:nature ; skos:definition "They live in water."@en , "Ne elävät vedessä."@fi .
e:oak a skos:Concept ; skos:inScheme e:all ; skos:prefLabel "Oaks"@en , "Tammet"@fi , "Eichen"@de ;
  skos:broader e:nature .
e:lake a skos:Concept , e:Place ; skos:inScheme e:all ;
  skos:prefLabel "Lakes"@en , "Järvet"@fi , "Seen"@de .
"""
TEXTS = {
    ("fish", "lake"): "trout swim in the cold lake",
    ("oak",): "old oaks stand in the forest",
    ("fish",): "trout and salmon swim upstream",
}


@pytest.fixture(scope="module")
def waters_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("waters")
    (folder / "waters.ttl").write_text(VOCABULARY, encoding="utf-8")
    docs = Corpus.of(
        Doc(f"{i}-{j}", {"text": text}, (), tuple(f"http://e.example/{label}" for label in labels))
        for i in range(20)
        for j, (labels, text) in enumerate(TEXTS.items())
    )
    run = train(
        config={"model": {"name": "linear"}},
        out=folder / "waters",
        train=docs,
        dev=docs,
        ontology=read_ontology(folder / "waters.ttl"),
    )
    evaluate(run, docs, report=True)
    return run.folder


@pytest.fixture(scope="module")
def waters(serve: Any, waters_run: Path) -> str:
    return str(serve([waters_run]))


def upload(ada: Any, name: str, notes: list[dict[str, Any]]) -> None:
    lines = "\n".join(map(json.dumps, notes)).encode()
    ada.page.set_input_files("#files", {"name": name, "mimeType": "text/plain", "buffer": lines})


class CountedActions:
    """A curator at a desk, with keys, or at a phone, with taps; every key and tap is counted."""

    def __init__(self, ada: Any, *, is_phone: bool) -> None:
        self.ada, self.is_phone = ada, is_phone
        self.n = 0

    def act(self, selector: str, *keys: str) -> None:
        """Do one action: press the keys, or at a phone tap the control."""
        self.n += 1
        if keys and not self.is_phone:
            self.ada.press(*keys)
        else:
            self.ada.page.click(selector)

    def accept_all(self) -> None:
        self.act("#accept-all", "A")

    def finish(self) -> None:
        self.act("#done-narrow", "Control+Enter")

    def remove(self, name: str) -> None:
        self.act(f"#terms [aria-label='Remove {name}']")

    def add(self, name: str) -> None:
        """Three actions: search, name, first concept found; a phone has a tab before."""
        if self.is_phone:
            self.act("#tab-suggestions")
        self.act("#search", "/")
        self.ada.page.keyboard.type(name)
        self.n += 1
        found = f"#hits [role=option]:has-text('{name}')"
        self.ada.sees(found)
        self.act(found, "Enter")


@pytest.fixture(scope="module")
def auto_run(waters_run: Path) -> Path:
    """A run of `ontodex auto`, made from files by the commands of the README."""
    folder = waters_run.parent
    notes = [
        {"id": f"{i}-{j}", "text": text, "labels": [f"http://e.example/{one}" for one in labels]}
        for i in range(20)
        for j, (labels, text) in enumerate(TEXTS.items())
    ]
    corpus = folder / "notes.jsonl"
    corpus.write_text("\n".join(map(json.dumps, notes)), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "ontodex",
        "auto",
        "--train",
        str(corpus),
        "--dev",
        str(corpus),
    ]
    more = ["--ontology", str(folder / "waters.ttl"), "--budget", "20s"]
    subprocess.run([*command, *more, "--out", str(folder / "auto")], check=True)
    return folder / "auto"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_curator_indexes_three_documents_from_upload_to_export(
    browse, serve, auto_run, width, theme
):
    """Right suggestions take 2 actions, a wrong one 3, and a missing one 5 (6 on a phone)."""
    ada = browse(serve([auto_run]), width=width, theme=theme)
    curator = CountedActions(ada, is_phone=width < 1000)
    ada.sees("#start h2")
    ada.assert_accessible("the first screen")
    wanted = {"right": {"fish", "lake"}, "wrong": {"fish"}, "missing": {"fish", "oak"}}
    texts = [TEXTS["fish", "lake"], TEXTS["fish", "lake"], TEXTS[("fish",)]]
    notes = [
        {"id": name, "title": f"Note {name}", "text": text}
        for name, text in zip(wanted, texts, strict=True)
    ]
    upload(ada, "notes.jsonl", notes)
    counts = {}
    for name, labels in wanted.items():
        ada.wait_for("(title) => document.title.startsWith(title)", f"Note {name}")
        ada.sees("#accept-all:not([disabled])")
        curator.n = 0
        curator.accept_all()
        ada.wait_for_terms(1 if name == "missing" else 2)
        if name == "wrong":
            curator.remove("Lakes")
        elif name == "missing":
            curator.add("Oaks")
        ada.wait_for_terms(len(labels))
        ada.assert_accessible(f"document {name}")
        curator.finish()
        counts[name] = curator.n
    ada.wait_for("() => document.querySelector('#status').textContent.includes('finished')")
    assert counts == {"right": 2, "wrong": 3, "missing": 6 if curator.is_phone else 5}
    ada.page.click("#show-export")
    ada.assert_accessible("export")
    with ada.page.expect_download() as download:
        ada.page.click("#export-link")
    lines = [json.loads(line) for line in Path(download.value.path()).read_text().splitlines()]
    found = {line["id"]: {each.rpartition("/")[2] for each in line["labels"]} for line in lines}
    assert found == wanted


def test_the_first_screen_tells_what_is_served_and_tries_a_sample(browse, waters):
    ada = browse(waters)
    ada.sees("#start h2")
    shown = ada.page.inner_text("#start")
    assert "Waters and woods" in shown
    assert "English, Finnish" in shown
    assert "the first suggestion is right" in shown
    ada.fetch("/documents", {"documents": [{"title": "Waiting", "text": "trout"}]})
    ada.page.reload()
    ada.page.click("#continue")
    ada.wait_for("() => document.title.startsWith('Waiting')")
    ada.press("o")
    ada.page.click("#sample")
    ada.sees("#right:not([aria-busy]) [aria-selected=true]")
    assert "Fish" in ada.page.inner_text("#text h2")


def test_another_language_of_the_names_changes_terms_tree_and_meaning(browse, waters):
    ada = browse(waters)
    ada.paste(text="trout swim in the cold lake")
    ada.page.click("#accept-all")
    ada.wait_for_terms(2)
    ada.add_by_search("Oaks")  # one that was not suggested, or hardly
    ada.wait_for_terms(3)
    ada.press("Escape", "i")
    options = ada.page.locator("#language option").all_inner_texts()
    assert options == ["English", "German", "Finnish"]
    ada.page.select_option("#language", "fi")
    ada.wait_for("() => document.querySelector('#terms ul').textContent.includes('Tammet')")
    assert ada.terms == ["Järvet", "Kalat", "Tammet"]
    ada.page.locator("#terms .chip", has_text="Kalat").click()
    ada.wait_for("() => document.querySelector('#concept').textContent.includes('Ne elävät')")
    ada.page.select_option("#language", "")
    ada.wait_for("() => document.querySelector('#terms ul').textContent.includes('Oaks')")


def test_a_text_in_another_language_is_warned_of_in_the_language_of_the_page(browse, waters):
    ada = browse(waters)
    ada.page.select_option("#interface", "de")
    ada.sees("html[lang=de]")
    ada.paste(text="Järvessä on kaloja ja ne ovat myös tärkeitä, mutta se ei ole kaikki.")
    warning = ada.page.inner_text("#warnings")
    assert warning.startswith("Wahrscheinliche Sprache des Textes: Finnisch.")
    ada.page.click("#new")
    ada.paste(text="trout swim in the cold lake")
    assert ada.page.inner_text("#warnings") == ""


@pytest.mark.parametrize("width", [1280, 390])
def test_the_list_of_keys_scrolls_inside_its_dialog(browse, waters, width):
    ada = browse(waters, width=width)
    ada.sees("#entry:not([hidden])")
    ada.page.evaluate("document.activeElement.blur()")
    ada.press("?")
    ada.sees("#keys[open]")
    box, button = (ada.page.locator(each).bounding_box() for each in ("#keys .scroll", "#keys-on"))
    rows = ada.page.evaluate(
        "() => getComputedStyle(document.querySelector('#keys .scroll')).overflowY"
    )
    assert rows == "auto"
    assert box["y"] + box["height"] <= button["y"], "the rows do not lie over the button below"


def test_buttons_undo_copy_and_remove(browse, waters):
    ada = browse(waters)
    ada.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    ada.paste(text="trout swim in the cold lake")
    ada.page.click("#accept-all")
    ada.wait_for_terms(2)
    ada.page.click("#copy")
    ada.wait_for("() => document.querySelector('#status').textContent.includes('copied')")
    assert ada.page.evaluate("navigator.clipboard.readText()") == "Fish\nLakes"
    ada.page.get_by_label("Remove Lakes").click()
    ada.wait_for_terms(1)
    ada.page.click("#undo")
    ada.wait_for_terms(0)
    assert ada.page.is_disabled("#undo")


def test_a_list_by_probability_and_tooltips_from_the_evaluation(browse, waters):
    ada = browse(waters)
    ada.paste(text="trout swim in the cold lake")
    ada.page.locator("#threshold").fill("0")
    ada.page.click("#as-list")
    shares = ada.page.locator("#tree > .suggestion .percent").all_inner_texts()
    numbers = [int(each.split()[0]) for each in shares]
    assert numbers == sorted(numbers, reverse=True)
    assert ada.page.locator("#tree .group").count() == 0
    assert "Nature" in ada.page.locator("#tree .path").first.inner_text()
    tip = ada.page.locator("#tree .percent").first.get_attribute("title")
    assert "were right when the model was evaluated" in tip
    ada.page.click("#meaning summary")
    assert "60 documents" in ada.page.inner_text("#meaning")
    ada.press("l")
    ada.sees("#tree .group")


def test_a_concept_links_to_its_address(browse, waters):
    ada = browse(waters)
    ada.paste(text="trout and salmon swim upstream")
    link = ada.page.locator("#concept h3 a")
    assert link.get_attribute("href") == "http://e.example/fish"
    assert link.get_attribute("rel") == "noopener noreferrer"


def test_branches_and_types_are_left_out_on_request(browse, waters):
    ada = browse(waters)
    ada.paste(text="trout swim in the cold lake")
    ada.page.locator("#threshold").fill("0")
    fish, lake = (f"#tree .suggestion[aria-label^={name}]" for name in ("Fish", "Lakes"))
    ada.sees(lake)
    ada.page.click("#left-out summary")
    ada.page.get_by_label("place").uncheck()
    ada.wait_for("(lake) => !document.querySelector(lake)", lake)
    ada.sees(fish)
    ada.page.locator(f"{fish} .name").click()
    ada.press("x")
    ada.wait_for("(fish) => !document.querySelector(fish)", fish)
    ada.page.get_by_label("Suggest Fish again").click()
    ada.sees(fish)


def test_the_queue_is_searched_ordered_and_counted(browse, serve, waters_run):
    ada = browse(serve([waters_run]))
    notes = [{"title": f"Note {i}", "text": text} for i, text in enumerate(TEXTS.values())]
    ada.fetch("/documents", {"documents": notes, "batch": "first"})
    ada.fetch("/documents", {"documents": [{"text": "A quiet oak"}], "batch": "second"})
    ada.press("Escape")
    ada.page.click("#show-queue")
    ada.wait_for("() => document.querySelectorAll('#queue-list a').length === 4")
    batches = ada.page.locator("#queue-batch option").all_inner_texts()
    assert batches == ["all", "second (1 open, 0 done)", "first (3 open, 0 done)"]
    ada.page.fill("#queue-search", "QUIET")
    ada.wait_for("() => document.querySelectorAll('#queue-list a').length === 1")
    ada.page.fill("#queue-search", "")
    ada.page.select_option("#queue-order", "uncertainty")
    ada.wait_for(
        "() => document.querySelector('#queue-list').textContent.split('expected').length === 5"
    )
    first = ada.page.locator("#queue-list a").first.inner_text()
    ada.press("Escape")
    ada.page.click("#next")
    ada.wait_for("(title) => document.querySelector('#text')?.textContent.includes(title)", first)


def test_after_an_upload_next_stays_in_the_batch(browse, serve, waters_run):
    ada = browse(serve([waters_run]))
    ada.fetch("/documents", {"documents": [{"title": "Another", "text": "oak"}], "batch": "old"})
    upload(
        ada, "new.jsonl", [{"id": f"b{i}", "title": f"New {i}", "text": "trout"} for i in (1, 2)]
    )
    for title in ("New 1", "New 2"):
        ada.wait_for("(title) => document.title.startsWith(title)", title)
        ada.sees("#right:not([aria-busy]) [aria-selected=true]")
        ada.press("d")
    ada.wait_for("() => document.querySelector('#status').textContent.includes('finished')")


def test_a_document_is_deleted_after_a_question_and_can_be_restored(browse, serve, waters_run):
    ada = browse(serve([waters_run]))
    ada.paste(text="trout swim in the cold lake")
    ada.page.click("#delete")
    ada.page.click("#confirm button[autofocus]")
    assert ada.fetch("/documents")["n_open"] == 1
    ada.page.click("#delete")
    ada.page.click("#confirm .danger")
    ada.sees("#restore:not([hidden])")
    assert ada.fetch("/documents")["n_open"] == 0
    ada.page.click("#restore")
    ada.wait_for("(title) => document.title.startsWith(title)", ada.title)
    assert ada.fetch("/documents")["n_open"] == 1


def test_two_vocabularies_never_mix(browse, serve, waters_run, sample_runs):
    ada = browse(serve([waters_run, sample_runs[0]]))
    ada.paste(text="trout swim in the cold lake")
    fish = ada.page.url
    ada.page.select_option("#run", "linear")
    ada.sees("#entry:not([hidden])")  # the document belongs to the other vocabulary
    assert ada.page.locator("#run optgroup").count() == 2
    assert ada.page.inner_text("#progress-text") == "Queue"
    ada.paste()
    assert ada.page.inner_text("#progress-text") == "0 of 1 done"
    ada.page.goto(fish)
    ada.wait_for("() => document.querySelector('#run').value === 'waters'")
    ada.sees("#right:not([aria-busy]) [aria-selected=true]")
    assert ada.concept == "Fish"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_people_are_shown_side_by_side_with_their_agreement(
    browse, serve, waters_run, tmp_path, theme
):
    file = str(tmp_path / "keys.tsv")
    add = [sys.executable, "-m", "ontodex", "keys", "add", file]
    keys = {
        name: subprocess.run(
            [*add, name], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("ada", "bob")
    }
    address = serve([waters_run], "--keys", file)
    people = {}
    for name, key in keys.items():
        people[name] = browse(address, theme=theme, expected="401")
        people[name].sees("#sign-in[open]")
        people[name].assert_accessible("sign in")
        people[name].page.fill("#sign-in-key", key)
        people[name].press("Enter")
        people[name].sees("#start h2")
    ada, bob = people.values()
    ada.paste(text="trout swim in the cold lake")
    ada.page.click("#accept-all")
    ada.wait_for_terms(2)
    bob.page.goto(ada.page.url)
    bob.sees("#people:not([hidden])")
    bob.page.check("#own-only")  # blind: what ada chose is not shown
    bob.wait_for_terms(0)
    bob.page.locator('#tree .suggestion[aria-label^="Fish"] .accept').click()
    bob.wait_for_terms(1)
    bob.page.uncheck("#own-only")
    bob.wait_for("() => document.querySelectorAll('#people td').length === 4")
    assert bob.page.inner_text("#agreement") == "agreement with ada: 67 %"
    assert bob.page.locator("#people td .quiet, #people td.quiet").count() == 1
    bob.assert_accessible("people")


@pytest.mark.parametrize(
    ("language", "word"), [("de", "Vorschläge"), ("fi", "Ehdotukset"), ("fr", "Suggestions")]
)
def test_the_interface_speaks_four_languages(browse, waters, language, word):
    ada = browse(waters)
    ada.page.select_option("#interface", language)
    ada.wait_for("(tag) => document.documentElement.lang === tag", language)
    ada.paste(text="trout swim in the cold lake")
    assert ada.page.inner_text("#tree-title") == word
    assert ada.page.locator("[data-text]:empty").count() == 0
    ada.press("q")
    ada.sees("#queue-list a")


def test_the_api_is_described_without_other_hosts(browse, waters):
    ada = browse(f"{waters}/docs")
    ada.sees(".route")
    ada.page.fill("#api-filter", "/healthz")
    ada.wait_for("() => document.querySelectorAll('.route:not([hidden])').length === 1")
    ada.page.click(".route:not([hidden]) summary")
    ada.page.click(".route:not([hidden]) button")
    ada.wait_for("() => document.querySelector('.route:not([hidden])').textContent.includes('ok')")

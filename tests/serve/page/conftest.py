"""A real Chromium and a real service.

After every test the fixture `browse` checks that nothing was sent to another origin, no dialog
opened, and neither console nor page reported an error.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

QUIET = [
    "--disable-background-networking", "--disable-component-update", "--disable-gpu",
    "--disable-quic", "--disable-sync", "--no-first-run",
]  # fmt: skip
PATIENCE = 120_000  # milliseconds; the machine may be busy with other tests
TITLE = "Hidden leaks and lead at the tap"
TEXT = """Acoustic loggers found 19 hidden leaks 🚰 in one night: water that never reaches a meter.
Samples in old houses showed lead above the limit; owners can claim the cost of a new pipe."""


@contextlib.contextmanager
def start_service(runs: Sequence[Path], database: Path, options: Sequence[str]) -> Iterator[str]:
    """Start `ontodex serve` in its own process and yield its address."""
    command = [sys.executable, "-m", "ontodex", "serve", *map(str, runs), "--port", "0"]
    log = database.with_suffix(".log")
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [*command, "--database", str(database), *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if "serving on" in line), "")
            assert line, log.read_text()
            yield re.findall(r"http://\S+", line)[0].rstrip("/")
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def sample_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Train two runs on the sample: one that explains and is evaluated, one that does neither."""
    from ontodex.corpora.datasets import get
    from ontodex.corpora.open import open_corpus
    from ontodex.ontology.open import read_ontology
    from ontodex.runs.evaluate import evaluate
    from ontodex.runs.recipe import train

    folder = tmp_path_factory.mktemp("sample")
    get("sample", folder)
    corpora = {name: open_corpus(folder / f"{name}.jsonl") for name in ("train", "dev", "test")}
    ontology = read_ontology(folder / "ontology.json")
    linear, floor = (
        train(
            config={"model": {"name": model}},
            out=folder / model,
            train=corpora["train"],
            dev=corpora["dev"],
            ontology=ontology,
        )
        for model in ("linear", "popularity")
    )
    evaluate(linear, corpora["test"], report=True)
    return [linear.folder, floor.folder]


@pytest.fixture(scope="session")
def modest_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Train one run that predicts a concept although a more specific one is nearly as probable, and
    one that predicts none of many."""
    from ontodex.ontology.graph import Concept, build_ontology
    from ontodex.runs.recipe import train
    from ontodex.types import Corpus, Doc

    folder = tmp_path_factory.mktemp("modest")
    tops = [Concept(top, {"en": top.title()}) for top in ("nature", "places", "towns")]
    concepts = [
        *tops,
        Concept("water", {"en": "Water"}, parents=["nature"]),
        Concept("rivers", {"en": "Rivers"}, parents=["water", "places"]),
        *(Concept(f"town{i}", {"en": f"Town {i}"}, parents=["towns"]) for i in range(20)),
    ]
    both, one = ("water", "rivers"), ("water",)
    wet = [Doc(str(i), {"text": "so wet"}, (), both if i % 10 else one) for i in range(20)]
    dry = [Doc(str(i), {"text": "so dry"}, (), (f"town{i}",)) for i in range(20)]
    runs = []
    # Without dev documents the threshold is 0.5, and no town reaches it.
    for name, docs, dev, rule in (
        ("general", wet, wet, {"rule": "top-k", "top_k": 1}),
        ("silent", dry, [], {"rule": "threshold"}),
    ):
        corpora = {
            "train": Corpus.of(docs),
            "dev": Corpus.of(dev),
            "ontology": build_ontology(concepts),
        }
        train(
            config={"model": {"name": "popularity"}, "decide": rule}, out=folder / name, **corpora
        )
        runs.append(folder / name)
    return runs


@pytest.fixture(scope="session")
def keyword_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a run with authors' keywords."""
    from ontodex.ontology.graph import Concept, build_ontology
    from ontodex.runs.recipe import train
    from ontodex.types import Corpus, Doc

    docs = [Doc(str(i), {"text": "deep water"}, ("sea",), ("water",)) for i in range(16)]
    size = dict.fromkeys(["width", "hidden", "value_dim", "bag"], 8)
    brief = {"epochs": 1, "batch": 8}
    model = {
        "name": "attentive-levels",
        "min_count": 1,
        "merge": "threshold",
        "train": brief,
        **size,
    }
    corpus = Corpus.of(docs)
    folder = tmp_path_factory.mktemp("keywords") / "run"
    ontology = build_ontology([Concept("nature"), Concept("water", parents=["nature"])])
    train(config={"model": model}, out=folder, train=corpus, dev=corpus, ontology=ontology)
    return folder


@pytest.fixture(scope="session")
def modest(modest_runs: list[Path], serve: Any) -> str:
    return str(serve(modest_runs))


@pytest.fixture(scope="session")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Start services: serve(runs, *options) -> address. Pages are closed before they stop."""
    with contextlib.ExitStack() as stack:

        def start(runs: Sequence[Path], *options: str) -> str:
            database = tmp_path_factory.mktemp("service") / "decisions.sqlite"
            return stack.enter_context(start_service(runs, database, options))

        yield start


@pytest.fixture(scope="session")
def service(sample_runs: list[Path], serve: Any) -> str:
    return str(serve(sample_runs))


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Start the browser; without one, or without playwright, these tests are skipped."""
    playwright = pytest.importorskip(
        "playwright.sync_api",
        reason="the tests of the page need playwright: pip install playwright",
    )
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("the tests of the page need chromium on the PATH: apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@dataclass
class Watch:
    """Records events that must not happen while a page is open."""

    origin: str
    expected: str  # a pattern for console errors that a test provokes
    seen: list[str] = field(default_factory=list)

    def attach(self, page: Any) -> None:
        page.on("dialog", self.dialog)
        page.on("console", self.console)
        page.on("pageerror", lambda error: self.seen.append(f"page error: {error}"))
        page.on("request", self.request)

    def dialog(self, dialog: Any) -> None:
        self.seen.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not re.search(self.expected, message.text):
            self.seen.append(f"console: {message.text} at {message.location}")

    def request(self, request: Any) -> None:
        if not request.url.startswith(f"{self.origin}/"):
            self.seen.append(f"request to {request.url}")


class Curator:
    """A user of the page."""

    title, text = TITLE, TEXT

    def __init__(self, page: Any) -> None:
        self.page = page

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def wait_for(self, condition: str, argument: Any = None) -> None:
        """Wait until the JavaScript expression is true."""
        self.page.wait_for_function(condition, arg=argument)

    def sees(self, selector: str) -> None:
        """Wait until there is such an element."""
        self.page.wait_for_selector(selector)

    def paste(self, text: str = TEXT, title: str = TITLE) -> None:
        self.page.fill("#entry-title", title)
        self.page.fill("#entry-text", text)
        self.page.click("#entry button[type=submit]")
        self.sees("#document:not([hidden])")
        selected = "#right:not([aria-busy]) [aria-selected=true]"
        self.page.wait_for_selector(selected, state="attached")  # a phone shows one tab

    def assert_accessible(self, state: str) -> None:
        """Check that axe finds nothing, and that nothing is wider than the screen."""
        axe = pytest.importorskip(
            "axe_playwright_python.sync_playwright", reason="pip install axe-playwright-python"
        )
        # The report is a page of its own, and its sandbox keeps axe out of it.
        results = axe.Axe().run(self.page, context={"exclude": ["iframe"]})
        found = [
            (each["id"], [node["html"][:200] for node in each["nodes"]])
            for each in results.response["violations"]
        ]
        assert found == [], state
        widths = "[document.documentElement.scrollWidth, window.innerWidth]"
        shown, available = self.page.evaluate(widths)
        assert shown <= available, state

    @property
    def concept(self) -> str:
        """The name of the concept under the cursor."""
        return str(self.page.inner_text("#concept h3 bdi"))

    def wait_for_concept(self, name: str) -> None:
        self.wait_for(
            "(name) => document.querySelector('#concept h3 bdi')?.textContent === name", name
        )

    @property
    def terms(self) -> list[str]:
        """The index terms so far."""
        return list(self.page.locator("#terms .chip").all_inner_texts())

    def wait_for_terms(self, number: int) -> None:
        self.wait_for("(n) => document.querySelectorAll('#terms li').length === n", number)

    def button(self, name: str, verdict: str) -> Any:
        """The button in the row of a suggestion."""
        label = f"{'Accept' if verdict == 'accept' else 'Reject'} {name}"
        return self.page.get_by_role("tree").get_by_label(label, exact=True)

    def add_by_search(self, name: str) -> None:
        self.press("/")
        self.page.keyboard.type(name)
        self.page.locator("#hits [role=option]", has_text=name).first.click()

    def fetch(self, path: str, body: Any = None) -> Any:
        """Send a request from the page and return the answer."""
        return self.page.evaluate(
            """([path, body]) => fetch(path, body === null ? {} : {
                method: 'POST', body: JSON.stringify(body),
                headers: {'content-type': 'application/json'}}).then((answer) => answer.json())""",
            [path, body],
        )


@pytest.fixture
def browse(chromium: Any) -> Iterator[Any]:
    """Open pages: browse(address, width=..., theme=..., expected=...)."""
    watches: list[Watch] = []
    with contextlib.ExitStack() as stack:

        def open_page(
            address: str, *, width: int = 1280, theme: str = "light", expected: str = "^$"
        ) -> Curator:
            context = chromium.new_context(
                viewport={"width": width, "height": 800}, color_scheme=theme
            )
            stack.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(PATIENCE)
            watch = Watch(re.findall(r"^https?://[^/]+", address)[0], expected)
            watch.attach(page)
            watches.append(watch)
            page.goto(address)
            return Curator(page)

        yield open_page
    assert [seen for watch in watches for seen in watch.seen] == []

"""Take the screenshots of the curator's page: docs/images/page-*.png.

    python bench/screenshots.py runs/linear

RUN is an evaluated run of the sample: `ontodex data get sample DATA`, `ontodex train --model
linear`, `ontodex evaluate`. A run with a vocabulary in three languages is trained here.
Needs playwright, chromium, pillow and the fonts of the page (fonts-inter, fonts-noto-core).
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
TITLE = "Hidden leaks, lead at the tap, and who pays for new pipes"
ABSTRACT = """Acoustic loggers found nineteen hidden leaks in one night: drinking water that never \
reaches a meter. The utility repaired the mains in the old town first, where pressure is highest.

Samples in houses from before 1950 showed lead above the limit. Owners can claim half the cost of \
a new service pipe, and schools were tested during the holidays. A drought warning in August cut \
household use by a tenth."""
ADDED = "Household water use"

# English, German and Finnish names of concepts, and the concept above each.
WATERS = {
    "water": ("Waters", "Gewässer", "Vedet", ""),
    "river": ("Rivers", "Flüsse", "Joet", "water"),
    "lake": ("Lakes", "Seen", "Järvet", "water"),
    "animal": ("Animals", "Tiere", "Eläimet", ""),
    "fish": ("Fishes", "Fische", "Kalat", "animal"),
    "bird": ("Birds", "Vögel", "Linnut", "animal"),
}
GERMAN = {
    ("fish", "river"): "Forellen laichen im kühlen Oberlauf der Flüsse, wenn der Kies sauber ist.",
    ("fish", "lake"): "Barsche und Hechte stehen im Schilf der Seen und jagen kleine Fische.",
    ("bird", "lake"): "Im Herbst rasten Enten und Schwäne auf den Seen im flachen Land.",
    ("river",): "Das Hochwasser der Flüsse spült Sand und Geröll aus den Bergen herab.",
    ("bird",): "Zugvögel wie Stare und Schwalben sammeln sich auf Dächern und Drähten.",
}
N_DOCUMENTS, N_DONE = 12, 4


@contextmanager
def serve(run: Path, folder: Path) -> Iterator[str]:
    """Start the service with an empty database and yield its address."""
    database = str(folder / "decisions.sqlite")
    command = [sys.executable, "-m", "ontodex", "serve", str(run), "--port", "0"]
    with subprocess.Popen(
        [*command, "--database", database], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            line = next(line for line in process.stdout if "serving on" in line)
            yield re.findall(r"http://\S+", line)[0]
        finally:
            process.terminate()


def train_waters(folder: Path) -> Path:
    """Train a run on German documents with a vocabulary in three languages."""
    import ontodex

    concepts = [
        {"id": id_, "names": {"en": en, "de": de, "fi": fi}, "parents": [above] if above else []}
        for id_, (en, de, fi, above) in WATERS.items()
    ]
    (folder / "waters.json").write_text(json.dumps(concepts), encoding="utf-8")
    docs = [{"text": text, "labels": list(labels)} for labels, text in GERMAN.items()] * 12
    ontology, out = folder / "waters.json", folder / "waters"
    run = ontodex.train(
        "linear", train=docs, dev=docs, ontology=ontology, out=out, language="German"
    )
    ontodex.evaluate(run, docs, report=True)
    return out


def fill_queue(page: Any) -> None:
    """Add the document and others to the queue, and mark some of them as done."""
    document = {"id": "note-1", "title": TITLE, "abstract": ABSTRACT}
    others = [{"id": f"note-{i}", "text": "Water."} for i in range(2, N_DOCUMENTS + 1)]
    body = {"documents": [document, *others], "batch": "2026-11"}
    assert page.request.post("/documents", data=body).ok
    for number in range(2, N_DONE + 2):
        assert page.request.put(f"/documents/{number}/state", data={"state": "done"}).ok


def decide(page: Any) -> None:
    """Accept the predicted concepts, reject one, add one, and show the words for the first."""
    page.goto("/#/document=1")
    page.wait_for_selector("#right:not([aria-busy]) [aria-selected=true]")
    page.keyboard.press("A")
    page.wait_for_selector("#accept-all:disabled")  # or a predicted concept would be rejected
    page.wait_for_selector("#tree .accepted")
    page.locator("#tree .suggestion:not(.accepted) > .row .reject").last.click()
    page.fill("#search", ADDED)
    page.locator("#hits [role=option]", has_text=ADDED).first.click()
    page.get_by_role("button", name=f"Remove {ADDED}").wait_for()
    page.locator("#tree .predicted .name").first.click()
    page.keyboard.press("Escape")  # puts the focus on the tree
    page.wait_for_selector("#text mark")


def shoot(page: Any, name: str) -> None:
    """Write a picture with 128 colours: a quarter of the bytes, and no visible difference."""
    path = IMAGES / name
    page.wait_for_timeout(300)
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)


def open_phone(browser: Any, address: str, theme: str) -> Any:
    """Open the suggestions of the first document on a phone."""
    screen = {"width": 390, "height": 780}
    phone = browser.new_page(
        base_url=address, viewport=screen, is_mobile=True, has_touch=True, color_scheme=theme
    )
    phone.goto("/#/document=1")
    phone.click("#tab-suggestions")
    phone.wait_for_selector("#right:not([aria-busy]) [aria-selected=true]")
    return phone


def main() -> None:
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(run, Path(folder)) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(
            base_url=address, viewport={"width": 1280, "height": 800}, color_scheme="light"
        )
        page.goto("/")
        fill_queue(page)
        page.reload()
        page.wait_for_selector("#start h2")
        shoot(page, "page-start.png")
        decide(page)
        shoot(page, "page-light.png")
        page.keyboard.press("t")
        shoot(page, "page-dark.png")
        shoot(open_phone(browser, address, "light"), "page-phone.png")
        shoot(open_phone(browser, address, "dark"), "page-phone-dark.png")
        browser.close()
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(train_waters(Path(folder)), Path(folder)) as address,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(
            base_url=address, viewport={"width": 1280, "height": 640}, locale="de-DE"
        )
        page.goto("/")
        text = " ".join(list(GERMAN.values())[:2])
        page.request.post("/documents", data={"documents": [{"title": "Fische", "text": text}]})
        page.goto("/#/document=1")
        page.wait_for_selector("#text mark")
        shoot(page, "page-german.png")
        browser.close()


if __name__ == "__main__":
    main()

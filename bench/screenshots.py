"""Take the screenshots of the curator's page: docs/images/page-light.png and page-dark.png.

    python bench/screenshots.py runs/med-parabel

RUN is a run with MeSH (`ontodex data get medline-mesh DATA`, then `ontodex train --model parabel`).
Needs playwright, chromium and the fonts of the page (fonts-inter, fonts-noto-core).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
TITLE = (
    "Nocturnal bright light and melatonin in night-shift nurses with type 2 diabetes: "
    "a randomized trial"
)
ABSTRACT = """Background: Working at night disturbs the circadian rhythm and may impair glucose \
tolerance. We asked whether timed exposure to bright light improves sleep and blood glucose in \
nurses with type 2 diabetes mellitus who work rotating shifts.

Methods: Eighty-four female nurses aged 25 to 58 years were randomly assigned to bright light \
(2,500 lux) during the first half of each night shift or to ordinary ward lighting for six weeks. \
Salivary melatonin was measured by radioimmunoassay, sleep by wrist actigraphy, and insulin \
resistance by the homeostasis model.

Results: Bright light delayed the onset of melatonin secretion by 2.1 hours and lengthened daytime \
sleep by 38 minutes. Fasting blood glucose fell in the treated group, while body mass index and \
blood pressure did not change. Four women reported headache; no serious adverse event was seen."""
ACCEPTED = ["Adult", "Female", "Humans", "Middle Aged"]
REJECTED = "Adolescent"
ADDED, SHOWN = "Shift Work Schedule", "Circadian Rhythm"
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
            yield re.findall(r"http://\S+", process.stdout.readline())[0]
        finally:
            process.terminate()


def fill_queue(page: Any) -> None:
    """Add the document and others to the queue, and mark some of them as done."""
    document = {"id": "note-night-light", "title": TITLE, "abstract": ABSTRACT}
    others = [{"id": f"note-{i}", "text": "Water."} for i in range(2, N_DOCUMENTS + 1)]
    body = {"documents": [document, *others], "batch": "2026-11"}
    assert page.request.post("/documents", data=body).ok
    for number in range(2, N_DONE + 2):
        assert page.request.put(f"/documents/{number}/state", data={"state": "done"}).ok


def decide(page: Any) -> None:
    """Accept, reject and add some concepts, and show the words for another one."""
    page.goto("/#/document=1")
    page.wait_for_selector("#right:not([aria-busy]) [aria-selected=true]")
    tree = page.get_by_role("tree")
    for name in ACCEPTED:
        tree.get_by_label(f"Accept {name}", exact=True).click()
    tree.get_by_label(f"Reject {REJECTED}", exact=True).click()
    page.fill("#search", ADDED)
    page.locator("#hits [role=option]", has_text=ADDED).first.click()
    page.wait_for_function(
        "(n) => document.querySelectorAll('#terms li').length === n", arg=len(ACCEPTED) + 1
    )
    page.locator(f"#tree .suggestion[aria-label^='{SHOWN}'] > .row .name").click()
    page.keyboard.press("Escape")  # puts the focus on the tree
    page.wait_for_function(
        "(name) => document.querySelector('#legend bdi')?.textContent === name", arg=SHOWN
    )


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
            base_url=address, viewport={"width": 1360, "height": 880}, color_scheme="light"
        )
        fill_queue(page)
        decide(page)
        page.screenshot(path=IMAGES / "page-light.png")
        page.keyboard.press("t")
        page.screenshot(path=IMAGES / "page-dark.png")
        browser.close()


if __name__ == "__main__":
    main()

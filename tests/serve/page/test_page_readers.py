"""Accessibility: contrast and roles, small screens, keyboard only, light and dark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "page.md"


def show_suggestions(ada: Any) -> None:
    """On a narrow screen, go to the tab of the suggestions."""
    if ada.page.is_visible("#tab-suggestions"):
        ada.page.click("#tab-suggestions")


def modest_states(ada: Any) -> Iterator[str]:
    """Yield the states with notes below concepts, and without any predicted concept."""
    ada.paste()
    show_suggestions(ada)
    ada.sees("#tree .note button")
    yield "notes"
    ada.page.select_option("#run", "silent")
    ada.wait_for("() => /predicts no concept/.test(document.querySelector('#right').textContent)")
    yield "none predicted"


def states(ada: Any, service: str) -> Iterator[str]:
    """Bring the page into each of its states, one after the other."""
    ada.sees("#start h2")
    yield "first screen"
    ada.paste()
    ada.sees("#text mark")
    yield "text"
    show_suggestions(ada)
    ada.press("a")
    ada.wait_for_terms(1)
    ada.press("r")
    ada.sees("#tree .rejected")
    yield "decided"
    ada.page.click("#concept .toggle")
    ada.page.click("#meaning summary")
    ada.page.click("#as-list")
    ada.sees("#concept #general")
    yield "list, details, meaning"
    ada.page.click("#as-tree")
    ada.press("/")
    ada.page.keyboard.type("wat")
    ada.sees("#hits [aria-selected=true]")
    yield "search"
    ada.press("Escape", "Escape")
    for key, dialog in (("?", "keys"), ("q", "queue"), ("e", "export")):
        ada.press(key)
        ada.sees(f"#{dialog}[open]")
        yield dialog
        ada.press("Escape")
    if ada.page.is_visible("#tab-text"):
        ada.page.click("#tab-text")
    ada.page.click("#delete")
    ada.sees("#confirm[open]")
    yield "delete"
    ada.press("Escape")
    photo = {"name": "photo.exe", "mimeType": "text/plain", "buffer": b"no document"}
    ada.page.set_input_files("#files", photo)
    ada.sees("#alert:not([hidden])")
    yield "refused file"
    ada.page.goto(f"{service}/#/document=999999")
    ada.sees("#alert:not([hidden])")
    yield "problem"
    ada.press("v")
    ada.sees(".figures .card")
    yield "evaluation"
    ada.page.goto(f"{service}/docs")
    ada.sees(".route")
    yield "api"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(
    browse, service, modest, theme, width
):
    ada = browse(service, width=width, theme=theme, expected="404|422")
    bob = browse(modest, width=width, theme=theme)
    shown = [(ada, states(ada, service)), (bob, modest_states(bob))]
    for reader, state in ((reader, state) for reader, each in shown for state in each):
        reader.assert_accessible(state)


def test_the_skip_link_leads_to_the_suggestions_of_the_same_document(browse, service):
    ada = browse(service)
    ada.paste()
    address = ada.page.url
    ada.page.locator("#skip").focus()
    ada.press("Enter")
    ada.sees("#tree [role=treeitem]:focus")
    assert ada.page.url == address


def test_a_chosen_theme_is_kept(browse, service):
    ada = browse(service, theme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    light = ada.page.evaluate(colour)
    ada.page.click("#theme")
    dark = ada.page.evaluate(colour)
    assert dark != light
    ada.page.reload()
    assert ada.page.evaluate(colour) == dark


def test_the_report_follows_the_theme_of_the_page(browse, service):
    ada = browse(f"{service}/#/view=evaluation", theme="light")
    body = ada.page.frame_locator("#evaluation iframe").locator("body")
    colour = "(body) => getComputedStyle(body).backgroundColor"
    light = body.evaluate(colour)
    ada.press("t")
    ada.sees("iframe[src$='theme=dark']")
    body = ada.page.frame_locator("iframe[src$='theme=dark']").locator("body")
    dark = body.evaluate(colour)
    assert sum(map(int, re.findall(r"\d+", dark))) < 200 < sum(map(int, re.findall(r"\d+", light)))
    ada.page.reload()
    assert body.evaluate(colour) == dark


def test_the_tree_is_walked_and_folded_with_the_arrow_keys(browse, service):
    ada = browse(service)
    ada.paste()
    ada.sees("#tree [role=treeitem]:focus")
    ada.press("Home")
    focused = (
        "[...document.querySelectorAll('#tree [role=treeitem]')].indexOf(document.activeElement)"
    )
    items = ada.page.locator("#tree [role=treeitem]").count()
    for number in range(items):
        assert ada.page.evaluate(focused) == number
        ada.press("ArrowDown")
    group = ada.page.locator("#tree .group").first
    group.focus()
    ada.press("ArrowLeft")
    assert group.get_attribute("aria-expanded") == "false"
    ada.press("ArrowRight")
    assert group.get_attribute("aria-expanded") == "true"


def test_the_cursor_is_in_sight_wherever_it_goes(browse, service):
    ada = browse(service)
    ada.paste()
    ada.page.locator("#threshold").fill("0")
    ada.press("Escape", "i")  # with the details of the concept below
    is_in_sight = """() => {
        const row = document.querySelector('#tree [aria-selected=true] > .row');
        const [inner, outer] = [row, row.closest('.scroll')].map((e) => e.getBoundingClientRect());
        return inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
    }"""
    for _ in range(12):
        ada.press("j")
        ada.sees("#concept #specific")  # what is below it has come: the concept has its full size
        ada.wait_for(
            "() => !document.querySelector('#concept #specific').textContent.includes('…')"
        )
        assert ada.page.evaluate(is_in_sight), ada.concept


def test_results_are_announced(browse, service):
    ada = browse(service)
    ada.paste()
    ada.wait_for("() => /suggestions/.test(document.querySelector('[role=status]').textContent)")
    name = ada.concept
    ada.press("a")
    ada.wait_for(
        "(name) => document.querySelector('[role=status]').textContent.includes(name)", name
    )


def test_every_key_is_in_the_guide_and_single_letters_can_be_switched_off(browse, service):
    ada = browse(service)
    ada.sees("#entry:not([hidden])")
    ada.page.click("#show-keys")
    shown = ada.page.locator("#keys th kbd:first-child").all_inner_texts()
    assert re.findall(r"^\| `([^`]+)`", GUIDE.read_text(), re.M) == shown
    ada.page.uncheck("#keys-on")
    ada.press("Escape")
    ada.page.locator("#show-keys").focus()
    ada.press("e", "?")
    assert ada.page.locator("dialog[open]").count() == 0

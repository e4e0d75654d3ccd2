"""Captured warnings."""

from __future__ import annotations

import logging

from ontodex.io.captured_warnings import capture_warnings

LOG = logging.getLogger("ontodex.test")


def test_warnings_are_collected_once_and_reach_no_other_handler(caplog):
    with capture_warnings() as warnings:
        LOG.warning("trout %s", 1)
        LOG.warning("trout %s", 1)
        LOG.info("not a warning")
        LOG.error("an error")
    assert warnings == ["trout 1", "an error"]
    assert caplog.text == ""


def test_after_the_block_warnings_are_logged_as_before(caplog):
    with capture_warnings() as warnings:
        pass
    LOG.warning("later")
    assert warnings == []
    assert "later" in caplog.text

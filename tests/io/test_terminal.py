"""Text of strangers on a terminal."""

from __future__ import annotations

import json

from ontodex.io.terminal import clean_lines, escape_json, replace_control_characters

HOSTILE = "a\x1b[2J\x07\x9b31m\u202eb\u2066\ud800"


def test_a_terminal_obeys_no_character_of_a_name():
    assert replace_control_characters(HOSTILE) == "a\ufffd[2J\ufffd\ufffd31m\ufffdb\ufffd\ufffd"
    assert replace_control_characters("one\nline\t") == "one\ufffdline\ufffd"


def test_lines_keep_their_ends_and_tabs():
    assert clean_lines("a\tb\nc\x1b[1m\r") == "a\tb\nc\ufffd[1m\ufffd"


def test_letters_of_all_languages_stay():
    # No-break space, ideographic space, zero-width joiner and non-joiner, marks of direction.
    text = "Väter\u00a0東京\u3000می\u200cخواهم क्\u200dष \u200eשלום\u00ad 👩\u200d🔬"  # noqa: RUF001
    assert clean_lines(text) == text


def test_json_keeps_its_value_and_loses_its_control_characters():
    text = escape_json(json.dumps({"name": HOSTILE}, indent=1, ensure_ascii=False))
    assert json.loads(text) == {"name": HOSTILE}
    assert replace_control_characters(text.replace("\n", "")) == text.replace("\n", "")
    text.encode()  # a stream can take it

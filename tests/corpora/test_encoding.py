"""The encoding of single texts: byte order marks, UTF-8, and a guess that is announced."""

from __future__ import annotations

import logging

import pytest

from ontodex.corpora.encoding import FALLBACK, decode_text, detect_and_decode
from ontodex.errors import DataError

TEXT = "Forelle im Bächlein: 5 €"


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (TEXT.encode(), "utf-8"),
        (TEXT.encode("utf-8-sig"), "utf-8"),
        (b"\xff\xfe" + TEXT.encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe\0\0" + TEXT.encode("utf-32-le"), "utf-32-le"),
        (b"\0\0\xfe\xff" + TEXT.encode("utf-32-be"), "utf-32-be"),
        (TEXT.encode("utf-16-le"), "utf-16-le"),
        (TEXT.encode("utf-16-be"), "utf-16-be"),
        (TEXT.encode("cp1252"), FALLBACK),
    ],
)
def test_the_encoding_is_detected(raw, encoding, caplog):
    assert detect_and_decode(raw) == (TEXT, encoding)
    with caplog.at_level(logging.WARNING):
        assert decode_text(raw, "a.txt") == TEXT
    assert ("a.txt: not UTF-8, so read as windows-1252" in caplog.text) == (encoding == FALLBACK)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"caf\xe9 \x81", "neither UTF-8 (byte 0xe9 at byte 4) nor windows-1252"),
        (b"\x89PNG\x01\x02", "not UTF-8 (byte 0x89 at byte 1), and not text"),
        (b"\xe9\0", "not UTF-8 (byte 0xe9 at byte 1), and not text"),
        (b"\xff\xfea", "has the byte order mark of utf-16-le, but byte 1 is not valid"),
        (b"\xff\xfe\x00\xd8", "has the byte order mark of utf-16-le"),
        ("ab".encode("utf-16-le"), "a.txt:1: a NUL character in text"),
    ],
)
def test_what_is_no_text_is_refused(raw, message):
    with pytest.raises(DataError) as caught:
        decode_text(raw, "a.txt")
    assert message in str(caught.value)
    assert "UTF-8" in caught.value.hint

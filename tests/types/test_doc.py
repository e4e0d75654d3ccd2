from __future__ import annotations

from ontodex.types import Doc


def test_the_kind_follows_from_the_features():
    assert [Doc("1").kind, Doc("1", features={0: 1.0}).kind, Doc("1", features=(1.0,)).kind] == [
        "text",
        "sparse",
        "dense",
    ]


def test_text_is_all_fields_in_order_one_a_line():
    assert Doc("1", {"title": "Trout", "abstract": "in the stream"}).text == "Trout\nin the stream"

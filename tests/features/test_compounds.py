from __future__ import annotations

import pytest

from ontodex.features.compounds import MAX_PARTS, CompoundSplitter

RARITY = {
    "umwelt": 2.0, "schutz": 2.0, "gesetz": 2.0, "umweltschutz": 4.0, "wirtschaft": 2.0,
    "wirt": 5.0, "schaft": 5.0, "politik": 2.0, "haus": 2.0, "hauser": 6.0, "bahn": 3.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("umweltschutz", ("umwelt", "schutz")),
        ("umweltschutzgesetz", ("umwelt", "schutz", "gesetz")),
        ("wirtschaftspolitik", ("wirtschaft", "politik")),  # the linking s is left out
        ("wirtschaft", ()),  # its parts are rarer than the word
        ("politikum", ()),
        ("haus", ()),
        ("", ()),
        ("umwelt2schutz", ()),
    ],
)
def test_words_are_split_where_the_parts_are_more_frequent(word, parts):
    assert CompoundSplitter(RARITY).split(word) == parts


def test_a_word_of_very_many_parts_is_split_once():
    word = "umwelt" * (MAX_PARTS + 1)
    parts = CompoundSplitter(RARITY | {"umwelt" * MAX_PARTS: 2.5}).split(word)
    assert 0 < len(parts) <= MAX_PARTS
    assert all(part in RARITY or part == "umwelt" * MAX_PARTS for part in parts)

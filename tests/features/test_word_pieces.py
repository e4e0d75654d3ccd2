"""Word pieces: windows, characters, words, and files that are refused."""

from __future__ import annotations

import json

import pytest

from ontodex.errors import DataError
from ontodex.features.word_pieces import WordPieces, join_words

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "tro", "##ut", "swim", "##s", "cafe", "."]
IDS = {piece: number for number, piece in enumerate(VOCABULARY)}
PIECES = WordPieces(IDS, is_lower_case=True, strips_accents=None)


def read(encoded, row=0):
    return [VOCABULARY[number] for number in encoded[row]]


def test_a_text_is_one_window_between_the_special_pieces():
    encoded = PIECES.encode(["The trout swims. Zzz", ""], window=16, n_windows=2)
    assert read(encoded) == [
        "[CLS]", "the", "tro", "##ut", "swim", "##s", ".", "[UNK]", "[SEP]"
    ]  # fmt: skip
    assert read(encoded, 1) == ["[CLS]", "[SEP]"]


def test_a_long_text_has_several_windows_and_its_end_is_cut():
    encoded = PIECES.encode(["the trout swims the the the"], window=5, n_windows=2)
    assert read(encoded) == [
        "[CLS]", "the", "tro", "##ut", "[SEP]", "[CLS]", "swim", "##s", "the", "[SEP]"
    ]  # fmt: skip


def test_pieces_know_their_characters_and_words_join_them():
    text = "A Café: the TROUT"
    (pieces,) = PIECES.divide([text], window=16, n_windows=1)
    covered = [text[piece.start : piece.end] for piece in pieces]
    assert covered == ["", "A", "Café", ":", "the", "TRO", "UT", ""]
    words = join_words(pieces, [9.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.25, 9.0])
    assert [(text[start:end], weight) for start, end, weight in words] == [
        ("A", 0.1), ("Café", 0.2), (":", 0.3), ("the", 0.4), ("TROUT", 0.75)
    ]  # fmt: skip


def test_what_is_saved_is_read_again(tmp_path):
    PIECES.save(tmp_path / "tokenizer.json")
    again = WordPieces.load(tmp_path / "tokenizer.json")
    assert (again.ids, again.is_lower_case, again.strips_accents) == (IDS, True, None)
    texts = ["The trout swims.", "the the"]
    first, second = (one.encode(texts, window=8, n_windows=2) for one in (PIECES, again))
    assert first.ids.tolist() == second.ids.tolist()


def table(**changes):
    model = {"type": "WordPiece", "vocab": IDS, "unk_token": "[UNK]"}
    parts = {
        "model": model,
        "normalizer": {"type": "BertNormalizer", "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
    }
    return {**parts, **changes}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x04pickle", "cannot be read as JSON"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (b"[]", "JSON object"),
        (b"{}", "not a tokenizer.json of word pieces"),
        (table(model={"type": "BPE", "vocab": {}}), "kind BPE"),
        (table(model={"type": "WordPiece", "vocab": ["a"]}), "no list of pieces with ids"),
        (table(model={"type": "WordPiece", "vocab": {"a": 10**30}}), "without a gap"),
        (table(model={"type": "WordPiece", "vocab": {"a": 0}}), "has no \\[PAD\\]"),
        (table(model={"type": "WordPiece", "vocab": {**IDS, "x": "11"}}), "no list of pieces"),
        (table(normalizer={"type": "Replace"}), "Replace"),
        (table(normalizer=None), "not a tokenizer.json of word pieces"),
    ],
)
def test_other_files_are_refused_with_a_sentence(tmp_path, content, message):
    path = tmp_path / "tokenizer.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(DataError, match=message):
        WordPieces.load(path)


def test_a_huge_file_is_refused_without_reading_it(tmp_path):
    path = tmp_path / "tokenizer.json"
    with path.open("wb") as file:
        file.truncate(2**30)  # a sparse file
    with pytest.raises(DataError, match="1,073,741,824 bytes"):
        WordPieces.load(path)

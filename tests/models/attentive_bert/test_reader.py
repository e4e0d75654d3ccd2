"""Windows of word pieces, packed, and the places of pieces in a document."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from ontodex.errors import ConfigError
from ontodex.models.attentive_bert.config import AttentiveBertConfig
from ontodex.models.attentive_bert.reader import PieceReader, split_lengths
from ontodex.types import Corpus, Doc
from tiny_encoder import write_tiny_encoder

DOCS = Corpus.of(
    [
        Doc("a", {"title": "old oak", "body": "the trout swims in the river"}),
        Doc("b", {"title": "", "body": ""}),
        Doc("c", {"title": "oak", "body": "river"}),
    ]
)
CPU = torch.device("cpu")


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    return str(write_tiny_encoder(tmp_path, DOCS.texts()))


def make_reader(encoder: str, **settings: object) -> PieceReader:
    return PieceReader(
        AttentiveBertConfig(encoder=encoder, min_count=1, stop_words="", **settings)  # type: ignore[arg-type]
    )


def test_only_the_last_window_of_a_document_is_not_full():
    assert split_lengths(np.array([12, 2, 5, 10]), 5).tolist() == [5, 5, 2, 2, 5, 5, 5]


def test_a_batch_holds_the_windows_of_its_documents_one_after_another(encoder):
    reader = make_reader(encoder, window=6, windows=2)
    encoded = reader.fit(DOCS, CPU)
    names = {number: piece for piece, number in reader.word_pieces.ids.items()}
    windows, documents, words = encoded.pad(np.array([1, 0]))
    assert [names[i] for i in windows.ids.tolist()] == [
        "[CLS]", "[SEP]",
        "[CLS]", "old", "oak", "the", "trout", "[SEP]", "[CLS]", "swims", "in", "the", "river",
        "[SEP]",
    ]  # fmt: skip
    assert windows.places.tolist() == [0, 1, *range(6), *range(6)]
    assert windows.lengths.tolist() == [2, 6, 6]
    assert documents.starts.tolist() == [0, 2]
    assert documents.lengths.tolist() == [2, 12]
    assert documents.longest == 12
    assert words[0].tolist() == [1, *[0] * 7]  # one unknown word in the empty document


@pytest.mark.parametrize("fields", [(), ("body", "title")])
def test_pieces_are_found_in_the_text_whatever_fields_are_read(encoder, fields):
    reader = make_reader(encoder, window=8, windows=3, fields=fields)
    reader.fit(DOCS, CPU)
    doc = DOCS[0]
    seen = [
        doc.text[piece.start : piece.end] for piece in reader.locate_pieces(doc) if piece.word >= 0
    ]
    ordered = ["old", "oak", *doc.fields["body"].split()]
    assert seen == (ordered[2:] + ordered[:2] if fields else ordered)


def test_a_window_longer_than_the_encoder_reads_is_refused(encoder):
    with pytest.raises(ConfigError, match="at most 64 pieces"):
        make_reader(encoder, window=65).fit(DOCS, CPU)


def test_without_an_encoder_the_message_says_how_to_get_one():
    with pytest.raises(ConfigError, match="needs a pretrained encoder") as caught:
        make_reader("").fit(DOCS, CPU)
    assert "ontodex data get minilm" in caught.value.hint


def test_prepared_corpora_need_neither_text_nor_tokenizer_library(encoder, tmp_path):
    from ontodex.features.prepare import PrepareConfig, prepare

    settings = {"window": 6, "windows": 2, "min_count": 1}
    plain = make_reader(encoder, window=6, windows=2).fit(DOCS, CPU)
    prepared = prepare(
        {"train": DOCS}, tmp_path / "out", PrepareConfig(encoder=encoder, **settings)
    )
    assert not prepared["train"].has_text
    read = make_reader(encoder, window=6, windows=2).fit(prepared["train"], CPU)
    for rows in ([0], [2, 1]):
        for ours, theirs in zip(plain.pad(np.array(rows)), read.pad(np.array(rows)), strict=True):
            assert str(ours) == str(theirs)
    part = prepared["train"].select(np.array([2]))
    alone = make_reader(encoder, window=6, windows=2).fit(part, CPU)
    assert (
        alone.pieces.flatten(np.array([0])).tolist() == plain.pieces.flatten(np.array([2])).tolist()
    )

"""Systems with label attention show the words behind a label, of labels that they learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ontodex.models.attentionxml.config import AttentionXMLConfig, PaperLoopConfig
from ontodex.models.attentionxml.system import AttentionXMLSystem
from ontodex.types import Corpus, Doc, LabelSpace

DOCS = Corpus.of(
    Doc(str(i), {"text": text}, (), (label,))
    for i, (text, label) in enumerate([("a trout swims", "fish"), ("an oak grows", "wood")] * 4)
)


@pytest.fixture(scope="module")
def system() -> AttentionXMLSystem:
    train = PaperLoopConfig(epochs=1, batch_size=4)
    made = AttentionXMLSystem(
        AttentionXMLConfig(hidden=4, width=4, min_count=1, punctuation=False, train=train)
    )
    made.fit(DOCS, Corpus.of([]), LabelSpace.of(DOCS))
    return made


def test_contributions_of_the_words_add_up_to_the_logit(system):
    doc = DOCS[0]
    batch = system.encode(Corpus.of([doc])).pad(np.array([0]))
    with torch.no_grad():
        logits = system.network(*batch)[0] - system.network.read_out.bias
    for column in (0, 1):
        spans = system.explain(doc, column)
        assert [doc.text[span.start : span.end] for span in spans] == ["a", "trout", "swims"]
        total = sum(span.weight for span in spans)
        assert total == pytest.approx(logits[column].item(), abs=1e-5)


def test_attention_to_the_words_sums_to_one(system):
    weights = [span.weight for span in system.attend(DOCS[0], 1)]
    assert len(weights) == 3
    assert sum(weights) == pytest.approx(1)


def test_a_label_that_was_not_learned_has_no_words(system):
    assert system.explain(DOCS[0], 2) == system.attend(DOCS[0], 2) == []

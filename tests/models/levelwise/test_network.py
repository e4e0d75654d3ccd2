"""The network of a level (Figure 2) against loops, gradients, and all levels together."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import torch
from levelwise_loops import maxima_by_loops
from levelwise_planted import BRIEF, CONFIG, GOLD, LABELS, TEST, fit_system
from torch import Tensor

from ontodex.evaluation.sets import set_metrics
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.levels import (
    Category,
    Level,
)
from ontodex.models.levelwise.network import LevelNetwork, LevelNetworks, SetBag, Tables
from ontodex.models.levelwise.pooling import (
    CategoryPools,
    StreamFeatures,
)
from ontodex.models.levelwise.word_encoder import (
    EncodedWords,
    WordEncoder,
)
from ontodex.types import Doc


def test_pass_1_reads_no_neighbours_and_pass_2_does(system):
    first, second = (one.network for one in system.passes)
    assert first.labels is None
    assert [first.level(place).sets for place in (0, 1)] == [("keywords",), ("keywords",)]
    assert second.level(0).sets == ("keywords", "below")
    assert second.level(1).sets == ("keywords", "above")


def test_label_attention_may_replace_pooling_of_words(work):
    longer = dataclasses.replace(CONFIG.train, epochs=25)
    attentive = fit_system(work, word_aggregation="attention", inputs="words", train=longer)
    assert set_metrics(GOLD, attentive.decide(TEST))["MiF"] > 0.75
    weights = attentive.explain(Doc("", {"text": "so water very"}), LABELS.column["water"])
    assert max(weights, key=lambda span: span.weight).start == 3


@pytest.mark.parametrize("word_aggregation", ["pooling", "attention"])
def test_words_that_only_the_bag_reads_contribute_too(word_aggregation):
    system = fit_system(word_aggregation=word_aggregation, inputs="words", bag=16, train=BRIEF)
    encoded = []
    for _ in range(2):
        spans = system.explain(Doc("", {"text": "water and trees"}), LABELS.column["water"])
        encoded.append(np.array([span.weight for span in spans]))
        network = system.passes[-1].network
        assert network.bag is not None
        with torch.no_grad():  # then without what the bag says
            network.bag.words.weight.zero_()
    assert len(encoded[0]) == 2
    assert (np.abs(encoded[0] - encoded[1]) > 1e-6).all()


SMALL = LevelwiseConfig(
    word_aggregation="pooling",
    keyword_encoder="pooling",
    encoder="level",
    bag=0,
    width=6,
    maps=2,
    keyword_maps=2,
    hidden=3,
    value_dim=4,
    bottleneck=5,
    windows=(2, 3),
    keyword_windows=(2, 3),
    word_dropout=0,
    dropout=0,
    neighbours=4,
)


# Label 1 is in two categories. The first and the third read three parts of the text and share a
# matrix; the order by number of parts, d b a c, is not its own reverse.
LEVEL = Level(
    2,
    np.array([4, 7, 9]),
    (
        Category("a", 3, np.array([0, 1])),
        Category("b", 2, np.array([1, 2])),
        Category("c", 3, np.array([2])),
        Category("d", 1, np.array([0, 2])),
    ),
)


def read_out_by_loops(network: LevelNetwork, streams: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
    """Pooling, norm, bottleneck and sigmoid layer of each category, a document at a time."""
    pools = network.pools
    pairs = network.answer.rows.split(network.answer.sizes)
    n = len(next(iter(streams.values()))[1])
    logits = torch.zeros(n, len(LEVEL), dtype=torch.double)
    same = [c.chunks for c in LEVEL.categories]
    for row in range(n):
        found: dict[int, list[Tensor]] = {}
        for g, category in enumerate(LEVEL.categories):
            part = pools.parts.index(category.chunks)
            pooled = [
                maxima_by_loops(x[row : row + 1], lengths[row : row + 1], p).flatten()
                for name, (x, lengths) in streams.items()
                if (p := min(category.chunks, pools.most[name]))
            ]
            z = torch.cat(pooled) / sqrt(
                1 + 1e-5
            )  # batch norm before any batch: mean 0, variance 1
            # Categories of as many chunks have rows of one matrix, one after the other.
            z = pools.bottlenecks[part](z).split(SMALL.bottleneck)[same[:g].count(same[g])]
            z = z.clamp(min=0)
            for member, w in zip(category.members.tolist(), pairs[g], strict=True):
                found.setdefault(member, []).append(w @ z)
        for label, values in found.items():
            logits[row, label] = network.bias[label] + sum(values) / len(values)
    return logits


def level_network(**more: object) -> LevelNetwork:
    torch.manual_seed(1)
    config = replace(SMALL, **more)  # type: ignore[arg-type]
    return LevelNetwork(config, LEVEL, ["keywords", "above"], torch.randn(3)).double().eval()


def logits_of(network: LevelNetwork, words: StreamFeatures, **sets: StreamFeatures) -> Tensor:
    """The level's logits for vectors of words, read by convolutions and BiLSTM."""
    torch.manual_seed(2)
    x, lengths = words
    read = WordEncoder(SMALL).double()
    bag = None if network.bag is None else x.sum(dim=1)
    logits: Tensor = network(EncodedWords(read(x, lengths), lengths, bag), sets)
    return logits


def vectors(*lengths: int, t: int = 7) -> tuple[Tensor, Tensor]:
    x = torch.randn(len(lengths), t, 6, dtype=torch.double)
    mask = torch.arange(t) < torch.tensor(lengths)[:, None]
    return x * mask[:, :, None], torch.tensor(lengths)


def test_pooled_logits_equal_loops_and_a_label_in_two_categories_has_the_mean():
    network = level_network()
    streams = {
        "keywords": (torch.randn(3, 4, 4, dtype=torch.double), torch.tensor([4, 2, 0])),
        "above": (torch.randn(3, 4, 4, dtype=torch.double), torch.tensor([0, 1, 3])),
        "words": (torch.randn(3, 7, 6, dtype=torch.double), torch.tensor([7, 5, 2])),
    }
    expected = read_out_by_loops(network, streams)
    torch.testing.assert_close(network.score_pooled(streams), expected)


def test_all_categories_in_one_product_equal_one_product_per_category():
    network = level_network()
    z = torch.randn(4, len(LEVEL.categories), SMALL.bottleneck, dtype=torch.double)
    torch.testing.assert_close(network.answer.apply_batched(z), network.answer.apply_each(z))


@pytest.mark.parametrize(
    ("word_aggregation", "keyword_encoder", "bag"),
    [("pooling", "pooling", 0), ("attention", "pooling", 6), ("attention", "bag", 6)],
)
def test_gradients_of_a_level_network(word_aggregation, keyword_encoder, bag):
    network = level_network(
        word_aggregation=word_aggregation, keyword_encoder=keyword_encoder, bag=bag
    )
    words, lengths = vectors(5, 3, t=5)
    keywords, above = vectors(2, 0, t=4), vectors(1, 3, t=4)
    words.requires_grad_()

    def logits(x: Tensor) -> Tensor:
        return logits_of(network, (x, lengths), keywords=keywords, above=above)

    assert torch.autograd.gradcheck(logits, words)


@pytest.mark.parametrize("word_aggregation", ["pooling", "attention"])
@pytest.mark.parametrize("keyword_encoder", ["pooling", "bag"])
def test_padding_never_changes_a_logit(word_aggregation, keyword_encoder):
    network = level_network(word_aggregation=word_aggregation, keyword_encoder=keyword_encoder)
    streams = {"words": vectors(3, 7), "keywords": vectors(1, 4), "above": vectors(0, 2)}
    together = logits_of(network, **streams)
    short = {name: (x[:1, :3], lengths[:1]) for name, (x, lengths) in streams.items()}
    alone = logits_of(network, **short)
    torch.testing.assert_close(together[:1], alone)


def test_a_bag_of_keywords_equals_the_sum_of_vectors_in_loops():
    bag = SetBag(6, 3, dropout=0.5).double().eval()
    torch.nn.init.normal_(bag.bias)
    x, lengths = vectors(4, 1, 0, t=5)
    for row, length in enumerate(lengths.tolist()):
        total = sum((x[row, t] for t in range(length)), torch.zeros(6, dtype=torch.double))
        encoded = [max(0.0, v) for v in (total / max(1, length) ** 0.5 + bag.bias).tolist()]
        for label, weights in enumerate(bag.output.weight):
            expected = sum(w * v for w, v in zip(weights.tolist(), encoded, strict=True))
            assert float(bag(x, lengths)[row, label].detach()) == pytest.approx(expected)


@pytest.mark.parametrize("keyword_encoder", ["pooling", "bag"])
def test_a_document_without_predictions_above_is_read_like_any_other(keyword_encoder):
    network = level_network(keyword_encoder=keyword_encoder)
    streams = {"words": vectors(4), "keywords": vectors(0), "above": vectors(0)}
    assert bool(torch.isfinite(logits_of(network, **streams)).all())


def test_a_bag_of_words_adds_its_logits():
    network = level_network(bag=6)
    assert network.bag is not None
    streams = {"words": vectors(4), "keywords": vectors(2), "above": vectors(1)}
    with_bag = logits_of(network, **streams)
    predicted = network.bag(streams["words"][0].sum(dim=1))
    network.bag = None
    torch.testing.assert_close(with_bag, logits_of(network, **streams) + predicted)


def networks(**more: object) -> LevelNetworks:
    torch.manual_seed(1)
    levels = [Level(m, np.array([m]), (Category("c", 2, np.array([0])),)) for m in (1, 2)]
    config = replace(SMALL, **more)  # type: ignore[arg-type]
    return LevelNetworks(config, levels, Tables(9), [torch.zeros(1)] * 2).eval()


def test_levels_with_a_shared_encoder_read_the_same_states_and_others_do_not():
    words = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])
    shared, own = networks(encoder="shared", bag=4), networks()
    assert shared.has_shared_encoder
    assert torch.equal(shared.encode_words(0, words).h, shared.encode_words(1, words).h)
    assert not torch.equal(own.encode_words(0, words).h, own.encode_words(1, words).h)


def test_a_shared_encoder_runs_once_for_all_levels():
    network = networks(encoder="shared", bag=4, hidden=64)
    words = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])
    one, other = network.encode_words_together(words)
    assert one is other
    assert torch.equal(one.h, network.encode_words(0, words).h)


@pytest.mark.gpu
def test_a_shared_encoder_is_left_to_cudnn(monkeypatch):
    network = networks(encoder="shared", bag=4, hidden=64).cuda()
    words = torch.randint(1, 9, (19, 5), device="cuda"), torch.full((19,), 5, device="cuda")
    monkeypatch.setattr("ontodex.models.kernels.lstm.encode_together", None)
    one, other = network.encode_words_together(words)
    assert one is other
    assert torch.equal(one.h, network.encode_words(0, words).h)


@pytest.mark.gpu
def test_encoders_of_all_levels_together_equal_each_alone():
    network = networks(bag=4, hidden=64).cuda()
    words = torch.randint(1, 9, (19, 5), device="cuda"), torch.full((19,), 5, device="cuda")
    encoded = network.encode_words_together(words)
    assert len(encoded) == 2
    some = torch.arange(2, device="cuda")
    for place, one in enumerate(encoded):
        alone = network.encode_words(place, (words[0][:2], words[1][:2]))
        torch.testing.assert_close(one.h[:2].float(), alone.h.float(), atol=0.01, rtol=0)
        assert alone.bag is not None
        torch.testing.assert_close(one.take(some).bag, alone.bag)
    assert networks(hidden=65).cuda().encode_words_together(words) == [], (
        "the kernel does not take 65 units"
    )


def test_encoded_words_of_some_documents_equal_those_of_these_documents_alone():
    network = networks(encoder="shared", bag=4, word_aggregation="attention")
    words = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])
    encoded = network.encode_words(0, words)
    assert encoded.take(None) is encoded
    alone = network.encode_words(0, (words[0][:1, :3], words[1][:1]))
    some = encoded.take(torch.tensor([0]))
    torch.testing.assert_close(network(1, some, {}), network(1, alone, {}))


def test_without_windows_the_lstm_reads_the_vectors_themselves():
    reader = WordEncoder(replace(SMALL, windows=())).double()
    x, lengths = vectors(5, 3)
    torch.testing.assert_close(reader(x, lengths), reader.encode(x, lengths))


def test_output_rows_are_limited_in_norm_and_shorter_ones_unchanged():
    network = level_network()
    with torch.no_grad():
        network.answer.rows[0] *= 1000
    before = network.answer.rows.detach().clone()
    network.answer.limit_row_norms(3.0)
    assert float(network.answer.rows.detach()[0].norm()) == pytest.approx(3.0)
    torch.testing.assert_close(network.answer.rows.detach()[1:], before[1:])


def test_categories_with_equally_many_chunks_share_the_pooling_but_not_the_bottleneck():
    categories = [Category(str(g), 2, np.array([g])) for g in range(3)]
    pools = CategoryPools(categories, {"words": (4, 9)}, 5, 0.0).eval()
    z = pools({"words": (torch.randn(2, 6, 4), torch.tensor([6, 3]))})
    assert z.shape == (2, 3, 5)
    assert len(pools.parts) == 1
    assert not torch.equal(z[:, 0], z[:, 1])


def test_the_first_level_reads_nothing_above_and_the_last_nothing_below():
    levels = [Level(m, np.array([m]), (Category("c", 1, np.array([0])),)) for m in (1, 2, 3)]
    start = [torch.zeros(1)] * 3
    deep = LevelNetworks(SMALL, levels, Tables(9, 9, 3), start)
    sets = [deep.level(place).sets for place in range(3)]
    assert sets == [("keywords", "below"), ("keywords", "above", "below"), ("keywords", "above")]
    flat = LevelNetworks(SMALL, levels[:1], Tables(9, 0, 3), start)
    assert flat.level(0).sets == ()


def test_a_batch_of_one_document_uses_the_running_statistics():
    pools = CategoryPools(LEVEL.categories, {"words": (4, 9)}, 5, 0.0).train()
    x = torch.randn(1, 6, 4)
    trained = pools({"words": (x, torch.tensor([6]))})
    torch.testing.assert_close(trained, pools.eval()({"words": (x, torch.tensor([6]))}))

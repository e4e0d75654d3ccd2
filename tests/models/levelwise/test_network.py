"""The network of a level (Figure 2) against loops, gradients, and all levels together."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
import torch
from levelwise_loops import maxima_by_loops
from torch import Tensor

from ontodex.config import vary
from ontodex.models.levelwise.config import LevelwiseConfig
from ontodex.models.levelwise.levels import (
    Category,
    Level,
)
from ontodex.models.levelwise.network import PooledLevel, PooledLevels, Tables
from ontodex.models.levelwise.pooling import (
    CategoryPools,
    StreamFeatures,
)
from ontodex.models.levelwise.word_encoder import (
    EncodedWords,
    WordEncoder,
)


def test_pass_1_reads_no_neighbours_and_pass_2_does(system):
    first, second = (one.network for one in system.passes)
    assert first.labels is None
    assert [first.level(place).sets for place in (0, 1)] == [("keywords",), ("keywords",)]
    assert second.level(0).sets == ("keywords", "below")
    assert second.level(1).sets == ("keywords", "above")


SMALL = vary(
    LevelwiseConfig(width=6, maps=2, hidden=3, bottleneck=5, windows=(2, 3), dropout=0),
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


def read_out_by_loops(network: PooledLevel, streams: dict[str, tuple[Tensor, Tensor]]) -> Tensor:
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


def level_network(**more: object) -> PooledLevel:
    torch.manual_seed(1)
    config = vary(SMALL, **more)
    return PooledLevel(config, LEVEL, ["keywords", "above"], torch.randn(3)).double().eval()


def logits_of(network: PooledLevel, words: StreamFeatures, **sets: StreamFeatures) -> Tensor:
    """The level's logits for vectors of words, read by convolutions and BiLSTM."""
    torch.manual_seed(2)
    x, lengths = words
    read = WordEncoder(SMALL).double()
    logits: Tensor = network(EncodedWords(read(x, lengths), lengths), sets)
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


def test_gradients_of_a_level_network():
    network = level_network()
    words, lengths = vectors(5, 3, t=5)
    keywords, above = vectors(2, 0, t=4), vectors(1, 3, t=4)
    words.requires_grad_()

    def logits(x: Tensor) -> Tensor:
        return logits_of(network, (x, lengths), keywords=keywords, above=above)

    assert torch.autograd.gradcheck(logits, words)


def test_padding_never_changes_a_logit():
    network = level_network()
    streams = {"words": vectors(3, 7), "keywords": vectors(1, 4), "above": vectors(0, 2)}
    together = logits_of(network, **streams)
    short = {name: (x[:1, :3], lengths[:1]) for name, (x, lengths) in streams.items()}
    torch.testing.assert_close(together[:1], logits_of(network, **short))


def test_a_document_without_predictions_above_is_read_like_any_other():
    streams = {"words": vectors(4), "keywords": vectors(0), "above": vectors(0)}
    assert bool(torch.isfinite(logits_of(level_network(), **streams)).all())


def networks(**more: object) -> PooledLevels:
    torch.manual_seed(1)
    levels = [Level(m, np.array([m]), (Category("c", 2, np.array([0])),)) for m in (1, 2)]
    config = vary(SMALL, **more)
    return PooledLevels(config, levels, Tables(9), [torch.zeros(1)] * 2).eval()


def test_every_level_has_an_encoder_of_its_own():
    words = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])
    network = networks()
    one, other = (network.encode_words(index, words) for index in (0, 1))
    assert not torch.equal(one.h, other.h)
    assert one.take(None) is one
    alone = network.encode_words(0, (words[0][:1, :3], words[1][:1]))
    torch.testing.assert_close(network(0, one.take(torch.tensor([0])), {}), network(0, alone, {}))


@pytest.mark.gpu
def test_encoders_of_all_levels_together_equal_each_alone():
    network = networks(hidden=64).cuda()
    words = torch.randint(1, 9, (19, 5), device="cuda"), torch.full((19,), 5, device="cuda")
    encoded = network.encode_words_together(words)
    assert len(encoded) == 2
    for place, one in enumerate(encoded):
        alone = network.encode_words(place, (words[0][:2], words[1][:2]))
        torch.testing.assert_close(one.h[:2].float(), alone.h.float(), atol=0.01, rtol=0)
    assert networks(hidden=65).cuda().encode_words_together(words) == [], (
        "the kernel does not take 65 units"
    )


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
    deep = PooledLevels(SMALL, levels, Tables(9, 9, 3), start)
    sets = [deep.level(place).sets for place in range(3)]
    assert sets == [("keywords", "below"), ("keywords", "above", "below"), ("keywords", "above")]
    flat = PooledLevels(SMALL, levels[:1], Tables(9, 0, 3), start)
    assert flat.level(0).sets == ()


def test_a_batch_of_one_document_uses_the_running_statistics():
    pools = CategoryPools(LEVEL.categories, {"words": (4, 9)}, 5, 0.0).train()
    x = torch.randn(1, 6, 4)
    trained = pools({"words": (x, torch.tensor([6]))})
    torch.testing.assert_close(trained, pools.eval()({"words": (x, torch.tensor([6]))}))

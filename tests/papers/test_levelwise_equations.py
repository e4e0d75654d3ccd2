"""Deep Level-wise XMLC (paper 000), section 2.1: each part against the same in plain loops."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch import Tensor

from ontodex.decide.ofo import OFO
from ontodex.models.level_decide import Sampling, stream_curve
from ontodex.models.level_network import (
    Convolutions,
    LevelNetwork,
    LevelNetworks,
    LevelwiseConfig,
    SetBag,
    Tables,
    Told,
    WordReader,
    by_product,
)
from ontodex.models.level_plan import (
    MOST_CATEGORIES,
    Category,
    Level,
    chunks_of,
    deal_out,
    gold_of,
    plan_levels,
)
from ontodex.models.level_pooling import (
    CategoryPools,
    Chunks,
    Read,
    chunk_maxima,
)
from ontodex.ontology.levels import UNPLACED, Levels
from ontodex.types import Ranking

SMALL = LevelwiseConfig(
    reader="pooling",
    sets="pooling",
    encoder="level",
    bag=0,
    width=6,
    maps=2,
    set_maps=2,
    hidden=3,
    value=4,
    bottleneck=5,
    windows=(2, 3),
    set_windows=(2, 3),
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


def maxima_by_loops(x: Tensor, lengths: Tensor, chunks: int) -> Tensor:
    """Section 2.1.3: place t of L is in chunk floor(t chunks / L); no place, no value."""
    out = torch.zeros(len(x), chunks, x.shape[2], dtype=x.dtype)
    for n, length in enumerate(lengths.tolist()):
        places: dict[int, list[int]] = {}
        for t in range(length):
            places.setdefault(t * chunks // length, []).append(t)
        for chunk, inside in places.items():
            for d in range(x.shape[2]):
                out[n, chunk, d] = max(float(x[n, t, d]) for t in inside)
    return out


@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 8])
def test_chunk_maxima_equal_the_paper_in_loops(chunks):
    x = torch.randn(6, 7, 3, dtype=torch.double)
    lengths = torch.tensor([7, 6, 5, 3, 1, 0])
    found = chunk_maxima(x, lengths, Chunks.of([chunks, 2]))
    torch.testing.assert_close(found[:, :chunks], maxima_by_loops(x, lengths, chunks))
    torch.testing.assert_close(found[:, chunks:], maxima_by_loops(x, lengths, 2))


def test_chunks_are_numbered_and_know_of_how_many_they_are():
    assert Chunks.of([1, 3]).table.tolist() == [[0, 0, 1, 2], [1, 3, 3, 3]]


def test_one_chunk_is_max_pooling_and_an_empty_sequence_gives_zeros():
    x = torch.randn(2, 4, 3)
    pooled = chunk_maxima(x, torch.tensor([4, 0]), Chunks.of([1]))
    torch.testing.assert_close(pooled[0, 0], x[0].amax(dim=0))
    assert torch.equal(pooled[1], torch.zeros(1, 3))


def test_maxima_of_one_place_are_what_stands_there():
    """Convolutions give their features transposed, with strides of one place that mean nothing."""
    x = torch.arange(12.0).view(4, 3, 1).transpose(1, 2)  # (n, 1, d)
    pooled = chunk_maxima(x, torch.tensor([1, 1, 0, 1]), Chunks.of([1]))
    expected = x.clone()
    expected[2] = 0
    torch.testing.assert_close(pooled, expected)


def test_gradients_of_chunk_maxima():
    x = torch.randn(2, 6, 2, dtype=torch.double, requires_grad=True)
    lengths = torch.tensor([6, 3])
    assert torch.autograd.gradcheck(lambda y: chunk_maxima(y, lengths, Chunks.of([4, 1])), x)


def test_convolutions_see_their_window_and_zeros_outside_the_text():
    convolve = Convolutions(3, 2, (2, 3, 5)).double()
    x = torch.randn(1, 4, 3, dtype=torch.double)
    seen = convolve(x)
    other = Convolutions(3, 1, (4,)).double()  # a GPU's way, two at once
    both = torch.cat([other(x), seen], dim=2)
    torch.testing.assert_close(
        by_product([other, convolve], x.transpose(0, 1)), both.transpose(0, 1)
    )
    for t in range(4):
        features = []
        for layer, window in zip(convolve.each, (2, 3, 5), strict=True):
            first = t - (window - 1) // 2
            for filter_, bias in zip(layer.weight, layer.bias, strict=True):
                inside = [i for i in range(window) if 0 <= first + i < 4]
                total = bias + sum(filter_[:, i] @ x[0, first + i] for i in inside)
                features.append(total.clamp(min=0))
        torch.testing.assert_close(seen[0, t], torch.stack(features))


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.01, 1), (0.047, 2), (0.25, 8), (0.9, 29), (1.0, 32)]
)
def test_chunks_follow_the_share_of_a_category(share, expected):
    assert chunks_of(share, "dynamic", 32) == expected
    assert chunks_of(share, "max", 32) == 1
    assert chunks_of(share, "fixed", 8) == 8


def test_levels_are_planned_from_occurrences():
    """Columns 0, 1 at level 1; 2, 3 at level 2, where category x has 3 of 4 occurrences."""
    membership = csr_array(np.array([[1, 0], [0, 1], [1, 0], [0, 1]], dtype=bool))
    placed = Levels(np.array([1, 1, 2, 2], dtype=np.int32), ("x", "y"), membership)
    one = csr_array(np.array([[1, 0, 0, 0], [0, 1, 0, 0]]))
    two = csr_array(np.array([[0, 0, 1, 1], [0, 0, 1, 0], [0, 0, 1, 0]]))
    levels = plan_levels({1: one, 2: two}, placed, 4, pooling="dynamic", chunks=8)
    assert [level.columns.tolist() for level in levels] == [[0, 1], [2, 3]]
    assert [(c.name, c.chunks, c.members.tolist()) for c in levels[1].categories] == [
        ("x", 6, [0]),
        ("y", 2, [1]),
    ]


def test_many_tops_are_dealt_out_to_categories_of_near_equal_weight():
    """40 tops with a label each, of 1 to 40 documents; label 40 is below the two heaviest, which
    the dealing puts into different categories; label 41 has no position."""
    names = (*(f"top {g}" for g in range(40)), UNPLACED)
    rows = [*([g] for g in range(40)), [38, 39], [40]]
    membership = np.zeros((42, 41), dtype=bool)
    for row, columns in enumerate(rows):
        membership[row, columns] = True
    placed = Levels(np.ones(42, dtype=np.int32), names, csr_array(membership))
    frequency = np.array([*range(1, 41), 5, 7])
    dealt = deal_out(placed, frequency)
    assert len(dealt.categories) == MOST_CATEGORIES + 1
    weights = dealt.membership.T.astype(int) @ frequency
    assert weights[:-1].max() - weights[:-1].min() < 20
    assert dealt.membership[[41]].indices.tolist() == [MOST_CATEGORIES], "alone, as before"
    assert len(dealt.membership[[40]].indices) == 2
    assert np.diff(dealt.membership.indptr).min() == 1


def test_few_tops_are_categories_as_they_are():
    placed = Levels(np.array([1], dtype=np.int32), ("x",), csr_array(np.ones((1, 1), bool)))
    assert deal_out(placed, np.array([1])) is placed


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


def logits_of(network: LevelNetwork, words: Read, **sets: Read) -> Tensor:
    """The level's logits for vectors of words, read by convolutions and BiLSTM."""
    torch.manual_seed(2)
    x, lengths = words
    read = WordReader(SMALL).double()
    bag = None if network.bag is None else x.sum(dim=1)
    logits: Tensor = network(Told(read(x, lengths), lengths, bag), sets)
    return logits


def vectors(*lengths: int, t: int = 7) -> tuple[Tensor, Tensor]:
    x = torch.randn(len(lengths), t, 6, dtype=torch.double)
    mask = torch.arange(t) < torch.tensor(lengths)[:, None]
    return x * mask[:, :, None], torch.tensor(lengths)


def test_the_read_out_equals_loops_and_a_label_in_two_categories_has_the_mean():
    network = level_network()
    streams = {
        "keywords": (torch.randn(3, 4, 4, dtype=torch.double), torch.tensor([4, 2, 0])),
        "above": (torch.randn(3, 4, 4, dtype=torch.double), torch.tensor([0, 1, 3])),
        "words": (torch.randn(3, 7, 6, dtype=torch.double), torch.tensor([7, 5, 2])),
    }
    expected = read_out_by_loops(network, streams)
    torch.testing.assert_close(network.read_out(streams), expected)


def test_all_categories_in_one_product_say_what_each_says_alone():
    network = level_network()
    z = torch.randn(4, len(LEVEL.categories), SMALL.bottleneck, dtype=torch.double)
    torch.testing.assert_close(network.answer.together(z), network.answer.one_by_one(z))


@pytest.mark.parametrize(
    ("reader", "sets", "bag"),
    [("pooling", "pooling", 0), ("attention", "pooling", 6), ("attention", "bag", 6)],
)
def test_gradients_of_a_level_network(reader, sets, bag):
    network = level_network(reader=reader, sets=sets, bag=bag)
    words, lengths = vectors(5, 3, t=5)
    keywords, above = vectors(2, 0, t=4), vectors(1, 3, t=4)
    words.requires_grad_()

    def logits(x: Tensor) -> Tensor:
        return logits_of(network, (x, lengths), keywords=keywords, above=above)

    assert torch.autograd.gradcheck(logits, words)


@pytest.mark.parametrize("reader", ["pooling", "attention"])
@pytest.mark.parametrize("sets", ["pooling", "bag"])
def test_padding_never_changes_a_logit(reader, sets):
    network = level_network(reader=reader, sets=sets)
    streams = {"words": vectors(3, 7), "keywords": vectors(1, 4), "above": vectors(0, 2)}
    together = logits_of(network, **streams)
    short = {name: (x[:1, :3], lengths[:1]) for name, (x, lengths) in streams.items()}
    alone = logits_of(network, **short)
    torch.testing.assert_close(together[:1], alone)


def test_a_set_told_by_the_sum_of_its_vectors_in_loops():
    bag = SetBag(6, 3, dropout=0.5).double().eval()
    torch.nn.init.normal_(bag.bias)
    x, lengths = vectors(4, 1, 0, t=5)
    for row, length in enumerate(lengths.tolist()):
        total = sum((x[row, t] for t in range(length)), torch.zeros(6, dtype=torch.double))
        told = [max(0.0, v) for v in (total / max(1, length) ** 0.5 + bag.bias).tolist()]
        for label, weights in enumerate(bag.output.weight):
            expected = sum(w * v for w, v in zip(weights.tolist(), told, strict=True))
            assert float(bag(x, lengths)[row, label].detach()) == pytest.approx(expected)


@pytest.mark.parametrize("sets", ["pooling", "bag"])
def test_a_document_without_predictions_above_is_read_like_any_other(sets):
    network = level_network(sets=sets)
    streams = {"words": vectors(4), "keywords": vectors(0), "above": vectors(0)}
    assert bool(torch.isfinite(logits_of(network, **streams)).all())


def test_a_bag_adds_what_it_says_to_the_logits():
    network = level_network(bag=6)
    assert network.bag is not None
    streams = {"words": vectors(4), "keywords": vectors(2), "above": vectors(1)}
    with_bag = logits_of(network, **streams)
    said = network.bag(streams["words"][0].sum(dim=1))
    network.bag = None
    torch.testing.assert_close(with_bag, logits_of(network, **streams) + said)


def networks(**more: object) -> LevelNetworks:
    torch.manual_seed(1)
    levels = [Level(m, np.array([m]), (Category("c", 2, np.array([0])),)) for m in (1, 2)]
    config = replace(SMALL, **more)  # type: ignore[arg-type]
    return LevelNetworks(config, levels, Tables(9), [torch.zeros(1)] * 2).eval()


def test_levels_that_share_a_reader_are_told_the_same_and_others_are_not():
    words = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])
    shared, own = networks(encoder="shared", bag=4), networks()
    assert shared.reads_once
    assert torch.equal(shared.read(0, words).h, shared.read(1, words).h)
    assert not torch.equal(own.read(0, words).h, own.read(1, words).h)


def test_a_reader_that_levels_share_reads_once_for_all_of_them():
    network = networks(encoder="shared", bag=4, hidden=64)
    words = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])
    one, other = network.read_at_once(words)
    assert one is other
    assert torch.equal(one.h, network.read(0, words).h)


@pytest.mark.gpu
def test_a_reader_that_levels_share_is_left_to_cudnn(monkeypatch):
    network = networks(encoder="shared", bag=4, hidden=64).cuda()
    words = torch.randint(1, 9, (19, 5), device="cuda"), torch.full((19,), 5, device="cuda")
    monkeypatch.setattr("ontodex.models.lstm_kernel.read_together", None)
    one, other = network.read_at_once(words)
    assert one is other
    assert torch.equal(one.h, network.read(0, words).h)


@pytest.mark.gpu
def test_readers_of_levels_side_by_side_say_what_each_says_alone():
    network = networks(bag=4, hidden=64).cuda()
    words = torch.randint(1, 9, (19, 5), device="cuda"), torch.full((19,), 5, device="cuda")
    told = network.read_at_once(words)
    assert len(told) == 2
    some = torch.arange(2, device="cuda")
    for place, one in enumerate(told):
        alone = network.read(place, (words[0][:2], words[1][:2]))
        torch.testing.assert_close(one.h[:2].float(), alone.h.float(), atol=0.01, rtol=0)
        assert alone.bag is not None
        torch.testing.assert_close(one.take(some).bag, alone.bag)
    assert networks(hidden=65).cuda().read_at_once(words) == [], "the kernel does not take 65 units"


def test_what_some_documents_of_a_batch_were_told_is_what_they_are_told_alone():
    network = networks(encoder="shared", bag=4, reader="attention")
    words = torch.tensor([[3, 5, 2, 0], [4, 4, 8, 7]]), torch.tensor([3, 4])
    told = network.read(0, words)
    assert told.take(None) is told
    alone = network.read(0, (words[0][:1, :3], words[1][:1]))
    some = told.take(torch.tensor([0]))
    torch.testing.assert_close(network(1, some, {}), network(1, alone, {}))


def test_without_windows_the_lstm_reads_the_vectors_themselves():
    reader = WordReader(replace(SMALL, windows=())).double()
    x, lengths = vectors(5, 3)
    torch.testing.assert_close(reader(x, lengths), reader.encode(x, lengths))


def test_the_gold_of_some_columns_keeps_the_shape_of_all():
    gold = csr_array(np.array([[1, 0, 1, 1], [0, 1, 0, 0]], np.int8))
    found = gold_of(gold, np.array([1, 3]))
    assert found.toarray().tolist() == [[0, 0, 0, 1], [0, 1, 0, 0]]
    assert found.nnz == 2


def test_output_rows_are_held_to_their_norm_and_shorter_ones_left_alone():
    network = level_network()
    with torch.no_grad():
        network.answer.rows[0] *= 1000
    before = network.answer.rows.detach().clone()
    network.answer.hold(3.0)
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


def test_one_batch_of_one_document_is_normed_by_the_running_figures():
    pools = CategoryPools(LEVEL.categories, {"words": (4, 9)}, 5, 0.0).train()
    x = torch.randn(1, 6, 4)
    trained = pools({"words": (x, torch.tensor([6]))})
    torch.testing.assert_close(trained, pools.eval()({"words": (x, torch.tensor([6]))}))


# -------------------------------------------------------------------------- OFO, Figure 5, merging


def ranking(*rows: list[tuple[int, float]]) -> Ranking:
    width = max(map(len, rows))
    padded = [[*row, *[(-1, 0.0)] * (width - len(row))] for row in rows]
    columns = np.array([[c for c, _ in row] for row in padded])
    return Ranking.sort(columns, np.array([[p for _, p in row] for row in padded]), width)


@pytest.mark.parametrize("prior", [0.0, 5.0])
def test_a_stream_is_decided_document_by_document_and_can_be_cut_anywhere(prior):
    rng = np.random.default_rng(0)
    probabilities = Ranking.top(rng.random((20, 3)), 3)
    gold = csr_array((rng.random((20, 3)) > 0.6).astype(np.int8))
    state, chosen = OFO.new(3, 0.5, prior=prior).stream(probabilities, gold)
    one, by_one = OFO.new(3, 0.5, prior=prior), []
    for row in range(20):
        document, truth = probabilities.take(np.array([row])), csr_array(gold[[row]])
        by_one.append(one.choose(document))
        one, _ = one.stream(document, truth)
    np.testing.assert_array_equal(chosen, np.concatenate(by_one))
    np.testing.assert_array_equal(state.thresholds, one.thresholds)
    whole = OFO.new(3, 0.5, prior=prior).passes(probabilities, gold, 1)
    np.testing.assert_array_equal(state.thresholds, whole.thresholds)


def test_the_stream_curve_of_three_documents_by_hand():
    """lambda starts at 0.5. Document 1: label 0 at 0.9 is chosen, right; lambda becomes 1 / 2.
    Document 2: 0.6 > 1/2 is chosen, wrong, and label 1 is missed; document 3: 0.4 is above
    lambda = 1 / 3 by then."""
    config = LevelwiseConfig(ofo_prior=0, first_lambda=0.5)
    stream = ranking([(0, 0.9)], [(0, 0.6)], [(0, 0.4)])
    gold = csr_array(np.array([[1, 0], [0, 1], [1, 0]]))
    curve = stream_curve(config, stream, gold)
    assert curve["documents"] == [1, 2, 3]
    assert curve["MaP"] == pytest.approx([1, 1 / 2, 2 / 3], abs=1e-4)
    assert curve["MaR"] == pytest.approx([1, 1 / 2, 2 / 3], abs=1e-4)


def test_with_a_prior_the_curve_starts_at_the_threshold_that_training_starts_from():
    """All true answers have 0.1: from a first lambda of 0.5 none of them would be chosen."""
    stream = ranking(*[[(0, 0.1), (1, 0.01)]] * 200)
    gold = csr_array(np.array([[1, 0]] * 200))
    curve = stream_curve(LevelwiseConfig(ofo_prior=50, first_lambda=0.5), stream, gold)
    assert curve["documents"][-1] == 200
    assert len(curve["documents"]) == 40
    assert curve["MaR"][0] > 0.5


def test_documents_without_a_label_at_the_level_are_not_in_its_curve():
    stream = ranking([(0, 0.9)], [(0, 0.9)])
    curve = stream_curve(LevelwiseConfig(), stream, csr_array(np.array([[0], [1]])))
    assert curve["documents"] == [1]


def test_sampling_gives_as_many_labels_as_training_documents_with_such_sums_have():
    """Sums 0.5 and 1.7 had one and two gold labels: the same sums get one and two again."""
    union = ranking([(0, 0.3), (1, 0.2)], [(0, 0.9), (1, 0.5), (2, 0.3)])
    gold = csr_array(np.array([[1, 0, 0], [1, 1, 0]]))
    merged = Sampling.fit(union, gold).merge(union)
    assert [row[row >= 0].tolist() for row in merged.columns] == [[0], [0, 1]]

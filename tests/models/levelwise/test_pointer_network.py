"""The equations of the pointer generator (section 2.2) against loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from ontodex.config import vary
from ontodex.models.levelwise.config import PointerConfig
from ontodex.models.levelwise.pointer import Hierarchy
from ontodex.models.levelwise.pointer_network import AncestorGate, Candidates, PointerNetwork

ABOVE = {0: [], 1: [], 2: [0], 3: [1], 4: [0, 1, 2, 3]}


LEVEL = np.array([1, 1, 2, 2, 3])


STOP = 5


WIDTH, HIDDEN = 4, 3


def hierarchy() -> Hierarchy:
    dense = np.zeros((5, 5), bool)
    for label, above in ABOVE.items():
        dense[label, above] = True
    return Hierarchy(LEVEL, csr_array(dense), np.array([9, 3, 5, 1, 2]))


def network(**settings) -> PointerNetwork:
    torch.manual_seed(3)
    chosen = {"order": "forward", "dropout": 0.0, **settings}
    config = vary(PointerConfig(embedding=WIDTH, hidden=HIDDEN), **chosen)
    made = PointerNetwork(config, hierarchy()).double().eval()
    for parameter in made.parameters():  # away from zeros and from one another
        torch.nn.init.normal_(parameter, std=0.7)
    return made


def candidates(rows: list[list[tuple[int, float]]], unit: str = "level") -> Candidates:
    """Rows of (column, probability) by level."""
    width, n_units = max(1, *map(len, rows)), 3 if unit == "level" else 1
    columns = torch.full((len(rows), width), STOP)
    probabilities = torch.zeros(len(rows), width, dtype=torch.double)
    member = torch.zeros(len(rows), width, n_units, dtype=torch.double)
    for n, row in enumerate(rows):
        for c, (column, probability) in enumerate(row):
            columns[n, c], probabilities[n, c] = column, probability
            member[n, c, LEVEL[column] - 1 if unit == "level" else 0] = 1
    return Candidates(columns, probabilities, member, max(1, int(member.sum(1).max())))


ROWS = [[(0, 0.9), (1, 0.4), (2, 0.8), (4, 0.7)], [(3, 0.6)], []]


# In the order of targets, by level and then by frequency, labels are numbered as they come.
BEFORE = torch.tensor([[STOP, 0, 2], [STOP, 1, 3], [STOP, 1, 4]])


TARGETS = torch.tensor([[0, 2, STOP], [1, 3, 4], [1, 4, STOP]])


def additive_by_loops(part, h_i, s, coverage_i):
    inner = part.keys.weight @ h_i + part.keys.bias + part.query.weight @ s
    return float(part.v.weight[0] @ torch.tanh(inner + coverage_i * part.cover))


def next_by_loops(net, row, last):
    """If labels are true by their own probabilities: the chance of each predicted one to be the
    next after `last` (STOP: the start), and of none to follow. In the paper: 1, and 0."""
    if not net.is_ordered:
        return [1.0] * len(row), 0.0
    chances, none = [], 1.0
    for column, probability in row:
        odds = probability / (1 - probability)
        p = 1 / (1 + odds ** -float(net.prior.scale) * math.exp(-float(net.prior.shift)))
        ahead = last == STOP or column > last
        chances.append(none * p if ahead else 0.0)
        none *= 1 - p if ahead else 1
    return chances, none


def attention_by_loops(net, h, levels, s, coverage, chances):
    """Weights of one document's labels: softmax over labels, times that of their level's, times
    what was to be expected; not yet scaled to sum 1. `levels[c]` is the level of label c."""
    labels = [math.exp(additive_by_loops(net.attend.labels, *x)) for x in zip(
        h, [s] * len(h), coverage, strict=True)]  # fmt: skip
    of_level = {}
    for level in set(levels):
        inside = [c for c, own in enumerate(levels) if own == level]
        state = torch.stack([h[c] for c in inside]).mean(0)
        covered = sum(coverage[c] for c in inside)  # Eq. 7
        of_level[level] = math.exp(additive_by_loops(net.attend.levels, state, s, covered))
    level_sum = sum(of_level.values())
    return [
        x * of_level[level] / level_sum * chance
        for x, level, chance in zip(labels, levels, chances, strict=True)
    ]


def gate_by_loops(net, form, row, h):
    """g of every label of one document (Eq. 6)."""
    at = {column: c for c, (column, _) in enumerate(row)}
    b = float(net.gate.bias)
    g = []
    for label in range(5):
        product = 1.0
        for a in ABOVE[label]:
            score = float(net.labels.weight[a] @ h[at[a]]) if a in at else 0.0
            product *= 1 / (1 + math.exp(-(b + score)))
        closed = {"path": product, "printed": 1 - product, "off": 1.0}[form]
        g.append(closed if ABOVE[label] else 1.0)
    return [*g, 1.0]


def one_document_by_loops(net, form, row, h, start, before):
    """p_L of every step (Eq. 3, 5, 6) and the coverage loss of every step."""
    levels = [int(LEVEL[column]) for column, _ in row]
    s, cell, context = start
    coverage = [0.0] * len(row)
    distributions, repeats = [], []
    g = gate_by_loops(net, form, row, h)
    for label in before:
        y = net.labels.weight[label]
        s, cell = net.decode(torch.cat([y, context])[None], (s[None], cell[None]))
        s, cell = s[0], cell[0]
        chances, none = next_by_loops(net, row, int(label))
        weights = attention_by_loops(net, h, levels, s, coverage, chances) if row else []
        total = sum(weights)
        a = [w / total if total else 0.0 for w in weights]
        stopping = none * math.exp(net.end.weight[0] @ s + net.end.bias[0])
        end = stopping / (stopping + total) if net.is_ordered else 0.0
        context = sum((w * x for w, x in zip(a, h, strict=True)), torch.zeros(WIDTH).double())
        repeats.append(sum(min(w, k) for w, k in zip(a, coverage, strict=True)))
        coverage = [w + k for w, k in zip(a, coverage, strict=True)]
        w_h, w_s, w_y = net.switch.weight[0].split([WIDTH, HIDDEN, WIDTH])
        p_gen = torch.sigmoid(w_h @ context + w_s @ s + w_y @ y + net.switch.bias[0])  # Eq. 3
        inner = net.reduce.weight @ torch.cat([s, context]) + net.reduce.bias
        p = p_gen * (net.vocabulary.weight @ inner + net.vocabulary.bias).softmax(0)  # Eq. 5
        for (column, _), w in zip(row, a, strict=True):
            p[column] += (1 - p_gen) * (1 - end) * w
        p[STOP] += (1 - p_gen) * end
        p = p * torch.tensor(g)  # Eq. 6
        if net.is_ordered and label != STOP:
            p[: label + 1] = 0
        distributions.append(p / p.sum())
    return torch.stack(distributions), repeats


def all_documents_by_loops(net, form, batch, rows, before):
    encoded, state = net.encode_candidates(batch)
    for n, row in enumerate(rows):
        h = [encoded.h[n, c] for c in range(len(row))]
        start = state.s[n, 0], state.cell[n, 0], state.context[n, 0]
        yield one_document_by_loops(net, form, row, h, start, before[n])


@pytest.mark.parametrize("order", ["forward", "any"])
@pytest.mark.parametrize("form", ["path", "printed", "off"])
def test_the_distribution_of_every_step_equals_the_equations_in_loops(form, order):
    net, batch = network(ancestor_gate=form, order=order), candidates(ROWS)
    with torch.no_grad():
        encoded, state = net.encode_candidates(batch)
        p = net.compute_distribution(encoded, net.run_steps(encoded, state, BEFORE))
        p = p / p.sum(-1, keepdim=True)
        for n, (slow, _) in enumerate(all_documents_by_loops(net, form, batch, ROWS, BEFORE)):
            torch.testing.assert_close(p[n], slow)


@pytest.mark.parametrize("order", ["forward", "any"])
@pytest.mark.parametrize("form", ["path", "printed", "off"])
def test_the_loss_equals_minus_the_log_of_eq_4_and_the_coverage_loss_in_loops(form, order):
    net, batch = network(ancestor_gate=form, order=order), candidates(ROWS)
    targets = TARGETS.clone()
    targets[1, 2] = -1  # a shorter target: its last step does not count
    with torch.no_grad():
        slow = 0.0
        before = torch.tensor([[STOP, *row[:-1]] for row in targets.clamp(min=0).tolist()])
        documents = all_documents_by_loops(net, form, batch, ROWS, before)
        for n, (p, repeats) in enumerate(documents):
            for step, target in enumerate(targets[n].tolist()):
                if target >= 0:
                    slow += 0.3 * repeats[step] - math.log(p[step, target])
        assert float(net(batch, targets, 0.3)) == pytest.approx(slow / 3)


def test_the_unit_label_is_one_sequence_with_one_level():
    net, batch = network(unit="label", order="any"), candidates(ROWS[:1], "label")
    x = torch.randn(1, 4, WIDTH, dtype=torch.double)
    with torch.no_grad():
        plain = net.encode.read(x, torch.tensor([4])) + x
        torch.testing.assert_close(net.encode(x, batch), plain)
        encoded, state = net.encode_candidates(batch)
        start = torch.tensor([[STOP]])
        after, a, _ = net.step(encoded, state, net.labels(start), net.compute_floor(start))
        scores = net.attend.labels(encoded.keys, after.s, state.coverage)
        torch.testing.assert_close(a, scores.softmax(-1))


def test_each_level_is_read_as_a_sequence_of_its_own():
    net, batch = network(), candidates(ROWS)
    x = torch.randn(3, 4, WIDTH, dtype=torch.double)
    with torch.no_grad():
        h = net.encode(x, batch)
        first = net.encode.read(x[:1, :2], torch.tensor([2])) + x[:1, :2]  # level 1: labels 0 and 1
        last = net.encode.read(x[:1, 3:], torch.tensor([1])) + x[:1, 3:]  # level 3: label 4 alone
    torch.testing.assert_close(h[:1, :2], first)
    torch.testing.assert_close(h[:1, 3:], last)
    assert float(h[2].abs().sum()) == 0  # nothing was predicted


@pytest.mark.parametrize("unit", ["level", "label"])
def test_padding_never_changes_a_distribution(unit):
    net = network(unit=unit)
    with torch.no_grad():
        together, state = net.encode_candidates(candidates(ROWS, unit))
        wide = net.compute_distribution(together, net.run_steps(together, state, BEFORE))
        for n, row in enumerate(ROWS):
            alone, state = net.encode_candidates(candidates([row], unit))
            p = net.compute_distribution(alone, net.run_steps(alone, state, BEFORE[n : n + 1]))
            torch.testing.assert_close(p[0], wide[n])


@pytest.mark.parametrize("form", ["path", "printed"])
def test_gradients_of_the_loss(form):
    net, batch = network(ancestor_gate=form), candidates(ROWS)
    chosen = ["labels.weight", "gate.bias", "switch.weight", "attend.levels.cover", "begin.bias"]
    chosen += ["attend.labels.keys.weight", "encode.read.onward.weight_hh_l0"]
    weights = {name: p.detach() for name, p in net.named_parameters()}

    def loss(*values):
        replaced = {**weights, **dict(zip(chosen, values, strict=True))}
        return torch.func.functional_call(net, replaced, (batch, TARGETS, 0.5))

    inputs = tuple(weights[name].clone().requires_grad_() for name in chosen)
    assert torch.autograd.gradcheck(loss, inputs, fast_mode=True)


def test_no_document_gives_a_gradient_that_is_not_finite():
    net = network()
    net(candidates([[], [], []]), TARGETS, 1.0).backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in net.parameters())


def test_what_has_decoded_can_still_learn():
    net, batch = network(), candidates(ROWS)
    with torch.inference_mode():
        net.encode_candidates(batch)
    net(batch, TARGETS, 1.0).backward()
    assert net.gate.bias.grad is not None
    assert float(net.gate.bias.grad) != 0


NMD, MD, DM, DMT1, WS = range(5)  # each below the one before it


CHAIN = csr_array(np.tril(np.ones((5, 5), bool), -1))


def wolfram(form: str, context: dict[int, float], b: float) -> torch.Tensor:
    """g of the five diseases when the labels of `context` were predicted, with e . h as given."""
    gate = AncestorGate(form, CHAIN).double()
    torch.nn.init.constant_(gate.bias, b)
    columns = torch.tensor([list(context)])
    h = torch.tensor([[[dot, 0.0] for dot in context.values()]], dtype=torch.double)
    e = torch.tensor([[[1.0, 5.0]] * len(context)], dtype=torch.double)
    member = torch.ones(1, len(context), 1, dtype=torch.double)
    batch = Candidates(columns, torch.ones(1, len(context)).double(), member, len(context))
    return gate(h, e, batch).exp()[0].detach()


def sigma(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_wolfram_syndrome_with_all_its_ancestors_predicted():
    g = wolfram("path", {NMD: 1.5, MD: 0.5, DM: -0.25, DMT1: 2.0}, b=0.5)
    product = sigma(0.5 + 1.5) * sigma(0.5 + 0.5) * sigma(0.5 - 0.25) * sigma(0.5 + 2.0)
    assert float(g[WS]) == pytest.approx(product)
    assert float(g[MD]) == pytest.approx(sigma(2.0))
    assert float(g[NMD]) == 1  # a root
    assert float(g[-1]) == 1  # stopping
    printed = wolfram("printed", {NMD: 1.5, MD: 0.5, DM: -0.25, DMT1: 2.0}, b=0.5)
    assert float(printed[WS]) == pytest.approx(1 - product)
    assert float(printed[NMD]) == 1


def test_an_ancestor_that_was_not_predicted_counts_sigma_b():
    g = wolfram("path", {NMD: 1.5, DM: -0.25}, b=0.5)
    missing = sigma(0.5)  # md and dmt1
    assert float(g[WS]) == pytest.approx(sigma(2.0) * missing * sigma(0.25) * missing)


def test_a_likelier_ancestor_raises_the_path_gate_and_lowers_the_printed_one():
    def context(md: float) -> dict[int, float]:
        return {NMD: 1.0, MD: md, DM: 1.0, DMT1: 1.0}

    assert wolfram("path", context(3.0), b=0.0)[WS] > wolfram("path", context(1.0), b=0.0)[WS]
    assert wolfram("printed", context(3.0), b=0.0)[WS] < wolfram("printed", context(1.0), b=0.0)[WS]
    assert float(wolfram("off", context(3.0), b=0.0)[WS]) == 1


def test_the_bias_of_a_label_starts_at_its_frequency_and_that_of_stop_at_their_sum():
    started = PointerNetwork(PointerConfig(embedding=WIDTH, hidden=HIDDEN), hierarchy())
    expected = [math.log(count + 1) for count in (9, 3, 5, 1, 2, 20)]
    assert started.vocabulary.bias.tolist() == pytest.approx(expected)

"""Label attention (AttentionXML, Eq. 4 and 5) against loops."""

from __future__ import annotations

import pytest
import torch

from attention_by_loops import attention_by_loops
from ontodex.models.layers import label_attention
from ontodex.models.layers.label_attention import (
    attend,
    attend_candidates,
    attend_flat,
    compute_attention,
    compute_flat_logits,
    compute_label_logits,
    project_tokens,
)
from ontodex.models.layers.words import token_mask

LENGTHS = torch.tensor([4, 2])


MASK = token_mask(torch.zeros(2, 4), LENGTHS)


@pytest.fixture
def h() -> torch.Tensor:
    return torch.randn(2, 4, 6, dtype=torch.double, generator=torch.Generator().manual_seed(1))


def random(*shape: int, seed: int = 2) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("form", [attend, attend_flat])
def test_label_attention_equals_equation_4_in_loops(h, form):
    queries = random(5, 6)
    torch.testing.assert_close(form(h, h, queries, MASK), attention_by_loops(h, queries, LENGTHS))


@pytest.mark.parametrize("places", [7, 8, 9])
def test_padding_for_a_gpu_changes_nothing(places):
    h, values, queries = random(2, places, 6), random(2, places, 3, seed=3), random(5, 6, seed=4)
    mask = token_mask(h, torch.tensor([places, 2]))
    torch.testing.assert_close(
        attend_flat(h, values, queries, mask), attend(h, values, queries, mask)
    )


def test_tokens_are_projected_in_the_precision_they_come_in(h):
    project = torch.nn.Linear(6, 2)
    expected = h.float() @ project.weight.T + project.bias
    for kind in (torch.float16, torch.float32):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            values = project_tokens(project, h.to(kind))
        assert values.dtype == kind
        torch.testing.assert_close(values.float(), expected, rtol=1e-2, atol=1e-2)


def test_the_candidate_form_is_the_full_form_for_those_labels(h):
    queries, columns = random(5, 6), torch.tensor([[4, 0], [1, 1]])
    full = attention_by_loops(h, queries, LENGTHS)
    chosen = attend_candidates(h, h, queries[columns], MASK)
    for n in range(2):
        torch.testing.assert_close(chosen[n], full[n, columns[n]])


@pytest.mark.parametrize("form", [attend, attend_flat])
def test_gradients_of_label_attention(h, form):
    queries = random(3, 6).requires_grad_()
    h.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, q: form(x, x, q, MASK), (h, queries))


def test_gradients_of_the_candidate_form(h):
    queries = random(2, 3, 6).requires_grad_()
    h.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, q: attend_candidates(x, x, q, MASK), (h, queries))


@pytest.mark.parametrize("form", [compute_label_logits, compute_flat_logits])
def test_logits_are_what_each_label_reads_times_its_own_output_vector(h, form):
    queries, output = random(5, 6), random(5, 6, seed=3)
    m = attention_by_loops(h, queries, LENGTHS)
    expected = torch.tensor(
        [
            [
                sum(max(0.0, float(x)) * float(o) for x, o in zip(row, out, strict=True))
                for row, out in pairs
            ]
            for pairs in (list(zip(doc, output, strict=True)) for doc in m)
        ],
        dtype=torch.double,
    )
    torch.testing.assert_close(form(h, h, queries, output, MASK), expected)


@pytest.mark.parametrize("form", [compute_label_logits, compute_flat_logits])
def test_gradients_of_the_logits(h, form):
    queries, output = random(3, 6).requires_grad_(), random(3, 6, seed=3).requires_grad_()
    h.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, q, o: form(x, x, q, o, MASK), (h, queries, output))


def test_blocks_of_labels_do_not_change_the_logits(h, monkeypatch):
    queries, output = random(5, 6), random(5, 6, seed=3)
    whole = compute_label_logits(h, h, queries, output, MASK)
    monkeypatch.setattr("ontodex.models.layers.label_attention.LABEL_BLOCK", 2)
    torch.testing.assert_close(compute_label_logits(h, h, queries, output, MASK), whole)


@pytest.mark.gpu
@pytest.mark.filterwarnings("default")  # compiling makes torch warn about itself
def test_compiling_costs_no_precision():
    torch.manual_seed(0)
    drawn = torch.randn(7, 50, 64), torch.randn(30, 64) * 0.1, torch.randn(30, 64)
    mask = (torch.arange(50) < torch.randint(5, 51, (7, 1))).cuda()
    half = [x.cuda().bfloat16() for x in drawn]

    def differentiate(form, given):
        h, queries, output = leaves = [x.detach().requires_grad_() for x in given]
        logits = form(h, h, queries, output, mask)
        logits.sum().backward()
        return [x.detach().double() for x in (logits, *(leaf.grad for leaf in leaves))]

    exact = differentiate(compute_flat_logits, [x.double() for x in half])
    plain, compiled = (
        differentiate(compute_flat_logits, half),
        differentiate(compute_label_logits, half),
    )
    for true, one, other in zip(exact, plain, compiled, strict=True):
        assert (other - true).norm() < 1.2 * (one - true).norm() + 1e-3 * true.norm()


def test_equal_queries_of_zero_are_the_mean_of_the_tokens(h):
    m = attend(h, h, torch.zeros(2, 6, dtype=torch.double), MASK)
    torch.testing.assert_close(m[1, 0], h[1, :2].mean(dim=0))


def test_attention_weights_are_a_distribution_over_real_tokens(h):
    a = compute_attention(h, random(3, 6), MASK)
    torch.testing.assert_close(a.sum(-1), torch.ones(2, 3, dtype=torch.double))
    assert torch.equal(a[1, :, 2:], torch.zeros(3, 2, dtype=torch.double))


def test_bf16_products_for_many_labels_change_little(h, monkeypatch):
    monkeypatch.setattr(label_attention, "MIN_BF16_LABELS", 5)
    monkeypatch.setattr(label_attention, "LABEL_BLOCK", 2)
    h, queries, output = h.float(), random(5, 6).float(), random(5, 6, seed=3).float()
    kinds = []

    def rank(units: bool) -> list[torch.Tensor]:
        monkeypatch.setattr(label_attention, "has_bf16_units", lambda: units)
        blocks = list(label_attention.attend_blocks(h, h, queries, MASK))
        kinds.append(blocks[0].dtype)
        return [
            torch.cat(blocks, dim=1).float(),
            attend(h, h, queries, MASK),
            compute_label_logits(h, h, queries, output, MASK),
        ]

    with torch.no_grad():
        plain, rounded = rank(False), rank(True)
        assert kinds == [torch.float32, torch.bfloat16]
        for one, other in zip(plain, rounded, strict=True):
            assert other.dtype == torch.float32
            torch.testing.assert_close(other, one, rtol=0.02, atol=0.05)
    rank(True)
    assert kinds[-1] == torch.float32  # gradients need the precision

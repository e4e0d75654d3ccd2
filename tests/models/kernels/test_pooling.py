"""The pooling kernel against plain operations.

Runs on a GPU; or, slowly, on a CPU with Triton installed and TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os

import pytest
import torch

from ontodex.models.levelwise.pooling import Chunks, compute_chunk_maxima, compute_segment_maxima

pytestmark = pytest.mark.gpu
DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") else "cuda"


@pytest.mark.parametrize("precision", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("d", [3, 128, 200])
def test_the_kernel_finds_the_maxima_and_passes_gradients_to_their_places(precision, d):
    from ontodex.models.kernels.pooling import Maxima

    lengths, chunks = torch.tensor([40, 17, 16, 5, 1, 0]), Chunks.of([1, 3, 20])
    # Whole numbers, no two of a sequence equal: exact in half precision, and so are sums of them.
    x = torch.rand(len(lengths), 40, d).argsort(dim=1).float() - 20
    weights = torch.randint(-4, 5, (len(lengths), 24, d)).float()
    ours = (
        x.transpose(0, 1).contiguous().to(DEVICE, precision).transpose(0, 1)
    )  # strides as of LSTM states
    plain, ours = x.clone().requires_grad_(), ours.requires_grad_()
    expected = compute_chunk_maxima(plain, lengths, chunks)
    found = Maxima.apply(ours, lengths.to(DEVICE), chunks.table.to(DEVICE))
    assert found.dtype == precision
    assert torch.equal(found.cpu().float(), expected)
    (to_plain,) = torch.autograd.grad((expected * weights).sum(), plain)
    (to_ours,) = torch.autograd.grad((found.float() * weights.to(DEVICE)).sum(), ours)
    assert torch.equal(to_ours.cpu().float(), to_plain)


def test_the_first_of_equal_maxima_gets_the_gradient_and_nan_is_a_maximum():
    from ontodex.models.kernels.pooling import PLACES, Maxima

    x = torch.tensor([[1.0, 7.0, 7.0], [1.0, torch.nan, 7.0], [-torch.inf, -torch.inf, 3.0]])
    x = x[:, :, None].to(DEVICE).requires_grad_()
    lengths = torch.tensor([3, 3, 2], device=DEVICE)
    whole = Chunks.of([1]).table.to(DEVICE)
    found = Maxima.apply(x, lengths, whole)
    assert found.isnan().flatten().tolist() == [False, True, False]
    assert found[::2].flatten().tolist() == [7.0, -torch.inf]
    (gradient,) = torch.autograd.grad(found.nan_to_num().sum(), x)
    assert gradient[0].flatten().tolist() == [0, 1, 0]
    far = torch.zeros(1, 3 * PLACES, 1, device=DEVICE)  # equal values that are not read together
    far[:, [2, PLACES + 1, 3 * PLACES - 1]] = 5
    far.requires_grad_()
    found = Maxima.apply(far, torch.tensor([3 * PLACES], device=DEVICE), whole)
    (gradient,) = torch.autograd.grad(found.sum(), far)
    assert gradient.flatten().nonzero().tolist() == [[2]]


@pytest.mark.skipif(DEVICE == "cpu", reason="is about GPUs")
def test_a_gpu_without_triton_finds_the_same():
    x = torch.randn(5, 30, 70, device=DEVICE).half()
    lengths, chunks = torch.tensor([30, 9, 4, 1, 0], device=DEVICE), Chunks.of([1, 2, 7])
    chunks = Chunks(chunks.parts, chunks.table.to(DEVICE))
    assert torch.equal(
        compute_segment_maxima(x, lengths, chunks), compute_chunk_maxima(x, lengths, chunks)
    )

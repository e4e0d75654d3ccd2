"""The LSTM kernel against cuDNN and itself.

Runs on a GPU; or, slowly, on a CPU with Triton installed and TRITON_INTERPRET=1.
"""

from __future__ import annotations

import os
from typing import ClassVar

import pytest
import torch

from ontodex.models.layers.recurrent import BiLSTM

pytestmark = pytest.mark.gpu
DEVICE = "cpu" if os.environ.get("TRITON_INTERPRET") else "cuda"


@pytest.mark.parametrize("n", [1, 16, 19])
@pytest.mark.parametrize("units", [64, 128, 256, 512])
def test_lstms_side_by_side_are_the_lstms_one_by_one(n, units):
    from ontodex.models.kernels.lstm import encode_together

    encoders = [BiLSTM(6, units).to(DEVICE) for _ in range(2)]
    inputs = [torch.randn(n, 5, 6, device=DEVICE, requires_grad=True) for _ in encoders]
    lengths = torch.randint(1, 6, (n,), device=DEVICE)
    lengths[0] = 5
    inside = torch.arange(5, device=DEVICE) < lengths[:, None]
    leaves = [*inputs, *(p for one in encoders for p in one.parameters())]
    found = {}
    for name in ("one by one", "side by side"):
        if name == "one by one":
            states = [one(x, lengths) for one, x in zip(encoders, inputs, strict=True)]
        else:
            x = torch.stack([x.transpose(0, 1) for x in inputs], dim=2)
            states = encode_together(encoders, x, lengths)
            assert all(float(h.detach()[~inside].abs().sum()) == 0 for h in states)
        kept = [h.float()[inside] for h in states]
        loss = sum((h * torch.linspace(-1, 1, h.shape[1], device=DEVICE)).sum() for h in kept)
        found[name] = [*kept, *torch.autograd.grad(loss, leaves)]
    for one, other in zip(*found.values(), strict=True):
        assert torch.allclose(
            one.float(), other.float(), atol=0.03 * float(one.detach().abs().max())
        )


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter would take days")
def test_the_last_of_many_long_sequences_are_read_as_if_they_were_alone():
    """1,040 x 8,192 x 4 x 64 gates are more than 2^31: offsets of 32 bits would turn negative."""
    from ontodex.models.kernels.lstm import BACKWARD, FORWARD, Recurrence

    steps, n, units = 1_040, 8_192, 64
    rows = max(shape.rows for shapes in (FORWARD, BACKWARD) for shape in shapes[256])
    few = torch.randn(1, steps, rows, 8 * units, device=DEVICE).half()
    weight = (torch.randn(1, 2, 4 * units, units, device=DEVICE) / 8).half()
    found = []
    for copies in (1, n // rows):
        gates = few.repeat(1, 1, copies, 1).requires_grad_()
        lengths = torch.full((rows * copies,), steps, device=DEVICE)
        h = Recurrence.apply(gates, weight, lengths, True)[:, :, -rows:]
        (gradient,) = torch.autograd.grad(h.float().sum(), gates)
        found.append((h.detach().clone(), gradient[:, :, -rows:].clone()))
    (alone, to_alone), (last, to_last) = found
    torch.testing.assert_close(last, alone)
    torch.testing.assert_close(to_last, to_alone)


def test_without_gradients_nothing_is_kept_and_the_states_are_the_same():
    from ontodex.models.kernels.lstm import Recurrence

    gates = torch.randn(2, 6, 3, 8 * 64, device=DEVICE).half()
    weight = (torch.randn(2, 2, 4 * 64, 64, device=DEVICE) / 8).half()
    lengths = torch.tensor([6, 2, 0], device=DEVICE)
    given = gates.clone()
    found = Recurrence.apply(given, weight, lengths, False)
    assert torch.equal(given, gates)  # input products, not activations
    assert torch.equal(found, Recurrence.apply(given, weight, lengths, True))


def test_a_gpu_with_little_room_gets_the_next_shape():
    from triton.runtime.errors import OutOfResources

    from ontodex.models.kernels.lstm import Shape, launch

    class Kernel:
        """Has room for 16 rows."""

        ran: ClassVar[list[tuple[object, ...]]] = []

        def __getitem__(self, grid):
            def run(*given, rows, **rest):
                if rows > 16:
                    raise OutOfResources(300_000, 100_000, "shared memory")
                self.ran.append((grid, given, rows, rest))

            return run

    small, large = Shape(16, 32, 4, 2), Shape(32, 64, 8, 3)
    launch(Kernel(), {32: [], 64: [large, small]}, 3, "gates", 40, units=64)
    rest = {"units": 64, "depth": 32, "stages": 2, "num_warps": 4}
    assert Kernel.ran == [((3, 6), ("gates", 40), 16, rest)]
    with pytest.raises(OutOfResources):
        launch(Kernel(), {64: [large]}, 3, "gates", 40, units=64)

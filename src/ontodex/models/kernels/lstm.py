"""BiLSTMs of one size side by side on a GPU: the recurrence of all of them as one Triton kernel.

    input products (g,t,n,8d) ─────┐
    recurrent weights (g,2,4d,d) ──┴─ for each step: gates = input + h W' ─ c, h ─ h (g,t,n,2d)

g are the BiLSTMs. cuDNN runs one LSTM a call, and a call of few units leaves most of a GPU idle
between steps. Here a program owns one direction of one BiLSTM and a few sequences from the first
step to the last, so the BiLSTMs of all levels of `levelwise` run side by side. The backward
direction starts at the end of each sequence, so nothing has to be reversed. Padding is never read,
and its states are 0. Between steps h goes through memory: the program that wrote it reads it again.
Weights are read in each step from the L2 cache. cuDNN's persistent kernels keep them on chip
and need the whole GPU: they are faster for a single LSTM, this kernel for several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.runtime.errors import OutOfResources

from ontodex.models.layers.recurrent import BiLSTM


class Shape(NamedTuple):
    """The tile sizes of a program."""

    rows: int  # sequences; at least 16, for the matrix product
    depth: int  # of the products that are added up: so much of the weights is read at a time
    warps: int
    stages: int  # of the weights that are on their way


# By the largest number of units. First the fastest of three measured on an idle H200, then one for
# GPUs whose multiprocessors have less memory.
FORWARD = {
    256: (Shape(16, 32, 8, 3), Shape(16, 16, 4, 1)),
    512: (Shape(16, 16, 8, 3), Shape(16, 16, 8, 1)),
}
BACKWARD = {
    256: (Shape(16, 64, 8, 4), Shape(16, 32, 4, 2)),
    512: (Shape(16, 64, 8, 3), Shape(16, 16, 8, 2)),
}
EACH = 16  # numbers of a tensor that a thread of the backward kernel holds at a time


@triton.jit
def _sigmoid(x):
    return 1 / (1 + tl.exp(-x))


@triton.jit
def _tanh(x):
    return 2 / (1 + tl.exp(-2 * x)) - 1


@triton.jit
def _forward(
    gates, weight, h, c, lengths, steps, n,
    units: tl.constexpr, rows: tl.constexpr, depth: tl.constexpr, stages: tl.constexpr,
    keeps: tl.constexpr,
):  # fmt: skip
    """Compute all steps of a few sequences.

    gates   (g, t, n, 2, 4d): input products; with `keeps` they become the activations of i, f, g, o
    weight  (g, 2, d, 4d)
    h       (g, t + 2, n, 2, d): states, shifted by one; the first and last place stay zero
    c       (g, 2, t, n, d): cell states, written with `keeps`
    """
    which, is_backward = (tl.program_id(1) // 2).to(tl.int64), tl.program_id(1) % 2
    row = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)  # offsets may pass 2^31
    length = tl.load(lengths + row, mask=row < n, other=0)
    unit = tl.arange(0, units)
    gates += which * steps * n * 8 * units + is_backward * 4 * units
    weight += (which * 2 + is_backward) * units * 4 * units
    h += which * (steps + 2) * n * 2 * units + is_backward * units
    c += (which * 2 + is_backward) * steps * n * units
    cell = tl.zeros([rows, units], tl.float32)
    for step in tl.range(0, tl.max(length), num_stages=1):
        there = (step < length)[:, None]
        place = tl.where(is_backward == 1, length - 1 - step, step)
        at = place * n + row
        before = tl.where(is_backward == 1, at + 2 * n, at)  # in h, whose places are shifted by one
        own = gates + at[:, None] * (8 * units) + unit[None, :]
        i = tl.load(own, mask=there, other=0.0).to(tl.float32)
        f = tl.load(own + units, mask=there, other=0.0).to(tl.float32)
        g = tl.load(own + 2 * units, mask=there, other=0.0).to(tl.float32)
        o = tl.load(own + 3 * units, mask=there, other=0.0).to(tl.float32)
        for first in tl.range(0, units, depth, num_stages=stages):
            some = first + tl.arange(0, depth)
            state = tl.load(
                h + before[:, None] * (2 * units) + some[None, :], mask=there, other=0.0
            )
            w = weight + some[:, None] * (4 * units) + unit[None, :]
            i = tl.dot(state, tl.load(w), i)
            f = tl.dot(state, tl.load(w + units), f)
            g = tl.dot(state, tl.load(w + 2 * units), g)
            o = tl.dot(state, tl.load(w + 3 * units), o)
        i, f, g, o = _sigmoid(i), _sigmoid(f), _tanh(g), _sigmoid(o)
        cell = f * cell + i * g
        now = h + (at + n)[:, None] * (2 * units) + unit[None, :]
        tl.store(now, (o * _tanh(cell)).to(h.dtype.element_ty), mask=there)
        if keeps:
            tl.store(c + at[:, None] * units + unit[None, :], cell, mask=there)
            tl.store(own, i.to(gates.dtype.element_ty), mask=there)
            tl.store(own + units, f.to(gates.dtype.element_ty), mask=there)
            tl.store(own + 2 * units, g.to(gates.dtype.element_ty), mask=there)
            tl.store(own + 3 * units, o.to(gates.dtype.element_ty), mask=there)
        tl.debug_barrier()  # all of h is written before the next step reads it


@triton.jit
def _backward(
    gates, weight, c, dh, back, dc, lengths, by_level, by_place, by_row, steps, n,
    units: tl.constexpr, rows: tl.constexpr, depth: tl.constexpr, stages: tl.constexpr,
    wide: tl.constexpr,
):  # fmt: skip
    """Compute the gradients of all steps of a few sequences, from the last step to the first.

    gates     (g, t, n, 2, 4d): activations; the gradients of the input products replace them
    weight    (g, 2, 4d, d)
    dh        (g, t, n, 2, d): gradients of the states, with strides by_level, by_place and by_row
    back, dc  (g, 2, n, d): gradients from the step after
    """
    which, is_backward = (tl.program_id(1) // 2).to(tl.int64), tl.program_id(1) % 2
    row = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)  # offsets may pass 2^31
    is_row = (row < n)[:, None]
    length = tl.load(lengths + row, mask=row < n, other=0)
    unit = tl.arange(0, units)
    gates += which * steps * n * 8 * units + is_backward * 4 * units
    weight += (which * 2 + is_backward) * units * 4 * units
    c += (which * 2 + is_backward) * steps * n * units
    dh += which * by_level + is_backward * units
    back += (which * 2 + is_backward) * n * units
    dc += (which * 2 + is_backward) * n * units
    for after in tl.range(0, steps, num_stages=1):
        step = steps - 1 - after
        is_inside = step < length
        there, has_before = is_inside[:, None], (is_inside & (step > 0))[:, None]
        place = tl.where(is_inside & (is_backward == 1), length - 1 - step, step)
        at = place * n + row
        before = tl.where(is_backward == 1, at + n, at - n)
        for first in tl.range(0, units, wide, num_stages=1):
            column = first + tl.arange(0, wide)
            own = gates + at[:, None] * (8 * units) + column[None, :]
            i = tl.load(own, mask=there, other=0.0).to(tl.float32)
            f = tl.load(own + units, mask=there, other=0.0).to(tl.float32)
            g = tl.load(own + 2 * units, mask=there, other=0.0).to(tl.float32)
            o = tl.load(own + 3 * units, mask=there, other=0.0).to(tl.float32)
            cells, kept = c + column[None, :], row[:, None] * units + column[None, :]
            then = tl.load(cells + before[:, None] * units, mask=has_before, other=0.0)
            out = _tanh(tl.load(cells + at[:, None] * units, mask=there, other=0.0))
            outside = dh + (place * by_place + row * by_row)[:, None] + column[None, :]
            to_h = tl.load(outside, mask=there, other=0.0).to(tl.float32)
            to_h += tl.load(back + kept, mask=there, other=0.0)
            to_c = tl.load(dc + kept, mask=there, other=0.0) + to_h * o * (1 - out * out)
            tl.store(dc + kept, to_c * f, mask=there)
            kind = gates.dtype.element_ty
            tl.store(own, (to_c * g * i * (1 - i)).to(kind), mask=is_row)
            tl.store(own + units, (to_c * then * f * (1 - f)).to(kind), mask=is_row)
            tl.store(own + 2 * units, (to_c * i * (1 - g * g)).to(kind), mask=is_row)
            tl.store(own + 3 * units, (to_h * out * o * (1 - o)).to(kind), mask=is_row)
        tl.debug_barrier()  # gradients of all gates are written before they are multiplied
        total = tl.zeros([rows, units], tl.float32)
        for first in tl.range(0, 4 * units, depth, num_stages=stages):
            some = first + tl.arange(0, depth)
            of_gates = gates + at[:, None] * (8 * units) + some[None, :]
            w = weight + some[:, None] * units + unit[None, :]
            total = tl.dot(tl.load(of_gates, mask=there, other=0.0), tl.load(w), total)
        tl.store(back + row[:, None] * units + unit[None, :], total, mask=there)
        tl.debug_barrier()


def launch(
    kernel: Any,
    shapes: Mapping[int, Sequence[Shape]],
    pairs: int,
    *given: Any,
    units: int,
    **more: bool,
) -> None:
    """Run a kernel for `pairs` BiLSTMs with the first shape that fits this GPU. The last of the
    `given` arguments is the number of sequences."""
    fitting = next(some for most, some in shapes.items() if units <= most)
    for shape in fitting:
        grid = (triton.cdiv(given[-1], shape.rows), 2 * pairs)
        size = {"units": units, "rows": shape.rows, "depth": shape.depth, "stages": shape.stages}
        if kernel is _backward:
            size["wide"] = min(units, EACH * 32 * shape.warps // shape.rows)
        try:
            kernel[grid](*given, **size, **more, num_warps=shape.warps)
            return
        except OutOfResources:
            if shape is fitting[-1]:
                raise


class Recurrence(torch.autograd.Function):
    """Map input products (g, t, n, 8d), whose memory is reused, and recurrent weights (g, 2, 4d, d)
    to states h (g, t, n, 2d). With `keeps`, values that the backward pass needs are kept."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, lengths: Tensor, keeps: bool) -> Tensor:
        g, t, n, _ = gates.shape
        d = weight.shape[3]
        h = gates.new_zeros(g, t + 2, n, 2 * d)
        c = torch.empty(g, 2, t if keeps else 0, n, d, device=gates.device)
        transposed = weight.transpose(2, 3).contiguous()  # (g, 2, d, 4d)
        launch(_forward, FORWARD, g, gates, transposed, h, c, lengths, t, n, units=d, keeps=keeps)
        if keeps:
            ctx.kept = gates, weight, lengths, h, c
        return h[:, 1:-1]

    @staticmethod
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor, Tensor, None, None]:
        gates, weight, lengths, h, c = ctx.kept
        ctx.kept = ()
        g, t, n, _ = gates.shape
        d = weight.shape[3]
        dh = dh if dh.stride(3) == 1 else dh.contiguous()
        back, dc = (torch.zeros(g, 2, n, d, device=gates.device) for _ in range(2))
        strides = dh.stride()[:3]
        given = (gates, weight, c, dh, back, dc, lengths, *strides, t, n)
        launch(_backward, BACKWARD, g, *given, units=d)
        each = gates.view(g, t * n, 2, 4 * d).unbind(2)
        before = h[:, :-2, :, :d].flatten(1, 2), h[:, 2:, :, d:].flatten(1, 2)
        directions = [torch.bmm(of.transpose(1, 2), b) for of, b in zip(each, before, strict=True)]
        return gates, torch.stack(directions, dim=1), None, None


def encode_together(encoders: Sequence[BiLSTM], x: Tensor, lengths: Tensor) -> list[Tensor]:
    """Return the states (n, t, 2d) of each encoder for its own part of x (t, n, g, e). They equal
    those of `BiLSTM.forward` except at padding, where they are 0."""
    with torch.autocast(x.device.type, dtype=torch.float16):
        directions = [(one.onward, one.backward_) for one in encoders]
        into = _stack(directions, "weight_ih_l0").flatten(1, 2)  # (g, 8d, e)
        bias = (_stack(directions, "bias_ih_l0") + _stack(directions, "bias_hh_l0")).flatten(1)
        each = x.half().flatten(0, 1).transpose(0, 1)  # (g, t n, e)
        gates = torch.baddbmm(bias[:, None], each, into.transpose(1, 2))
        recurrent = _stack(directions, "weight_hh_l0").half()  # (g, 2, 4d, d)
        keeps = torch.is_grad_enabled()
        h = Recurrence.apply(gates.unflatten(1, x.shape[:2]), recurrent, lengths, keeps)
        # The gradient of `unbind` is one stack; that of each h[i] would be as large as all of h.
        return list(h.transpose(1, 2).unbind())


def _stack(directions: Sequence[tuple[nn.LSTM, nn.LSTM]], name: str) -> Tensor:
    """Return (g, 2, ...): a parameter of both directions of each BiLSTM."""
    return torch.stack(
        [torch.stack([way.get_parameter(name) for way in pair]) for pair in directions]
    )

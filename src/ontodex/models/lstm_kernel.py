"""BiLSTMs of one size side by side, on a GPU: the recurrence of all of them as one Triton kernel.

    input products (g,t,n,8d) ─────┐
    recurrent weights (g,2,4d,d) ──┴─ for each step: gates = input + h W' ─ c, h ─ h (g,t,n,2d)

cuDNN runs one LSTM a call, and a call of few units leaves most of a GPU waiting for the next step.
Here a program owns one direction of one BiLSTM and a few sequences from the first step to the last,
so those of all levels of `levelwise` run side by side. The backward direction starts at the end of
each sequence: nothing is turned round. Padding is never read and its states are 0. Between steps h
goes through memory, which is read again by the program that wrote it. Weights are read anew in each
step, from the L2 cache. cuDNN's persistent kernels keep them, and the whole GPU to themselves: one
LSTM alone is theirs, several are quicker here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor, nn
from triton.runtime.errors import OutOfResources

from ontodex.models.parts import BiLSTM


class Shape(NamedTuple):
    """Of a program."""

    rows: int  # sequences; at least 16, for the matrix product
    depth: int  # of the products that are added up: so much of the weights is read at a time
    warps: int
    stages: int  # of the weights that are on their way


# By the most units. First the fastest of three on an H200 that does nothing else; the other is for
# GPUs whose multiprocessors have less memory.
FORWARD = {
    256: (Shape(16, 32, 8, 3), Shape(16, 16, 4, 1)),
    512: (Shape(16, 16, 8, 3), Shape(16, 16, 8, 1)),
}
BACKWARD = {
    256: (Shape(16, 64, 8, 4), Shape(16, 32, 4, 2)),
    512: (Shape(16, 64, 8, 3), Shape(16, 16, 8, 2)),
}
EACH = 16  # numbers of a tensor that a thread of the backward has at a time


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
    """gates (g, t, n, 2, 4d): input products in; with `keeps`, activations of i, f, g, o out, and
    c (g, 2, t, n, d). weight (g, 2, d, 4d). h (g, t + 2, n, 2, d): from zeros; the first and the
    last place of a sequence stay so, and what is between is shifted by one."""
    which, turned = (tl.program_id(1) // 2).to(tl.int64), tl.program_id(1) % 2
    row = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)  # offsets may pass 2^31
    length = tl.load(lengths + row, mask=row < n, other=0)
    unit = tl.arange(0, units)
    gates += which * steps * n * 8 * units + turned * 4 * units
    weight += (which * 2 + turned) * units * 4 * units
    h += which * (steps + 2) * n * 2 * units + turned * units
    c += (which * 2 + turned) * steps * n * units
    cell = tl.zeros([rows, units], tl.float32)
    for step in tl.range(0, tl.max(length), num_stages=1):
        there = (step < length)[:, None]
        place = tl.where(turned == 1, length - 1 - step, step)
        at = place * n + row
        before = tl.where(turned == 1, at + 2 * n, at)  # in h, whose places are shifted by one
        own = gates + at[:, None] * (8 * units) + unit[None, :]
        i = tl.load(own, mask=there, other=0.0).to(tl.float32)
        f = tl.load(own + units, mask=there, other=0.0).to(tl.float32)
        g = tl.load(own + 2 * units, mask=there, other=0.0).to(tl.float32)
        o = tl.load(own + 3 * units, mask=there, other=0.0).to(tl.float32)
        for first in tl.range(0, units, depth, num_stages=stages):
            some = first + tl.arange(0, depth)
            told = tl.load(h + before[:, None] * (2 * units) + some[None, :], mask=there, other=0.0)
            w = weight + some[:, None] * (4 * units) + unit[None, :]
            i = tl.dot(told, tl.load(w), i)
            f = tl.dot(told, tl.load(w + units), f)
            g = tl.dot(told, tl.load(w + 2 * units), g)
            o = tl.dot(told, tl.load(w + 3 * units), o)
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
    """gates: activations in, gradients of the input products out, 0 at padding. weight
    (g, 2, 4d, d). dh (g, t, n, 2, d): gradients from outside, so far apart. back, dc (g, 2, n, d):
    from the step after."""
    which, turned = (tl.program_id(1) // 2).to(tl.int64), tl.program_id(1) % 2
    row = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)  # offsets may pass 2^31
    is_row = (row < n)[:, None]
    length = tl.load(lengths + row, mask=row < n, other=0)
    unit = tl.arange(0, units)
    gates += which * steps * n * 8 * units + turned * 4 * units
    weight += (which * 2 + turned) * units * 4 * units
    c += (which * 2 + turned) * steps * n * units
    dh += which * by_level + turned * units
    back += (which * 2 + turned) * n * units
    dc += (which * 2 + turned) * n * units
    for after in tl.range(0, steps, num_stages=1):
        step = steps - 1 - after
        is_inside = step < length
        there, has_before = is_inside[:, None], (is_inside & (step > 0))[:, None]
        place = tl.where(is_inside & (turned == 1), length - 1 - step, step)
        at = place * n + row
        before = tl.where(turned == 1, at + n, at - n)
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
    """Run the kernel of so many BiLSTMs in the first shape that this GPU has room for; the last of
    what is `given` is the number of sequences."""
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
    """h (g, t, n, 2d) of g BiLSTMs, from input products (g, t, n, 8d), whose memory is used up, and
    recurrent weights (g, 2, 4d, d). `keeps`: what gradients need."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, lengths: Tensor, keeps: bool) -> Tensor:
        g, t, n, _ = gates.shape
        d = weight.shape[3]
        h = gates.new_zeros(g, t + 2, n, 2 * d)
        c = torch.empty(g, 2, t if keeps else 0, n, d, device=gates.device)
        turned = weight.transpose(2, 3).contiguous()  # (g, 2, d, 4d)
        launch(_forward, FORWARD, g, gates, turned, h, c, lengths, t, n, units=d, keeps=keeps)
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
        apart = dh.stride()[:3]
        given = (gates, weight, c, dh, back, dc, lengths, *apart, t, n)
        launch(_backward, BACKWARD, g, *given, units=d)
        each = gates.view(g, t * n, 2, 4 * d).unbind(2)
        before = h[:, :-2, :, :d].flatten(1, 2), h[:, 2:, :, d:].flatten(1, 2)
        ways = [torch.bmm(of.transpose(1, 2), b) for of, b in zip(each, before, strict=True)]
        return gates, torch.stack(ways, dim=1), None, None


def read_together(encoders: Sequence[BiLSTM], x: Tensor, lengths: Tensor) -> list[Tensor]:
    """What each encoder makes of its own part of x (t, n, g, e), places first: (n, t, 2d), as
    `BiLSTM.forward` has it, but for padding."""
    with torch.autocast(x.device.type, dtype=torch.float16):
        ways = [(one.onward, one.backward_) for one in encoders]
        into = _stacked(ways, "weight_ih_l0").flatten(1, 2)  # (g, 8d, e)
        bias = (_stacked(ways, "bias_ih_l0") + _stacked(ways, "bias_hh_l0")).flatten(1)
        each = x.half().flatten(0, 1).transpose(0, 1)  # (g, t n, e)
        gates = torch.baddbmm(bias[:, None], each, into.transpose(1, 2))
        recurrent = _stacked(ways, "weight_hh_l0").half()  # (g, 2, 4d, d)
        keeps = torch.is_grad_enabled()
        h = Recurrence.apply(gates.unflatten(1, x.shape[:2]), recurrent, lengths, keeps)
        # Unbound, its gradient is one stack; that of h[i] would be as large as all of h.
        return list(h.transpose(1, 2).unbind())


def _stacked(ways: Sequence[tuple[nn.LSTM, nn.LSTM]], name: str) -> Tensor:
    """(g, 2, ...): a parameter of both directions of each."""
    return torch.stack([torch.stack([way.get_parameter(name) for way in pair]) for pair in ways])

"""Several one-way LSTMs of one size at once, on a GPU: the recurrence as one Triton kernel.

    input products (g,t,n,4d) ─┐
    recurrent weights (g,4d,d) ┴─ for each t: gates = input + h W' ─ c, h ─ h (g,t,n,d)

cuDNN runs one LSTM a call, and a call of few units leaves most of a GPU waiting for the next step.
Here a program owns one LSTM and a few sequences from the first step to the last, so the LSTMs of
all levels of `levelwise`, both directions, run side by side. Between steps h goes through memory,
which is read again by the program that wrote it. Weights are read anew in each step, from the L2
cache. cuDNN's persistent kernels keep them, and the whole GPU to themselves: with 512 units they
take about as long, and nothing else runs beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.runtime.errors import OutOfResources

from ontodex.models.parts import BiLSTM, turn


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
    gates, weight, h, c, steps, n,
    units: tl.constexpr, rows: tl.constexpr, depth: tl.constexpr, stages: tl.constexpr,
):  # fmt: skip
    """gates (g, t, n, 4d): input products in, activations of i, f, g, o out. weight (g, d, 4d).
    h, c (g, t + 1, n, d): the states, from the one before the first step on."""
    which = tl.program_id(1).to(tl.int64)
    row = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)  # offsets may pass 2^31
    there = (row < n)[:, None]
    unit = tl.arange(0, units)
    gates += which * steps * n * 4 * units
    weight += which * units * 4 * units
    h += which * (steps + 1) * n * units
    c += which * (steps + 1) * n * units
    cell = tl.zeros([rows, units], tl.float32)
    for t in tl.range(0, steps, num_stages=1):
        at = t * n + row
        own = gates + at[:, None] * (4 * units) + unit[None, :]
        i = tl.load(own, mask=there, other=0.0).to(tl.float32)
        f = tl.load(own + units, mask=there, other=0.0).to(tl.float32)
        g = tl.load(own + 2 * units, mask=there, other=0.0).to(tl.float32)
        o = tl.load(own + 3 * units, mask=there, other=0.0).to(tl.float32)
        for first in tl.range(0, units, depth, num_stages=stages):
            some = first + tl.arange(0, depth)
            before = tl.load(h + at[:, None] * units + some[None, :], mask=there, other=0.0)
            w = weight + some[:, None] * (4 * units) + unit[None, :]
            i = tl.dot(before, tl.load(w), i)
            f = tl.dot(before, tl.load(w + units), f)
            g = tl.dot(before, tl.load(w + 2 * units), g)
            o = tl.dot(before, tl.load(w + 3 * units), o)
        i, f, g, o = _sigmoid(i), _sigmoid(f), _tanh(g), _sigmoid(o)
        cell = f * cell + i * g
        state = (at + n)[:, None] * units + unit[None, :]
        tl.store(c + state, cell, mask=there)
        tl.store(h + state, (o * _tanh(cell)).to(h.dtype.element_ty), mask=there)
        tl.store(own, i.to(gates.dtype.element_ty), mask=there)
        tl.store(own + units, f.to(gates.dtype.element_ty), mask=there)
        tl.store(own + 2 * units, g.to(gates.dtype.element_ty), mask=there)
        tl.store(own + 3 * units, o.to(gates.dtype.element_ty), mask=there)
        tl.debug_barrier()  # all of h is written before the next step reads it


@triton.jit
def _backward(
    gates, weight, c, dh, back, dc, steps, n,
    units: tl.constexpr, rows: tl.constexpr, depth: tl.constexpr, stages: tl.constexpr,
    wide: tl.constexpr,
):  # fmt: skip
    """gates: activations in, gradients of the input products out. weight (g, 4d, d). dh
    (g, t, n, d): gradients from outside. back, dc (g, n, d): from the step after."""
    which = tl.program_id(1).to(tl.int64)
    row = (tl.program_id(0) * rows + tl.arange(0, rows)).to(tl.int64)  # offsets may pass 2^31
    there = (row < n)[:, None]
    unit = tl.arange(0, units)
    gates += which * steps * n * 4 * units
    weight += which * units * 4 * units
    c += which * (steps + 1) * n * units
    dh += which * steps * n * units
    back += which * n * units
    dc += which * n * units
    for after in tl.range(0, steps, num_stages=1):
        at = (steps - 1 - after) * n + row
        for first in tl.range(0, units, wide, num_stages=1):
            column = first + tl.arange(0, wide)
            own = gates + at[:, None] * (4 * units) + column[None, :]
            i = tl.load(own, mask=there, other=0.0).to(tl.float32)
            f = tl.load(own + units, mask=there, other=0.0).to(tl.float32)
            g = tl.load(own + 2 * units, mask=there, other=0.0).to(tl.float32)
            o = tl.load(own + 3 * units, mask=there, other=0.0).to(tl.float32)
            state = at[:, None] * units + column[None, :]
            kept = row[:, None] * units + column[None, :]
            then = tl.load(c + state, mask=there, other=0.0)
            out = _tanh(tl.load(c + state + n * units, mask=there, other=0.0))
            to_h = tl.load(dh + state, mask=there, other=0.0).to(tl.float32)
            to_h += tl.load(back + kept, mask=there, other=0.0)
            to_c = tl.load(dc + kept, mask=there, other=0.0) + to_h * o * (1 - out * out)
            tl.store(dc + kept, to_c * f, mask=there)
            kind = gates.dtype.element_ty
            tl.store(own, (to_c * g * i * (1 - i)).to(kind), mask=there)
            tl.store(own + units, (to_c * then * f * (1 - f)).to(kind), mask=there)
            tl.store(own + 2 * units, (to_c * i * (1 - g * g)).to(kind), mask=there)
            tl.store(own + 3 * units, (to_h * out * o * (1 - o)).to(kind), mask=there)
        tl.debug_barrier()  # gradients of all gates are written before they are multiplied
        total = tl.zeros([rows, units], tl.float32)
        for first in tl.range(0, 4 * units, depth, num_stages=stages):
            some = first + tl.arange(0, depth)
            of_gates = gates + at[:, None] * (4 * units) + some[None, :]
            w = weight + some[:, None] * units + unit[None, :]
            total = tl.dot(tl.load(of_gates, mask=there, other=0.0), tl.load(w), total)
        tl.store(back + row[:, None] * units + unit[None, :], total, mask=there)
        tl.debug_barrier()


def launch(
    kernel: Any, shapes: Mapping[int, Sequence[Shape]], g: int, *given: Any, units: int
) -> None:
    """Run the kernel of g LSTMs in the first shape that this GPU has room for; the last of what is
    `given` is the number of sequences."""
    fitting = next(some for most, some in shapes.items() if units <= most)
    for shape in fitting:
        grid = (triton.cdiv(given[-1], shape.rows), g)
        size = {"units": units, "rows": shape.rows, "depth": shape.depth, "stages": shape.stages}
        if kernel is _backward:
            size["wide"] = min(units, EACH * 32 * shape.warps // shape.rows)
        try:
            kernel[grid](*given, **size, num_warps=shape.warps)
            return
        except OutOfResources:
            if shape is fitting[-1]:
                raise


class Recurrence(torch.autograd.Function):
    """h (g, t, n, d) of g LSTMs, from input products (g, t, n, 4d), whose memory is used up, and
    recurrent weights (g, 4d, d)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor) -> Tensor:
        g, t, n, _ = gates.shape
        d = weight.shape[2]
        h = torch.zeros(g, t + 1, n, d, dtype=gates.dtype, device=gates.device)
        c = torch.zeros(g, t + 1, n, d, dtype=torch.float32, device=gates.device)
        turned = weight.transpose(1, 2).contiguous()  # (g, d, 4d)
        launch(_forward, FORWARD, g, gates, turned, h, c, t, n, units=d)
        ctx.kept = gates, weight, h, c
        return h[:, 1:]

    @staticmethod
    def backward(ctx: Any, dh: Tensor) -> tuple[Tensor, Tensor]:
        gates, weight, h, c = ctx.kept
        ctx.kept = ()
        g, t, n, _ = gates.shape
        d = weight.shape[2]
        back, dc = (torch.zeros(g, n, d, device=gates.device) for _ in range(2))
        launch(_backward, BACKWARD, g, gates, weight, c, dh.contiguous(), back, dc, t, n, units=d)
        before = h[:, :-1].reshape(g, t * n, d)
        return gates, torch.bmm(gates.view(g, t * n, 4 * d).transpose(1, 2), before)


def read_together(
    encoders: Sequence[BiLSTM], inputs: Sequence[Tensor], lengths: Tensor
) -> list[Tensor]:
    """What each encoder makes of its own input (n, t, e): (n, t, 2d), as `BiLSTM.forward`."""
    with torch.autocast(lengths.device.type, dtype=torch.float16):
        directions = [layer for one in encoders for layer in (one.onward, one.backward_)]
        weights = [dict(layer.named_parameters()) for layer in directions]
        read = [way for x in inputs for way in (x, turn(x, lengths))]
        x = torch.stack([way.transpose(0, 1) for way in read]).half()  # (2g, t, n, e)
        into = torch.stack([w["weight_ih_l0"].T for w in weights])  # (2g, e, 4d)
        bias = torch.stack([w["bias_ih_l0"] + w["bias_hh_l0"] for w in weights])
        gates = torch.baddbmm(bias[:, None], x.flatten(1, 2), into).view(*x.shape[:3], -1)
        recurrent = torch.stack([w["weight_hh_l0"] for w in weights]).half()
        h = Recurrence.apply(gates, recurrent).transpose(1, 2)  # (2g, n, t, d)
        ways = h.unbind()  # its gradient is one stack; that of h[i] would be as large as all of h
        return [
            torch.cat([onward, turn(back, lengths)], dim=-1)
            for onward, back in zip(ways[::2], ways[1::2], strict=True)
        ]

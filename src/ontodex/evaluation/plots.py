"""Small plots as inline SVG, without a library or a script.

Colours come from the page's style sheet, so they follow light and dark mode. Every vertical axis
shows shares from 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ontodex.evaluation.ranking import Numbers
from ontodex.evaluation.reliability import Reliability
from ontodex.io.counts import format_count

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 46, 626, 38, 234  # the plotting area
_CHARACTER = 7.5  # greatest width of a character, in the type of report.css


def draw_bars(
    groups: Sequence[str], series: Mapping[str, Sequence[float]], *, about: str, x_name: str
) -> str:
    """Draw grouped bars, one colour per series, with the value in per cent on top of each."""
    slot = (RIGHT - LEFT) / max(len(groups), 1)
    width = min(slot * 0.8 / max(len(series), 1), 46)
    parts = [*_frame(), *_legend(list(series)), _text((LEFT + RIGHT) / 2, BOTTOM + 38, x_name)]
    for g, name in enumerate(groups):
        middle = LEFT + slot * (g + 0.5)
        parts.append(_text(middle, BOTTOM + 18, name))
        for s, (metric, values) in enumerate(series.items()):
            left, top = middle + (s - len(series) / 2) * width, _y(values[g])
            parts.append(
                f'<rect class="series-{s + 1}" x="{left + 1:.1f}" y="{top:.1f}" '
                f'width="{width - 2:.1f}" height="{BOTTOM - top:.1f}" rx="2">'
                f"<title>{escape(f'{name}, {metric}: {values[g]:.1%}')}</title></rect>"
            )
            if width > 16:
                parts.append(
                    _text(left + width / 2, top - 4, f"{100 * values[g]:.0f}", style="value")
                )
    return _svg(parts, about)


def draw_lines(
    x: Numbers | Sequence[float],
    series: Mapping[str, Numbers] | Mapping[str, Sequence[float]],
    *,
    about: str,
    x_name: str,
    mark: float | None = None,
    most: float = 1.0,
) -> str:
    """Draw lines over x in [0, most]; `mark` adds a vertical line at one x."""
    parts = [*_frame(), *_legend(list(series)), *_x_axis(x_name, most)]
    if mark is not None:
        parts.append(_line("mark", _x(mark / most), TOP, _x(mark / most), BOTTOM))
    for s, values in enumerate(series.values()):
        places = zip(x, values, strict=True)
        points = " ".join(f"{_x(a / most):.1f},{_y(b):.1f}" for a, b in places)
        parts.append(f'<polyline class="line series-{s + 1}" points="{points}"/>')
    return _svg(parts, about)


def draw_reliability(bins: Reliability, *, about: str) -> str:
    """Draw the share of true labels by probability; calibrated ones lie on the dashed diagonal.

    The area of a dot grows with the number of labels in its bin.
    """
    parts = [*_frame(), *_x_axis("predicted probability")]
    parts.append(_line("mark", _x(0), _y(0), _x(1), _y(1)))
    most = max(int(bins.count.max(initial=1)), 1)
    filled = [b for b in range(len(bins.count)) if bins.count[b]]
    points = " ".join(f"{_x(bins.claimed[b]):.1f},{_y(bins.true[b]):.1f}" for b in filled)
    parts.append(f'<polyline class="line series-1" points="{points}"/>')
    for b in filled:
        radius = 3 + 9 * (bins.count[b] / most) ** 0.5
        tip = f"predicted {bins.claimed[b]:.1%}, true {bins.true[b]:.1%}, "
        tip += format_count(bins.count[b], "label")
        parts.append(
            f'<circle class="series-1" cx="{_x(bins.claimed[b]):.1f}" cy="{_y(bins.true[b]):.1f}" '
            f'r="{radius:.1f}"><title>{tip}</title></circle>'
        )
    parts.append(
        _text(_x(0.99), _y(0.06), "above the line: underconfident; below: overconfident", "end")
    )
    return _svg(parts, about)


def _x(share: float) -> float:
    """Return the horizontal position of a share of the axis."""
    return LEFT + (RIGHT - LEFT) * float(share)


def _y(share: float) -> float:
    """Return the vertical position of a share of the axis."""
    return BOTTOM - (BOTTOM - TOP) * float(share)


def _svg(parts: Sequence[str], about: str) -> str:
    """Return the picture; `about` describes it for screen readers."""
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg {size} role="img" aria-label="{escape(about)}">{"".join(parts)}</svg>'


def _frame() -> Iterator[str]:
    """Draw horizontal lines at every quarter, with their per cent."""
    for quarter in range(5):
        share = quarter / 4
        yield _line("grid", LEFT, _y(share), RIGHT, _y(share))
        yield _text(LEFT - 8, _y(share) + 4, f"{100 * share:.0f}%", "end")


def _x_axis(name: str, most: float = 1.0) -> Iterator[str]:
    """Draw the ticks and the name of the horizontal axis."""
    step = _round_step(most)
    for tick in range(math.floor(most / step) + 1):
        value = step * tick
        label = f"{value:.1f}" if most <= 1 else f"{value:,.10g}"
        inside = WIDTH - _CHARACTER * len(label) / 2  # a long last one would leave the picture
        yield _text(min(_x(value / most), inside), BOTTOM + 18, label)
    yield _text((LEFT + RIGHT) / 2, BOTTOM + 38, name)


def _round_step(most: float) -> float:
    """Return the least of 1, 2, 2.5, 5 times a power of ten that gives at most six steps."""
    power = 10.0 ** math.floor(math.log10(most / 6))
    return next(step for step in (power * f for f in (1, 2, 2.5, 5, 10)) if most / step <= 6)


def _legend(names: Sequence[str]) -> Iterator[str]:
    """Draw the colours and names of the series."""
    left = float(LEFT)
    for s, name in enumerate(names):
        yield f'<rect class="series-{s + 1}" x="{left:.1f}" y="8" width="11" height="11" rx="2"/>'
        yield _text(left + 16, 18, name, "start")
        left += 38 + 6.4 * len(name)


def _text(x: float, y: float, text: str, anchor: str = "middle", style: str = "label") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{style}" {place}>{escape(text)}</text>'


def _line(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'

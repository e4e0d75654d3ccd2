"""Small plots as inline SVG. Colours come from the page's style sheet, so they follow light and
dark; no library, no script. Shares (0 to 1) run upwards on every vertical axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ontodex.evaluate.calibration import Reliability
from ontodex.evaluate.ranking import Numbers

WIDTH, HEIGHT = 640, 280
LEFT, RIGHT, TOP, BOTTOM = 46, 626, 38, 234  # the plotting area
_CHARACTER = 7.5  # at most about so wide, in the type of report.css


@dataclass(frozen=True)
class Panel:
    """Lines of shares over one x that starts at 0."""

    name: str
    x: Sequence[float]
    series: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Illustration:
    """A section of a report that a system draws of itself."""

    title: str
    sentence: str
    x_name: str
    panels: Sequence[Panel]


def bars(
    groups: Sequence[str], series: Mapping[str, Sequence[float]], *, about: str, x_name: str
) -> str:
    """Grouped bars, one colour per series, the value in per cent on top of each."""
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


def lines(
    x: Numbers | Sequence[float],
    series: Mapping[str, Numbers] | Mapping[str, Sequence[float]],
    *,
    about: str,
    x_name: str,
    mark: float | None = None,
    most: float = 1.0,
) -> str:
    """Lines over x in [0, most]; `mark` draws an upright at one x."""
    parts = [*_frame(), *_legend(list(series)), *_x_axis(x_name, most)]
    if mark is not None:
        parts.append(_line("mark", _x(mark / most), TOP, _x(mark / most), BOTTOM))
    for s, values in enumerate(series.values()):
        places = zip(x, values, strict=True)
        points = " ".join(f"{_x(a / most):.1f},{_y(b):.1f}" for a, b in places)
        parts.append(f'<polyline class="line series-{s + 1}" points="{points}"/>')
    return _svg(parts, about)


def reliability_plot(bins: Reliability, *, about: str) -> str:
    """What came true against what was claimed; honest probabilities lie on the dashed diagonal.
    The area of a dot grows with the answers behind it."""
    parts = [*_frame(), *_x_axis("probability claimed")]
    parts.append(_line("mark", _x(0), _y(0), _x(1), _y(1)))
    most = max(int(bins.count.max(initial=1)), 1)
    filled = [b for b in range(len(bins.count)) if bins.count[b]]
    points = " ".join(f"{_x(bins.claimed[b]):.1f},{_y(bins.true[b]):.1f}" for b in filled)
    parts.append(f'<polyline class="line series-1" points="{points}"/>')
    for b in filled:
        radius = 3 + 9 * (bins.count[b] / most) ** 0.5
        said = f"claimed {bins.claimed[b]:.1%}, true {bins.true[b]:.1%}, {bins.count[b]:,} answers"
        parts.append(
            f'<circle class="series-1" cx="{_x(bins.claimed[b]):.1f}" cy="{_y(bins.true[b]):.1f}" '
            f'r="{radius:.1f}"><title>{said}</title></circle>'
        )
    parts.append(_text(_x(0.99), _y(0.06), "above the line: too modest; below: too bold", "end"))
    return _svg(parts, about)


def _x(share: float) -> float:
    return LEFT + (RIGHT - LEFT) * float(share)


def _y(share: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * float(share)


def _svg(parts: Sequence[str], about: str) -> str:
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}"'
    return f'<svg {size} role="img" aria-label="{escape(about)}">{"".join(parts)}</svg>'


def _frame() -> Iterator[str]:
    """Horizontal rules at every quarter, with their per cent."""
    for quarter in range(5):
        share = quarter / 4
        yield _line("grid", LEFT, _y(share), RIGHT, _y(share))
        yield _text(LEFT - 8, _y(share) + 4, f"{100 * share:.0f}%", "end")


def _x_axis(name: str, most: float = 1.0) -> Iterator[str]:
    step = _round_step(most)
    for tick in range(math.floor(most / step) + 1):
        value = step * tick
        label = f"{value:.1f}" if most <= 1 else f"{value:,.10g}"
        inside = WIDTH - _CHARACTER * len(label) / 2  # a long last one would leave the picture
        yield _text(min(_x(value / most), inside), BOTTOM + 18, label)
    yield _text((LEFT + RIGHT) / 2, BOTTOM + 38, name)


def _round_step(most: float) -> float:
    """The least of 1, 2, 2.5 and 5 times a power of ten that is in `most` six times at most."""
    power = 10.0 ** math.floor(math.log10(most / 6))
    return next(step for step in (power * f for f in (1, 2, 2.5, 5, 10)) if most / step <= 6)


def _legend(names: Sequence[str]) -> Iterator[str]:
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

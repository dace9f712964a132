"""Line charts as SVG: both axes logarithmic, a legend, nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 50, 60
#: Told apart by people with any colour vision.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")

Points = Sequence[tuple[float, float]]


def chart(title: str, x_label: str, y_label: str, lines: Mapping[str, Points]) -> str:
    """The text of an SVG file; all values above 0."""
    x_axis = _Axis([x for points in lines.values() for x, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = _Axis([y for points in lines.values() for _, y in points], HEIGHT - BOTTOM, TOP)
    middle = HEIGHT / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{WIDTH / 2:.0f}" y="22" text-anchor="middle" font-size="15">{escape(title)}</text>',
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="16" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 16 {middle:.0f})">'
        f"{escape(y_label)}</text>",
    ]
    for value in x_axis.ticks():
        x = x_axis.place(value)
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(value)}</text>')
    for value in y_axis.ticks():
        y = y_axis.place(value)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{short(value)}</text>')
    for number, (name, points) in enumerate(lines.items()):
        color = COLORS[number % len(COLORS)]
        places = [(x_axis.place(x), y_axis.place(y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in places]
        x = LEFT + 10 + number * 180
        parts.append(f'<line x1="{x}" y1="38" x2="{x + 24}" y2="38" stroke="{color}" stroke-width="2"/>')
        parts.append(f'<text x="{x + 30}" y="42">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


class _Axis:
    """Values to places, by their logarithms."""

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low, self._high = log10(min(values)), log10(max(values))
        if self._high - self._low < 0.3:
            self._low, self._high = self._low - 0.15, self._high + 0.15
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        share = (log10(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)

    def ticks(self) -> list[float]:
        steps = (1, 2, 5) if self._high - self._low < 3 else (1,)
        powers = range(floor(self._low), ceil(self._high) + 1)
        found = [step * 10.0**power for power in powers for step in steps]
        return [value for value in found if self._low - 1e-9 <= log10(value) <= self._high + 1e-9]


def short(value: float) -> str:
    """1500 as 1.5k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"

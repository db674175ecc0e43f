"""Draws the curves of `growth.py` as an SVG that can be read on a light and on a dark page."""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from growth import Cost, Family

_WIDTH, _PANEL_HEIGHT, _LEGEND_LINE = 960, 360, 20
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 460, 48, 40  # space around the axes of a panel
# Colours of middle lightness: each has a contrast of 3:1 to white and to a dark page. The dashes
# tell the curves apart without colours.
_COLOURS = ("#3b82c4", "#d0602c", "#2f9a67", "#a55fc0", "#b8860b", "#d1487f", "#5f8a8b", "#8a7a5a")
_DASHES = ("", "6 3", "2 3")
_STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#24292f}.title{font-size:15px;font-weight:600}"
    ".faint{fill:#656d76}.axis{stroke:#8c959f;fill:none}.grid{stroke:#8c959f;opacity:.3}"
    "path,circle{stroke-width:2}"
    "@media (prefers-color-scheme:dark){text{fill:#e6edf3}.faint{fill:#9198a1}}"
)


def draw(families: Sequence["Family"]) -> str:
    """One panel for each family. Each cost is relative to what it is at the smallest size, so that
    a slope is an exponent, whatever the unit."""
    parts: list[str] = []
    top = 0
    for family in families:
        height = max(_PANEL_HEIGHT, _TOP + _LEGEND_LINE * (len(family.costs) + 2))
        parts.append(f'<g transform="translate(0 {top})">{"".join(_panel(family, height))}</g>')
        top += height
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" role="img">'
    title = "<title>How costs grow, on logarithmic axes</title>"
    return "\n".join((head, title, f"<style>{_STYLE}</style>", *parts, "</svg>")) + "\n"


def _panel(family: "Family", height: int) -> Iterable[str]:
    costs = [cost for cost in family.costs if min(cost.points.values(), default=0) > 0]
    sizes = sorted(costs[0].points)
    relative = {
        cost.name: [cost.points[size] / cost.points[sizes[0]] for size in sizes] for cost in costs
    }
    values = [value for each in relative.values() for value in each]
    low = math.floor(math.log10(min(*values, 1.0)))
    high = max(low + 1, math.ceil(math.log10(max(values))))
    right, bottom = _WIDTH - _RIGHT, height - _BOTTOM

    def x(size: float) -> float:
        span = math.log10(sizes[-1] / sizes[0])
        return _LEFT + math.log10(size / sizes[0]) / span * (right - _LEFT)

    def y(value: float) -> float:
        return bottom - (math.log10(value) - low) / (high - low) * (bottom - _TOP)

    yield f'<text class="title" x="16" y="24">{escape(family.title)}</text>'
    for power in range(low, high + 1):
        at = y(10.0**power)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text class="faint" x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">'
        yield f"{10.0**power:g} x</text>"
    for size in sizes:
        yield f'<path class="grid" d="M{x(size):.1f} {_TOP}V{bottom}"/>'
        yield (
            f'<text class="faint" x="{x(size):.1f}" y="{bottom + 16}" text-anchor="middle">'
            f"{size:,}</text>"
        )
    yield (
        f'<text class="faint" x="{(_LEFT + right) / 2:.0f}" y="{bottom + 33}"'
        f' text-anchor="middle">{escape(family.axis)}</text>'
    )
    yield f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{right}"/>'
    yield f'<text class="faint" x="{right + 40}" y="{_TOP - 8}">exponent / of its work</text>'
    for number, cost in enumerate(costs):
        colour = _COLOURS[number % len(_COLOURS)]
        dash = _DASHES[number // len(_COLOURS)]
        style = f'stroke="{colour}"' + (f' stroke-dasharray="{dash}"' if dash else "")
        points = [
            f"{x(size):.1f} {y(value):.1f}"
            for size, value in zip(sizes, relative[cost.name], strict=True)
        ]
        yield f'<path d="M{"L".join(points)}" fill="none" {style}/>'
        for point in points:
            cx, cy = point.split()
            yield f'<circle cx="{cx}" cy="{cy}" r="2.5" fill="{colour}" stroke="none"/>'
        line = _TOP + 10 + number * _LEGEND_LINE
        yield f'<path d="M{right + 16} {line - 4}h18" fill="none" {style}/>'
        yield f'<text x="{right + 40}" y="{line}">{_legend(cost)}</text>'


def _legend(cost: "Cost") -> str:
    mark = " ▲" if cost.grows_faster else ""
    return escape(f"{cost.exponent:.2f} / {cost.work:g}  {cost.name}{mark}")

"""The table of a benchmark: each figure beside the floor's, their ratio, and its target."""

from collections.abc import Sequence
from enum import StrEnum

import msgspec


class Limit(StrEnum):
    """How a target is to be read."""

    RATIO_AT_MOST = "≤ {:g} x floor"
    RATIO_AT_LEAST = "≥ {:.2g} x floor"
    CACHED_AT_MOST = "≤ {:g} x cached"  # the other column is the same with a cached agent
    BEFORE_AT_MOST = "≤ {:g} x before"  # the other column is the same before it all
    SIMULATED_AT_MOST = "≤ {:g} x simulated"  # the other column is the simulated platform
    PARSER_AT_MOST = "≤ {:g} x parser"  # the other column is the parser's own HTML
    AT_MOST = "≤ {:g}"
    NONE = ""


class BenchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One figure; `gateway` None: it was not measured."""

    name: str
    unit: str
    gateway: float | None
    floor: float | None
    limit: Limit = Limit.NONE
    target: float = 0.0
    aim: str = ""

    @property
    def ratio(self) -> float | None:
        if self.gateway is None or not self.floor:
            return None
        return self.gateway / self.floor

    @property
    def verdict(self) -> str:
        """`ok`, `over`, or nothing where there is no target or no figure."""
        value = self.gateway if self.limit is Limit.AT_MOST else self.ratio
        if value is None or self.limit is Limit.NONE:
            return ""
        if self.limit is Limit.RATIO_AT_LEAST:
            return "ok" if value >= self.target else "over"
        return "ok" if value <= self.target else "over"

    @property
    def target_text(self) -> str:
        text = self.limit.value.format(self.target)
        return f"{text} (aim {self.aim})" if self.aim else text


def render(rows: Sequence[BenchRow]) -> str:
    head = ("", "gateway", "floor", "ratio", "target", "")
    lines = [head, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(_line(line, widths) for line in lines)


def as_json(rows: Sequence[BenchRow]) -> str:
    content = [
        msgspec.to_builtins(row) | {"ratio": row.ratio, "verdict": row.verdict} for row in rows
    ]
    return msgspec.json.format(msgspec.json.encode(content)).decode()


def _cells(row: BenchRow) -> tuple[str, str, str, str, str, str]:
    name = f"{row.name}, {row.unit}"
    ratio = _figure(row.ratio)
    return name, _figure(row.gateway), _figure(row.floor), ratio, row.target_text, row.verdict


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first = cells[0].ljust(widths[0])
    figures = "  ".join(
        cell.rjust(width) for cell, width in zip(cells[1:4], widths[1:4], strict=True)
    )
    return f"{first}  {figures}  {cells[4].ljust(widths[4])}  {cells[5]}".rstrip()

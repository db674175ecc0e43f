"""The shapes of the log, as `/api/v1` gives it."""

from typing import Any

import msgspec


class LogLineView(msgspec.Struct, frozen=True, kw_only=True):
    """`number` grows from line to line, over restarts, too. `fields`: whatever else the line says,
    as `action` and `session`."""

    number: int
    time: str
    level: str
    logger: str
    message: str
    exception: str = ""
    fields: dict[str, Any] = {}


class LogPage(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest line first. `more`: there are earlier ones, to be asked for with `before` and the
    number of the first. `newest`: of all lines, to follow the log from with `after`."""

    lines: list[LogLineView]
    more: bool
    newest: int


class LogGapEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Lines after that number are not kept any more; the log's file has them."""

    after: int

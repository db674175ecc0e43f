"""A unit: what any supervisor must know about one gateway."""

import hashlib
import math
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.errors import HoldfastError

UNIT_NAME = "holdfast"
REPAIR_COMMAND = "holdfast gateway install --force"

_MIN_STOP_SECONDS = 90.0
_SPARE_SECONDS = 5.0  # more than the longest stop
_INVALID_NAME_CHARS = re.compile(r"[^A-Za-z0-9_.]+")
_MAX_NAME = 60
_UNWRITABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class UnitScope(StrEnum):
    """Whose supervisor runs the gateway: that of a logged-in user, or that of the machine."""

    USER = "user"
    SYSTEM = "system"


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """What a supervisor has to run: one gateway."""

    name: str  # "holdfast", or "holdfast-…" beside another one
    scope: UnitScope
    home: Path
    program: tuple[str, ...]  # what precedes `gateway run`
    stop_seconds: float
    user: str = ""  # of a system unit; "": root
    group: str = ""
    confined: bool = True  # False: bubblewrap is set-uid here and would not work confined

    @property
    def whole_stop_seconds(self) -> int | None:
        """In whole seconds; None: forever."""
        return None if math.isinf(self.stop_seconds) else math.ceil(self.stop_seconds)

    @property
    def command(self) -> tuple[str, ...]:
        return (*self.program, "gateway", "run", "--home", str(self.home))


def stop_seconds_needed(settings: GatewaySettings) -> float:
    """The stop timeout with which a supervisor never kills a gateway that is still cleaning up."""
    return max(_MIN_STOP_SECONDS, settings.longest_stop + _SPARE_SECONDS)


def unit_name(home: Path, *, default_homes: Sequence[Path], requested: str = "") -> str:
    """The name of the unit: the default home has the plain name, every other home its own."""
    if requested:
        return _checked_name(requested)
    if home in default_homes:
        return UNIT_NAME
    slug = _slug(home.name) or hashlib.sha256(str(home).encode()).hexdigest()[:8]
    return f"{UNIT_NAME}-{slug[:_MAX_NAME]}"


def check_writable(path: Path) -> Path:
    """Raises for a path that cannot be written into a unit: one with line breaks or invalid
    text."""
    text = str(path)
    if _UNWRITABLE.search(text) or text != text.strip() or text.endswith("\\"):
        raise HoldfastError(
            "{text!r} cannot be written into a unit file: it contains line breaks, or "
            "begins or ends with a character that systemd removes. Choose another --home.",
            text=text,
        )
    return path


def _checked_name(requested: str) -> str:
    short = requested.removesuffix(".service").removesuffix(".plist")
    if _slug(short) != short or len(short) > _MAX_NAME:
        raise HoldfastError(
            "--name {requested!r} is not a valid unit name. Use at most {limit} letters, "
            "digits, `_`, `.` and `-`.",
            requested=requested,
            limit=_MAX_NAME,
        )
    return (
        short if short == UNIT_NAME or short.startswith(f"{UNIT_NAME}-") else f"{UNIT_NAME}-{short}"
    )


def _slug(text: str) -> str:
    return _INVALID_NAME_CHARS.sub("-", text).strip("-.")

"""A unit: what a supervisor has to know about one gateway, whichever supervisor it is."""

import hashlib
import math
import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from holdfast.core.config.settings import GatewaySettings
from holdfast.core.errors import HoldfastError

NAME = "holdfast"
MEND = "holdfast gateway install --force"

_LEAST_STOP = 90.0
_CLEAN_UP = 30.0  # seconds that a stop may take besides waiting for turns
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_.]+")
_LONGEST_NAME = 60
_NO_TEXT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Scope(StrEnum):
    """Whose supervisor keeps the gateway: that of a person who is logged in, or the machine's."""

    USER = "user"
    SYSTEM = "system"


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """One gateway as its supervisor is to keep it."""

    name: str  # "holdfast", or "holdfast-…" beside another one
    scope: Scope
    home: Path
    program: tuple[str, ...]  # what stands in front of `gateway run`
    stop_seconds: float
    user: str = ""  # of a system unit; "": root
    group: str = ""
    confined: bool = True  # False: bubblewrap is set-uid here and would not work confined

    @property
    def whole_stop_seconds(self) -> int | None:
        """For those who count whole seconds; None: for ever."""
        return None if math.isinf(self.stop_seconds) else math.ceil(self.stop_seconds)

    @property
    def command(self) -> tuple[str, ...]:
        return (*self.program, "gateway", "run", "--home", str(self.home))


def stop_seconds_needed(settings: GatewaySettings) -> float:
    """So long that a supervisor can never kill a gateway while it cleans up."""
    return max(_LEAST_STOP, settings.restart_drain_timeout + settings.park_timeout + _CLEAN_UP)


def name_for(home: Path, *, usual: Sequence[Path], wanted: str = "") -> str:
    """The unit's name: a usual home has the plain one, each other one its own."""
    if wanted:
        return _named(wanted)
    if home in usual:
        return NAME
    slug = _slug(home.name) or hashlib.sha256(str(home).encode()).hexdigest()[:8]
    return f"{NAME}-{slug[:_LONGEST_NAME]}"


def writable(path: Path) -> Path:
    """Raises for a path that no unit can name: one with line breaks or bytes that are no text."""
    text = str(path)
    if _NO_TEXT.search(text) or text != text.strip() or text.endswith("\\"):
        raise HoldfastError(
            f"{text!r} cannot be written into a unit: it has line breaks, or begins or ends with "
            "a character that a unit file does not keep. Choose another --home."
        )
    return path


def _named(wanted: str) -> str:
    short = wanted.removesuffix(".service").removesuffix(".plist")
    if _slug(short) != short or len(short) > _LONGEST_NAME:
        raise HoldfastError(
            f"--name {wanted!r} cannot be the name of a unit: letters, digits, `_`, `.` and `-`, "
            f"at most {_LONGEST_NAME}."
        )
    return short if short == NAME or short.startswith(f"{NAME}-") else f"{NAME}-{short}"


def _slug(text: str) -> str:
    return _NOT_IN_A_NAME.sub("-", text).strip("-.")

"""The views of a departure: how a stop or a restart is asked for, and what is answered."""

from enum import StrEnum

import msgspec

from holdfast.core.turns.stop import StopKind


class RestartMode(StrEnum):
    NOW = "now"  # no turn is waited for, not even to the end of its step
    WHEN_IDLE = "when_idle"  # once no turn runs


class RestartParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: RestartMode | None = None


class StopParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    now: bool = False


class StopAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway goes. `waits`: once no turn runs; it goes on until then."""

    kind: StopKind
    when_idle: bool

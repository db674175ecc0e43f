"""Why a gateway process ends, who requested it, and what happened to its turns."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.messages.outbox import Address


class StopKind(StrEnum):
    """Why a gateway process ended, or is about to end."""

    STOP = "stop"  # requested by an operator: it stays down
    SIGNAL = "signal"  # unplanned: the next boot starts it again
    RESTART = "restart"  # a successor is started when it has ended
    REPLACE = "replace"  # a successor is waiting already
    CRASH = "crash"  # detected by the successor

    @property
    def restarts(self) -> bool:
        """Whether a successor is meant to continue its work."""
        return self in (StopKind.RESTART, StopKind.REPLACE)


class StopRequester(StrEnum):
    CHAT = "chat"
    CLI = "cli"
    PAGE = "page"
    SIGNAL = "signal"
    SUCCESSOR = "successor"
    NONE = "nobody"  # a crash; the value is stored


class TurnExitReason(StrEnum):
    """How a process left a turn that it did not end. A turn without this was cut by a crash."""

    PARKED = "parked"  # at a step boundary: it continues as if nothing had happened
    RESTART_TIMEOUT = "restart_timeout"  # cut by a restart: marked and counted
    SHUTDOWN_TIMEOUT = "shutdown_timeout"  # cut by any other stop: marked and counted


class StopOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A request to stop or restart. The first one counts; later ones can only shorten it."""

    kind: StopKind
    by: StopRequester
    at: float
    principal: PrincipalId | None = None
    # The chat of the request, with its message in `reply_to`; None if it was not made in a chat.
    address: Address | None = None
    language: str = ""  # of the person who requested it there; "": unknown
    now: bool = False  # no turn is waited for, not even until a step boundary

    @property
    def exit_reason(self) -> TurnExitReason:
        return (
            TurnExitReason.RESTART_TIMEOUT
            if self.kind.restarts
            else TurnExitReason.SHUTDOWN_TIMEOUT
        )

    @property
    def agent_notice(self) -> str:
        return "Gateway restarting" if self.kind.restarts else "Gateway shutting down"


class StopRow(msgspec.Struct, frozen=True, kw_only=True):
    """The stop of a process as it is stored (table `restarts`).

    Written when the intent is recorded, and completed as far as the process gets. A row without
    `ready_at` is open: its successor has not been ready yet.
    """

    id: str
    order: StopOrder
    version: str
    parked: int = 0  # turns left at a step boundary
    interrupted: int = 0  # turns that were cut
    stopped_at: float | None = None  # None: still stopping at the last write
    ready_at: float | None = None  # when a successor accepted messages again
    notified: bool = False  # notices about its return were durably queued
    phases: Mapping[str, float] = {}  # duration in seconds, of those that could be recorded
    resumed: int = 0  # turns that the successor continued


class HomeChannel(msgspec.Struct, frozen=True, kw_only=True):
    """The chat in which an account's people are notified about the gateway itself."""

    address: Address  # without `reply_to`
    set_by: PrincipalId | None = None  # None: by the configuration
    at: float = 0.0

"""Why a gateway process ends, who asked for it, and what became of the turns that ran."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from holdfast.core.ids import PrincipalId
from holdfast.core.messages.outbox import Address


class StopKind(StrEnum):
    """Why a process of a gateway ended, or is about to."""

    STOP = "stop"  # an operator's word: it stays down
    SIGNAL = "signal"  # nobody planned it: the next boot starts it again
    RESTART = "restart"  # a successor is started when it has gone
    REPLACE = "replace"  # a successor waits already
    CRASH = "crash"  # found out by the successor

    @property
    def restarts(self) -> bool:
        """A successor is meant to go on where this one leaves off."""
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

    PARKED = "parked"  # at a step boundary: it goes on as if nothing had happened
    RESTART_TIMEOUT = "restart_timeout"  # cut by a restart: marked and counted
    SHUTDOWN_TIMEOUT = "shutdown_timeout"  # cut by any other stop: marked and counted


class StopOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One wish that the gateway go. The first stands; what comes after it can only hurry it."""

    kind: StopKind
    by: StopRequester
    at: float
    principal: PrincipalId | None = None
    # The chat it was asked in, with the very message in `reply_to`; None: outside of any chat.
    address: Address | None = None
    language: str = ""  # of the person who asked for it there; "": unknown
    now: bool = False  # no turn is waited for, not even to a step boundary

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
    """One end of a process's life, as the store keeps it (table `restarts`).

    Written when the intent is recorded, completed as far as the process gets. One whose
    `ready_at` is None is open: its successor has not been ready yet.
    """

    id: str
    order: StopOrder
    version: str
    parked: int = 0  # turns left at a step boundary
    interrupted: int = 0  # turns that were cut
    stopped_at: float | None = None  # None: it was still on its way when last heard of
    ready_at: float | None = None  # when a successor took messages again
    notified: bool = False  # somebody was owed the news, durably, when it was back
    phases: Mapping[str, float] = {}  # seconds that each took, as far as they could be written
    resumed: int = 0  # turns that the successor went on with


class HomeChannel(msgspec.Struct, frozen=True, kw_only=True):
    """Where an account's people are told about the gateway itself."""

    address: Address  # without `reply_to`
    set_by: PrincipalId | None = None  # None: by the configuration
    at: float = 0.0

"""Wire types of the gateway itself: status, store, search, commands, accounts, stop and restart."""

from enum import StrEnum

import msgspec

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import (
    AccountStatus,
    EventLoopStatus,
    GatewaySnapshot,
    MachineStatus,
    Problem,
)
from holdfast.core.sessions.search import SearchIndexStatus
from holdfast.core.turns.stop import StopKind
from holdfast.server.api.views.sessions import SessionView


class SearchHitView(msgspec.Struct, frozen=True, kw_only=True):
    """A search match. `parts`: the snippet in pieces; every second one is a match."""

    session: SessionView
    seq: int
    role: str  # user, assistant or tool
    at: float
    snippet: str
    parts: list[str]


class SearchIndexView(msgspec.Struct, frozen=True, kw_only=True):
    """The search index: indexed messages, and sessions that are not indexed yet."""

    messages: int
    pending_sessions: int
    bytes: int


def search_index_view(status: SearchIndexStatus) -> SearchIndexView:
    return SearchIndexView(
        messages=status.messages, pending_sessions=status.behind, bytes=status.bytes
    )


class CommandView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str
    arguments: str = ""  # as shown: "[NAME]" may be left out
    aliases: tuple[str, ...] = ()
    allowed_mid_turn: bool = True  # False: not while a turn runs


class StoreView(msgspec.Struct, frozen=True, kw_only=True):
    """Problems of the database and of the search index; empty: none."""

    problems: list[str]
    search: SearchIndexView
    search_problem: str = ""


class StatusView(GatewaySnapshot, frozen=True, kw_only=True):
    """The status of the gateway, as `holdfast status` shows it."""

    pid: int
    version: str
    home: str
    started_at: float
    uptime: float
    loop: EventLoopStatus | None
    machine: MachineStatus
    problems: tuple[Problem, ...]


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """One account. `connected` is proven by a round trip; `state` is that of its connection. Times
    are in seconds since the epoch."""

    name: str
    account: str
    connected: bool
    state: AccountState
    since: float
    built_in: bool  # served by the gateway itself
    backlog: str  # what the platform keeps while the gateway is down
    last_ok_at: float | None  # the last round trip
    heartbeat_interval: (
        float  # seconds in which a round trip is due, if the platform says so; else 0
    )
    error: str  # why it is not connected
    remedy: str  # what a person can do about that
    next_attempt_at: float | None  # of an automatic retry
    failures: int  # in a row
    missing_grants: tuple[str, ...] = ()  # what its vendor has not granted, with what to do


class AccountList(msgspec.Struct, frozen=True, kw_only=True):
    accounts: list[AccountView]


def account_view(status: AccountStatus, *, now: float) -> AccountView:
    """In the language of the context."""
    status = status.for_person()
    return AccountView(
        name=status.name,
        account=status.account,
        connected=status.connected(now),
        state=status.state,
        since=status.since,
        built_in=status.built_in,
        backlog=status.backlog,
        last_ok_at=status.last_ok_at,
        heartbeat_interval=status.heartbeat_interval,
        error=status.error,
        remedy=status.remedy,
        next_attempt_at=status.next_attempt_at,
        failures=status.failures,
        missing_grants=status.missing_grants,
    )


def account_list(statuses: tuple[AccountStatus, ...], *, now: float) -> AccountList:
    return AccountList(accounts=[account_view(each, now=now) for each in statuses])


class RestartMode(StrEnum):
    NOW = "now"  # does not wait for turns, not even to the end of their step
    WHEN_IDLE = "when_idle"  # once no turn runs


class RestartParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    mode: RestartMode | None = None


class StopParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    now: bool = False


class StopAccepted(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway stops. `when_idle`: once no turn runs."""

    kind: StopKind
    when_idle: bool

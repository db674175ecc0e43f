"""Accounts of platforms as the API shows them."""

import msgspec

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.facts import AccountStatus


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """One account. `connected` is proven by a round trip; `state` is what its line is at. Times
    are in seconds since the epoch."""

    name: str
    account: str
    connected: bool
    state: AccountState
    since: float
    in_process: bool  # served by the gateway itself
    backlog: str  # what the platform keeps while nobody is there
    last_alive_at: float | None  # the last round trip
    alive_within: float  # seconds in which one is due, where its door says so; else 0
    error: str  # why it is not connected
    remedy: str  # what a person can do about that
    next_attempt_at: float | None  # when it is tried again by itself
    failures: int  # in a row
    missing_grants: tuple[str, ...] = ()  # what its vendor has not granted, with what to do


class AccountList(msgspec.Struct, frozen=True, kw_only=True):
    accounts: list[AccountView]


def account_view(status: AccountStatus, *, now: float) -> AccountView:
    return AccountView(
        name=status.name,
        account=status.account,
        connected=status.connected(now),
        state=status.state,
        since=status.since,
        in_process=status.built_in,
        backlog=status.backlog,
        last_alive_at=status.last_ok_at,
        alive_within=status.heartbeat_interval,
        error=status.error,
        remedy=status.remedy,
        next_attempt_at=status.next_attempt_at,
        failures=status.failures,
        missing_grants=status.missing_grants,
    )


def account_list(statuses: tuple[AccountStatus, ...], *, now: float) -> AccountList:
    return AccountList(accounts=[account_view(each, now=now) for each in statuses])

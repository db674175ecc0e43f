"""Accounts of platforms as the API shows them."""

import msgspec

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.facts import PlatformFacts


class AccountView(msgspec.Struct, frozen=True, kw_only=True):
    """One account. `connected` is proven by a round trip; `state` is what its line is at. Times
    are in seconds since the epoch."""

    name: str
    account: str
    connected: bool
    state: AccountState
    since: float
    here: bool  # served by the gateway itself
    backlog: str  # what the platform keeps while nobody is there
    proven_at: float | None  # the last round trip
    alive_within: float  # seconds in which one is due, where its door says so; else 0
    error: str  # why it is not connected
    remedy: str  # what a person can do about that
    next_try: float | None  # when it is tried again by itself
    failures: int  # in a row
    lacks: tuple[str, ...] = ()  # what its vendor has not granted, with what to do


class AccountList(msgspec.Struct, frozen=True, kw_only=True):
    accounts: list[AccountView]


def account_view(facts: PlatformFacts, *, now: float) -> AccountView:
    return AccountView(
        name=facts.name,
        account=facts.account,
        connected=facts.connected(now),
        state=facts.state,
        since=facts.since,
        here=facts.here,
        backlog=facts.backlog,
        proven_at=facts.proven_at,
        alive_within=facts.alive_within,
        error=facts.error,
        remedy=facts.remedy,
        next_try=facts.next_try,
        failures=facts.failures,
        lacks=facts.lacks,
    )


def account_list(facts: tuple[PlatformFacts, ...], *, now: float) -> AccountList:
    return AccountList(accounts=[account_view(each, now=now) for each in facts])

"""When a session has been idle for so long that the next message starts a new one."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Annotated

import msgspec

from holdfast.core.ids import SessionId, SessionKey
from holdfast.core.messages.source import ChatType

Minutes = Annotated[int, msgspec.Meta(ge=1, le=5_256_000)]
Hour = Annotated[int, msgspec.Meta(ge=0, le=23)]


class ResetMode(StrEnum):
    NONE = "none"
    IDLE = "idle"  # after so many minutes in which nothing was said
    DAILY = "daily"  # at an hour of the day


class ResetReason(StrEnum):
    """Why a session took another's place without anybody asking for it."""

    SUSPENDED = "suspended"
    IDLE = "idle"
    DAILY = "daily"


class SessionReset(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session is fresh, and which one its route pointed to before."""

    reason: ResetReason
    previous: SessionId


class ResetRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reset of its own for some chats; an empty platform or kind of chat means every one."""

    platform: str = ""
    chat_type: ChatType | None = None
    reset: ResetMode
    idle_minutes: Minutes = 1440
    daily_hour: Hour = 4


class ResetPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """`zone` None: the clock on the wall of this machine."""

    mode: ResetMode = ResetMode.NONE
    idle_minutes: int = 1440
    daily_hour: int = 4
    zone: tzinfo | None = None


class ExpiringSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that goes on, and when it is over if nobody speaks to it any more."""

    session_id: SessionId
    active_at: float
    expires_at: float


ExpiryRule = Callable[[SessionKey, float], float | None]
"""When a session of a route, last active then, is over; None: it never is."""


EarliestExpiry = Callable[[float], float | None]
"""When a session of any route, last active then, is over at the earliest; None: none ever is. A
later activity never has an earlier end."""


class ResetPolicies:
    """Which policy a chat has: that of the first rule that speaks of it, else the common one."""

    def __init__(
        self, default: ResetPolicy, rules: Sequence[ResetRule] = (), *, zone: tzinfo | None = None
    ) -> None:
        self._default = default
        self._rules = [(rule, _policy(rule, zone)) for rule in rules]
        self.policies = (default, *(policy for _, policy in self._rules))
        self.is_enabled = any(policy.mode is not ResetMode.NONE for policy in self.policies)

    def earliest(self, active_at: float) -> float | None:
        """The earliest that a session of any chat, last active then, is over."""
        ends = [expires_at(policy, active_at) for policy in self.policies]
        return min([end for end in ends if end is not None], default=None)

    def for_chat(self, platform: str, chat_type: ChatType) -> ResetPolicy:
        for rule, policy in self._rules:
            if rule.platform in ("", platform) and rule.chat_type in (None, chat_type):
                return policy
        return self._default


def reset_due(policy: ResetPolicy, *, active_at: float, now: float) -> ResetReason | None:
    """Why a session that was last active then is to be left by now; None: it goes on."""
    expires = expires_at(policy, active_at)
    return None if expires is None or now < expires else ResetReason(policy.mode)


def expires_at(policy: ResetPolicy, active_at: float) -> float | None:
    """From when on a session that nobody speaks to any more is over; None: it never is."""
    match policy.mode:
        case ResetMode.NONE:
            return None
        case ResetMode.IDLE:
            return active_at + policy.idle_minutes * 60
        case ResetMode.DAILY:
            return _next_hour(policy, active_at)


def _next_hour(policy: ResetPolicy, after: float) -> float:
    """The first time past `after` at which the day's hour begins.

    By the clock on the wall: on a day on which the hour is skipped it comes with the one that
    follows, and where it comes twice the first counts.
    """
    seen = datetime.fromtimestamp(after, policy.zone)
    at_hour = seen.replace(hour=policy.daily_hour, minute=0, second=0, microsecond=0, fold=0)
    for days in (0, 1):
        moment = (at_hour + timedelta(days=days)).timestamp()
        if moment > after:
            return moment
    return (at_hour + timedelta(days=2)).timestamp()


def _policy(rule: ResetRule, zone: tzinfo | None) -> ResetPolicy:
    return ResetPolicy(
        mode=rule.reset, idle_minutes=rule.idle_minutes, daily_hour=rule.daily_hour, zone=zone
    )

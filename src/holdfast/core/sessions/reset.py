"""Reset policies: when the next message of a chat starts a new session."""

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
    IDLE = "idle"  # after so many minutes without a message
    DAILY = "daily"  # at an hour of the day


class ResetReason(StrEnum):
    """Why a session automatically replaced another one."""

    SUSPENDED = "suspended"
    IDLE = "idle"
    DAILY = "daily"


class SessionReset(msgspec.Struct, frozen=True, kw_only=True):
    """Why a session is new, and the session to which its route pointed before."""

    reason: ResetReason
    previous: SessionId


class ResetRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A reset policy for some chats; an empty platform or chat type matches all."""

    platform: str = ""
    chat_type: ChatType | None = None
    reset: ResetMode
    idle_minutes: Minutes = 1440
    daily_hour: Hour = 4


class ResetPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A reset policy. `zone` None: this machine's time zone."""

    mode: ResetMode = ResetMode.NONE
    idle_minutes: int = 1440
    daily_hour: int = 4
    zone: tzinfo | None = None


class ExpiringSession(msgspec.Struct, frozen=True, kw_only=True):
    """An open session, and when it expires without further messages."""

    session_id: SessionId
    active_at: float
    expires_at: float


ExpiryRule = Callable[[SessionKey, float], float | None]
"""When a session of a route expires, by its last activity; None: never."""


EarliestExpiry = Callable[[float], float | None]
"""The earliest time at which a session of any route expires, by its last activity; None: never. A
later activity never gives an earlier time."""


class ResetPolicies:
    """The policy of each chat: that of the first rule that matches it, else the default."""

    def __init__(
        self, default: ResetPolicy, rules: Sequence[ResetRule] = (), *, zone: tzinfo | None = None
    ) -> None:
        self._default = default
        self._rules = [(rule, _policy(rule, zone)) for rule in rules]
        self.policies = (default, *(policy for _, policy in self._rules))
        self.is_enabled = any(policy.mode is not ResetMode.NONE for policy in self.policies)

    def earliest(self, active_at: float) -> float | None:
        """The earliest time at which a session of any chat expires, by its last activity."""
        ends = [expires_at(policy, active_at) for policy in self.policies]
        return min([end for end in ends if end is not None], default=None)

    def for_chat(self, platform: str, chat_type: ChatType) -> ResetPolicy:
        for rule, policy in self._rules:
            if rule.platform in ("", platform) and rule.chat_type in (None, chat_type):
                return policy
        return self._default


def reset_due(policy: ResetPolicy, *, active_at: float, now: float) -> ResetReason | None:
    """Why a session with this last activity has expired by now; None: it has not."""
    expires = expires_at(policy, active_at)
    return None if expires is None or now < expires else ResetReason(policy.mode)


def expires_at(policy: ResetPolicy, active_at: float) -> float | None:
    """When a session expires without further messages; None: never."""
    match policy.mode:
        case ResetMode.NONE:
            return None
        case ResetMode.IDLE:
            return active_at + policy.idle_minutes * 60
        case ResetMode.DAILY:
            return _next_hour(policy, active_at)


def _next_hour(policy: ResetPolicy, after: float) -> float:
    """The first time after `after` at which the configured hour of a day begins.

    In local time: an hour that is skipped begins with the next one; of a repeated hour the first
    counts.
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

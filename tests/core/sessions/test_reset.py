"""When a session is reset, by idle time or time of day."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.messages.source import ChatType
from holdfast.core.sessions.reset import (
    ResetMode,
    ResetPolicies,
    ResetPolicy,
    ResetReason,
    ResetRule,
    expires_at,
    reset_due,
)

BERLIN = ZoneInfo("Europe/Berlin")
IDLE = ResetPolicy(mode=ResetMode.IDLE, idle_minutes=30)
DAILY = ResetPolicy(mode=ResetMode.DAILY, daily_hour=4, zone=BERLIN)


def at(text: str, zone: ZoneInfo = BERLIN) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def test_without_a_policy_nothing_is_ever_due() -> None:
    assert expires_at(ResetPolicy(), 0.0) is None
    assert reset_due(ResetPolicy(), active_at=0.0, now=9e9) is None


def test_a_silence_is_long_enough_from_its_last_second_on() -> None:
    assert reset_due(IDLE, active_at=1000.0, now=1000.0 + 1799) is None
    assert reset_due(IDLE, active_at=1000.0, now=1000.0 + 1800) is ResetReason.IDLE


def test_a_clock_that_steps_back_resets_nothing() -> None:
    assert reset_due(IDLE, active_at=1000.0, now=5.0) is None
    assert reset_due(DAILY, active_at=at("2026-03-10T12:00"), now=at("2026-03-01T12:00")) is None


@pytest.mark.parametrize(
    ("active", "now", "due"),
    [
        ("2026-03-10T03:59", "2026-03-10T04:00", True),
        ("2026-03-10T04:00", "2026-03-11T03:59", False),
        ("2026-03-10T23:00", "2026-03-11T03:59", False),
        ("2026-03-10T23:00", "2026-03-11T04:00", True),
        ("2026-03-01T12:00", "2026-03-10T12:00", True),
    ],
)
def test_a_day_begins_at_its_hour(active: str, now: str, due: bool) -> None:
    found = reset_due(DAILY, active_at=at(active), now=at(now))
    assert found is (ResetReason.DAILY if due else None)


def test_the_hour_is_that_of_the_zone() -> None:
    active = datetime(2026, 7, 1, 1, 0, tzinfo=UTC).timestamp()  # three in the morning in Berlin
    assert expires_at(DAILY, active) == datetime(2026, 7, 1, 2, 0, tzinfo=UTC).timestamp()


def test_an_hour_that_is_skipped_comes_with_the_next() -> None:
    """In Berlin on 29 March 2026 two o'clock does not exist."""
    policy = ResetPolicy(mode=ResetMode.DAILY, daily_hour=2, zone=BERLIN)
    expires = expires_at(policy, at("2026-03-29T01:30"))
    assert expires == at("2026-03-29T03:00")


def test_an_hour_that_comes_twice_counts_once() -> None:
    """In Berlin on 25 October 2026 two o'clock comes twice."""
    policy = ResetPolicy(mode=ResetMode.DAILY, daily_hour=2, zone=BERLIN)
    first = datetime(2026, 10, 25, 0, 0, tzinfo=UTC).timestamp()
    assert expires_at(policy, first - 1) == first
    assert expires_at(policy, first) == at("2026-10-26T02:00")
    assert expires_at(policy, first + 3601) == at("2026-10-26T02:00")


@given(
    active=st.floats(0, 4e9),
    hour=st.integers(0, 23),
    zone=st.sampled_from([None, UTC, BERLIN, ZoneInfo("Australia/Lord_Howe")]),
)
def test_a_day_ends_within_a_day_and_an_hour_or_two(active: float, hour: int, zone: None) -> None:
    policy = ResetPolicy(mode=ResetMode.DAILY, daily_hour=hour, zone=zone)
    expires = expires_at(policy, active)
    assert expires is not None
    assert active < expires <= active + 26 * 3600
    assert reset_due(policy, active_at=active, now=expires) is ResetReason.DAILY
    assert reset_due(policy, active_at=active, now=expires - 1) in (None, ResetReason.DAILY)


def test_the_first_rule_that_matches_a_chat_applies() -> None:
    policies = ResetPolicies(
        ResetPolicy(mode=ResetMode.IDLE),
        [
            ResetRule(platform="web", chat_type=ChatType.DM, reset=ResetMode.NONE),
            ResetRule(chat_type=ChatType.GROUP, reset=ResetMode.DAILY, daily_hour=7),
            ResetRule(platform="web", reset=ResetMode.IDLE, idle_minutes=5),
        ],
        zone=BERLIN,
    )
    assert policies.for_chat("web", ChatType.DM).mode is ResetMode.NONE
    assert policies.for_chat("web", ChatType.GROUP).daily_hour == 7
    assert policies.for_chat("web", ChatType.GROUP).zone is BERLIN
    assert policies.for_chat("web", ChatType.THREAD).idle_minutes == 5
    assert policies.for_chat("api", ChatType.DM).idle_minutes == 1440
    assert policies.is_enabled
    assert not ResetPolicies(ResetPolicy()).is_enabled

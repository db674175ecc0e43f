"""What is wrong with a gateway, read from its facts: each is told once, with what to do."""

import msgspec
import pytest

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.facts import (
    PROVEN_FOR,
    Document,
    Level,
    LoopFacts,
    MachineFacts,
    PlatformFacts,
    Problem,
    Snapshot,
    StoreFacts,
)
from holdfast.core.turns.stop import AskedBy, StopKind, StopOrder, StopRow
from holdfast.server.status.problems import problems

NOW = 1_000_000.0
GB = 1024**3
FINE = Document(
    state="running",
    pid=7,
    version="1",
    home="/h",
    started_at=NOW - 3600,
    uptime=3600,
    loop=LoopFacts(age=0.2, lag=0, worst_minute=0.01, worst=0.5),
    machine=MachineFacts(disk_free=50 * GB, disk_size=100 * GB, files=20, most_files=1000),
    snapshot=Snapshot(
        state="running",
        since=NOW - 3600,
        platforms=(PlatformFacts(name="api", account="default", backlog="none", here=True),),
    ),
)


def found(**changes: object) -> dict[str, Problem]:
    """By their codes, in the sound document with these changes in its snapshot or around it."""
    inside = {key: value for key, value in changes.items() if key in Snapshot.__struct_fields__}
    around = {key: value for key, value in changes.items() if key not in inside}
    snapshot = msgspec.structs.replace(FINE.snapshot, **inside)
    document = msgspec.structs.replace(FINE, snapshot=snapshot, **around)
    return {problem.code: problem for problem in problems(document, now=NOW)}


def crash(ago: float) -> StopRow:
    order = StopOrder(kind=StopKind.CRASH, by=AskedBy.NOBODY, at=NOW - ago)
    return StopRow(id=f"r{ago}", order=order, version="1")


def simulated(proven_at: float | None, error: str = "") -> tuple[PlatformFacts, ...]:
    return (
        PlatformFacts(
            name="simulated",
            account="a",
            backlog="until_acked",
            proven_at=proven_at,
            error=error,
        ),
    )


def test_of_a_sound_gateway_nothing_is_said() -> None:
    assert found() == {}


@pytest.mark.parametrize(
    ("changes", "code", "level", "words"),
    [
        (
            {"loop": LoopFacts(age=0, lag=0, worst_minute=1.5, worst=1.5)},
            "slow_loop",
            Level.WARNING,
            "1.5 s late",
        ),
        (
            {"unowned": 2, "unowned_since": NOW - 180},
            "unowned_messages",
            Level.PROBLEM,
            "2 messages were accepted, are not answered, and nobody works on them (for 3 min)",
        ),
        (
            {"store": StoreFacts(error="the disk is full", failed_ago=1, committed_ago=9)},
            "store_failing",
            Level.PROBLEM,
            "the disk is full",
        ),
        (
            {"machine": MachineFacts(disk_free=400 * 1024**2, disk_size=2 * GB)},
            "disk_low",
            Level.WARNING,
            "400 MB",
        ),
        (
            {"machine": MachineFacts(disk_free=4 * GB, disk_size=100 * GB)},
            "disk_low",
            Level.WARNING,
            "4 %",
        ),
        (
            {"machine": MachineFacts(disk_free=1024**2, disk_size=100 * GB)},
            "disk_low",
            Level.PROBLEM,
            "1 MB",
        ),
        (
            {"machine": MachineFacts(database_log=300 * 1024**2)},
            "long_log",
            Level.WARNING,
            "300 MB",
        ),
        (
            {"machine": MachineFacts(files=950, most_files=1000)},
            "files_low",
            Level.WARNING,
            "950 of at most 1000",
        ),
        (
            {"machine": MachineFacts(drift=("The unit gives a stop 10 s.",))},
            "unit_drift",
            Level.WARNING,
            "The unit gives a stop 10 s.",
        ),
        (
            {"outbox": 3, "outbox_since": NOW - 400},
            "outbox_stuck",
            Level.WARNING,
            "3 deliveries",
        ),
        (
            {"restarts": (crash(10), crash(60), crash(200))},
            "crashing",
            Level.WARNING,
            "crashed 3 times",
        ),
        (
            {"platforms": simulated(NOW - PROVEN_FOR - 5)},
            "platform_silent",
            Level.WARNING,
            "simulated:a has not answered for 95 s",
        ),
        (
            {"platforms": simulated(None)},
            "platform_silent",
            Level.WARNING,
            "has not answered since the start",
        ),
        (
            {"platforms": simulated(None, error="no such host")},
            "platform_silent",
            Level.WARNING,
            "is not connected: no such host",
        ),
    ],
)
def test_each_wrong_is_told(
    changes: dict[str, object], code: str, level: Level, words: str
) -> None:
    (problem,) = found(**changes).values()
    assert (problem.code, problem.level) == (code, level)
    assert words in problem.what


@pytest.mark.parametrize(
    "changes",
    [
        {"store": StoreFacts(error="the disk was full", failed_ago=9, committed_ago=1)},
        {"outbox": 3, "outbox_since": NOW - 20},
        {"restarts": (crash(10), crash(60), crash(5000))},
        {"platforms": simulated(NOW - PROVEN_FOR + 5)},
        {"platforms": simulated(None), "since": NOW - 5},  # it has just begun
        {"machine": MachineFacts()},  # a system that does not say
    ],
)
def test_what_is_over_or_only_beginning_is_not_told(changes: dict[str, object]) -> None:
    assert found(**changes) == {}


def test_a_round_trip_proves_for_a_while_and_no_longer() -> None:
    """Law 9: connected means a round trip younger than T; being served here needs none."""
    (platform,) = simulated(NOW)
    assert platform.connected(NOW + PROVEN_FOR)
    assert not platform.connected(NOW + PROVEN_FOR + 1)
    assert not simulated(None)[0].connected(NOW)
    assert FINE.snapshot.platforms[0].connected(NOW)


def test_a_hanging_loop_is_told_with_how_long_and_not_as_a_slow_one() -> None:
    loop = LoopFacts(age=12, lag=11, worst_minute=11, worst=11)
    (problem,) = problems(msgspec.structs.replace(FINE, state="hanging", loop=loop), now=NOW)
    assert (problem.code, problem.level) == ("hanging", Level.PROBLEM)
    assert "12 s" in problem.what and "kill -9 7" in problem.remedy


def test_the_worst_comes_first() -> None:
    loop = LoopFacts(age=9, lag=8, worst_minute=8, worst=8)
    machine = MachineFacts(disk_free=GB, disk_size=100 * GB, drift=("The unit is old.",))
    document = msgspec.structs.replace(FINE, state="hanging", loop=loop, machine=machine)
    levels = [problem.level for problem in problems(document, now=NOW)]
    assert levels == [Level.PROBLEM, Level.WARNING, Level.WARNING]


def test_an_account_that_was_refused_is_told_at_once_and_one_that_is_paused_never() -> None:
    parked = PlatformFacts(
        name="telegram",
        account="work",
        backlog="until_acked",
        state=AccountState.PARKED,
        error="the token is bad",
        remedy="Ask @BotFather for another",
    )
    paused = PlatformFacts(name="irc", account="a", backlog="none", state=AccountState.PAUSED)
    problem = found(platforms=(parked, paused), since=NOW - 1)
    assert set(problem) == {"platform_parked"}
    told = problem["platform_parked"]
    assert told.what == "telegram:work is refused for good: the token is bad."
    assert told.remedy.startswith("Ask @BotFather for another; `holdfast platforms resume telegram")


def test_an_account_that_is_away_says_when_it_is_tried_next() -> None:
    away = PlatformFacts(
        name="telegram",
        account="work",
        backlog="until_acked",
        state=AccountState.AWAY,
        error="there is nobody",
        next_try=NOW + 20,
        proven_at=NOW - 1,
    )
    told = found(platforms=(away,))["platform_silent"]
    assert told.what == "telegram:work is not connected: there is nobody."
    assert "next in 20 s" in told.remedy

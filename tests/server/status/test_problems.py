"""Problems derived from the status of a gateway: each is reported once, with a remedy."""

import msgspec
import pytest

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import (
    ALIVE_SECONDS,
    AccountStatus,
    EventLoopStatus,
    FailingJob,
    Failures,
    GatewaySnapshot,
    MachineStatus,
    Problem,
    ProblemLevel,
    StatusReport,
    StoreStatus,
)
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.server.status.problems import find_problems

NOW = 1_000_000.0
GB = 1024**3
HEALTHY = StatusReport(
    state="running",
    pid=7,
    version="1",
    home="/h",
    started_at=NOW - 3600,
    uptime=3600,
    loop=EventLoopStatus(age=0.2, lag=0, worst_minute=0.01, worst=0.5),
    machine=MachineStatus(disk_free=50 * GB, disk_size=100 * GB, files=20, max_files=1000),
    snapshot=GatewaySnapshot(
        state="running",
        since=NOW - 3600,
        platforms=(AccountStatus(name="api", account="default", backlog="none", built_in=True),),
    ),
)


def problems_of(**changes: object) -> dict[str, Problem]:
    """The problems by code of a healthy status with these changes in its snapshot or around it."""
    inside = {
        key: value for key, value in changes.items() if key in GatewaySnapshot.__struct_fields__
    }
    around = {key: value for key, value in changes.items() if key not in inside}
    snapshot = msgspec.structs.replace(HEALTHY.snapshot, **inside)
    document = msgspec.structs.replace(HEALTHY, snapshot=snapshot, **around)
    return {problem.code: problem for problem in find_problems(document, now=NOW)}


def crash(ago: float) -> StopRow:
    order = StopOrder(kind=StopKind.CRASH, by=StopRequester.NONE, at=NOW - ago)
    return StopRow(id=f"r{ago}", order=order, version="1")


def simulated_accounts(proven_at: float | None, error: str = "") -> tuple[AccountStatus, ...]:
    return (
        AccountStatus(
            name="simulated",
            account="a",
            backlog="until_acked",
            last_ok_at=proven_at,
            error=error,
        ),
    )


def test_a_healthy_gateway_has_no_problems() -> None:
    assert problems_of() == {}


@pytest.mark.parametrize(
    ("changes", "code", "level", "words"),
    [
        (
            {"loop": EventLoopStatus(age=0, lag=0, worst_minute=1.5, worst=1.5)},
            "slow_loop",
            ProblemLevel.WARNING,
            "1.5 s late",
        ),
        (
            {"orphaned": 2, "orphaned_since": NOW - 180},
            "orphaned_messages",
            ProblemLevel.PROBLEM,
            "2 messages were accepted, are not answered, and no turn works on them (for 3 min)",
        ),
        (
            {"store": StoreStatus(error="the disk is full", failed_ago=1, committed_ago=9)},
            "store_failing",
            ProblemLevel.PROBLEM,
            "the disk is full",
        ),
        (
            {"machine": MachineStatus(disk_free=400 * 1024**2, disk_size=2 * GB)},
            "disk_low",
            ProblemLevel.WARNING,
            "400 MB",
        ),
        (
            {"machine": MachineStatus(disk_free=4 * GB, disk_size=100 * GB)},
            "disk_low",
            ProblemLevel.WARNING,
            "4 %",
        ),
        (
            {"machine": MachineStatus(disk_free=1024**2, disk_size=100 * GB)},
            "disk_low",
            ProblemLevel.PROBLEM,
            "1 MB",
        ),
        (
            {"machine": MachineStatus(wal=300 * 1024**2)},
            "wal_large",
            ProblemLevel.WARNING,
            "300 MB",
        ),
        (
            {"machine": MachineStatus(files=950, max_files=1000)},
            "open_files_high",
            ProblemLevel.WARNING,
            "950 of at most 1000",
        ),
        (
            {"machine": MachineStatus(unit_drift=("The unit allows 10 s for a stop.",))},
            "unit_drift",
            ProblemLevel.WARNING,
            "The unit allows 10 s for a stop.",
        ),
        (
            {"outbox": 3, "outbox_since": NOW - 400},
            "outbox_stuck",
            ProblemLevel.WARNING,
            "3 deliveries",
        ),
        (
            {"restarts": (crash(10), crash(60), crash(200))},
            "crash_loop",
            ProblemLevel.WARNING,
            "crashed 3 times",
        ),
        (
            {"platforms": simulated_accounts(NOW - ALIVE_SECONDS - 5)},
            "account_disconnected",
            ProblemLevel.WARNING,
            "simulated:a has not answered for 95 s",
        ),
        (
            {"platforms": simulated_accounts(None)},
            "account_disconnected",
            ProblemLevel.WARNING,
            "has not answered since the start",
        ),
        (
            {"platforms": simulated_accounts(None, error="no such host")},
            "account_disconnected",
            ProblemLevel.WARNING,
            "is not connected: no such host",
        ),
    ],
)
def test_each_problem_is_reported(
    changes: dict[str, object], code: str, level: ProblemLevel, words: str
) -> None:
    (problem,) = problems_of(**changes).values()
    assert (problem.code, problem.level) == (code, level)
    assert words in problem.what


@pytest.mark.parametrize(
    "changes",
    [
        {"store": StoreStatus(error="the disk was full", failed_ago=9, committed_ago=1)},
        {"outbox": 3, "outbox_since": NOW - 20},
        {"restarts": (crash(10), crash(60), crash(5000))},
        {"platforms": simulated_accounts(NOW - ALIVE_SECONDS + 5)},
        {"platforms": simulated_accounts(None), "since": NOW - 5},  # it has just begun
        {"machine": MachineStatus()},  # a system without these figures
    ],
)
def test_past_or_short_conditions_are_not_reported(changes: dict[str, object]) -> None:
    assert problems_of(**changes) == {}


def test_a_round_trip_proves_a_connection_for_a_limited_time() -> None:
    """Connected means a recent round trip; an account served by the gateway needs none."""
    (platform,) = simulated_accounts(NOW)
    assert platform.connected(NOW + ALIVE_SECONDS)
    assert not platform.connected(NOW + ALIVE_SECONDS + 1)
    assert not simulated_accounts(None)[0].connected(NOW)
    assert HEALTHY.snapshot.platforms[0].connected(NOW)


def test_a_hanging_loop_is_reported_with_its_duration_and_not_as_a_slow_one() -> None:
    loop = EventLoopStatus(age=12, lag=11, worst_minute=11, worst=11)
    (problem,) = find_problems(
        msgspec.structs.replace(HEALTHY, state="hanging", loop=loop), now=NOW
    )
    assert (problem.code, problem.level) == ("hanging", ProblemLevel.PROBLEM)
    assert "12 s" in problem.what and "kill -9 7" in problem.remedy


def test_the_worst_comes_first() -> None:
    loop = EventLoopStatus(age=9, lag=8, worst_minute=8, worst=8)
    machine = MachineStatus(disk_free=GB, disk_size=100 * GB, unit_drift=("The unit is old.",))
    document = msgspec.structs.replace(HEALTHY, state="hanging", loop=loop, machine=machine)
    levels = [problem.level for problem in find_problems(document, now=NOW)]
    assert levels == [ProblemLevel.PROBLEM, ProblemLevel.WARNING, ProblemLevel.WARNING]


def test_a_refused_account_is_reported_at_once_and_a_paused_one_never() -> None:
    parked = AccountStatus(
        name="telegram",
        account="work",
        backlog="until_acked",
        state=AccountState.BLOCKED,
        error="the token is bad",
        remedy="Ask @BotFather for another",
    )
    paused = AccountStatus(name="irc", account="a", backlog="none", state=AccountState.PAUSED)
    problem = problems_of(platforms=(parked, paused), since=NOW - 1)
    assert set(problem) == {"account_blocked"}
    blocked = problem["account_blocked"]
    assert blocked.what == "telegram:work is refused for good: the token is bad."
    assert blocked.remedy.startswith(
        "Ask @BotFather for another. `holdfast platforms resume telegram"
    )


def test_a_disconnected_account_is_reported_with_its_next_retry() -> None:
    away = AccountStatus(
        name="telegram",
        account="work",
        backlog="until_acked",
        state=AccountState.RETRYING,
        error="there is nobody",
        next_attempt_at=NOW + 20,
        last_ok_at=NOW - 1,
    )
    disconnected = problems_of(platforms=(away,))["account_disconnected"]
    assert disconnected.what == "telegram:work is not connected: there is nobody."
    assert "next in 20 s" in disconnected.remedy


def test_failing_jobs_and_failed_deliveries_are_problems_with_their_reason() -> None:
    job = FailingJob(id=3, name="news", reason="the model refused the key.", ended_at=NOW)
    found = problems_of(
        failures=Failures(
            jobs=(job,), deliveries=2, delivery_chat="slack:C1", delivery_error="file too large"
        )
    )
    failing = found["job_failed"]
    assert failing.what == "The last run of job 3 (news) failed: the model refused the key."
    assert "holdfast jobs run 3" in failing.remedy
    assert found["delivery_failed"].what == (
        "2 deliveries failed within the last day, the last to slack:C1: file too large."
    )

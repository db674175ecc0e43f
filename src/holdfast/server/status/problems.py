"""Derives problems, with remedies, from the status of a gateway."""

from collections.abc import Iterator

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import AccountStatus, Problem, ProblemLevel, StatusReport
from holdfast.core.turns.stop import StopKind

_MB = 1024 * 1024
MIN_DISK = 500 * _MB
MIN_DISK_SHARE = 0.05
DISK_FULL = 20 * _MB  # so little that the next write may fail
MAX_WAL = 256 * _MB
SLOW_LOOP = 1.0
OUTBOX_STUCK_AFTER = 300.0  # seconds in front of the outbox
CONNECT_GRACE = 30.0  # seconds that a platform may take for its first round trip
CRASH_LOOP_COUNT, CRASH_LOOP_WINDOW = 3, 600.0


def find_problems(report: StatusReport, *, now: float) -> tuple[Problem, ...]:
    """The worst first. Pure: the same report gives the same problems."""
    found = [
        *_loop(report),
        *_store(report),
        *_orphaned_messages(report, now),
        *_configuration(report),
        *_disk(report),
        *_platforms(report, now),
        *_outbox(report, now),
        *_undeliverable(report),
        *_crashes(report, now),
        *_files(report),
        *_backup(report),
        *_drift(report),
    ]
    return tuple(sorted(found, key=lambda problem: problem.level is ProblemLevel.WARNING))


def _loop(report: StatusReport) -> Iterator[Problem]:
    loop = report.loop
    if loop is None:
        return
    if report.state == "hanging":
        yield Problem(
            level=ProblemLevel.PROBLEM,
            code="hanging",
            what=f"The event loop has not turned for {loop.age:.0f} s: nothing is answered.",
            remedy="The log may say what holds it. If it stays so, `kill -9 "
            f"{report.pid}` and start it again: nothing that was accepted is lost.",
        )
    elif loop.worst_minute > SLOW_LOOP:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="slow_loop",
            what=f"The event loop was {loop.worst_minute:.1f} s late within the last minute.",
            remedy="The machine is overloaded, or something blocks it; `holdfast logs` may say.",
        )


def _store(report: StatusReport) -> Iterator[Problem]:
    store = report.snapshot.store
    if store.failing:
        yield Problem(
            level=ProblemLevel.PROBLEM,
            code="store_failing",
            what=f"The store cannot be written: {store.error}.",
            remedy="Messages are refused until it can; those that were accepted wait.",
        )
    if report.machine.wal > MAX_WAL:
        size = report.machine.wal / _MB
        yield Problem(
            level=ProblemLevel.WARNING,
            code="wal_large",
            what=f"The write-ahead log of the database has grown to {size:,.0f} MB.",
            remedy="Another program may have the database open and block checkpoints: close it.",
        )


def _orphaned_messages(report: StatusReport, now: float) -> Iterator[Problem]:
    snapshot = report.snapshot
    if report.state != "running" or snapshot.orphaned_since is None:
        return
    number = snapshot.orphaned
    who = "1 message was accepted, is" if number == 1 else f"{number} messages were accepted, are"
    yield Problem(
        level=ProblemLevel.PROBLEM,
        code="orphaned_messages",
        what=f"{who} not answered, and nothing works on "
        f"{'it' if number == 1 else 'them'} (for {(now - snapshot.orphaned_since) / 60:.0f} min).",
        remedy="`holdfast gateway restart`: a start takes up whatever is open, so nothing is lost. "
        "This is a fault of the gateway: please report it with its log.",
    )


def _disk(report: StatusReport) -> Iterator[Problem]:
    free, size = report.machine.disk_free, report.machine.disk_size
    if free is None or size is None or (free >= MIN_DISK and free >= MIN_DISK_SHARE * size):
        return
    yield Problem(
        level=ProblemLevel.PROBLEM if free < DISK_FULL else ProblemLevel.WARNING,
        code="disk_low",
        what=f"The disk of the home has {free / _MB:,.0f} MB left ({100 * free / size:.0f} %).",
        remedy="Free some space there; on a full disk messages are refused, and none is lost.",
    )


def _platforms(report: StatusReport, now: float) -> Iterator[Problem]:
    snapshot = report.snapshot
    if report.state != "running":
        return
    starting = now - snapshot.since < CONNECT_GRACE
    for platform in snapshot.platforms:
        if platform.state is AccountState.PAUSED:  # on purpose
            continue
        if platform.state is AccountState.BLOCKED:
            yield _blocked(platform)
        # As of the snapshot: a loop that hangs makes no round trips, and is a problem of its own.
        elif not starting and not platform.connected(now - report.snapshot_age):
            yield _disconnected(platform, now)


def describe_blocked_account(account: AccountStatus) -> str:
    return f"{account.name}:{account.account} is refused for good: {account.error}."


def _blocked(account: AccountStatus) -> Problem:
    name = f"{account.name}:{account.account}"
    return Problem(
        level=ProblemLevel.WARNING,
        code="account_blocked",
        what=describe_blocked_account(account),
        remedy=f"{account.remedy.rstrip('.')}; `holdfast platforms resume {name}` tries it again.",
    )


def _disconnected(account: AccountStatus, now: float) -> Problem:
    again = "It is tried again by itself"
    if account.next_attempt_at is not None:
        again += f", next in {max(0.0, account.next_attempt_at - now):.0f} s"
    hint = f" {account.remedy.rstrip('.')}." if account.remedy else ""
    return Problem(
        level=ProblemLevel.WARNING,
        code="account_disconnected",
        what=_describe_disconnected(account, now),
        remedy=f"{again}; `holdfast logs` says what went wrong.{hint}",
    )


def _describe_disconnected(account: AccountStatus, now: float) -> str:
    name = f"{account.name}:{account.account}"
    if account.error:
        return f"{name} is not connected: {account.error}."
    if account.last_ok_at is None:
        return f"{name} has not answered since the start."
    return f"{name} has not answered for {now - account.last_ok_at:.0f} s."


def _outbox(report: StatusReport, now: float) -> Iterator[Problem]:
    snapshot = report.snapshot
    if snapshot.outbox_since is not None and now - snapshot.outbox_since > OUTBOX_STUCK_AFTER:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="outbox_stuck",
            what=f"{snapshot.outbox} deliveries wait, one of them for "
            f"{(now - snapshot.outbox_since) / 60:.0f} minutes.",
            remedy="They are sent once their platform takes them; `holdfast logs` says why not.",
        )


def _undeliverable(report: StatusReport) -> Iterator[Problem]:
    for account, number in report.snapshot.undeliverable.items():
        what = "1 delivery waits" if number == 1 else f"{number} deliveries wait"
        yield Problem(
            level=ProblemLevel.WARNING,
            code="account_removed",
            what=f"{what} for {account}, which is not configured any more.",
            remedy="Put the account back for them to be sent; a restart without it ends them as "
            "failed.",
        )


def _configuration(report: StatusReport) -> Iterator[Problem]:
    configuration = report.snapshot.configuration
    if configuration.problem:
        # A warning only: the gateway does its work, and a monitor that restarts an unhealthy
        # gateway would stop one that runs in favour of one that cannot start.
        yield Problem(
            level=ProblemLevel.WARNING,
            code="config_invalid",
            what="The configuration file cannot be used, so the last good configuration stays "
            f"active, and a start would fail. {configuration.problem}",
            remedy="Fix the file; the change is noticed, or run `holdfast config reload`.",
        )
    if configuration.pending_restart:
        keys = ", ".join(configuration.pending_restart)
        yield Problem(
            level=ProblemLevel.WARNING,
            code="config_pending_restart",
            what=f"Waits for a restart: {keys}.",
            remedy="Run `holdfast gateway restart`.",
        )


def _crashes(report: StatusReport, now: float) -> Iterator[Problem]:
    stops = report.snapshot.restarts
    crashes = [
        s for s in stops if s.order.kind is StopKind.CRASH and now - s.order.at < CRASH_LOOP_WINDOW
    ]
    if len(crashes) >= CRASH_LOOP_COUNT:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="crash_loop",
            what=f"It has crashed {len(crashes)} times within "
            f"{CRASH_LOOP_WINDOW / 60:.0f} minutes.",
            remedy="`holdfast logs` and the supervisor's own log say what they can.",
        )


def _backup(report: StatusReport) -> Iterator[Problem]:
    if problem := report.snapshot.last_backup.problem:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="backup_failed",
            what=f"The last backup could not be made: {problem}.",
            remedy="It is tried again within the hour; `holdfast backup create` tries it now.",
        )


def _files(report: StatusReport) -> Iterator[Problem]:
    machine = report.machine
    if machine.files and machine.max_files and machine.files > 0.9 * machine.max_files:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="open_files_high",
            what=f"{machine.files} of at most {machine.max_files} files are open.",
            remedy="Give the process more (`ulimit -n`, or LimitNOFILE= in its unit).",
        )


def _drift(report: StatusReport) -> Iterator[Problem]:
    for sentence in report.machine.unit_drift:
        yield Problem(level=ProblemLevel.WARNING, code="unit_drift", what=sentence)

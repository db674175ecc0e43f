"""Derives problems, with remedies, from the status of a gateway."""

from collections.abc import Iterator

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.status import AccountStatus, Failures, Problem, ProblemLevel, StatusReport
from holdfast.core.text.translation import _, _n
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
    """The worst first, in the language of the context. Pure: the same report gives the same
    problems."""
    found = [
        *_loop(report),
        *_store(report),
        *_orphaned_messages(report, now),
        *_configuration(report),
        *_disk(report),
        *_platforms(report, now),
        *_outbox(report, now),
        *_undeliverable(report),
        *failure_problems(report.snapshot.failures),
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
            what=_(
                "The event loop has been blocked for {seconds:.0f} s: nothing is answered."
            ).format(seconds=loop.age),
            remedy=_(
                "Look in the log for the cause. If it does not recover, run `kill -9 {pid}` and "
                "start the gateway again: no accepted message is lost."
            ).format(pid=report.pid),
        )
    elif loop.worst_minute > SLOW_LOOP:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="slow_loop",
            what=_("The event loop was {seconds:.1f} s late within the last minute.").format(
                seconds=loop.worst_minute
            ),
            remedy=_(
                "The machine is overloaded, or something blocks the event loop; `holdfast logs` "
                "may show the cause."
            ),
        )


def _store(report: StatusReport) -> Iterator[Problem]:
    store = report.snapshot.store
    if store.failing:
        yield Problem(
            level=ProblemLevel.PROBLEM,
            code="store_failing",
            what=_("The store cannot be written: {error}.").format(error=store.error),
            remedy=_(
                "New messages are refused until writing works again; accepted ones wait. Check "
                "the disk and `holdfast logs`."
            ),
        )
    if report.machine.wal > MAX_WAL:
        size = report.machine.wal / _MB
        yield Problem(
            level=ProblemLevel.WARNING,
            code="wal_large",
            what=_("The write-ahead log of the database has grown to {size:,.0f} MB.").format(
                size=size
            ),
            remedy=_("Another program may have the database open and block checkpoints: close it."),
        )


def _orphaned_messages(report: StatusReport, now: float) -> Iterator[Problem]:
    snapshot = report.snapshot
    if report.state != "running" or snapshot.orphaned_since is None:
        return
    number = snapshot.orphaned
    minutes = (now - snapshot.orphaned_since) / 60
    yield Problem(
        level=ProblemLevel.PROBLEM,
        code="orphaned_messages",
        what=_n(
            "{n} message was accepted, is not answered, and no turn works on it "
            "(for {minutes:.0f} min).",
            "{n} messages were accepted, are not answered, and no turn works on them "
            "(for {minutes:.0f} min).",
            number,
        ).format(n=number, minutes=minutes),
        remedy=_(
            "Run `holdfast gateway restart`: the start resumes whatever is open, so nothing is "
            "lost. This is a bug in the gateway: please report it with the log."
        ),
    )


def disk_problem_level(*, free: int, size: int) -> ProblemLevel | None:
    """None: there is enough space."""
    if free >= MIN_DISK and free >= MIN_DISK_SHARE * size:
        return None
    return ProblemLevel.PROBLEM if free < DISK_FULL else ProblemLevel.WARNING


def _disk(report: StatusReport) -> Iterator[Problem]:
    free, size = report.machine.disk_free, report.machine.disk_size
    if free is None or size is None:
        return
    level = disk_problem_level(free=free, size=size)
    if level is None:
        return
    yield Problem(
        level=level,
        code="disk_low",
        what=_("The disk of the home has {free:,.0f} MB left ({percent:.0f} %).").format(
            free=free / _MB, percent=100 * free / size
        ),
        remedy=_(
            "Free some space there. On a full disk new messages are refused; accepted ones are "
            "not lost."
        ),
    )


def _platforms(report: StatusReport, now: float) -> Iterator[Problem]:
    snapshot = report.snapshot
    if report.state != "running":
        return
    starting = now - snapshot.since < CONNECT_GRACE
    for platform in snapshot.for_person().platforms:
        if platform.state is AccountState.PAUSED:  # on purpose
            continue
        if platform.state is AccountState.BLOCKED:
            yield _blocked(platform)
        # As of the snapshot: a loop that hangs makes no round trips, and is a problem of its own.
        elif not starting and not platform.connected(now - report.snapshot_age):
            yield _disconnected(platform, now)


def describe_blocked_account(account: AccountStatus) -> str:
    return _("{account} is refused for good: {error}.").format(
        account=f"{account.name}:{account.account}", error=account.for_person().error.rstrip(".")
    )


def _blocked(account: AccountStatus) -> Problem:
    name = f"{account.name}:{account.account}"
    return Problem(
        level=ProblemLevel.WARNING,
        code="account_blocked",
        what=describe_blocked_account(account),
        remedy=_("{remedy}. `holdfast platforms resume {account}` tries it again.").format(
            remedy=account.remedy.rstrip("."), account=name
        ),
    )


def _disconnected(account: AccountStatus, now: float) -> Problem:
    if account.next_attempt_at is None:
        again = _("The gateway retries automatically; `holdfast logs` shows the cause.")
    else:
        again = _(
            "The gateway retries automatically, next in {seconds:.0f} s; `holdfast logs` shows "
            "the cause."
        ).format(seconds=max(0.0, account.next_attempt_at - now))
    hint = f" {account.remedy.rstrip('.')}." if account.remedy else ""
    return Problem(
        level=ProblemLevel.WARNING,
        code="account_disconnected",
        what=_describe_disconnected(account, now),
        remedy=f"{again}{hint}",
    )


def _describe_disconnected(account: AccountStatus, now: float) -> str:
    name = f"{account.name}:{account.account}"
    if account.error:
        return _("{account} is not connected: {error}.").format(
            account=name, error=account.error.rstrip(".")
        )
    if account.last_ok_at is None:
        return _("{account} has not answered since the start.").format(account=name)
    return _("{account} has not answered for {seconds:.0f} s.").format(
        account=name, seconds=now - account.last_ok_at
    )


def _outbox(report: StatusReport, now: float) -> Iterator[Problem]:
    snapshot = report.snapshot
    if snapshot.outbox_since is not None and now - snapshot.outbox_since > OUTBOX_STUCK_AFTER:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="outbox_stuck",
            what=_n(
                "{n} delivery waits to be sent, for {minutes:.0f} minutes.",
                "{n} deliveries wait to be sent, the oldest for {minutes:.0f} minutes.",
                snapshot.outbox,
            ).format(n=snapshot.outbox, minutes=(now - snapshot.outbox_since) / 60),
            remedy=_(
                "They are sent as soon as their platform accepts them; `holdfast logs` shows why "
                "it does not."
            ),
        )


def _undeliverable(report: StatusReport) -> Iterator[Problem]:
    for account, number in report.snapshot.undeliverable.items():
        yield Problem(
            level=ProblemLevel.WARNING,
            code="account_removed",
            what=_n(
                "{n} delivery waits for {account}, which is no longer configured.",
                "{n} deliveries wait for {account}, which is no longer configured.",
                number,
            ).format(n=number, account=account),
            remedy=_(
                "Configure the account again to send them; a restart without it marks them as "
                "failed."
            ),
        )


def failure_problems(failures: Failures) -> Iterator[Problem]:
    """Also for a gateway that does not run: this is stored."""
    for job in failures.jobs:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="job_failed",
            what=_("The last run of job {number} ({name}) failed: {reason}.").format(
                number=job.id, name=job.name, reason=_shown(job.reason)
            ),
            remedy=_(
                "`holdfast jobs history {number}` shows its runs, `holdfast jobs run {number}` "
                "runs it again."
            ).format(number=job.id),
        )
    if failures.deliveries:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="delivery_failed",
            what=_n(
                "{n} delivery failed within the last day, to {chat}: {error}.",
                "{n} deliveries failed within the last day, the last to {chat}: {error}.",
                failures.deliveries,
            ).format(
                n=failures.deliveries,
                chat=failures.delivery_chat,
                error=_shown(failures.delivery_error),
            ),
            remedy=_("The outbox of the dashboard shows them, and can send them again."),
        )


def _shown(reason: str) -> str:
    return reason.rstrip(".") or _("no reason is known")


def _configuration(report: StatusReport) -> Iterator[Problem]:
    configuration = report.snapshot.configuration
    if configuration.problem:
        # A warning only: the gateway does its work, and a monitor that restarts an unhealthy
        # gateway would stop one that runs in favour of one that cannot start.
        yield Problem(
            level=ProblemLevel.WARNING,
            code="config_invalid",
            what=_(
                "The configuration file is invalid: the last valid configuration stays active, "
                "and a start would fail. {problem}"
            ).format(problem=configuration.problem),
            remedy=_(
                "Fix the file; the gateway notices the change, or run `holdfast config reload`."
            ),
        )
    if configuration.pending_restart:
        keys = ", ".join(configuration.pending_restart)
        yield Problem(
            level=ProblemLevel.WARNING,
            code="config_pending_restart",
            what=_("Waiting for a restart: {keys}.").format(keys=keys),
            remedy=_("Run `holdfast gateway restart`."),
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
            what=_("The gateway has crashed {n} times within {minutes:.0f} minutes.").format(
                n=len(crashes), minutes=CRASH_LOOP_WINDOW / 60
            ),
            remedy=_("Look for the cause in `holdfast logs` and in the log of the supervisor."),
        )


def _backup(report: StatusReport) -> Iterator[Problem]:
    if problem := report.snapshot.last_backup.problem:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="backup_failed",
            what=_("The last backup failed: {error}.").format(error=problem),
            remedy=_(
                "The gateway tries again within the hour; `holdfast backup create` tries it now."
            ),
        )


def _files(report: StatusReport) -> Iterator[Problem]:
    machine = report.machine
    if machine.files and machine.max_files and machine.files > 0.9 * machine.max_files:
        yield Problem(
            level=ProblemLevel.WARNING,
            code="open_files_high",
            what=_("{n} of at most {limit} files are open.").format(
                n=machine.files, limit=machine.max_files
            ),
            remedy=_("Raise the limit of the process (`ulimit -n`, or LimitNOFILE= in its unit)."),
        )


def _drift(report: StatusReport) -> Iterator[Problem]:
    for sentence in report.machine.for_person().unit_drift:
        yield Problem(level=ProblemLevel.WARNING, code="unit_drift", what=sentence)

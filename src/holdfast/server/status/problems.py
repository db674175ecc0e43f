"""Problems: what in the facts of a gateway somebody should know first, and what to do about it."""

from collections.abc import Iterator

from holdfast.core.ops.account import AccountState
from holdfast.core.ops.facts import Document, Level, PlatformFacts, Problem
from holdfast.core.turns.stop import StopKind

_MB = 1024 * 1024
LEAST_DISK = 500 * _MB
LEAST_SHARE = 0.05
FULL = 20 * _MB  # so little that the next write may fail
LONGEST_LOG = 256 * _MB
SLOW_LOOP = 1.0
STUCK_AFTER = 300.0  # seconds in front of the outbox
UNPROVEN_AFTER = 30.0  # seconds that a platform may take for its first round trip
CRASHES, WITHIN = 3, 600.0


def problems(document: Document, *, now: float) -> tuple[Problem, ...]:
    """The worst first. Pure: the same facts give the same problems."""
    found = [
        *_loop(document),
        *_store(document),
        *_balance(document, now),
        *_configuration(document),
        *_disk(document),
        *_platforms(document, now),
        *_outbox(document, now),
        *_stranded(document),
        *_crashes(document, now),
        *_files(document),
        *_backup(document),
        *_drift(document),
    ]
    return tuple(sorted(found, key=lambda problem: problem.level is Level.WARNING))


def _loop(document: Document) -> Iterator[Problem]:
    loop = document.loop
    if loop is None:
        return
    if document.state == "hanging":
        yield Problem(
            level=Level.PROBLEM,
            code="hanging",
            what=f"The event loop has not turned for {loop.age:.0f} s: nothing is answered.",
            remedy="The log may say what holds it. If it stays so, `kill -9 "
            f"{document.pid}` and start it again: nothing that was accepted is lost.",
        )
    elif loop.worst_minute > SLOW_LOOP:
        yield Problem(
            level=Level.WARNING,
            code="slow_loop",
            what=f"The event loop was {loop.worst_minute:.1f} s late within the last minute.",
            remedy="The machine is overloaded, or something blocks it; `holdfast logs` may say.",
        )


def _store(document: Document) -> Iterator[Problem]:
    store = document.snapshot.store
    if store.failing:
        yield Problem(
            level=Level.PROBLEM,
            code="store_failing",
            what=f"The store cannot be written: {store.error}.",
            remedy="Messages are refused until it can; those that were accepted wait.",
        )
    if document.machine.database_log > LONGEST_LOG:
        size = document.machine.database_log / _MB
        yield Problem(
            level=Level.WARNING,
            code="long_log",
            what=f"The log of the database has grown to {size:,.0f} MB.",
            remedy="Another program may hold an older state of it open; the gateway alone may.",
        )


def _balance(document: Document, now: float) -> Iterator[Problem]:
    snapshot = document.snapshot
    if document.state != "running" or snapshot.unowned_since is None:
        return
    number = snapshot.unowned
    who = "1 message was accepted, is" if number == 1 else f"{number} messages were accepted, are"
    yield Problem(
        level=Level.PROBLEM,
        code="unowned_messages",
        what=f"{who} not answered, and nobody works on "
        f"{'it' if number == 1 else 'them'} (for {(now - snapshot.unowned_since) / 60:.0f} min).",
        remedy="`holdfast gateway restart`: a start takes up whatever is open, so nothing is lost. "
        "This is a fault of the gateway: please report it with its log.",
    )


def _disk(document: Document) -> Iterator[Problem]:
    free, size = document.machine.disk_free, document.machine.disk_size
    if free is None or size is None or (free >= LEAST_DISK and free >= LEAST_SHARE * size):
        return
    yield Problem(
        level=Level.PROBLEM if free < FULL else Level.WARNING,
        code="disk_low",
        what=f"The disk of the home has {free / _MB:,.0f} MB left ({100 * free / size:.0f} %).",
        remedy="Free some space there; on a full disk messages are refused, and none is lost.",
    )


def _platforms(document: Document, now: float) -> Iterator[Problem]:
    snapshot = document.snapshot
    if document.state != "running":
        return
    begins = now - snapshot.since < UNPROVEN_AFTER
    for platform in snapshot.platforms:
        if platform.state is AccountState.PAUSED:  # as somebody wants it
            continue
        if platform.state is AccountState.PARKED:
            yield _parked(platform)
        # As it was when it was last looked at: a loop that hangs proves nothing, and is told.
        elif not begins and not platform.connected(now - document.seen):
            yield _silent(platform, now)


def refusal_of(platform: PlatformFacts) -> str:
    return f"{platform.name}:{platform.account} is refused for good: {platform.error}."


def _parked(platform: PlatformFacts) -> Problem:
    name = f"{platform.name}:{platform.account}"
    return Problem(
        level=Level.WARNING,
        code="platform_parked",
        what=refusal_of(platform),
        remedy=f"{platform.remedy.rstrip('.')}; `holdfast platforms resume {name}` tries it again.",
    )


def _silent(platform: PlatformFacts, now: float) -> Problem:
    again = "It is tried again by itself"
    if platform.next_try is not None:
        again += f", next in {max(0.0, platform.next_try - now):.0f} s"
    hint = f" {platform.remedy.rstrip('.')}." if platform.remedy else ""
    return Problem(
        level=Level.WARNING,
        code="platform_silent",
        what=_silence(platform, now),
        remedy=f"{again}; `holdfast logs` says what went wrong.{hint}",
    )


def _silence(platform: PlatformFacts, now: float) -> str:
    name = f"{platform.name}:{platform.account}"
    if platform.error:
        return f"{name} is not connected: {platform.error}."
    if platform.proven_at is None:
        return f"{name} has not answered since the start."
    return f"{name} has not answered for {now - platform.proven_at:.0f} s."


def _outbox(document: Document, now: float) -> Iterator[Problem]:
    snapshot = document.snapshot
    if snapshot.outbox_since is not None and now - snapshot.outbox_since > STUCK_AFTER:
        yield Problem(
            level=Level.WARNING,
            code="outbox_stuck",
            what=f"{snapshot.outbox} deliveries wait, one of them for "
            f"{(now - snapshot.outbox_since) / 60:.0f} minutes.",
            remedy="They are sent once their platform takes them; `holdfast logs` says why not.",
        )


def _stranded(document: Document) -> Iterator[Problem]:
    for account, number in document.snapshot.stranded.items():
        what = "1 delivery waits" if number == 1 else f"{number} deliveries wait"
        yield Problem(
            level=Level.WARNING,
            code="account_removed",
            what=f"{what} for {account}, which is not configured any more.",
            remedy="Put the account back for them to be sent; a restart without it ends them as "
            "failed.",
        )


def _configuration(document: Document) -> Iterator[Problem]:
    configuration = document.snapshot.configuration
    if configuration.problem:
        # No problem, however grave: it does its work, and whoever restarts what is not well would
        # end the one that runs for the sake of one that cannot start.
        yield Problem(
            level=Level.WARNING,
            code="config_invalid",
            what="The configuration as it stands now cannot be used, so the last good one stays in "
            f"force, and no start would be possible. {configuration.problem}",
            remedy="Mend it there; that is noticed, and `holdfast config reload` asks for it.",
        )
    if configuration.waits:
        waits = ", ".join(configuration.waits)
        yield Problem(
            level=Level.WARNING,
            code="config_waits",
            what=f"Waits for a restart: {waits}.",
            remedy="`holdfast gateway restart` puts it into force.",
        )


def _crashes(document: Document, now: float) -> Iterator[Problem]:
    stops = document.snapshot.restarts
    crashes = [s for s in stops if s.order.kind is StopKind.CRASH and now - s.order.at < WITHIN]
    if len(crashes) >= CRASHES:
        yield Problem(
            level=Level.WARNING,
            code="crashing",
            what=f"It has crashed {len(crashes)} times within {WITHIN / 60:.0f} minutes.",
            remedy="`holdfast logs` and the supervisor's own log say what they can.",
        )


def _backup(document: Document) -> Iterator[Problem]:
    if problem := document.snapshot.last_backup.problem:
        yield Problem(
            level=Level.WARNING,
            code="backup_failed",
            what=f"The last backup could not be made: {problem}.",
            remedy="It is tried again within the hour; `holdfast backup create` tries it now.",
        )


def _files(document: Document) -> Iterator[Problem]:
    machine = document.machine
    if machine.files and machine.most_files and machine.files > 0.9 * machine.most_files:
        yield Problem(
            level=Level.WARNING,
            code="files_low",
            what=f"{machine.files} of at most {machine.most_files} files are open.",
            remedy="Give the process more (`ulimit -n`, or LimitNOFILE= in its unit).",
        )


def _drift(document: Document) -> Iterator[Problem]:
    for sentence in document.machine.drift:
        yield Problem(level=Level.WARNING, code="unit_drift", what=sentence)

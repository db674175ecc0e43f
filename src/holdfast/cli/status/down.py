"""Describes a gateway that does not run: since when, why, and what happens to its work.

Reads the store: import this module inside functions only.
"""

import json
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.home import chosen_store
from holdfast.core.ports.store import ClosedStore
from holdfast.core.text.locale_format import format_duration, format_time
from holdfast.core.text.translation import N_, _
from holdfast.core.turns.stop import StopKind, StopRow
from holdfast.server.local.status_client import GatewayDown
from holdfast.store.implementations import closed_store
from holdfast.system.lock import LockHolder, read_holder
from holdfast.system.paths import Paths

_STOP_REASONS = {
    StopKind.STOP: N_("It was stopped by request of {who}, and stays down until you start it."),
    StopKind.SIGNAL: N_("It was ended by a signal (requested by {who})."),
    StopKind.RESTART: N_("It is restarting by request of {who}; the new process is not ready yet."),
    StopKind.REPLACE: N_(
        "It was replaced by a new process, which is not ready yet (requested by {who})."
    ),
    StopKind.CRASH: N_("It crashed."),
}


class ShutdownKind(StrEnum):
    NEVER = "never_ran"
    REQUESTED = "requested"  # it stopped regularly and recorded why
    CRASH = "crash"  # killed, or the machine failed
    UNKNOWN = "unknown"


class LastShutdown(msgspec.Struct, frozen=True, kw_only=True):
    """How the last process ended, as far as its files tell."""

    how: ShutdownKind
    at: float | None = None
    stop: StopRow | None = None
    pid: int | None = None  # of a process that was killed


def format_down(paths: Paths, down: GatewayDown, *, as_json: bool, indent: int) -> str:
    holder = read_holder(paths.home)
    ended = None if holder is not None else read_last_shutdown(paths)
    if as_json:
        return json.dumps(_down_json(paths, holder, ended), indent=indent or None)
    return "\n".join(
        [down.for_person(), *_holder_text(holder), *_shutdown_text(ended, now=time.time())]
    )


def read_last_shutdown(paths: Paths) -> LastShutdown:
    """Reads the files of the last process, and changes nothing."""
    store = closed_store(paths.db, chosen_store())
    if not store.exists():
        return LastShutdown(how=ShutdownKind.NEVER)
    dead = _read_stale_lock(paths.lock)
    if dead is not None:
        # A process that stops regularly clears the lock file.
        return LastShutdown(how=ShutdownKind.CRASH, at=_last_activity(paths, store), pid=dead.pid)
    stop = store.read_last_stop()
    if stop is None or stop.ready_at is not None:
        return LastShutdown(how=ShutdownKind.UNKNOWN, at=_last_activity(paths, store))
    return LastShutdown(how=ShutdownKind.REQUESTED, at=stop.stopped_at or stop.order.at, stop=stop)


def _read_stale_lock(path: Path) -> LockHolder | None:
    try:
        holder = msgspec.json.decode(path.read_bytes(), type=LockHolder)
    except (OSError, msgspec.MsgspecError):
        return None
    return holder if holder.purpose == "gateway" else None


def _last_activity(paths: Paths, store: ClosedStore) -> float | None:
    """When something that a running gateway writes last changed."""
    logged = paths.log_file.stat().st_mtime if paths.log_file.exists() else None
    times = (at for at in (logged, store.last_changed()) if at is not None)
    return max(times, default=None)


def _holder_text(holder: LockHolder | None) -> Iterator[str]:
    if holder is not None:
        text = _("Process {pid} ({purpose}) has held this home since {time}; it may be starting.")
        yield text.format(pid=holder.pid, purpose=holder.purpose, time=format_time(holder.since))


def _shutdown_text(shutdown: LastShutdown | None, *, now: float) -> Iterator[str]:
    if shutdown is None or shutdown.at is None:
        return
    when = {
        "time": format_time(shutdown.at),
        "age": format_duration(max(0.0, now - shutdown.at)),
    }
    if shutdown.how is ShutdownKind.CRASH:
        yield _(
            "Process {pid} was killed, or the machine failed; its last activity was at {time} "
            "({age} ago). Accepted messages are not lost: they continue at the next start."
        ).format(pid=shutdown.pid, **when)
    elif shutdown.stop is None:
        yield _("The last activity was at {time} ({age} ago).").format(**when)
    else:
        down = _("Down since {time} ({age} ago).").format(**when)
        reason = _(_STOP_REASONS[shutdown.stop.order.kind]).format(who=shutdown.stop.order.by)
        yield f"{down} {reason}"
        yield from _interrupted_turns_text(shutdown.stop)


def _interrupted_turns_text(stop: StopRow) -> Iterator[str]:
    if stop.parked or stop.interrupted:
        yield _(
            "Open turns: {parked} parked, {interrupted} interrupted. They continue at the next "
            "start."
        ).format(parked=stop.parked, interrupted=stop.interrupted)


def _down_json(
    paths: Paths, holder: LockHolder | None, shutdown: LastShutdown | None
) -> dict[str, Any]:
    return {
        "state": "down",
        "home": str(paths.home),
        "held_by": holder and {"pid": holder.pid, "purpose": holder.purpose, "since": holder.since},
        "ended": msgspec.to_builtins(shutdown),
    }

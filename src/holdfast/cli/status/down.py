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

from holdfast.cli.common.output import format_duration, format_time
from holdfast.core.turns.stop import StopKind, StopRow
from holdfast.server.local.status_client import GatewayDown
from holdfast.store.sqlite.writes.gateway_stops import read_last_stop
from holdfast.system.lock import LockHolder, read_holder
from holdfast.system.paths import Paths

_RESUME_NOTE = "They go on with the next start."
_STOP_REASONS = {
    StopKind.STOP: "It was told to stop, and stays down until it is started",
    StopKind.SIGNAL: "A signal ended it, by nobody's plan",
    StopKind.RESTART: "It went to restart, and its successor has not been ready yet",
    StopKind.REPLACE: "It handed over to a successor, which has not been ready yet",
    StopKind.CRASH: "It crashed",
}


class ShutdownKind(StrEnum):
    NEVER = "never_ran"
    REQUESTED = "ordered"  # it ended its life itself, and wrote down why
    CRASH = "crash"  # killed, or cut by the machine
    UNKNOWN = "unknown"


class LastShutdown(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the last life, as far as its traces tell."""

    how: ShutdownKind
    at: float | None = None
    stop: StopRow | None = None
    pid: int | None = None  # of a process that died without a word


def format_down(paths: Paths, down: GatewayDown, *, as_json: bool, indent: int) -> str:
    holder = read_holder(paths.home)
    ended = None if holder is not None else read_last_shutdown(paths)
    if as_json:
        return json.dumps(_down_json(paths, holder, ended), indent=indent or None)
    return "\n".join([str(down), *_holder_text(holder), *_shutdown_text(ended, now=time.time())])


def read_last_shutdown(paths: Paths) -> LastShutdown:
    """Reads what the last process left behind, and changes nothing."""
    if not paths.db.exists():
        return LastShutdown(how=ShutdownKind.NEVER)
    dead = _read_stale_lock(paths.lock)
    if dead is not None:
        # One that ends by itself takes its name off the lock.
        return LastShutdown(how=ShutdownKind.CRASH, at=_last_activity(paths), pid=dead.pid)
    stop = read_last_stop(paths.db)
    if stop is None or stop.ready_at is not None:
        return LastShutdown(how=ShutdownKind.UNKNOWN, at=_last_activity(paths))
    return LastShutdown(how=ShutdownKind.REQUESTED, at=stop.stopped_at or stop.order.at, stop=stop)


def _read_stale_lock(path: Path) -> LockHolder | None:
    try:
        holder = msgspec.json.decode(path.read_bytes(), type=LockHolder)
    except (OSError, msgspec.MsgspecError):
        return None
    return holder if holder.purpose == "gateway" else None


def _last_activity(paths: Paths) -> float | None:
    """When the files last changed that a living gateway writes."""
    log = paths.db.with_name(paths.db.name + "-wal")
    signs = [file.stat().st_mtime for file in (paths.log_file, paths.db, log) if file.exists()]
    return max(signs, default=None)


def _holder_text(holder: LockHolder | None) -> Iterator[str]:
    if holder is not None:
        yield (
            f"Process {holder.pid} ({holder.purpose}) has held this home since "
            f"{format_time(holder.since)}; it may be starting."
        )


def _shutdown_text(shutdown: LastShutdown | None, *, now: float) -> Iterator[str]:
    if shutdown is None or shutdown.at is None:
        return
    since = f"{format_time(shutdown.at)} ({format_duration(max(0.0, now - shutdown.at))} ago)"
    if shutdown.how is ShutdownKind.CRASH:
        yield (
            f"Process {shutdown.pid} was killed or cut off; its last sign of life is of {since}. "
            "What it had accepted is not lost: it goes on with the next start."
        )
    elif shutdown.stop is None:
        yield f"Its last sign of life is of {since}."
    else:
        yield f"Down since {since}. {_stop_reason(shutdown.stop)}."
        yield from _interrupted_turns_text(shutdown.stop)


def _stop_reason(stop: StopRow) -> str:
    return f"{_STOP_REASONS[stop.order.kind]} (asked for by {stop.order.by})"


def _interrupted_turns_text(stop: StopRow) -> Iterator[str]:
    left = [("parked", stop.parked), ("interrupted", stop.interrupted)]
    if told := " and ".join(f"{n} {what}" for what, n in left if n):
        yield f"Turns it left: {told}. {_RESUME_NOTE}"


def _down_json(
    paths: Paths, holder: LockHolder | None, shutdown: LastShutdown | None
) -> dict[str, Any]:
    return {
        "state": "down",
        "home": str(paths.home),
        "held_by": holder and {"pid": holder.pid, "purpose": holder.purpose, "since": holder.since},
        "ended": msgspec.to_builtins(shutdown),
    }

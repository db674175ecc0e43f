"""What is said of a gateway that does not run: since when, why, and what becomes of its work."""

import json
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from holdfast.cli.common.output import duration, moment
from holdfast.core.turns.stop import StopKind, StopRow
from holdfast.server.local.status_client import GatewayDown
from holdfast.store.sqlite.writes.last_stop import last_stop
from holdfast.system.lock import Holder, read_holder
from holdfast.system.paths import Paths

_GO_ON = "They go on with the next start."
_WORDS = {
    StopKind.STOP: "It was told to stop, and stays down until it is started",
    StopKind.SIGNAL: "A signal ended it, by nobody's plan",
    StopKind.RESTART: "It went to restart, and its successor has not been ready yet",
    StopKind.REPLACE: "It handed over to a successor, which has not been ready yet",
    StopKind.CRASH: "It crashed",
}


class Ending(StrEnum):
    NEVER = "never_ran"
    ORDERED = "ordered"  # it ended its life itself, and wrote down why
    CRASH = "crash"  # killed, or cut by the machine
    UNKNOWN = "unknown"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of the last life, as far as its traces tell."""

    how: Ending
    at: float | None = None
    stop: StopRow | None = None
    pid: int | None = None  # of a process that died without a word


def told_down(paths: Paths, down: GatewayDown, *, as_json: bool, indent: int) -> str:
    holder = read_holder(paths.home)
    ended = None if holder is not None else ended_life(paths)
    if as_json:
        return json.dumps(_document(paths, holder, ended), indent=indent or None)
    return "\n".join([str(down), *_holder_told(holder), *_told(ended, now=time.time())])


def ended_life(paths: Paths) -> Ended:
    """Reads what the last process left behind, and changes nothing."""
    if not paths.db.exists():
        return Ended(how=Ending.NEVER)
    dead = _left_lock(paths.lock)
    if dead is not None:
        # One that ends by itself takes its name off the lock.
        return Ended(how=Ending.CRASH, at=_last_sign(paths), pid=dead.pid)
    stop = last_stop(paths.db)
    if stop is None or stop.ready_at is not None:
        return Ended(how=Ending.UNKNOWN, at=_last_sign(paths))
    return Ended(how=Ending.ORDERED, at=stop.stopped_at or stop.order.at, stop=stop)


def _left_lock(path: Path) -> Holder | None:
    try:
        holder = msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None
    return holder if holder.purpose == "gateway" else None


def _last_sign(paths: Paths) -> float | None:
    """When the files last changed that a living gateway writes."""
    log = paths.db.with_name(paths.db.name + "-wal")
    signs = [file.stat().st_mtime for file in (paths.log_file, paths.db, log) if file.exists()]
    return max(signs, default=None)


def _holder_told(holder: Holder | None) -> Iterator[str]:
    if holder is not None:
        yield (
            f"Process {holder.pid} ({holder.purpose}) has held this home since "
            f"{moment(holder.since)}; it may be starting."
        )


def _told(ended: Ended | None, *, now: float) -> Iterator[str]:
    if ended is None or ended.at is None:
        return
    since = f"{moment(ended.at)} ({duration(max(0.0, now - ended.at))} ago)"
    if ended.how is Ending.CRASH:
        yield (
            f"Process {ended.pid} was killed or cut off; its last sign of life is of {since}. "
            "What it had accepted is not lost: it goes on with the next start."
        )
    elif ended.stop is None:
        yield f"Its last sign of life is of {since}."
    else:
        yield f"Down since {since}. {_why(ended.stop)}."
        yield from _left(ended.stop)


def _why(stop: StopRow) -> str:
    return f"{_WORDS[stop.order.kind]} (asked for by {stop.order.by})"


def _left(stop: StopRow) -> Iterator[str]:
    left = [("parked", stop.parked), ("interrupted", stop.interrupted)]
    if told := " and ".join(f"{n} {what}" for what, n in left if n):
        yield f"Turns it left: {told}. {_GO_ON}"


def _document(paths: Paths, holder: Holder | None, ended: Ended | None) -> dict[str, Any]:
    return {
        "state": "down",
        "home": str(paths.home),
        "held_by": holder and {"pid": holder.pid, "purpose": holder.purpose, "since": holder.since},
        "ended": msgspec.to_builtins(ended),
    }

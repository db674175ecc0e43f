"""Departing: a gateway told to stop or restart, and watched until it has."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from holdfast.cli.common.output import format_duration, print_json
from holdfast.cli.gateway.calling_off import cancel_pending_start, record_stop
from holdfast.core.errors import HoldfastError
from holdfast.server.local.client import ControlClient, GatewayDown, GatewayRefused, read_status
from holdfast.service.intent import IntentFile
from holdfast.service.offspring import cancel_respawn
from holdfast.system import exits
from holdfast.system.lock import LockHolder, read_holder
from holdfast.system.paths import Paths
from holdfast.system.process import has_ended, open_pidfd

# Nothing tells another process that a socket has come to be, so its coming is looked for.
_POLL_SECONDS = 0.05
_STOP_RESPONSE_TIMEOUT = 5.0  # seconds in which one that is well says that it goes
_RESTART_RESPONSE_TIMEOUT = 40.0  # its successor is looked at first


class GatewayTimedOut(HoldfastError):
    """It did not come to its end in the time that was given."""


def stop_gateway(home: Path, *, now: bool, timeout: float, as_json: bool) -> None:
    """Returns when the process has gone, and where it was about to restart, its successor too: the
    order to restart stands, and whoever says stop wants no gateway."""
    watch = _ProgressWatch(timeout, quiet=as_json)
    if cancel_pending_start(home):
        _print_result(
            as_json, watch, f"The gateway of {home} is not started any more.", {"stopped": None}
        )
        return
    pid = _stop_until_gone(home, watch, now=now)
    _print_result(as_json, watch, f"The gateway of {home} has stopped.", {"stopped": pid})


def _stop_until_gone(home: Path, watch: "_ProgressWatch", *, now: bool) -> int:
    """The process that has gone last, when none comes after it."""
    with _open_holder(home) as (holder, fd):
        restarting = _is_restarting(home)
        try:
            watch.follow(
                Paths(home), "/stop", {"now": now}, response_timeout=_STOP_RESPONSE_TIMEOUT
            )
        except GatewayDown:
            # It starts and has no control socket yet, or hangs. Ctrl-C says the same.
            signal.pidfd_send_signal(fd, signal.SIGINT)
        watch.wait_until_gone(fd, holder)
    if not (restarting and _wait_for_successor(home, holder, watch)):
        return holder.pid
    pid = holder.pid
    with suppress(GatewayDown):  # it was told to go as it started, and has gone since
        # The stop has hurried the drain of the restart already: the turns that were cut then run
        # again here, and are not given the whole window for a second time.
        pid = _stop_until_gone(home, watch, now=True)
    record_stop(home)  # it may have gone by the word of its starter, which is no operator's
    return pid


def restart_gateway(home: Path, *, mode: str | None, timeout: float, as_json: bool) -> None:
    """Returns when the successor takes messages."""
    watch = _ProgressWatch(timeout, quiet=as_json)
    with _open_holder(home) as (holder, fd):
        try:
            watch.follow(
                Paths(home), "/restart", {"mode": mode}, response_timeout=_RESTART_RESPONSE_TIMEOUT
            )
        except GatewayRefused as refused:
            _report_refusal(refused, as_json=as_json)
        watch.wait_until_gone(fd, holder)
    pid = watch.wait_until_ready(Paths(home), holder)
    facts = {"restarted": holder.pid, "pid": pid}
    _print_result(as_json, watch, f"The gateway of {home} is back, as process {pid}.", facts)


class _ProgressWatch:
    """Owns the deadline of one departure, and shows how far it has come."""

    def __init__(self, timeout: float, *, quiet: bool) -> None:
        self._began = time.monotonic()
        self.timeout = timeout
        self._quiet = quiet

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    @property
    def remaining(self) -> float:
        return max(0.01, self.timeout - self.elapsed)

    def follow(
        self, paths: Paths, path: str, body: dict[str, Any], *, response_timeout: float
    ) -> None:
        with suppress(TimeoutError):
            client = ControlClient(paths, timeout=min(response_timeout, self.remaining))
            for line in client.follow(path, body, line_timeout=self.remaining):
                self._print_phase(str(line["phase"]))

    def wait_until_gone(self, fd: int, holder: LockHolder) -> None:
        if not has_ended(fd, timeout=self.remaining):
            raise GatewayTimedOut(
                f"Process {holder.pid} has not ended within {self.timeout:g} s; it is still on "
                "its way. `holdfast status` says where it stands. Should it hang: nothing that was "
                f"accepted is lost by `kill -9 {holder.pid}`."
            )

    def wait_until_ready(self, paths: Paths, previous: LockHolder) -> int:
        while self.elapsed < self.timeout:
            with suppress(GatewayDown):
                status = read_status(paths)
                self._print_phase(str(status["state"]))
                if status["state"] == "running" and status["pid"] != previous.pid:
                    return int(status["pid"])
            time.sleep(_POLL_SECONDS)
        raise GatewayTimedOut(
            f"Process {previous.pid} has ended, and no successor took messages within "
            f"{self.timeout:g} s. `holdfast logs` says why; `holdfast run` starts one."
        )

    def _print_phase(self, phase: str) -> None:
        if not self._quiet and sys.stderr.isatty():
            click.echo(click.style(f"  {phase}", dim=True), err=True)


def _wait_for_successor(home: Path, previous: LockHolder, watch: _ProgressWatch) -> bool:
    """Whether a successor has come to run, once that is known; False: it was called off, as it
    started or before, or nobody came."""
    told = False
    while watch.elapsed < watch.timeout:
        holder = read_holder(home)
        if holder is None:
            # Whoever starts it is told first; when that one has gone, nobody will come any more.
            if cancel_respawn(str(Paths(home).run)):
                told = True
            elif told and record_stop(home):
                return False
        elif holder.pid != previous.pid and _answers_status(home, holder):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _answers_status(home: Path, holder: LockHolder) -> bool:
    """One that still starts may have been told to go already, and is waited for instead."""
    try:
        return bool(read_status(Paths(home))["pid"] == holder.pid)
    except GatewayDown:
        return False


@contextmanager
def _open_holder(home: Path) -> Iterator[tuple[LockHolder, int]]:
    """Who holds the home, with a descriptor that is that process and no other."""
    holder = read_holder(home)
    fd = open_pidfd(holder.pid, expected_start=holder.start_time) if holder is not None else None
    if holder is None or fd is None or holder.purpose != "gateway":
        raise GatewayDown(f"No gateway is running for {home}; `holdfast run` starts one.")
    try:
        yield holder, fd
    finally:
        os.close(fd)


def _is_restarting(home: Path) -> bool:
    """Whether who holds the home has an order to restart: it writes that down before anything."""
    intent = IntentFile(Paths(home).intent, now=time.time).read()
    return intent is not None and intent.restart is not None


def _report_refusal(refused: GatewayRefused, *, as_json: bool) -> None:
    if not as_json:
        raise HoldfastError(f"Not restarted: {refused.reason}") from None
    print_json({"restarted": None, "error": refused.reason})
    sys.exit(exits.FAILED)


def _print_result(
    as_json: bool, watch: _ProgressWatch, sentence: str, fields: dict[str, Any]
) -> None:
    if as_json:
        print_json({**fields, "seconds": round(watch.elapsed, 3)})
    else:
        click.echo(f"{sentence} It took {format_duration(watch.elapsed)}.")

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

from holdfast.cli.common.output import duration, print_json
from holdfast.cli.gateway.calling_off import called_off, stays_down
from holdfast.core.errors import HoldfastError
from holdfast.server.local.client import ControlClient, ControlRefused, GatewayDown, read_status
from holdfast.service.intent import IntentFile
from holdfast.service.offspring import call_off
from holdfast.system import exits
from holdfast.system.lock import Holder, read_holder
from holdfast.system.paths import Paths
from holdfast.system.process import gone, opened

# Nothing tells another process that a socket has come to be, so its coming is looked for.
_LOOK_EVERY = 0.05
_STOP_ANSWERS = 5.0  # seconds in which one that is well says that it goes
_RESTART_ANSWERS = 40.0  # its successor is looked at first


class StillThere(HoldfastError):
    """It did not come to its end in the time that was given."""


def stop(home: Path, *, now: bool, timeout: float, as_json: bool) -> None:
    """Returns when the process has gone, and where it was about to restart, its successor too: the
    order to restart stands, and whoever says stop wants no gateway."""
    watch = _Watch(timeout, quiet=as_json)
    if called_off(home):
        _tell(as_json, watch, f"The gateway of {home} is not started any more.", {"stopped": None})
        return
    pid = _sent_away(home, watch, now=now)
    _tell(as_json, watch, f"The gateway of {home} has stopped.", {"stopped": pid})


def _sent_away(home: Path, watch: "_Watch", *, now: bool) -> int:
    """The process that has gone last, when none comes after it."""
    with _holder(home) as (holder, fd):
        restarting = _restarting(home)
        try:
            watch.follow(Paths(home), "/stop", {"now": now}, answers=_STOP_ANSWERS)
        except GatewayDown:
            # It starts and has no control socket yet, or hangs. Ctrl-C says the same.
            signal.pidfd_send_signal(fd, signal.SIGINT)
        watch.until_gone(fd, holder)
    if not (restarting and _successor_runs(home, holder, watch)):
        return holder.pid
    pid = holder.pid
    with suppress(GatewayDown):  # it was told to go as it started, and has gone since
        # The stop has hurried the drain of the restart already: the turns that were cut then run
        # again here, and are not given the whole window for a second time.
        pid = _sent_away(home, watch, now=True)
    stays_down(home)  # it may have gone by the word of its starter, which is no operator's
    return pid


def restart(home: Path, *, mode: str | None, timeout: float, as_json: bool) -> None:
    """Returns when the successor takes messages."""
    watch = _Watch(timeout, quiet=as_json)
    with _holder(home) as (holder, fd):
        try:
            watch.follow(Paths(home), "/restart", {"mode": mode}, answers=_RESTART_ANSWERS)
        except ControlRefused as refused:
            _refused(refused, as_json=as_json)
        watch.until_gone(fd, holder)
    pid = watch.until_ready(Paths(home), holder)
    facts = {"restarted": holder.pid, "pid": pid}
    _tell(as_json, watch, f"The gateway of {home} is back, as process {pid}.", facts)


class _Watch:
    """Owns the deadline of one departure, and shows how far it has come."""

    def __init__(self, timeout: float, *, quiet: bool) -> None:
        self._began = time.monotonic()
        self.timeout = timeout
        self._quiet = quiet

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    @property
    def left(self) -> float:
        return max(0.01, self.timeout - self.seconds)

    def follow(self, paths: Paths, path: str, body: dict[str, Any], *, answers: float) -> None:
        with suppress(TimeoutError):
            client = ControlClient(paths, timeout=min(answers, self.left))
            for line in client.follow(path, body, patience=self.left):
                self._show(str(line["phase"]))

    def until_gone(self, fd: int, holder: Holder) -> None:
        if not gone(fd, within=self.left):
            raise StillThere(
                f"Process {holder.pid} has not ended within {self.timeout:g} s; it is still on "
                "its way. `holdfast status` says where it stands. Should it hang: nothing that was "
                f"accepted is lost by `kill -9 {holder.pid}`."
            )

    def until_ready(self, paths: Paths, before: Holder) -> int:
        while self.seconds < self.timeout:
            with suppress(GatewayDown):
                status = read_status(paths)
                self._show(str(status["state"]))
                if status["state"] == "running" and status["pid"] != before.pid:
                    return int(status["pid"])
            time.sleep(_LOOK_EVERY)
        raise StillThere(
            f"Process {before.pid} has ended, and no successor took messages within "
            f"{self.timeout:g} s. `holdfast logs` says why; `holdfast run` starts one."
        )

    def _show(self, phase: str) -> None:
        if not self._quiet and sys.stderr.isatty():
            click.echo(click.style(f"  {phase}", dim=True), err=True)


def _successor_runs(home: Path, before: Holder, watch: _Watch) -> bool:
    """Whether a successor has come to run, once that is known; False: it was called off, as it
    started or before, or nobody came."""
    told = False
    while watch.seconds < watch.timeout:
        holder = read_holder(home)
        if holder is None:
            # Whoever starts it is told first; when that one has gone, nobody will come any more.
            if call_off(str(Paths(home).run)):
                told = True
            elif told and stays_down(home):
                return False
        elif holder.pid != before.pid and _takes_orders(home, holder):
            return True
        time.sleep(_LOOK_EVERY)
    return False


def _takes_orders(home: Path, holder: Holder) -> bool:
    """One that still starts may have been told to go already, and is waited for instead."""
    try:
        return bool(read_status(Paths(home))["pid"] == holder.pid)
    except GatewayDown:
        return False


@contextmanager
def _holder(home: Path) -> Iterator[tuple[Holder, int]]:
    """Who holds the home, with a descriptor that is that process and no other."""
    holder = read_holder(home)
    fd = opened(holder.pid, started=holder.start_time) if holder is not None else None
    if holder is None or fd is None or holder.purpose != "gateway":
        raise GatewayDown(f"No gateway is running for {home}; `holdfast run` starts one.")
    try:
        yield holder, fd
    finally:
        os.close(fd)


def _restarting(home: Path) -> bool:
    """Whether who holds the home has an order to restart: it writes that down before anything."""
    intent = IntentFile(Paths(home).intent, now=time.time).read()
    return intent is not None and intent.restart is not None


def _refused(refused: ControlRefused, *, as_json: bool) -> None:
    if not as_json:
        raise HoldfastError(f"Not restarted: {refused.reason}") from None
    print_json({"restarted": None, "error": refused.reason})
    sys.exit(exits.FAILED)


def _tell(as_json: bool, watch: _Watch, sentence: str, facts: dict[str, Any]) -> None:
    if as_json:
        print_json({**facts, "seconds": round(watch.seconds, 3)})
    else:
        click.echo(f"{sentence} It took {duration(watch.seconds)}.")

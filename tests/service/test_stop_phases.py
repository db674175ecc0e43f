"""The phases of a process's stop: one list, with a bound on their total time (C1)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_harness import GatewayHarness
from tests.support.logins import make_login
from tests.support.stores import open_store

from holdfast.config import load
from holdfast.core.config.settings import BackupSettings
from holdfast.core.errors import StoreError
from holdfast.core.ports.store_commands import SetMeta
from holdfast.core.secrets import Secret
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.gateway.lifecycle.phases import Phase, run_phases
from holdfast.gateway.lifecycle.process_history import ProcessHistory
from holdfast.gateway.redaction import Redaction
from holdfast.server.http_listener import HttpListener
from holdfast.server.status.thread import StatusThread
from holdfast.service.handover import Handover
from holdfast.service.intent import IntentFile
from holdfast.service.maintenance import BackupCommand, BackupScheduler, Maintenance
from holdfast.service.signals import SignalHandlers
from holdfast.service.start import LaunchOptions, ProcessContext, StartedParts
from holdfast.service.stop import ProcessStop
from holdfast.service.supervisors.current import SdNotifier
from holdfast.service.watchdog import Watchdog
from holdfast.system.clock import IdGenerator, SystemClock
from holdfast.system.lock import HomeLock
from holdfast.system.logs import RecentLog
from holdfast.system.paths import Paths


async def test_all_phases_but_the_drain_take_at_most_25_seconds(
    harness: GatewayHarness, tmp_path: Path
) -> None:
    """C1: of a gateway that stands, and of one that is still starting; asking for a successor
    comes after the last of them."""
    starting = asyncio.create_task(asyncio.Event().wait())
    stop, phases = stop_of(harness, tmp_path, starting), []
    for phase in stop.phases():
        phases.append(phase)
        stop.phase_seconds[phase.name] = phase.seconds
    starting.cancel()
    names = [phase.name for phase in phases]
    assert names[:3] == ["record intent", "leave the start", "stop accepting"]
    assert names[-3:] == ["record state", "release the lock", "ask for a successor"]
    bounded = [phase for phase in phases if phase.name not in ("drain", "ask for a successor")]
    assert sum(phase.seconds for phase in bounded) <= 25


class BrokenStatistics:
    """A recorder that cannot be closed."""

    async def open(self) -> None: ...

    async def close(self) -> None:
        raise OSError("the disk is gone")


async def fail_when_cancelled(started: asyncio.Event) -> None:
    try:
        started.set()
        await asyncio.Event().wait()
    finally:
        raise ValueError("this task is broken")


async def test_the_store_is_closed_if_maintenance_fails(
    harness: GatewayHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C7: each handle is closed, whatever another one does; the phase reports what failed."""
    starting = asyncio.create_task(asyncio.sleep(0))
    stop = stop_of(harness, tmp_path, starting)
    (close_store,) = [phase for phase in stop.phases() if phase.name == "close the store"]
    store = open_store(tmp_path / "other.db")
    await store.__aenter__()
    maintenance = Maintenance(
        store,
        backups=BackupScheduler(
            BackupSettings(every_hours=0),
            folder=tmp_path,
            maker=BackupCommand(tmp_path, folder=tmp_path, keep=1, environ={}),
            wait_until_idle=asyncio.Event().wait,
            clock=SystemClock(),
        ),
        minute_history=BrokenStatistics(),
    )
    maintenance.start()
    running = asyncio.Event()
    maintenance.add_task(fail_when_cancelled(running), name="broken")
    await running.wait()
    stop.started = StartedParts(store=store, maintenance=maintenance)
    await run_phases([close_store], progress=lambda phase: None)
    assert stop.started.store is None
    with pytest.raises(StoreError):
        await store.write(SetMeta(key="late", value="x"))
    assert "the disk is gone" in caplog.text


async def no_metrics() -> str:
    raise AssertionError("no metrics are requested here")


def stop_of(harness: GatewayHarness, home: Path, starting: asyncio.Task[Any]) -> ProcessStop:
    clock, paths, config = SystemClock(), Paths(home), load(home, {})
    context = ProcessContext(
        launch=LaunchOptions(lock=HomeLock(home)),
        status_thread=StatusThread(paths, clock=clock),
        signals=SignalHandlers(),
        watchdog=Watchdog(flush=lambda _: True),
        intent=IntentFile(paths.intent, now=clock.now),
        previous_intent=None,
        token=Secret("t"),
        redact=Redaction([]),
        recent_log=RecentLog(str),
    )
    listener = HttpListener(
        config.settings.gateway,
        routes=(),
        metrics=no_metrics,
        login=make_login(paths.secrets, clock=clock),
        may_read=lambda principal: True,
        ready=lambda: True,
        port_chosen=False,
    )
    return ProcessStop(
        order=StopOrder(kind=StopKind.RESTART, by=StopRequester.CLI, at=0.0),
        urgent=asyncio.Event(),
        context=context,
        started=StartedParts(store=harness.store, gateway=harness.gateway, listener=listener),
        history=ProcessHistory(clock=clock, new_id=IdGenerator(clock=clock)),
        handover=Handover(config, notifier=SdNotifier({})),
        start_task=starting,
        failed=False,
    )


async def test_a_phase_that_ignores_cancellation_is_abandoned() -> None:
    """C1: its deadline counts, also where the phase swallows its own cancellation."""
    ended = asyncio.Event()

    async def stubborn() -> None:
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:
                continue

    async def works() -> None:
        progress.append("worked")

    progress: list[str] = []
    now = asyncio.get_running_loop().time
    began = now()
    phases = [*[Phase("stubborn", 0.05, stubborn)] * 10, Phase("next", 1, works)]
    await run_phases(phases, progress=progress.append)
    assert progress == [*["stubborn"] * 10, "next", "worked"]
    # The time to let go is part of the deadline, or all of them together would be late.
    assert now() - began < 2
    ended.set()
    await asyncio.sleep(0)

"""All runners of this gateway, one for each session that uses tools: started, found again,
ended, left to a successor."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.config.settings import NetworkMode, RunnerSettings
from holdfast.core.errors import HoldfastError, RunnerError
from holdfast.core.ids import SessionId
from holdfast.core.ports.runtime import Clock
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.sessions.session import ProcessRow, RunnerRow
from holdfast.runner.bubblewrap import ConfinementPlan, SandboxProbe
from holdfast.runner.cgroups import remove_cgroups, runner_cgroup
from holdfast.runner.client import RunnerConnection, RunnerConnectionLost, SessionSandbox
from holdfast.runner.launch import SystemdScopes, launch_runner
from holdfast.runner.paths import (
    RunnerLabel,
    SessionPaths,
    bind_socket,
    connect_socket,
    labelled_runners,
)
from holdfast.runner.program import process_tree
from holdfast.runner.workspace import Workspace

if TYPE_CHECKING:
    from holdfast.system.egress import EgressPolicy, EgressProxy

log = logging.getLogger(__name__)

_PEER_CREDENTIALS = struct.Struct("3i")


def to_process_rows(session_id: SessionId, records: Sequence[dict[str, Any]]) -> list[ProcessRow]:
    """The runner's records of background processes as rows. Records that a command has overwritten
    are left out."""
    rows = []
    for record in records:
        with contextlib.suppress(msgspec.ValidationError):
            rows.append(msgspec.convert({**record, "session_id": session_id}, ProcessRow))
    return rows


def mark_lost(row: ProcessRow, now: float) -> ProcessRow:
    """A process that ran when its runner died has ended, with unknown outcome."""
    if row.ended_at is not None:
        return row
    return msgspec.structs.replace(row, ended_at=now, note="lost: its sandbox ended under it")


def peer_pid(sock: socket.socket) -> int:
    """The pid of the process that listens at the other end, from the kernel."""
    data = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
    return int(_PEER_CREDENTIALS.unpack(data)[0])


async def kill_runner(pid: int, *, started: int, sandboxed: bool) -> bool:
    """Kill exactly that process with everything it started, and wait until they have ended.

    False: it had ended before. In a sandbox the runner is pid 1, whose end ends all processes;
    without one its descendants are killed first, while they can still be found below it.
    """
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        # The pid cannot be reused between these two lines: the descriptor holds it.
        if process_tree.start_time(pid) != started:
            return False
        if not sandboxed:
            await asyncio.to_thread(_kill_descendants, fd, pid)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        await _wait_readable(fd)
        return True
    finally:
        os.close(fd)


def _kill_descendants(fd: int, pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(fd, signal.SIGSTOP)
    process_tree.kill_descendants(pid)


async def _wait_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


class _LiveRunner(msgspec.Struct, frozen=True):
    """A runner with an open connection, and its row."""

    connection: RunnerConnection
    row: RunnerRow


class _NoRunner(RunnerError):
    """A session has no runner, and the caller did not want to start one."""


class Runners:
    """Owns the connections to all live runners; each is opened by one task, for all callers."""

    name = "runner"

    def __init__(
        self,
        home: Path,
        settings: RunnerSettings,
        *,
        clock: Clock,
        on_started: Callable[[RunnerRow], Awaitable[None]],
        on_ended: Callable[[SessionId], Awaitable[None]],
        egress: Callable[[], "EgressPolicy"],
        scopes: SystemdScopes | None = None,
        probe: SandboxProbe | None = None,
    ) -> None:
        """`egress` returns what sandboxes may reach; it is called with the first runner. `scopes`
        keep runners out of the gateway's own unit, if it has one."""
        self._home, self._settings, self._clock = home.absolute(), settings, clock
        self._on_runner_started, self._on_runner_ended, self._scopes = on_started, on_ended, scopes
        self._connecting: dict[SessionId, asyncio.Task[_LiveRunner]] = {}
        self._background_tasks: set[asyncio.Task[None]] = set()
        self._probe = probe or SandboxProbe(settings, runs=self._home / "runs")
        self._egress = egress
        self._proxy: EgressProxy | None = None
        self._detached = False

    @property
    def sandboxed(self) -> bool | None:
        """Whether commands are sandboxed; None: not tried yet."""
        return None if self._probe.result is None else self._probe.result.sandboxed

    @property
    def why_unsandboxed(self) -> str:
        return "" if self._probe.result is None else self._probe.result.why_unsandboxed

    @property
    def remedy(self) -> str:
        """What to do where no command may run (a text to translate); "": they run."""
        return "" if self._probe.result is None else self._probe.result.remedy

    @property
    def live_count(self) -> int:
        """How many runners this gateway is connected to."""
        return sum(opening.done() and _is_live(opening) for opening in self._connecting.values())

    async def probe(self) -> bool:
        """Try the sandbox now, once for all callers. False: no command and no file tool may run
        here, because no sandbox works and none may run without."""
        return (await self._probe.plan()).runs_commands

    def sandbox(self, session_id: SessionId, *, shell: str = "") -> Sandbox:
        """`shell`: use a terminal of that name, which starts in the state of the session's own."""

        async def open_connection() -> RunnerConnection:
            return (await self._ensure_live(session_id)).connection

        async def find_connection() -> RunnerConnection | None:
            live = await self._find_live(session_id)
            return None if live is None else live.connection

        return SessionSandbox(
            paths=self._paths(session_id),
            shell=shell,
            open_connection=open_connection,
            find_connection=find_connection,
        )

    async def adopt(
        self, known: Sequence[RunnerRow], *, needed: Collection[SessionId]
    ) -> list[SessionId]:
        """At start: connect to the live runners of `needed` sessions, and kill all others, also
        those without a row. Spools stay: a session without a runner has its terminal state there,
        and only `forget` removes it."""
        rows = {row.session_id: row for row in known}
        found = await asyncio.to_thread(lambda: list(labelled_runners(self._home)))
        sessions = list(dict.fromkeys([*rows, *(label.session_id for label in found)]))
        unconfined = {label.session_id for label in found if not label.sandboxed}
        if unconfined and not (await self._probe.plan()).unconfined:
            needed = set(needed) - unconfined  # started when commands could run without a sandbox
        adopted = []
        for session_id in sessions:
            known_row = rows.get(session_id)
            if session_id in needed and await self._find_live(session_id, known_row) is not None:
                adopted.append(session_id)
                continue
            await self._kill(session_id, known_row)
            if session_id in rows:
                await self._on_runner_ended(session_id)
        return adopted

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        """The background processes of a session, also if its runner has ended."""
        live = await self._find_live(session_id)
        if live is not None:
            try:
                return to_process_rows(
                    session_id, await live.connection.request("list", taken=True)
                )
            except RunnerConnectionLost:
                pass
        records = await asyncio.to_thread(self._paths(session_id).process_records)
        rows = to_process_rows(session_id, records)
        return [mark_lost(row, self._clock.now()) for row in rows]

    async def end_session(self, session_id: SessionId, *, forget: bool = False) -> None:
        """Kill the session's runner with all its processes. Terminal state and results stay in the
        spool for a later runner, unless `forget` is set."""
        await self._kill(session_id, None)
        if forget:
            await asyncio.to_thread(self._paths(session_id).remove)

    async def forget(self, session_id: SessionId) -> None:
        """Remove everything of the session: its runner and processes, its spool and its files."""
        await self.end_session(session_id, forget=True)
        await asyncio.to_thread(Workspace(self._home, session_id).remove)

    async def end_all(self) -> None:
        """End every runner of this home, also those that this gateway never connected to."""
        found = await asyncio.to_thread(lambda: list(labelled_runners(self._home)))
        sessions = {*self._connecting, *(label.session_id for label in found)}
        results = await asyncio.gather(*map(self.end_session, sessions), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                log.error("Could not stop a runner, whose commands may still run: %s", result)
        await self._close_proxy()
        await self._finish_background_tasks()

    async def detach(self) -> None:
        """Close the connections and leave everything running for a successor.

        Callers that still wait for a command wait until they are cancelled, and cancelling them no
        longer kills the command: detach first, then cancel the turns.
        """
        self._detached = True
        tasks = list(self._connecting.values())
        self._connecting.clear()
        pending = [task for task in tasks if not task.done()]
        # Open connections are released before anything is awaited: if the time runs out here, the
        # turns are cancelled next.
        _release_all(task for task in tasks if task.done())
        if pending:
            await asyncio.wait(pending)
        _release_all(pending)
        await self._close_proxy()
        await self._finish_background_tasks()

    def _paths(self, session_id: SessionId) -> SessionPaths:
        return SessionPaths(self._home, session_id)

    async def _ensure_live(self, session_id: SessionId) -> _LiveRunner:
        """The session's runner, started if there is none."""
        if self._detached:
            raise RunnerError("the gateway is stopping and starts no new runners")
        while True:
            opening = self._current_task(session_id)
            if opening is None:
                opening = self._start_task(session_id, self._find_or_start(session_id))
            try:
                return await asyncio.shield(opening)
            except _NoRunner:
                continue  # that task only looked for an existing one

    async def _find_live(
        self, session_id: SessionId, known: RunnerRow | None = None
    ) -> _LiveRunner | None:
        """The session's runner, if it has one; starts none."""
        opening = self._current_task(session_id)
        if opening is None:
            opening = self._start_task(session_id, self._connect_existing(session_id, known))
        try:
            return await asyncio.shield(opening)
        except _NoRunner:
            return None

    def _current_task(self, session_id: SessionId) -> asyncio.Task[_LiveRunner] | None:
        """The task that opened or is opening the session's connection, unless it failed."""
        opening = self._connecting.get(session_id)
        return None if opening is None or (opening.done() and not _is_live(opening)) else opening

    def _start_task(
        self, session_id: SessionId, finding: Coroutine[Any, Any, _LiveRunner]
    ) -> asyncio.Task[_LiveRunner]:
        opening = asyncio.create_task(finding)
        self._connecting[session_id] = opening
        return opening

    async def _connect_existing(
        self, session_id: SessionId, known: RunnerRow | None
    ) -> _LiveRunner:
        live = await self._connect(session_id, known=known)
        if live is None:
            raise _NoRunner("session {session_id} has no runner", session_id=session_id)
        return live

    async def _find_or_start(self, session_id: SessionId) -> _LiveRunner:
        live = await self._connect(session_id)
        if live is None:
            plan = await self._probe.plan()
            if not plan.runs_commands:
                raise RunnerError(
                    "no command can run here, because no sandbox works: {why}. {remedy}",
                    why=HoldfastError(plan.why_unsandboxed),
                    remedy=HoldfastError(plan.remedy),
                )
            outer = await asyncio.to_thread(self._launch, self._paths(session_id), plan)
            live = await self._connect(session_id, outer_pid=outer)
        if live is None:
            raise RunnerError(
                "the runner of session {session_id} exited right after its start. Try again; if it "
                "happens again, `holdfast doctor` checks the sandbox",
                session_id=session_id,
            )
        return live

    def _launch(self, paths: SessionPaths, plan: ConfinementPlan) -> int:
        """In a scope of its own if possible; a runner without one is better than none."""
        scopes = self._scopes
        wrapper = [] if scopes is None else scopes.wrapper(paths.session_id, self._settings)
        if scopes is None or not wrapper:
            return self._launch_in_cgroup(paths, plan)
        try:
            return launch_runner(paths, plan, self._settings, wrapper=wrapper)
        except RunnerError as error:
            outer = self._launch_in_cgroup(paths, plan)
            # Only now it is known that the scope was the reason.
            scopes.report_failure(str(error))
            return outer

    def _launch_in_cgroup(self, paths: SessionPaths, plan: ConfinementPlan) -> int:
        name = runner_cgroup(self._home, paths.session_id, moment=self._clock.now())
        try:
            cgroups = plan.cgroups.create(name, self._settings)
        except OSError as error:
            raise RunnerError(
                "the limits of the session could not be set: {error}", error=error
            ) from None
        try:
            return launch_runner(paths, plan, self._settings, cgroups=cgroups)
        except BaseException:
            remove_cgroups(cgroups)
            raise

    async def _connect(
        self, session_id: SessionId, *, outer_pid: int = 0, known: RunnerRow | None = None
    ) -> _LiveRunner | None:
        paths = self._paths(session_id)
        sock = connect_socket(paths)
        if sock is None:
            return None
        pid = peer_pid(sock)
        started = process_tree.start_time(pid)
        if started is None:
            sock.close()
            return None
        label = paths.read_label()
        row = RunnerRow(
            session_id=session_id,
            pid=pid,
            start_time=started,
            outer_pid=outer_pid,
            sandboxed=label.sandboxed,
            started_at=self._clock.now(),
        )
        await self._open_network(paths, label)
        connection = await RunnerConnection.open(
            sock, on_lost=lambda: self._on_connection_lost(session_id, label.cgroups)
        )
        if known is not None and (known.pid, known.start_time) == (pid, started):
            return _LiveRunner(connection, known)
        try:
            await self._on_runner_started(row)
        except HoldfastError:
            connection.release()  # the next caller connects again
            raise
        return _LiveRunner(connection, row)

    async def _open_network(self, paths: SessionPaths, label: RunnerLabel) -> None:
        """Serve the runner's sandbox, also if an earlier gateway has started it."""
        configured = self._settings.network
        if label.sandboxed and label.network != configured:
            log.warning(
                'The runner of session %s keeps the network "%s" until it ends: it was started'
                ' before runner.network was "%s".',
                paths.session_id,
                label.network,
                configured,
                extra={"action": "runner_network_kept", "session": paths.session_id},
            )
        if not label.sandboxed or {configured, label.network} != {NetworkMode.PROXY}:
            return
        if self._proxy is None:
            from holdfast.system.egress import EgressProxy  # noqa: PLC0415 - no start needs it

            self._proxy = EgressProxy(self._egress())
        # In the gateway's own folder, which other users cannot enter. The sandbox has another user.
        sock = bind_socket(paths.egress / "sock")
        (paths.egress / "sock").chmod(0o666)
        await self._proxy.listen(paths.session_id, sock)

    async def _close_proxy(self) -> None:
        if self._proxy is not None:
            await self._proxy.close()

    async def _kill(self, session_id: SessionId, known: RunnerRow | None) -> None:
        try:
            live = await self._find_live(session_id, known)
        except RunnerError:
            live = None  # it was starting, and failed
        self._connecting.pop(session_id, None)
        row = live.row if live else known
        if row is not None:
            await kill_runner(row.pid, started=row.start_time, sandboxed=row.sandboxed)
        if live is not None:
            # The end is reported before we return: it must not be taken for that of a new runner.
            await live.connection.closed.wait()
            await self._finish_background_tasks()
        paths = self._paths(session_id)
        paths.socket.unlink(missing_ok=True)
        with contextlib.suppress(OSError, msgspec.DecodeError):
            # Also those of a runner that ended while no gateway ran.
            await asyncio.to_thread(remove_cgroups, paths.read_label().cgroups)

    def _on_connection_lost(self, session_id: SessionId, cgroups: Sequence[str]) -> None:
        opening = self._connecting.get(session_id)
        if opening is not None and opening.done() and not _is_live(opening):
            del self._connecting[session_id]
            opening = None
        if self._proxy is not None and opening is None:
            self._run_in_background(self._proxy.close_session(session_id))
        self._run_in_background(self._report_ended(session_id))
        if cgroups:
            self._run_in_background(asyncio.to_thread(remove_cgroups, cgroups))

    async def _report_ended(self, session_id: SessionId) -> None:
        try:
            await self._on_runner_ended(session_id)
        except HoldfastError as error:
            # Recovery finds out for itself: a row is a hint, the process is the proof.
            about = {"action": "runner_end_not_saved", "session": session_id}
            log.warning(
                "Could not record the end of the runner of session %s: %s; the next start "
                "checks it",
                session_id,
                error,
                extra=about,
            )

    def _run_in_background(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(chore)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_tasks.discard)

    async def _finish_background_tasks(self) -> None:
        if self._background_tasks:
            await asyncio.wait(self._background_tasks)


def _release_all(openings: Iterable[asyncio.Task[_LiveRunner]]) -> None:
    for opening in filter(_is_live, openings):
        opening.result().connection.release()


def _is_live(opening: asyncio.Task[_LiveRunner]) -> bool:
    if opening.cancelled() or opening.exception() is not None:
        return False
    return opening.result().connection.alive

"""The runners: all that live on behalf of this gateway, one for each session that uses tools."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.errors import HoldfastError, RunnerError
from holdfast.core.ids import SessionId
from holdfast.core.ports.protocols import Clock
from holdfast.core.ports.sandbox import Bench
from holdfast.core.sessions.session import ProcessRow, RunnerRow
from holdfast.runner import identity
from holdfast.runner.bench import SessionBench
from holdfast.runner.launch import launch
from holdfast.runner.link import Link, LinkLost
from holdfast.runner.paths import Place, dial, labelled
from holdfast.runner.probe import Probe
from holdfast.runner.process_rows import ended_with_runner, process_rows
from holdfast.runner.sandbox import Plan
from holdfast.runner.scopes import Scopes
from holdfast.runner.workspace import Workspace

log = logging.getLogger(__name__)


class _Live(msgspec.Struct, frozen=True):
    """A runner we speak with, and who it is."""

    link: Link
    row: RunnerRow


class _NotThere(RunnerError):
    """A session has no runner, and none was to be started."""


class Runners:
    """Owns the links to all live runners; each is opened by one task, however many want it."""

    name = "runner"

    def __init__(
        self,
        home: Path,
        settings: RunnerSettings,
        *,
        clock: Clock,
        on_started: Callable[[RunnerRow], Awaitable[None]],
        on_ended: Callable[[SessionId], Awaitable[None]],
        scopes: Scopes | None = None,
        bwrap: str = "bwrap",
    ) -> None:
        """`scopes` keep runners out of the gateway's own unit, where there is one; `bwrap` is
        the name or path of bubblewrap."""
        self._home, self._settings, self._clock = home.absolute(), settings, clock
        self._on_started, self._on_ended, self._scopes = on_started, on_ended, scopes
        self._opening: dict[SessionId, asyncio.Task[_Live]] = {}
        self._chores: set[asyncio.Task[None]] = set()
        self._probe = Probe(settings, runs=self._home / "runs", bwrap=bwrap)
        self._detached = False

    @property
    def sandboxed(self) -> bool | None:
        """Whether commands are confined; None: not tried yet."""
        return None if self._probe.found is None else self._probe.found.sandboxed

    @property
    def why_unsandboxed(self) -> str:
        return "" if self._probe.found is None else self._probe.found.why_unsandboxed

    @property
    def live(self) -> int:
        """How many runners this gateway speaks with."""
        return sum(opening.done() and _is_live(opening) for opening in self._opening.values())

    async def probe(self) -> bool:
        """Find out now what `sandboxed` says. Raises `RunnerError` where one is required."""
        return (await self._probe.plan()).sandboxed

    def bench(self, session_id: SessionId, *, shell: str = "") -> Bench:
        """`shell`: with a terminal of that name, which begins where the session's own is."""

        async def open_link() -> Link:
            return (await self._live(session_id)).link

        async def find_link() -> Link | None:
            live = await self._found(session_id)
            return None if live is None else live.link

        return SessionBench(
            place=self._place(session_id), shell=shell, open_link=open_link, find_link=find_link
        )

    async def adopt(
        self, known: Sequence[RunnerRow], *, wanted: Collection[SessionId]
    ) -> list[SessionId]:
        """At start: take over what earlier gateways left alive and somebody wants, and kill the
        rest, also what no row knows of. Spools stay: a session that sleeps has its terminal's
        state there, and only its end (`forget`) removes it."""
        rows = {row.session_id: row for row in known}
        found = await asyncio.to_thread(lambda: list(labelled(self._home)))
        sessions = list(dict.fromkeys([*rows, *(label.session_id for label in found)]))
        adopted = []
        for session_id in sessions:
            known_row = rows.get(session_id)
            if session_id in wanted and await self._found(session_id, known_row) is not None:
                adopted.append(session_id)
                continue
            await self._kill(session_id, known_row)
            if session_id in rows:
                await self._on_ended(session_id)
        return adopted

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        """The background processes of a session, also where its runner has ended."""
        live = await self._found(session_id)
        if live is not None:
            try:
                return process_rows(session_id, await live.link.ask("list", taken=True))
            except LinkLost:
                pass
        records = await asyncio.to_thread(self._place(session_id).process_records)
        rows = process_rows(session_id, records)
        return [ended_with_runner(row, self._clock.now()) for row in rows]

    async def end(self, session_id: SessionId, *, forget: bool = False) -> None:
        """Kill the session's runner with all that runs in it. Terminal state and results stay
        in the spool for a later runner, unless the session is to be forgotten."""
        await self._kill(session_id, None)
        if forget:
            await asyncio.to_thread(self._place(session_id).remove)

    async def forget(self, session_id: SessionId) -> None:
        """Nothing of the session stays here: its runner, what it ran, its spool and its files."""
        await self.end(session_id, forget=True)
        await asyncio.to_thread(Workspace(self._home, session_id).remove)

    async def end_all(self) -> None:
        """Every runner of this home ends, also one that this gateway never spoke to."""
        found = await asyncio.to_thread(lambda: list(labelled(self._home)))
        sessions = {*self._opening, *(label.session_id for label in found)}
        results = await asyncio.gather(*map(self.end, sessions), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                log.error("a runner could not be ended: %s", result)
        await self._finish_chores()

    async def detach(self) -> None:
        """Close the connections and leave everything running for a successor.

        Whoever still waits for a command waits until it is cancelled, and that cancelling no
        longer kills the command: detach first, then cancel the turns.
        """
        self._detached = True
        openings = list(self._opening.values())
        self._opening.clear()
        on_their_way = [opening for opening in openings if not opening.done()]
        # Those that are there are let go before anything is waited for: whoever runs out of
        # time here is about to cancel the turns.
        _let_go(opening for opening in openings if opening.done())
        if on_their_way:
            await asyncio.wait(on_their_way)
        _let_go(on_their_way)
        await self._finish_chores()

    def _place(self, session_id: SessionId) -> Place:
        return Place(self._home, session_id)

    async def _live(self, session_id: SessionId) -> _Live:
        """The session's runner, started if there is none."""
        if self._detached:
            raise RunnerError("this gateway is going away and starts nothing any more")
        while True:
            opening = self._current(session_id)
            if opening is None:
                opening = self._begin(session_id, self._find_or_start(session_id))
            try:
                return await asyncio.shield(opening)
            except _NotThere:
                continue  # somebody had only looked whether there is one

    async def _found(self, session_id: SessionId, known: RunnerRow | None = None) -> _Live | None:
        """The session's runner if it lives; nothing is started."""
        opening = self._current(session_id)
        if opening is None:
            opening = self._begin(session_id, self._find(session_id, known))
        try:
            return await asyncio.shield(opening)
        except _NotThere:
            return None

    def _current(self, session_id: SessionId) -> asyncio.Task[_Live] | None:
        """The task that opened or is opening the session's link, unless it came to nothing."""
        opening = self._opening.get(session_id)
        return None if opening is None or (opening.done() and not _is_live(opening)) else opening

    def _begin(
        self, session_id: SessionId, finding: Coroutine[Any, Any, _Live]
    ) -> asyncio.Task[_Live]:
        opening = asyncio.create_task(finding)
        self._opening[session_id] = opening
        return opening

    async def _find(self, session_id: SessionId, known: RunnerRow | None) -> _Live:
        live = await self._connect(session_id, known=known)
        if live is None:
            raise _NotThere(f"session {session_id} has no runner")
        return live

    async def _find_or_start(self, session_id: SessionId) -> _Live:
        live = await self._connect(session_id)
        if live is None:
            plan = await self._probe.plan()
            place = self._place(session_id)
            outer = await asyncio.to_thread(self._launch, place, plan)
            live = await self._connect(session_id, outer_pid=outer)
        if live is None:
            raise RunnerError(f"the runner of session {session_id} ended as soon as it had started")
        return live

    def _launch(self, place: Place, plan: Plan) -> int:
        """In a scope of its own where that can be had; a runner without one is better than none."""
        wrapper = self._scopes.wrapper(place.session_id) if self._scopes is not None else []
        try:
            return launch(place, plan, self._settings, wrapper=wrapper)
        except RunnerError as error:
            if not wrapper or self._scopes is None:
                raise
            outer = launch(place, plan, self._settings)
            self._scopes.failed(str(error))  # only now it is known that the scope was the reason
            return outer

    async def _connect(
        self, session_id: SessionId, *, outer_pid: int = 0, known: RunnerRow | None = None
    ) -> _Live | None:
        place = self._place(session_id)
        sock = dial(place)
        if sock is None:
            return None
        pid = identity.peer_pid(sock)
        started = identity.start_time(pid)
        if started is None:
            sock.close()
            return None
        row = RunnerRow(
            session_id=session_id,
            pid=pid,
            start_time=started,
            outer_pid=outer_pid,
            sandboxed=place.read_label().sandboxed,
            started_at=self._clock.now(),
        )
        link = await Link.open(sock, on_lost=lambda: self._lost(session_id))
        if known is not None and (known.pid, known.start_time) == (pid, started):
            return _Live(link, known)
        try:
            await self._on_started(row)
        except HoldfastError:
            link.let_go()  # whoever asks next dials again
            raise
        return _Live(link, row)

    async def _kill(self, session_id: SessionId, known: RunnerRow | None) -> None:
        try:
            live = await self._found(session_id, known)
        except RunnerError:
            live = None  # it was starting, and failed
        self._opening.pop(session_id, None)
        row = live.row if live else known
        if row is not None:
            await identity.kill(row.pid, started=row.start_time, sandboxed=row.sandboxed)
        if live is not None:
            # The end is told before we return: a runner started next must not be taken for it.
            await live.link.closed.wait()
            await self._finish_chores()
        self._place(session_id).socket.unlink(missing_ok=True)

    def _lost(self, session_id: SessionId) -> None:
        opening = self._opening.get(session_id)
        if opening is not None and opening.done() and not _is_live(opening):
            del self._opening[session_id]
        self._do(self._tell_ended(session_id))

    async def _tell_ended(self, session_id: SessionId) -> None:
        try:
            await self._on_ended(session_id)
        except HoldfastError as error:
            # Recovery finds out for itself: a row is a hint, the process is the proof.
            about = {"action": "runner_end_lost", "session": session_id}
            log.warning("The end of a runner could not be written down: %s", error, extra=about)

    def _do(self, chore: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(chore)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _finish_chores(self) -> None:
        if self._chores:
            await asyncio.wait(self._chores)


def _let_go(openings: Iterable[asyncio.Task[_Live]]) -> None:
    for opening in filter(_is_live, openings):
        opening.result().link.let_go()


def _is_live(opening: asyncio.Task[_Live]) -> bool:
    if opening.cancelled() or opening.exception() is not None:
        return False
    return opening.result().link.alive

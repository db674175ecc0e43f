"""One service of the fake systemd: its process, its notifications and its restarts."""

import array
import asyncio
import os
import signal
import socket
import struct
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.service.supervisors.fakes.process_tree import descendants

from holdfast.service.supervisors import systemd_unit

CLEAN_EXITS = (0, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP, -signal.SIGPIPE)
CREDENTIALS = struct.Struct("3i")
# The environment has the process's own pid, so a shell sets it and then becomes the process.
SET_OWN_PID = 'export SYSTEMD_EXEC_PID=$$ LISTEN_PID=$$ WATCHDOG_PID=$$; exec "$@"'


class FakeService:
    """Owns the main process of one unit, and the descriptors that it stored."""

    def __init__(
        self,
        name: str,
        *,
        text: Callable[[], str],
        runtime: Path,
        excluded: Callable[[], set[int]],
        speed: float,
    ) -> None:
        self.name, self._text, self._runtime, self._speed = name, text, runtime, speed
        self._excluded = excluded
        self.active, self.sub, self.status = "inactive", "dead", ""
        self.restarts = 0
        self.jobs: set[asyncio.Future[Any]] = set()
        self.stored_fds: list[tuple[str, int]] = []
        self._process: asyncio.subprocess.Process | None = None
        self._ready = asyncio.Event()
        self._gone = asyncio.Event()
        self._stopping = False
        self._waiting: asyncio.Task[None] | None = None
        self._fed = 0.0
        self._socket: socket.socket | None = None

    @property
    def pid(self) -> int:
        alive = self._process is not None and self._process.returncode is None
        return self._process.pid if alive and self._process is not None else 0

    async def start(self) -> bool:
        if self.pid and self._ready.is_set():
            return True
        if self._waiting is not None:
            self._waiting.cancel()
        self.restarts = 0
        await self._spawn()
        return await self._until_ready()

    async def stop(self) -> bool:
        if self._waiting is not None:
            self._waiting.cancel()
        await self._end()
        self._close_stored()
        self._enter("inactive", "dead")
        return True

    async def restart(self) -> bool:
        """A queued restart keeps the descriptors."""
        await self._end()
        return await self.start()

    async def _end(self) -> None:
        self._stopping = True
        if self.pid and self._process is not None:
            self._enter("deactivating", "stop-sigterm")
            self._process.terminate()
            limit = systemd_unit.parse_stop_seconds(self._text()) or 90.0
            try:
                await asyncio.wait_for(self._gone.wait(), limit)
            except TimeoutError:
                self._log("killed", "stop timeout")
                self._process.kill()
                await self._gone.wait()
        self._kill_rest()

    async def _spawn(self) -> None:
        text = self._text()
        self._stopping = False
        self._ready.clear()
        self._gone.clear()
        self.status = ""
        self._listen()
        self._enter("activating", "start")
        command = systemd_unit.parse_command(text)
        fds = [fd for _, fd in self.stored_fds]
        self._process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", SET_OWN_PID, "sh", *command),
            env=self._environment(text),
            cwd=(systemd_unit.get_value(text, "WorkingDirectory") or "/")
            .lstrip("-")
            .replace("%%", "%"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=(self._runtime / "journal").open("ab"),
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(),
            preexec_fn=(lambda: _set_fds(fds)) if fds else None,
            close_fds=not fds,
        )
        self._fed = time.monotonic()
        self.jobs.add(asyncio.ensure_future(self._watch(self._process)))

    def _environment(self, text: str) -> dict[str, str]:
        environ = {**os.environ, **systemd_unit.parse_environment(text)}
        environ["INVOCATION_ID"] = uuid.uuid4().hex
        environ["NOTIFY_SOCKET"] = str(self._runtime / "notify")
        if watchdog := systemd_unit.get_value(text, "WatchdogSec"):
            environ["WATCHDOG_USEC"] = str(int(float(watchdog) * 1_000_000))
        if self.stored_fds:
            environ["LISTEN_FDS"] = str(len(self.stored_fds))
            environ["LISTEN_FDNAMES"] = ":".join(name for name, _ in self.stored_fds)
        return environ

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        if self._socket is not None:
            loop.remove_reader(self._socket)
            self._socket.close()
        path = self._runtime / "notify"
        path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(str(path))
        loop.add_reader(self._socket, self._read_notification, self._socket)

    def _read_notification(self, receiver: socket.socket) -> None:
        ancillary_size = socket.CMSG_SPACE(CREDENTIALS.size) + socket.CMSG_SPACE(64)
        message, ancillary, _, _ = receiver.recvmsg(65536, ancillary_size)
        sender, fds = 0, array.array("i")
        for _, kind, data in ancillary:
            if kind == socket.SCM_CREDENTIALS:
                sender = CREDENTIALS.unpack(data)[0]
            elif kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        fields = dict(line.split("=", 1) for line in message.decode().splitlines() if "=" in line)
        if sender != self.pid:
            return  # NotifyAccess=main
        self._fed = time.monotonic()
        self._apply(fields, list(fds))

    def _apply(self, fields: dict[str, str], fds: list[int]) -> None:
        self.status = fields.get("STATUS", self.status)
        if "FDSTORE" in fields:
            self.stored_fds += [(fields.get("FDNAME", "stored"), fd) for fd in fds]
        if "FDSTOREREMOVE" in fields:
            self.stored_fds = [each for each in self.stored_fds if each[0] != fields.get("FDNAME")]
        if "READY" in fields:
            self._enter("active", "running")
            self._ready.set()
        if "STOPPING" in fields:
            self._enter("deactivating", "stop-sigterm")

    async def _until_ready(self) -> bool:
        waits = [asyncio.ensure_future(each.wait()) for each in (self._ready, self._gone)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        return self._ready.is_set()

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        watchdog = asyncio.ensure_future(self._watchdog(process))
        code = await process.wait()
        watchdog.cancel()
        self._log("exited", str(code))
        self._kill_rest()
        restarts = not self._stopping and self._restarts_after(code)
        if not self._stopping:
            self._enter(*(("inactive", "dead") if code in CLEAN_EXITS else ("failed", "failed")))
            if not restarts:
                self._close_stored()  # fully stopped, and no job is queued
        self._gone.set()
        if restarts:
            self._enter("activating", "auto-restart")
            self._waiting = asyncio.ensure_future(self._restart_later())

    async def _restart_later(self) -> None:
        wait = float(systemd_unit.get_value(self._text(), "RestartSec") or 0.1)
        await asyncio.sleep(wait / self._speed)
        self.restarts += 1
        await self._spawn()

    async def _watchdog(self, process: asyncio.subprocess.Process) -> None:
        limit = float(systemd_unit.get_value(self._text(), "WatchdogSec") or 0)
        while limit:
            await asyncio.sleep(max(0.01, self._fed + limit - time.monotonic()))
            if time.monotonic() - self._fed >= limit:
                self._log("watchdog", self.name)
                process.send_signal(signal.SIGABRT)
                return

    def _restarts_after(self, code: int) -> bool:
        text = self._text()
        if code in systemd_unit.parse_exit_statuses(text, "RestartPreventExitStatus"):
            return False
        if code in systemd_unit.parse_exit_statuses(text, "RestartForceExitStatus"):
            return True
        return systemd_unit.get_value(text, "Restart") == "on-failure" and code not in CLEAN_EXITS

    def _kill_rest(self) -> None:
        """With its main process gone, all that is left in a unit is killed (KillMode=mixed)."""
        if self._process is None:
            return  # nothing was started: descendants of this process belong to the test
        for pid in descendants(os.getpid(), excluded=self._excluded() | {self.pid}):
            self._log("swept", str(pid))
            os.kill(pid, signal.SIGKILL)

    def _close_stored(self) -> None:
        for _, fd in self.stored_fds:
            os.close(fd)
        self.stored_fds = []

    def _enter(self, active: str, sub: str) -> None:
        self.active, self.sub = active, sub
        self._log("state", f"{active} ({sub})")

    def _log(self, *words: str) -> None:
        with (self._runtime / "events").open("a") as events:
            events.write(" ".join(words) + "\n")


def _set_fds(fds: list[int]) -> None:
    """The stored descriptors are 3, 4, … in the new process, and no others are open."""
    high = [os.dup2(fd, 200 + number, inheritable=False) for number, fd in enumerate(fds)]
    os.closerange(3, 200)
    for number, fd in enumerate(high):
        os.dup2(fd, 3 + number, inheritable=True)
    os.closerange(200, 300)

"""The view from outside: the gateway's own word, held against what can be seen without it."""

import os

import msgspec

from holdfast import __version__
from holdfast.core.ops.facts import EventLoopStatus, GatewaySnapshot, MachineStatus, StatusReport
from holdfast.core.ports.protocols import Clock
from holdfast.server.status.heartbeat import Heartbeat
from holdfast.server.status.machine import HostProbe, ReadUnitDrift
from holdfast.server.status.problems import find_problems
from holdfast.system.paths import Paths

HANGING_AFTER = 5.0


class StatusReporter:
    """Owns when the process began, and whose heart it listens to. It reads the disk: to be asked
    by any thread but the event loop's."""

    def __init__(
        self,
        paths: Paths,
        *,
        clock: Clock,
        unit_drift: ReadUnitDrift,
        hanging_after: float = HANGING_AFTER,
    ) -> None:
        self._home = str(paths.home)
        self._clock = clock
        self._hanging_after = hanging_after
        self._started_at = clock.now()
        self._heartbeat: Heartbeat | None = None
        self._host_probe = HostProbe(paths, unit_drift=unit_drift)

    def watch_heartbeat(self, heartbeat: Heartbeat) -> None:
        """Judge by this heartbeat from now on whether the gateway hangs."""
        self._heartbeat = heartbeat

    @property
    def loop(self) -> EventLoopStatus | None:
        return None if self._heartbeat is None else self._heartbeat.status

    def read_host(self) -> MachineStatus:
        return self._host_probe.read()

    def report(
        self,
        snapshot: GatewaySnapshot,
        *,
        snapshot_age: float = 0.0,
        host: MachineStatus | None = None,
    ) -> StatusReport:
        """`seen`: how old the snapshot is. Its state stands as long as the loop is seen turning.
        `machine`: where somebody has looked already."""
        now = self._clock.now()
        loop = self.loop
        hanging = loop is not None and loop.age > self._hanging_after
        document = StatusReport(
            state="hanging" if hanging else snapshot.state,
            pid=os.getpid(),
            version=__version__,
            home=self._home,
            started_at=self._started_at,
            uptime=now - self._started_at,
            snapshot_age=snapshot_age,
            loop=loop,
            machine=host or self.read_host(),
            snapshot=snapshot,
        )
        return msgspec.structs.replace(document, problems=find_problems(document, now=now))

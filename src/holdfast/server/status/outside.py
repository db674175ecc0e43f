"""The view from outside: the gateway's own word, held against what can be seen without it."""

import os

import msgspec

from holdfast import __version__
from holdfast.core.ops.facts import Document, LoopFacts, MachineFacts, Snapshot
from holdfast.core.ports.protocols import Clock
from holdfast.server.status.heartbeat import Heartbeat
from holdfast.server.status.machine import Drift, Machine
from holdfast.server.status.problems import problems
from holdfast.system.paths import Paths

HANGING_AFTER = 5.0


class Outside:
    """Owns when the process began, and whose heart it listens to. It reads the disk: to be asked
    by any thread but the event loop's."""

    def __init__(
        self, paths: Paths, *, clock: Clock, drift: Drift, hanging_after: float = HANGING_AFTER
    ) -> None:
        self._home = str(paths.home)
        self._clock = clock
        self._hanging_after = hanging_after
        self._started_at = clock.now()
        self._heartbeat: Heartbeat | None = None
        self._machine = Machine(paths, drift=drift)

    def watch(self, heartbeat: Heartbeat) -> None:
        """Judge by this heartbeat from now on whether the gateway hangs."""
        self._heartbeat = heartbeat

    @property
    def loop(self) -> LoopFacts | None:
        return None if self._heartbeat is None else self._heartbeat.facts

    def look(self) -> MachineFacts:
        return self._machine.look()

    def document(
        self, snapshot: Snapshot, *, seen: float = 0.0, machine: MachineFacts | None = None
    ) -> Document:
        """`seen`: how old the snapshot is. Its state stands as long as the loop is seen turning.
        `machine`: where somebody has looked already."""
        now = self._clock.now()
        loop = self.loop
        hanging = loop is not None and loop.age > self._hanging_after
        document = Document(
            state="hanging" if hanging else snapshot.state,
            pid=os.getpid(),
            version=__version__,
            home=self._home,
            started_at=self._started_at,
            uptime=now - self._started_at,
            seen=seen,
            loop=loop,
            machine=machine or self.look(),
            snapshot=snapshot,
        )
        return msgspec.structs.replace(document, problems=problems(document, now=now))

"""Rules: faults of the platform and the disk, evicted agents, and sessions stopped from outside."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import TICKS, Driver
from tests.state_machine.stepped_store import COMMIT, READ, WRITES

from holdfast.testing.simulated.events import Faults

ALL_WRITES = "all writes"


class FaultRules(Driver):
    """Owns nothing: the chat service has its faults, the environment has the disk."""

    @precondition(lambda self: self.home.ready and len(self.home.gateway.cache))
    @rule()
    def evict(self) -> None:
        self.home.gateway.cache.clear()

    @precondition(lambda self: self.home.ready and len(self.home.gateway.lanes))
    @rule(data=st.data(), ticks=TICKS)
    def stop_from_outside(self, data: st.DataObject, ticks: int) -> None:
        gateway = self.home.gateway
        lane = data.draw(st.sampled_from(list(gateway.lanes)))
        stopping = gateway.stopper.stop_session(lane.session_id)
        self.home.spawn(stopping)
        self.home.loop.tick(ticks)

    @rule(
        faults=st.builds(
            Faults,
            disconnected=st.booleans(),
            half_open=st.sampled_from([False, False, False, True]),
            duplicates=st.integers(0, 2),
            reorders=st.integers(0, 1),
            delay=st.sampled_from([0.0, 0.0, 0.01]),
            floods=st.integers(0, 2),
            refusals=st.sampled_from([0, 0, 0, 1]),
            lost_receipts=st.integers(0, 2),
            lost_messages=st.integers(0, 2),
            rejected_edits=st.sampled_from([0, 0, 1, 5]),
            lost_edits=st.integers(0, 2),
        ),
        ticks=TICKS,
    )
    def platform_trouble(self, faults: Faults, ticks: int) -> None:
        self.home.service.set_faults(faults)
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.service.faults != Faults())
    @rule(ticks=TICKS)
    def platform_recovers(self, ticks: int) -> None:
        self.home.service.set_faults(Faults())
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.ready)
    @rule(
        latency=st.sampled_from([0, 1, 5, 30]),
        read_latency=st.sampled_from([0, 1, 5, 30]),
        stale=st.booleans(),
    )
    def disk_speed(self, latency: int, read_latency: int, stale: bool) -> None:
        disk = self.home.disk
        disk.latency, disk.read_latency, disk.stale = latency, read_latency, stale

    @precondition(lambda self: self.home.ready)
    @rule(
        kind=st.sampled_from([ALL_WRITES, COMMIT, COMMIT, READ, *WRITES]),
        times=st.integers(1, 3),
        ticks=TICKS,
    )
    def disk_trouble(self, kind: str, times: int, ticks: int) -> None:
        """The next few operations of a kind fail; or every write, until the disk recovers."""
        if kind == ALL_WRITES:
            self.home.disk.refusing = True
        else:
            self.home.disk.refusals[kind] += times
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.disk.refusing or self.home.disk.refusals.total())
    @rule(ticks=TICKS)
    def disk_recovers(self, ticks: int) -> None:
        self.home.disk.refusing = False
        self.home.disk.refusals.clear()
        self.home.loop.tick(ticks)

"""Trouble as rules: with the platform, the disk, the agents that are kept, and from outside."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.state_machine.driver import TICKS, Driven
from tests.state_machine.stepped_store import COMMIT, READ, WRITES

from holdfast.gateway.sessions.teardown import stop_session
from holdfast.testing.simulated.events import Faults

EVERYTHING = "everything"


class Suffering(Driven):
    """Owns nothing: faults are the service's, the weather is the ground's."""

    @precondition(lambda self: self.home.ready and len(self.home.gateway.services.cache))
    @rule()
    def evict(self) -> None:
        self.home.gateway.services.cache.clear()

    @precondition(lambda self: self.home.ready and len(self.home.gateway.lanes))
    @rule(data=st.data(), ticks=TICKS)
    def stop_from_outside(self, data: st.DataObject, ticks: int) -> None:
        gateway = self.home.gateway
        lane = data.draw(st.sampled_from(list(gateway.lanes)))
        stopping = stop_session(gateway.services, gateway.lanes, lane.session_id)
        self.home.aside(stopping)
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
    def platform_mended(self, ticks: int) -> None:
        self.home.service.set_faults(Faults())
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.ready)
    @rule(
        latency=st.sampled_from([0, 1, 5, 30]),
        read_latency=st.sampled_from([0, 1, 5, 30]),
        stale=st.booleans(),
    )
    def disk_speed(self, latency: int, read_latency: int, stale: bool) -> None:
        weather = self.home.weather
        weather.latency, weather.read_latency, weather.stale = latency, read_latency, stale

    @precondition(lambda self: self.home.ready)
    @rule(
        kind=st.sampled_from([EVERYTHING, COMMIT, COMMIT, READ, *WRITES]),
        times=st.integers(1, 3),
        ticks=TICKS,
    )
    def disk_trouble(self, kind: str, times: int, ticks: int) -> None:
        """The next few of a kind fail; or all that is written, until it is mended."""
        if kind == EVERYTHING:
            self.home.weather.refusing = True
        else:
            self.home.weather.refusals[kind] += times
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.weather.refusing or self.home.weather.refusals.total())
    @rule(ticks=TICKS)
    def disk_mended(self, ticks: int) -> None:
        self.home.weather.refusing = False
        self.home.weather.refusals.clear()
        self.home.loop.tick(ticks)

"""Rules: the gateway stops or is killed in many ways, the next one starts, time passes."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.state_machine.configs import CONFIGS, RunConfig
from tests.state_machine.driver import MAX_LENGTH, SENDERS, TICKS, Driver
from tests.state_machine.home import Home
from tests.state_machine.stepped_store import READ

from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.testing.simulated.service import ChatService

MAX_RUNS = 6  # gateway runs before the last two
CLOCK_SHIFTS = st.sampled_from([-600, -30, 30, 4000, 172_800])  # seconds by which a clock is set
KINDS = st.sampled_from([StopKind.RESTART, StopKind.RESTART, StopKind.REPLACE, StopKind.STOP])


class BeforeStart(msgspec.Struct, frozen=True, kw_only=True):
    """What happens between two gateway runs, and how the second one is configured and starts."""

    senders: tuple[tuple[str, str], ...]
    clock_shift: float
    config: RunConfig
    ticks: int


BEFORE_STARTS = st.builds(
    BeforeStart,
    senders=st.lists(SENDERS, max_size=2).map(tuple),
    clock_shift=st.one_of(st.just(0), st.just(0), CLOCK_SHIFTS),
    config=CONFIGS,
    ticks=st.sampled_from([0, 1, 3, 10, 50, 200]),
)


class ProcessRules(Driver):
    """Owns nothing: the home has the current run. There is always one, so that no rule is drawn
    in vain; it may have started a tick ago, or be stopping."""

    @initialize(
        idempotent=st.booleans(),
        edit=st.sampled_from([True, True, False]),
        max_length=st.sampled_from([None, MAX_LENGTH]),
        typing=st.sampled_from([False, False, False, True]),
        reactions=st.booleans(),
        status_notices=st.booleans(),
        before_start=BEFORE_STARTS,
    )
    def initialise(
        self,
        idempotent: bool,
        edit: bool,
        max_length: int | None,
        typing: bool,
        reactions: bool,
        status_notices: bool,
        before_start: BeforeStart,
    ) -> None:
        service = ChatService(
            idempotent_send=idempotent,
            max_length=max_length,
            edit=edit,
            typing=typing,
            reactions=reactions,
            busy_notices=status_notices,
            restart_notices=status_notices,
        )
        self.home = Home(self.folder, self.empty, service=service)
        self._start_next(before_start)

    def _start_next(self, before_start: BeforeStart) -> None:
        """Start with other settings: open turns are resumed under settings they did not begin
        with."""
        self.check_step_invariants()
        for posted_by in before_start.senders:
            self.write(*posted_by, self.unique_text(), 0)
        self.home.clock.shift(before_start.clock_shift)
        self.home.start(before_start.config)
        self.home.loop.tick(before_start.ticks)

    @precondition(lambda self: self.home.busy and self.home.run_count < MAX_RUNS)
    @rule(before_start=BEFORE_STARTS)
    def die(self, before_start: BeforeStart) -> None:
        self.home.kill()
        self._start_next(before_start)

    @precondition(lambda self: self.home.busy and self.home.run_count < MAX_RUNS)
    @rule(before_start=BEFORE_STARTS)
    def stop(self, before_start: BeforeStart) -> None:
        self.home.disk.refusals[READ] = 0
        self.home.stop()
        self._start_next(before_start)

    @precondition(lambda self: self.home.ready)
    @rule(kind=KINDS, now=st.sampled_from([False, False, True]), ticks=TICKS)
    def initiate_stop(self, kind: StopKind, now: bool, ticks: int) -> None:
        """Request a restart, which parks what it can, or a stop; `stop` completes it, `die` ends
        it."""
        at = self.home.clock.now()
        self.home.request_stop(StopOrder(kind=kind, by=StopRequester.CLI, at=at, now=now))
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.current_run.stop_requested)
    @rule(ticks=TICKS)
    def hurry(self, ticks: int) -> None:
        self.home.current_run.urgent.set()
        self.home.loop.tick(ticks)

    @rule(ticks=st.sampled_from([1, 3, 10, 50, 200]))
    def run(self, ticks: int) -> None:
        self.home.loop.tick(ticks)

    @rule(seconds=st.sampled_from([0.02, 0.6, 5, 70, 310, 1300]))
    def time_passes(self, seconds: float) -> None:
        self.home.loop.wait(seconds)

    @rule(seconds=CLOCK_SHIFTS, ticks=TICKS)
    def clock_is_set(self, seconds: float, ticks: int) -> None:
        """The wall clock changes while the gateway runs; the monotonic clock does not."""
        self.home.clock.shift(seconds)
        self.home.loop.tick(ticks)

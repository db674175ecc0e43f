"""The lives of a gateway as rules: it goes in one of many ways, another follows, time passes."""

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from tests.state_machine.configs import CONFIGS, Config
from tests.state_machine.driver import LONGEST, PLACES, TICKS, Driven
from tests.state_machine.home import Home
from tests.state_machine.stepped_store import READ

from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester
from holdfast.testing.simulated.service import ChatService

MOST = 6  # lives of a home before its last two
LEAPS = st.sampled_from([-600, -30, 30, 4000, 172_800])  # seconds by which a clock is set
KINDS = st.sampled_from([StopKind.RESTART, StopKind.RESTART, StopKind.REPLACE, StopKind.STOP])


class Absence(msgspec.Struct, frozen=True, kw_only=True):
    """What happens between two lives, and how the second one is configured and begins."""

    said: tuple[tuple[str, str], ...]
    leap: float
    config: Config
    ticks: int


ABSENCES = st.builds(
    Absence,
    said=st.lists(PLACES, max_size=2).map(tuple),
    leap=st.one_of(st.just(0), st.just(0), LEAPS),
    config=CONFIGS,
    ticks=st.sampled_from([0, 1, 3, 10, 50, 200]),
)


class Living(Driven):
    """Owns nothing: the home has the life that is. There is always one, so that no rule is drawn
    in vain; it may have begun a tick ago, or be on its way out."""

    @initialize(
        idempotent=st.booleans(),
        edit=st.sampled_from([True, True, False]),
        max_length=st.sampled_from([None, LONGEST]),
        typing=st.sampled_from([False, False, False, True]),
        reactions=st.booleans(),
        talkative=st.booleans(),
        absence=ABSENCES,
    )
    def settle_in(
        self,
        idempotent: bool,
        edit: bool,
        max_length: int | None,
        typing: bool,
        reactions: bool,
        talkative: bool,
        absence: Absence,
    ) -> None:
        service = ChatService(
            idempotent_send=idempotent,
            max_length=max_length,
            edit=edit,
            typing=typing,
            reactions=reactions,
            busy_notices=talkative,
            restart_notices=talkative,
        )
        self.home = Home(self.folder, self.empty, service=service)
        self._begin_again(absence)

    def _begin_again(self, absence: Absence) -> None:
        """Configured anew: whatever was open goes on under settings it was not begun with."""
        self.the_laws_of_every_instant()
        for place in absence.said:
            self.write(*place, self.text(), 0)
        self.home.clock.put(absence.leap)
        self.home.start(absence.config)
        self.home.loop.tick(absence.ticks)

    @precondition(lambda self: self.home.busy and self.home.lives < MOST)
    @rule(absence=ABSENCES)
    def die(self, absence: Absence) -> None:
        self.home.die()
        self._begin_again(absence)

    @precondition(lambda self: self.home.busy and self.home.lives < MOST)
    @rule(absence=ABSENCES)
    def stop(self, absence: Absence) -> None:
        self.home.weather.refusals[READ] = 0
        self.home.stop()
        self._begin_again(absence)

    @precondition(lambda self: self.home.ready)
    @rule(kind=KINDS, now=st.sampled_from([False, False, True]), ticks=TICKS)
    def leave(self, kind: StopKind, now: bool, ticks: int) -> None:
        """A restart, which parks what it can, or a stop; it goes through by `stop`, or dies."""
        at = self.home.clock.now()
        self.home.leave(StopOrder(kind=kind, by=StopRequester.CLI, at=at, now=now))
        self.home.loop.tick(ticks)

    @precondition(lambda self: self.home.life.leaving)
    @rule(ticks=TICKS)
    def hurry(self, ticks: int) -> None:
        self.home.life.hurried.set()
        self.home.loop.tick(ticks)

    @rule(ticks=st.sampled_from([1, 3, 10, 50, 200]))
    def run(self, ticks: int) -> None:
        self.home.loop.tick(ticks)

    @rule(seconds=st.sampled_from([0.02, 0.6, 5, 70, 310, 1300]))
    def time_passes(self, seconds: float) -> None:
        self.home.loop.wait(seconds)

    @rule(seconds=LEAPS, ticks=TICKS)
    def clock_is_set(self, seconds: float, ticks: int) -> None:
        """By somebody, while the gateway runs; what is monotonic goes on as it was."""
        self.home.clock.put(seconds)
        self.home.loop.tick(ticks)

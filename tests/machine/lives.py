"""The machine: every rule there is, and the end of a home that was led through its lives."""

from tests.machine import laws
from tests.machine.configs import PEACE
from tests.machine.job_rules import Scheduling
from tests.machine.life_rules import Living
from tests.machine.mind_rules import Thinking
from tests.machine.program_rules import Asking
from tests.machine.talk_rules import Talking
from tests.machine.trouble_rules import Suffering


class Lives(Living, Talking, Asking, Thinking, Scheduling, Suffering):
    """All that can happen to a home; in the end it is left in peace, twice, and looked at."""

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            self.leave_for_good()
        assert not self.home.loop.errors, self.home.loop.errors

    def _end(self) -> None:
        self.the_laws_of_every_instant()
        self.home.weather.clear()
        if not self.home.ready:
            self.home.stop()
            self.home.start(PEACE)
        self.home.settle()
        self.check(laws.AT_PEACE)
        self.home.stop()
        self.home.start(PEACE)
        self.home.settle()
        self.check(laws.AT_PEACE)
        self.check(laws.AFTER_ALL)
        self.home.stop()

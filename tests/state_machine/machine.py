"""The machine: every rule there is, and the end of a home that was led through its lives."""

from tests.state_machine import invariants
from tests.state_machine.api_rules import Asking
from tests.state_machine.chat_rules import Talking
from tests.state_machine.configs import PEACE
from tests.state_machine.fault_rules import Suffering
from tests.state_machine.job_rules import Scheduling
from tests.state_machine.model_rules import Thinking
from tests.state_machine.process_rules import Living


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
        self.check(invariants.AT_PEACE)
        self.home.stop()
        self.home.start(PEACE)
        self.home.settle()
        self.check(invariants.AT_PEACE)
        self.check(invariants.AFTER_ALL)
        self.home.stop()

"""Drive a real gateway through random lives; nothing that was accepted may be lost."""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.machine import laws
from tests.machine.configs import PEACE
from tests.machine.job_rules import Scheduling
from tests.machine.life_rules import Living
from tests.machine.mind_rules import Thinking
from tests.machine.program_rules import Asking
from tests.machine.talk_rules import Talking
from tests.machine.trouble_rules import Suffering

from holdfast.store.opening import open_writer


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


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[type[Lives]]:
    path = tmp_path / "empty.db"
    open_writer(path, vfs=None).close()

    class Machine(Lives):
        empty = path

    logging.disable()  # a million lines of a gateway that is mistreated
    yield Machine
    logging.disable(logging.NOTSET)


def _run(machine: type[Lives], *, examples: int, steps: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


# A command whose task dies before its first step was never awaited, which is what dying is.
unawaited = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@unawaited
@pytest.mark.timeout(900)  # a failure is made small first, which takes minutes
def test_nothing_is_lost_in_any_life(machine: type[Lives]) -> None:
    """G3, H2, H5, H7, I2, I3: whatever happens in whatever order, what was accepted ends once."""
    _run(machine, examples=70, steps=40)


@unawaited
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_nothing_is_lost_in_thousands_of_lives(machine: type[Lives]) -> None:
    """As above, longer. `HOLDFAST_SOAK` above 1 is a factor."""
    _run(machine, examples=2000 * int(os.environ.get("HOLDFAST_SOAK", "1")), steps=60)

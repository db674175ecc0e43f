"""Drive a real gateway through random lives; nothing that was accepted may be lost."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.state_machine.machine import Lives


def _run(machine: type[Lives], *, examples: int, steps: int, **more: Any) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            **more,
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
    """As above, longer, and others each time. `HOLDFAST_SOAK` above 1 is a factor."""
    times = int(os.environ.get("HOLDFAST_SOAK", "1"))
    _run(machine, examples=2000 * times, steps=60, derandomize=False)

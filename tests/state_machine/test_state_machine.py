"""Drive a real gateway through random events; no accepted message may be lost."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.state_machine.machine import GatewayStateMachine


def _run(
    machine_type: type[GatewayStateMachine], *, examples: int, steps: int, **more: Any
) -> None:
    run_state_machine_as_test(
        machine_type,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            **more,
        ),
    )


# A task that is killed before its first step leaves a coroutine that was never awaited.
unawaited = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")


@unawaited
@pytest.mark.timeout(900)  # Hypothesis shrinks a failure first, which takes minutes
def test_nothing_is_lost_in_any_run(machine_type: type[GatewayStateMachine]) -> None:
    """G3, H2, H5, H7, I2, I3: whatever happens in whatever order, what was accepted ends once."""
    _run(machine_type, examples=70, steps=40)


@unawaited
@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_nothing_is_lost_in_thousands_of_runs(machine_type: type[GatewayStateMachine]) -> None:
    """The same, longer, and with other examples each time. `HOLDFAST_SOAK` above 1 is a factor."""
    times = int(os.environ.get("HOLDFAST_SOAK", "1"))
    _run(machine_type, examples=2000 * times, steps=60, derandomize=False)

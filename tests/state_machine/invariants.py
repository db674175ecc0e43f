"""All invariants: those checked after each step, whenever the gateway is idle, and at the end."""

from collections.abc import Sequence

from tests.state_machine import (
    agent_invariants,
    delivery_invariants,
    job_invariants,
    memory_invariants,
    message_invariants,
    route_invariants,
    step_invariants,
    watcher_invariants,
    work_invariants,
)
from tests.state_machine.home_contents import Invariant, StepInvariant

ALWAYS: Sequence[StepInvariant] = (
    *step_invariants.ALWAYS,
    *agent_invariants.ALWAYS,
    *delivery_invariants.ALWAYS,
    *job_invariants.ALWAYS,
    *work_invariants.ALWAYS,
)

WHEN_IDLE: Sequence[Invariant] = (
    *message_invariants.WHEN_IDLE,
    *delivery_invariants.WHEN_IDLE,
    *watcher_invariants.WHEN_IDLE,
    *agent_invariants.WHEN_IDLE,
)

AT_THE_END: Sequence[Invariant] = (
    *message_invariants.AT_THE_END,
    *delivery_invariants.AT_THE_END,
    *route_invariants.AT_THE_END,
    *job_invariants.AT_THE_END,
    *work_invariants.AT_THE_END,
    *memory_invariants.AT_THE_END,
)

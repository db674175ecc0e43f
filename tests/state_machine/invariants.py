"""The laws that a home is held to: at every instant, whenever it is left in peace, and at last."""

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
from tests.state_machine.home_contents import Instant, Law

ALWAYS: Sequence[Instant] = (
    *step_invariants.ALWAYS,
    *agent_invariants.ALWAYS,
    *delivery_invariants.ALWAYS,
    *job_invariants.ALWAYS,
    *work_invariants.ALWAYS,
)

AT_PEACE: Sequence[Law] = (
    *message_invariants.AT_PEACE,
    *delivery_invariants.AT_PEACE,
    *watcher_invariants.AT_PEACE,
    *agent_invariants.AT_PEACE,
)

AFTER_ALL: Sequence[Law] = (
    *message_invariants.AFTER_ALL,
    *delivery_invariants.AFTER_ALL,
    *route_invariants.AFTER_ALL,
    *job_invariants.AFTER_ALL,
    *work_invariants.AFTER_ALL,
    *memory_invariants.AFTER_ALL,
)

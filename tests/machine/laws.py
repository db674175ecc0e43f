"""The laws that a home is held to: at every instant, whenever it is left in peace, and at last."""

from collections.abc import Sequence

from tests.machine import (
    agent_laws,
    delivery_laws,
    instant_laws,
    job_laws,
    memory_laws,
    message_laws,
    route_laws,
    watch_laws,
    working_laws,
)
from tests.machine.books import Instant, Law

ALWAYS: Sequence[Instant] = (
    *instant_laws.ALWAYS,
    *agent_laws.ALWAYS,
    *delivery_laws.ALWAYS,
    *job_laws.ALWAYS,
    *working_laws.ALWAYS,
)

AT_PEACE: Sequence[Law] = (
    *message_laws.AT_PEACE,
    *delivery_laws.AT_PEACE,
    *watch_laws.AT_PEACE,
    *agent_laws.AT_PEACE,
)

AFTER_ALL: Sequence[Law] = (
    *message_laws.AFTER_ALL,
    *delivery_laws.AFTER_ALL,
    *route_laws.AFTER_ALL,
    *job_laws.AFTER_ALL,
    *working_laws.AFTER_ALL,
    *memory_laws.AFTER_ALL,
)

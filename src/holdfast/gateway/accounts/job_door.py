"""The door of jobs: the account of the house by which runs come in, and which keeps their word."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.core.errors import SendRejected
from holdfast.core.jobs.job import JOBS_ACCOUNT
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ports.capabilities import Backlog, Capabilities
from holdfast.core.ports.protocols import Intake
from holdfast.core.turns.subagent import INTERNAL_PLATFORM


class JobPlatform:
    """Nobody outside can come in by it. What is addressed to it is sent to nobody: it is
    committed, and the history of the job shows it."""

    name = INTERNAL_PLATFORM
    account = JOBS_ACCOUNT
    capabilities = Capabilities(backlog=Backlog.UNTIL_ACKED, fetchable=True)

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        yield

    async def send(self, outbound: Outbound) -> Receipt:
        raise SendRejected("what a job keeps to itself is sent to nobody")

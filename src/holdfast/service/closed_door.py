"""A closed door: the account of a platform whose door cannot be opened, which says why."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.core.errors import ConnectRefused, NotConnected
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.protocols import Intake

_REMEDY = "Mend, update or remove the package that brings this door, then restart the gateway."


class UnusablePlatform:
    """Stands where the account would: it is parked at once, and what is owed there waits."""

    def __init__(self, name: str, account: str, reason: str) -> None:
        self.name = name
        self.account = account
        self.capabilities = Capabilities()
        self._reason = reason

    @asynccontextmanager
    async def connect(self, intake: Intake) -> AsyncIterator[None]:
        raise ConnectRefused(self._reason, remedy=_REMEDY)
        yield

    async def send(self, outbound: Outbound) -> Receipt:
        raise NotConnected(self._reason)

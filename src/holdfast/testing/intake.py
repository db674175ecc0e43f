"""An intake that only remembers: for testing a door without a gateway behind it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count

from holdfast.core.errors import ConnectError, HoldfastError
from holdfast.core.ids import InboxId, PrincipalId
from holdfast.core.messages.attachment import Attachment
from holdfast.core.messages.events import Event, MessageEnded
from holdfast.core.messages.inbox import Accepted, Inbound, InboxRow, InboxState
from holdfast.core.messages.source import build_session_key
from holdfast.core.ports.protocols import Intake


class RecordingIntake(Intake):
    """Owns what a door handed over. `fail_next` makes it refuse, `delay` makes it slow."""

    def __init__(self, *, delay: float = 0.0) -> None:
        self.delay = delay
        self.coming: list[Inbound] = []  # also what is still being kept
        self.tried: list[Inbound] = []
        self.accepted: list[Inbound] = []  # each event once
        self.attached: list[tuple[str, bytes]] = []  # files, by their names
        self.proofs: list[tuple[str, str]] = []  # who was told to be connected
        self.losses: list[ConnectError] = []  # of lines
        self._rows: dict[tuple[str, str, str], InboxRow] = {}
        self._ids: Iterator[int] = count(1)
        self._failures: list[HoldfastError] = []
        self._changed = asyncio.Condition()
        self._lost = asyncio.Event()

    def fail_next(self, *errors: HoldfastError) -> None:
        """The next calls raise these, one each, and keep nothing."""
        self._failures.extend(errors)

    async def accept(self, inbound: Inbound, attached: Sequence[Attachment] = ()) -> Accepted:
        self.coming.append(inbound)
        await asyncio.sleep(self.delay)
        self.attached.extend([(each.name, await each.fetch()) for each in attached])
        async with self._changed:
            self.tried.append(inbound)
            self._changed.notify_all()
            if self._failures:
                raise self._failures.pop(0)
            return self._keep(inbound)

    def _keep(self, inbound: Inbound) -> Accepted:
        event = (inbound.source.platform, inbound.source.account, inbound.event_id)
        duplicate = event in self._rows
        if not duplicate:
            self.accepted.append(inbound)
            self._rows[event] = InboxRow(
                id=InboxId(next(self._ids)),
                route=build_session_key(inbound.source),
                principal=PrincipalId(inbound.source.user_id),
                inbound=inbound,
                accepted_at=0.0,
            )
        return Accepted(row=self._rows[event], duplicate=duplicate, route_session=None)

    async def end_of(self, inbox_id: InboxId) -> MessageEnded:
        return MessageEnded(inbox_id, InboxState.ANSWERED, f"answer to {inbox_id}")

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[Event]]:
        """Every message is answered with its own number."""

        async def ended() -> AsyncIterator[Event]:
            yield await self.end_of(inbox_id)

        yield ended()

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        """The last that was kept of that stream."""
        for inbound in reversed(self.accepted):
            ours = (inbound.source.platform, inbound.source.account) == (platform, account)
            if ours and inbound.cursor is not None and inbound.cursor.name == name:
                return inbound.cursor.value
        return None

    def proven(self, platform: str, account: str) -> None:
        self.proofs.append((platform, account))

    def lost(self, platform: str, account: str, error: ConnectError) -> None:
        self.losses.append(error)
        self._lost.set()

    async def wait_for_tries(self, number: int) -> list[Inbound]:
        """What was handed over, repeated and refused events too, once it is so many."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.tried) >= number)
            return list(self.tried)

    async def wait_for_loss(self) -> None:
        """Somebody has told, since this was last asked, that its line is gone."""
        await self._lost.wait()
        self._lost.clear()

"""An intake that only records: for testing a platform without a gateway behind it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count

from holdfast.core.errors import ConnectError, HoldfastError
from holdfast.core.ids import InboxId, PrincipalId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound, InboxRow, InboxState
from holdfast.core.messages.source import Attachment, Source, build_session_key
from holdfast.core.ports.platform import Intake


class RecordingIntake(Intake):
    """Owns what a platform delivered. `fail_next` makes it refuse, `delay` makes it slow."""

    def __init__(self, *, delay: float = 0.0) -> None:
        self.delay = delay
        self.started: list[Inbound] = []  # also what is still being kept
        self.attempted: list[Inbound] = []
        self.accepted: list[Inbound] = []  # each event once
        self.attachments: list[tuple[str, bytes]] = []  # files, by their names
        self.confirmations: list[tuple[str, str]] = []  # who was told to be connected
        self.disconnects: list[ConnectError] = []  # of lines
        self._rows: dict[tuple[str, str, str], InboxRow] = {}
        self._ids: Iterator[int] = count(1)
        self._failures: list[HoldfastError] = []
        self._changed = asyncio.Condition()
        self._disconnected = asyncio.Event()

    def fail_next(self, *errors: HoldfastError) -> None:
        """The next calls raise these, one each, and keep nothing."""
        self._failures.extend(errors)

    async def accept(self, inbound: Inbound, attachments: Sequence[Attachment] = ()) -> Accepted:
        self.started.append(inbound)
        await asyncio.sleep(self.delay)
        self.attachments.extend([(each.name, await each.fetch()) for each in attachments])
        async with self._changed:
            self.attempted.append(inbound)
            self._changed.notify_all()
            if self._failures:
                raise self._failures.pop(0)
            return self._record(inbound)

    def _record(self, inbound: Inbound) -> Accepted:
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

    def may_talk(self, source: Source) -> bool:
        return True

    async def wait_for_end(self, inbox_id: InboxId) -> MessageEnded:
        return MessageEnded(inbox_id, InboxState.ANSWERED, f"answer to {inbox_id}")

    @asynccontextmanager
    async def watch(self, inbox_id: InboxId) -> AsyncIterator[AsyncIterator[TurnEvent]]:
        """Every message is answered with its own number."""

        async def ended() -> AsyncIterator[TurnEvent]:
            yield await self.wait_for_end(inbox_id)

        yield ended()

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        """The last stored cursor of that stream."""
        for inbound in reversed(self.accepted):
            ours = (inbound.source.platform, inbound.source.account) == (platform, account)
            if ours and inbound.cursor is not None and inbound.cursor.name == name:
                return inbound.cursor.value
        return None

    def report_alive(self, platform: str, account: str) -> None:
        self.confirmations.append((platform, account))

    def report_lost(self, platform: str, account: str, error: ConnectError) -> None:
        self.disconnects.append(error)
        self._disconnected.set()

    async def wait_for_attempts(self, number: int) -> list[Inbound]:
        """What was handed over, repeated and refused events too, once it is so many."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.attempted) >= number)
            return list(self.attempted)

    async def wait_for_disconnect(self) -> None:
        """Whether the loss of the connection was reported since the last call."""
        await self._disconnected.wait()
        self._disconnected.clear()

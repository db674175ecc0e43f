"""The reading half of the port: each method asks a reader, never the writer."""

from collections.abc import Mapping
from functools import partial

from holdfast.core.ids import InboxId, SessionId, SessionKey, TurnId
from holdfast.core.inbox import InboxRow, InboxState
from holdfast.core.message import Record
from holdfast.core.outbox import DeliveryRow, DeliveryState
from holdfast.core.session import ProcessRow, RunnerRow, SessionRow
from holdfast.core.turn import OpenTurn, StepRow, TurnRow
from holdfast.store import reads
from holdfast.store.reader import Reader


class SqliteLibrary:
    """`core.ports.Library` over a reader it is lent."""

    def __init__(self, reader: Reader) -> None:
        self._read = reader.read

    async def session(self, session_id: SessionId) -> SessionRow | None:
        return await self._read(partial(reads.session, session_id=session_id))

    async def sessions(
        self, *, limit: int, offset: int = 0, q: str = "", platform: str = ""
    ) -> list[SessionRow]:
        return await self._read(
            partial(reads.sessions, limit=limit, offset=offset, q=q, platform=platform)
        )

    async def route(self, key: SessionKey) -> SessionId | None:
        """Where a message of this route would go on; None: in a session yet to be opened."""
        return await self._read(partial(reads.route, key=key))

    async def transcript(self, session_id: SessionId) -> list[Record]:
        return await self._read(partial(reads.messages, session_id=session_id))

    async def records(
        self,
        session_id: SessionId,
        *,
        limit: int,
        after: int | None = None,
        before: int | None = None,
    ) -> list[Record]:
        return await self._read(
            partial(reads.records, session_id=session_id, limit=limit, after=after, before=before)
        )

    async def turn(self, turn_id: TurnId) -> TurnRow | None:
        return await self._read(partial(reads.turn, turn_id=turn_id))

    async def steps(self, turn_id: TurnId) -> list[StepRow]:
        return await self._read(partial(reads.steps, turn_id=turn_id))

    async def open_turns(self) -> list[OpenTurn]:
        return await self._read(reads.open_turns)

    async def queued(self) -> list[InboxRow]:
        return await self._read(reads.queued)

    async def inbox_row(self, inbox_id: InboxId) -> InboxRow | None:
        return await self._read(partial(reads.inbox_row, inbox_id=inbox_id))

    async def answers(self, inbox_id: InboxId) -> list[DeliveryRow]:
        return await self._read(partial(reads.answers, inbox_id=inbox_id))

    async def undelivered(self) -> list[DeliveryRow]:
        return await self._read(reads.undelivered)

    async def ledger(self) -> Mapping[InboxState, int]:
        return await self._read(reads.ledger)

    async def outbox_ledger(self) -> Mapping[DeliveryState, int]:
        return await self._read(reads.outbox_ledger)

    async def runners(self) -> list[RunnerRow]:
        return await self._read(reads.runners)

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        return await self._read(partial(reads.processes, session_id=session_id))

    async def cursor(self, platform: str, account: str, name: str) -> str | None:
        return await self._read(
            partial(reads.cursor_value, platform=platform, account=account, name=name)
        )

    async def meta(self, key: str) -> str | None:
        return await self._read(partial(reads.meta, key=key))

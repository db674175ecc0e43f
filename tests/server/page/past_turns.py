"""Writes turns of earlier processes to a store: one interrupted and resumed, and a long one."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from holdfast.core.ids import CallId, InboxId, PrincipalId, SessionId, SessionKey, TurnId
from holdfast.core.messages.inbox import Inbound, InboxEnd, InboxState
from holdfast.core.messages.source import Source
from holdfast.core.messages.transcript import (
    AssistantMessage,
    CallRecovery,
    NoteMessage,
    ToolCall,
    ToolMessage,
    ToolOutcome,
    UserMessage,
)
from holdfast.core.ports.store_commands import (
    AcceptMessage,
    RecordCallResult,
    RecordCallsStarted,
    RecordReady,
    RecordReply,
    RecordStop,
    ResumeTurn,
)
from holdfast.core.turns.stop import StopKind, StopOrder, StopRequester, StopRow
from holdfast.core.turns.turn import BeginTurn, EndTurn, TurnRowState, Usage
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.paths import Paths

INTERRUPTED, NEXT, LONG = TurnId("t_cut"), TurnId("t_next"), TurnId("t_long")
STEPS = 500
_USAGE = Usage(input_tokens=5200, output_tokens=310, cached_tokens=4100)


class TurnWriter:
    """Writes the rows of one turn, each at its time in seconds after the start of the turn."""

    def __init__(
        self, store: SqliteStore, turn_id: TurnId, *, chat: str, started_at: float
    ) -> None:
        self._store = store
        self._turn, self._session = turn_id, SessionId(f"s_{chat}")
        self._route = SessionKey(f"web:default:dm:{chat}:")
        self._started_at = started_at
        self._message = InboxId(0)

    async def begin(self, text: str) -> None:
        source = Source(platform="web", chat_id=self._route.split(":")[3], user_id="ann")
        inbound = Inbound(source=source, event_id=text, message_id=text, text=text)
        accepted = await self._store.write(
            AcceptMessage(
                inbound=inbound,
                route=self._route,
                principal=PrincipalId("ann"),
                at=self._started_at - 1.5,
            )
        )
        self._message = accepted.row.id
        await self._store.write(
            BeginTurn(
                turn_id=self._turn,
                session_id=self._session,
                route=self._route,
                inbox_ids=(self._message,),
                messages=(UserMessage(text=text),),
                prompt="",
                at=self._started_at,
            )
        )

    async def reply(self, at: float, *calls: tuple[str, str, str]) -> None:
        made = tuple(ToolCall(id=CallId(id), name=name, arguments=a) for id, name, a in calls)
        message = AssistantMessage(text="I look.", calls=made, model="scripted")
        await self._store.write(
            RecordReply(
                turn_id=self._turn,
                session_id=self._session,
                message=message,
                usage=_USAGE,
                at=self._started_at + at,
            )
        )

    async def started(self, at: float, *ids: str) -> None:
        call_ids = [CallId(id) for id in ids]
        await self._store.write(
            RecordCallsStarted(
                turn_id=self._turn,
                session_id=self._session,
                call_ids=call_ids,
                at=self._started_at + at,
            )
        )

    async def finished(
        self,
        at: float,
        id: str,
        name: str,
        *,
        outcome: ToolOutcome = ToolOutcome.OK,
        recovery: CallRecovery | None = None,
    ) -> None:
        result = ToolMessage(
            call_id=CallId(id), name=name, text="its output", outcome=outcome, recovery=recovery
        )
        await self._store.write(
            RecordCallResult(
                turn_id=self._turn,
                session_id=self._session,
                message=result,
                at=self._started_at + at,
            )
        )

    def rename_steps(self, step: int) -> Iterator[Coroutine[Any, Any, None]]:
        id, at = f"l{step}", step * 2.0
        yield self.reply(at + 1, (id, "terminal", f'{{"command": "mv {step}.jpg done/"}}'))
        yield self.started(at + 1, id)
        yield self.finished(at + 2, id, "terminal")

    async def crash(self, detected: float, resumed: float) -> None:
        order = StopOrder(
            kind=StopKind.CRASH, by=StopRequester.NONE, at=self._started_at + detected
        )
        row = StopRow(id=f"r_{detected}", order=order, version="0.1", interrupted=1)
        await self._store.write(RecordStop(row=row))
        note = NoteMessage(text="[System note: a crash cut the last turn.]")
        await self._store.write(
            ResumeTurn(
                turn_id=self._turn,
                session_id=self._session,
                note=note,
                at=self._started_at + resumed,
            )
        )
        await self._store.write(RecordReady(deliveries=(), at=self._started_at + resumed + 0.2))

    async def end(self, at: float) -> None:
        await self._store.write(
            EndTurn(
                turn_id=self._turn,
                session_id=self._session,
                state=TurnRowState.ANSWERED,
                messages=(AssistantMessage(text="All is well.", model="scripted"),),
                usage=_USAGE,
                inbox_ends=(InboxEnd(inbox_id=self._message, state=InboxState.ANSWERED),),
                at=self._started_at + at,
            )
        )


async def write_turns(home: Path, *, now: float) -> None:
    async with SqliteStore(Paths(home).db) as store:
        interrupted = TurnWriter(store, INTERRUPTED, chat="tide", started_at=now - 7200)
        await interrupted.begin("Is the tide table right?")
        await interrupted.reply(1.8, ("c1", "read", '{"path": "tides.csv"}'))
        await interrupted.started(1.8, "c1")
        await interrupted.finished(1.9, "c1", "read")
        await interrupted.reply(4.2, ("c2", "terminal", '{"command": "make check-tides"}'))
        await interrupted.started(4.2, "c2")
        await interrupted.crash(1604.0, 1604.5)
        await interrupted.finished(1606.1, "c2", "terminal", recovery=CallRecovery.ATTACHED)
        await interrupted.reply(1608.0, ("c3", "send_mail", '{"to": "the harbour office"}'))
        await interrupted.started(1608.0, "c3")
        await interrupted.crash(1700.0, 1700.4)
        await interrupted.finished(1700.5, "c3", "send_mail", outcome=ToolOutcome.UNKNOWN)
        await interrupted.end(1703.0)
        after = TurnWriter(store, NEXT, chat="tide", started_at=now - 4000)
        await after.begin("Thank you.")
        await after.end(1.0)
        long = TurnWriter(store, LONG, chat="long", started_at=now - 3600)
        await long.begin("Rename all of them.")
        # Writes are queued as they are called, so all of them together share a few commits.
        await asyncio.gather(
            *(each for step in range(STEPS // 2) for each in long.rename_steps(step))
        )
        await long.end(STEPS + 1.0)

"""A store with one answered turn, for commands that run without a gateway."""

from holdfast.core.ids import PrincipalId, SessionId, TurnId
from holdfast.core.messages.inbox import Inbound
from holdfast.core.messages.source import Source, build_session_key
from holdfast.core.messages.transcript import AssistantMessage, UserMessage
from holdfast.core.ports.store_commands import AcceptMessage, MarkResumePending
from holdfast.core.turns.turn import BeginTurn, EndTurn, TurnRowState
from holdfast.store.sqlite.store import SqliteStore
from holdfast.system.paths import Paths


async def store_answered_turn(paths: Paths) -> None:
    """Write one answered turn to the store of a home, as a gateway does."""
    source = Source(platform="api", chat_id="me", user_id="me")
    route = build_session_key(source)
    async with SqliteStore(paths.db) as store:
        inbound = Inbound(source=source, event_id="1", message_id="1", text="what is it?")
        accepted = await store.write(
            AcceptMessage(inbound=inbound, route=route, principal=PrincipalId("me"), at=1.0)
        )
        await store.write(
            BeginTurn(
                turn_id=TurnId("t_1"),
                session_id=SessionId("s_1"),
                route=route,
                inbox_ids=(accepted.row.id,),
                messages=(UserMessage(text="what is it?"),),
                prompt="Be kind.",
                at=2.0,
            )
        )
        await store.write(
            EndTurn(
                turn_id=TurnId("t_1"),
                session_id=SessionId("s_1"),
                state=TurnRowState.ANSWERED,
                messages=(AssistantMessage(text="It is late."),),
                at=3.0,
            )
        )
        await store.write(
            MarkResumePending(session_id=SessionId("s_1"), route=route, reason="restart", at=4.0)
        )

"""Leases the agent of a session, and begins its turns."""

from collections.abc import Callable, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.ids import InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.messages.transcript import Message, NoteMessage, ToolMessage
from holdfast.core.people.audit import requesters_of
from holdfast.core.ports.store_commands import SavePrompt
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.turns.turn import BeginTurn
from holdfast.gateway.services import Services
from holdfast.gateway.turns.transcript_notes import (
    UNANSWERED_RESULTS_NOTE,
    new_session_note,
    new_session_notice,
    session_owner,
    transcript_message,
)
from holdfast.gateway.turns.turn import Turn, new_turn_record

RecalledNote = tuple[InboxId, NoteMessage]


class TurnFactory:
    """Owns whether the store has anything of the session yet, and the settings that the next turn
    is run by: those that held when its agent was asked for."""

    def __init__(self, session_id: SessionId, *, services: Services, fresh: bool) -> None:
        self._session_id = session_id
        self._services = services
        self._fresh = fresh
        self.settings = services.settings  # those that held when the agent was leased

    async def lease_agent(self, first: InboxRow) -> Agent:
        """The agent for a turn that begins with this message."""
        services = self._services
        self.settings = services.settings
        agent = await services.cache.lease(
            self._session_id,
            signature=services.agent_factory.signature_for(first),
            build=lambda: self._build_agent(first),
        )
        self._fresh = False  # this agent's turn, or a command meanwhile, gets it into the store
        return agent

    async def _build_agent(self, first: InboxRow) -> Agent:
        """Of what holds now: it may be built again, when that is another than was asked for."""
        services, subagent = self._services, first.inbound.subagent
        self.settings = services.settings
        if subagent is None:  # its parent remembers what a subagent does
            services.memory.enable_session(self._session_id, first)
        return await services.agent_factory.build(
            self._session_id,
            signature=services.agent_factory.signature_for(first),
            fresh=self._fresh,
            instructions=first.inbound.instructions,
            memory=None
            if subagent
            else lambda: services.memory.prompt_block(self._session_id, first),
            toolsets=first.inbound.toolsets,
            subagent=subagent,
        )

    async def recall(self, row: InboxRow) -> RecalledNote | None:
        """What memory has about a message that is next."""
        if not self._services.memory.has_recall or row.inbound.subagent is not None:
            return None
        note = await self._services.memory.recall(self._session_id, row)
        return None if note is None else (row.id, note)

    def begin(
        self,
        agent: Agent,
        rows: Sequence[InboxRow],
        *,
        on_shown_change: Callable[[], None],
        reset: SessionReset | None,
        recalled: RecalledNote | None,
        interruption: NoteMessage | None = None,
    ) -> Turn:
        """Begin a turn with these messages; its first commit is on its way when this returns.
        `interruption` tells how the turn before it was interrupted."""
        services, at = self._services, self._services.clock.now()
        turn = self.new_turn(rows, on_shown_change=on_shown_change, at=at)
        begin = BeginTurn(
            turn_id=turn.turn_id,
            session_id=self._session_id,
            route=rows[0].route,
            inbox_ids=tuple(row.id for row in rows),
            messages=_first_messages(agent, rows, reset, recalled, interruption),
            prompt="" if agent.prompt_saved else agent.prompt,
            prompt_fingerprint=agent.prompt_fingerprint,
            principal=session_owner(rows[0], services.settings.sessions),
            reset=reset,
            has_interruption_note=interruption is not None,
            asked_by=requesters_of(rows),
            deliveries=self._reset_notice(reset, rows[-1], turn.turn_id),
            at=at,
        )
        turn.begin(agent, begin, settings=self.settings)
        agent.prompt_saved = True
        for row in rows[:-1]:
            services.subscriptions.merge(row.id, into=rows[-1].id)
        return turn

    def new_turn(
        self, rows: Sequence[InboxRow], *, on_shown_change: Callable[[], None], at: float
    ) -> Turn:
        """A turn that has not begun, and that no agent runs."""
        turn_id = TurnId(self._services.new_id("turn"))
        record = new_turn_record(turn_id, rows, session_id=self._session_id, at=at)
        return Turn(record, services=self._services, is_new=True, on_shown_change=on_shown_change)

    def _reset_notice(
        self, reset: SessionReset | None, row: InboxRow, turn_id: TurnId
    ) -> tuple[NewDelivery, ...]:
        """What people are told of a fresh session, in the commit that begins its first turn. Where
        they come for one answer to one question, the session itself says it."""
        if reset is None or self._services.delivery_factory.is_fetched(row):
            return ()
        text = new_session_notice(reset)
        notice = self._services.delivery_factory.notice(
            row, text, session_id=self._session_id, turn_id=turn_id
        )
        return (notice,)

    async def save_prompt(self, agent: Agent) -> None:
        """A4: before a turn is resumed with it. No beginning of a turn freezes the prompt then, and
        it must not be built a third time."""
        if agent.prompt_saved:
            return
        await self._services.store.write(
            SavePrompt(
                session_id=self._session_id,
                prompt=agent.prompt,
                fingerprint=agent.prompt_fingerprint,
            )
        )
        agent.prompt_saved = True


def _first_messages(
    agent: Agent,
    rows: Sequence[InboxRow],
    reset: SessionReset | None,
    recalled: RecalledNote | None,
    interruption: NoteMessage | None,
) -> tuple[Message, ...]:
    """What was recalled for the message stands in front; for one that was dropped, nowhere."""
    history = () if agent.messages else rows[0].inbound.history
    notes = (recalled[1],) if recalled and recalled[0] == rows[0].id else ()
    if reset is not None:
        notes = (new_session_note(reset), *notes)
    if interruption is None and agent.messages and isinstance(agent.messages[-1], ToolMessage):
        interruption = UNANSWERED_RESULTS_NOTE
    if interruption is not None:
        notes = (interruption, *notes)
    return (*history, *notes, *(transcript_message(row) for row in rows))

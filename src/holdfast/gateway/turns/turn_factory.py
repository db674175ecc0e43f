"""Creates turns: new ones, which it begins, and those that an earlier process left open."""

from collections.abc import Callable, Sequence

from holdfast.agent.agent import Agent
from holdfast.core.config.settings import Settings
from holdfast.core.ids import InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.messages.transcript import Message, NoteMessage, ToolMessage
from holdfast.core.people.audit import requesters_of
from holdfast.core.ports.runtime import Runtime
from holdfast.core.ports.store import Store
from holdfast.core.sessions.reset import SessionReset
from holdfast.core.text.translation import Catalogue
from holdfast.core.turns.turn import BeginTurn, OpenTurn
from holdfast.gateway.agents.session_agents import SessionAgents
from holdfast.gateway.chat_languages import ChatLanguages
from holdfast.gateway.live.subscriptions import MessageSubscriptions
from holdfast.gateway.outbound.delivery import DeliveryFactory
from holdfast.gateway.turns.transcript_notes import (
    UNANSWERED_RESULTS_NOTE,
    new_session_note,
    new_session_notice,
    session_owner,
    transcript_message,
)
from holdfast.gateway.turns.turn import NewTurnContext, Turn, new_turn_record

RecalledNote = tuple[InboxId, NoteMessage]


class TurnFactory:
    """Creates the turns of all lanes. Owns nothing."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        *,
        agents: SessionAgents,
        deliveries: DeliveryFactory,
        subscriptions: MessageSubscriptions,
        languages: ChatLanguages,
        new_context: NewTurnContext,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._agents = agents
        self._deliveries = deliveries
        self._subscriptions = subscriptions
        self._languages = languages
        self._new_context = new_context

    def language_of(self, row: InboxRow) -> Catalogue:
        """The language of all texts about a turn that answers this message."""
        return self._languages.of_message(row)

    def restore(
        self, record: OpenTurn, *, on_shown_change: Callable[[], None] = lambda: None
    ) -> Turn:
        """Create the turn that an earlier process left open."""
        return self._turn(record, is_new=False, on_shown_change=on_shown_change)

    def begin(
        self,
        agent: Agent,
        rows: Sequence[InboxRow],
        *,
        settings: Settings,
        on_shown_change: Callable[[], None],
        reset: SessionReset | None,
        recalled: RecalledNote | None,
        interruption: NoteMessage | None = None,
    ) -> Turn:
        """Begin a turn with these messages. Its first commit is queued when this returns.
        `interruption` is the note about how the previous turn was interrupted."""
        session_id, at = agent.session_id, self._runtime.clock.now()
        turn = self.new_turn(session_id, rows, on_shown_change=on_shown_change, at=at)
        owner = session_owner(rows[0], settings.sessions)
        begin = BeginTurn(
            turn_id=turn.turn_id,
            session_id=session_id,
            route=rows[0].route,
            inbox_ids=tuple(row.id for row in rows),
            messages=_first_messages(
                agent, rows, reset, recalled, interruption, shared=owner is None
            ),
            prompt="" if agent.prompt_saved else agent.prompt,
            prompt_fingerprint=agent.prompt_fingerprint,
            principal=owner,
            reset=reset,
            has_interruption_note=interruption is not None,
            asked_by=requesters_of(rows),
            deliveries=self._reset_notice(reset, rows[-1], session_id, turn.turn_id),
            at=at,
        )
        turn.begin(agent, begin, settings=settings)
        agent.mark_prompt_saved()
        for row in rows[:-1]:
            self._subscriptions.merge(row.id, into=rows[-1].id)
        return turn

    def new_turn(
        self,
        session_id: SessionId,
        rows: Sequence[InboxRow],
        *,
        on_shown_change: Callable[[], None],
        at: float | None = None,
    ) -> Turn:
        """Create a turn that has not begun and that no agent runs."""
        turn_id = TurnId(self._runtime.new_id("turn"))
        at = self._runtime.clock.now() if at is None else at
        record = new_turn_record(turn_id, rows, session_id=session_id, at=at)
        return self._turn(record, is_new=True, on_shown_change=on_shown_change)

    def _turn(self, record: OpenTurn, *, is_new: bool, on_shown_change: Callable[[], None]) -> Turn:
        return Turn(
            record,
            store=self._store,
            runtime=self._runtime,
            agents=self._agents,
            deliveries=self._deliveries,
            new_context=self._new_context,
            is_new=is_new,
            on_shown_change=on_shown_change,
        )

    def _reset_notice(
        self, reset: SessionReset | None, row: InboxRow, session_id: SessionId, turn_id: TurnId
    ) -> tuple[NewDelivery, ...]:
        """The notice about a fresh session, sent in the commit that begins its first turn.
        Platforms whose users fetch one answer per request show the session itself instead."""
        if reset is None or self._deliveries.is_fetched(row):
            return ()
        text = new_session_notice(reset)
        return (self._deliveries.notice(row, text, session_id=session_id, turn_id=turn_id),)


def _first_messages(
    agent: Agent,
    rows: Sequence[InboxRow],
    reset: SessionReset | None,
    recalled: RecalledNote | None,
    interruption: NoteMessage | None,
    *,
    shared: bool,
) -> tuple[Message, ...]:
    """The messages that a turn begins with. Recalled memory comes first, unless its message was
    dropped."""
    history = () if agent.messages else rows[0].inbound.history
    notes = (recalled[1],) if recalled and recalled[0] == rows[0].id else ()
    if reset is not None:
        notes = (new_session_note(reset), *notes)
    if interruption is None and agent.messages and isinstance(agent.messages[-1], ToolMessage):
        interruption = UNANSWERED_RESULTS_NOTE
    if interruption is not None:
        notes = (interruption, *notes)
    return (*history, *notes, *(transcript_message(row, shared=shared) for row in rows))

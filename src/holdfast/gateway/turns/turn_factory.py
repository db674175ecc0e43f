"""How the turns of a session begin: the agent, what goes into the first commit, and going on."""

from collections.abc import Sequence

from holdfast.agent.agent import Agent
from holdfast.core.crash_points import CrashPoint
from holdfast.core.ids import InboxId, SessionId, TurnId
from holdfast.core.messages.inbox import InboxRow
from holdfast.core.messages.message import Message, NoteMessage, ToolMessage
from holdfast.core.messages.outbox import NewDelivery
from holdfast.core.people.audit import asked_by
from holdfast.core.sessions.reset import Opening
from holdfast.core.turns.turn import BeginTurn
from holdfast.gateway.approvals.pending import TurnApprovals
from holdfast.gateway.services import House
from holdfast.gateway.turns.cut_notes import TAIL_NOTE, cut_note
from holdfast.gateway.turns.dormant_turn import Aside
from holdfast.gateway.turns.opening import owner_of, told_to_model, told_to_people
from holdfast.gateway.turns.transcribing import opening_message
from holdfast.gateway.turns.turn import Turn

Recalled = tuple[InboxId, NoteMessage]


class Beginning:
    """Owns whether the store has anything of the session yet, and the settings that the next turn
    is run by: those that held when its agent was asked for."""

    def __init__(self, session_id: SessionId, *, house: House, fresh: bool) -> None:
        self._session_id = session_id
        self._house = house
        self._fresh = fresh
        self._settings = house.settings

    async def lease(self, first: InboxRow) -> Agent:
        """The agent for a turn that begins with this message."""
        house = self._house
        self._settings = house.settings
        agent = await house.cache.lease(
            self._session_id,
            signature=house.agents.signature_for(first),
            build=lambda: self._build(first),
        )
        self._fresh = False  # this agent's turn, or a command meanwhile, gets it into the store
        return agent

    async def _build(self, first: InboxRow) -> Agent:
        """Of what holds now: it may be built again, when that is another than was asked for."""
        house, child = self._house, first.inbound.child
        self._settings = house.settings
        if child is None:  # what a child does is its parent's to remember
            house.memory.enrol(self._session_id, first)
        return await house.agents.build(
            self._session_id,
            signature=house.agents.signature_for(first),
            fresh=self._fresh,
            instructions=first.inbound.instructions,
            memory=None if child else lambda: house.memory.prompt_block(self._session_id, first),
            toolsets=first.inbound.toolsets,
            child=child,
        )

    async def recall(self, row: InboxRow) -> Recalled | None:
        """What memory has about a message that is next."""
        if not self._house.memory.recalls or row.inbound.child is not None:
            return None
        note = await self._house.memory.recall(self._session_id, row)
        return None if note is None else (row.id, note)

    def begin(
        self,
        agent: Agent,
        rows: Sequence[InboxRow],
        *,
        approvals: TurnApprovals,
        opening: Opening | None,
        recalled: Recalled | None,
        cut: NoteMessage | None = None,
    ) -> Turn:
        """Begin a turn with these messages; its first commit is on its way when this returns.
        `cut` tells of the turn before it, which was."""
        house = self._house
        turn = Turn(
            TurnId(house.new_id("turn")),
            agent,
            rows,
            house=house,
            settings=self._settings,
            approvals=approvals,
        )
        turn.begin(
            BeginTurn(
                turn_id=turn.turn_id,
                session_id=self._session_id,
                route=rows[0].route,
                inbox_ids=turn.inbox_ids,
                messages=_first_messages(agent, rows, opening, recalled, cut),
                prompt="" if agent.prompt_kept else agent.prompt,
                prompt_shape=agent.prompt_shape,
                principal=owner_of(rows[0], house.settings.sessions),
                opening=opening,
                note_paid=cut is not None,
                asked_by=asked_by(rows),
                deliveries=self._opening_notice(opening, rows[-1], turn.turn_id),
                at=house.clock.now(),
            )
        )
        agent.prompt_kept = True
        house.signs.begun(rows)
        for row in rows[:-1]:
            house.watchers.merge(row.id, into=rows[-1].id)
        return turn

    def _opening_notice(
        self, opening: Opening | None, row: InboxRow, turn_id: TurnId
    ) -> tuple[NewDelivery, ...]:
        """What people are told of a fresh session, in the commit that begins its first turn. Where
        they come for one answer to one question, the session itself says it."""
        if opening is None or self._house.replies.fetched(row):
            return ()
        text = told_to_people(opening)
        notice = self._house.replies.notice(row, text, session_id=self._session_id, turn_id=turn_id)
        return (notice,)

    async def go_on(self, agent: Agent, aside: Aside, *, approvals: TurnApprovals) -> Turn:
        """The turn that was set aside, with an agent again; one that was cut is told so, and one
        that was parked goes on as if nothing had happened. Its write is queued before it waits."""
        open_turn = aside.open_turn
        turn = Turn(
            open_turn.turn.id,
            agent,
            open_turn.rows,
            house=self._house,
            settings=self._settings,
            approvals=approvals,
            resumed=open_turn,
            fallen=aside.fallen,
        )
        if open_turn.cut:
            await self._note_cut(turn, cut_note(open_turn.left_as or "crash"))
        elif open_turn.left_as is not None:
            await self._go_on(turn)
        return turn

    async def keep_prompt(self, agent: Agent) -> None:
        """A4: before a turn goes on with it. No beginning of a turn freezes it then, and it is not
        to be made a third time."""
        if agent.prompt_kept:
            return
        await self._house.store.keep_prompt(
            self._session_id, prompt=agent.prompt, shape=agent.prompt_shape
        )
        agent.prompt_kept = True

    async def _note_cut(self, turn: Turn, note: NoteMessage) -> None:
        house = self._house
        durable = house.store.resume_turn(
            turn.turn_id, session_id=self._session_id, note=note, at=house.clock.now()
        )
        turn.agent.remember(note)
        await durable
        house.crash(CrashPoint.RESUME_COMMITTED)

    async def _go_on(self, turn: Turn) -> None:
        """Awaited: were its next cut taken for the parking before it, nobody would count it."""
        at = self._house.clock.now()
        await self._house.store.go_on_turn(turn.turn_id, session_id=self._session_id, at=at)


def _first_messages(
    agent: Agent,
    rows: Sequence[InboxRow],
    opening: Opening | None,
    recalled: Recalled | None,
    cut: NoteMessage | None,
) -> tuple[Message, ...]:
    """What was recalled for the message stands in front; for one that was dropped, nowhere."""
    history = () if agent.messages else rows[0].inbound.history
    notes = (recalled[1],) if recalled and recalled[0] == rows[0].id else ()
    if opening is not None:
        notes = (told_to_model(opening), *notes)
    if cut is None and agent.messages and isinstance(agent.messages[-1], ToolMessage):
        cut = TAIL_NOTE
    if cut is not None:
        notes = (cut, *notes)
    return (*history, *notes, *(opening_message(row) for row in rows))

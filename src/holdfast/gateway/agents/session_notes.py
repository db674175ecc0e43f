"""Notes that are added to sessions from outside of their turns, and the cached agents that must see
them."""

from collections.abc import Awaitable, Sequence
from typing import TypeVar

from holdfast.core.ids import DeliveryId, SessionId
from holdfast.core.messages.outbox import ProactiveDelivery
from holdfast.core.messages.transcript import NoteMessage
from holdfast.core.people.audit import AuditEntry
from holdfast.core.ports.command import Command, Committed, WriteFailed
from holdfast.core.ports.store import StoreWriter
from holdfast.core.ports.store_commands import ReportFailedDelivery
from holdfast.gateway.agents.cache import AgentCache

T = TypeVar("T")

NOTING_COMMANDS = (ProactiveDelivery, ReportFailedDelivery)


class SessionNotes:
    """Writes the commands that add such notes. Owns which notes cached agents have before the
    commit."""

    def __init__(self, writes: StoreWriter, cache: AgentCache) -> None:
        self._writes = writes
        self._cache = cache
        # By the delivery that the note is about: the sessions whose cached agents have it already.
        self._noted: dict[DeliveryId, set[SessionId]] = {}

    def write(self, command: Command[T], *, audit: AuditEntry | None = None) -> Awaitable[T]:
        """Queued when this returns. A cached agent gets the note at once, as everything that is
        written to its session; one that is being built is built again, because the commit drops it
        from the cache."""
        delivery_id, note, session_ids = _note_of(command)
        agents = [agent for each in session_ids if (agent := self._cache.find(each)) is not None]
        writing = self._writes.write(command, audit=audit)
        if note is not None and agents:
            for agent in agents:
                agent.append(note)
            self._noted[delivery_id] = {agent.session_id for agent in agents}
        return writing

    def on_committed(self, event: Committed) -> None:
        """A note that was not written before, and that no cached agent has, makes the agent of its
        session outdated."""
        delivery_id, _, session_ids = _note_of(event.command)
        noted = self._noted.pop(delivery_id, set())
        added = event.result is not False  # False: the message was queued before
        for session_id in session_ids:
            if session_id not in noted or not added:
                self._cache.drop(session_id)

    def on_failed(self, event: WriteFailed) -> None:
        """Cached agents have a note that the store does not have."""
        delivery_id, _, session_ids = _note_of(event.command)
        self._noted.pop(delivery_id, None)
        for session_id in session_ids:
            self._cache.drop(session_id)


def _note_of(
    command: Command[T],
) -> tuple[DeliveryId, NoteMessage | None, Sequence[SessionId]]:
    """The delivery that a note is about, the note, and the sessions that get it."""
    match command:
        case ProactiveDelivery(delivery=delivery, note=note):
            noted = note is not None and delivery.session_id is not None
            return delivery.id, note, (delivery.session_id,) if noted else ()
        case ReportFailedDelivery(end=end, report=report):
            return end.delivery_id, report.note, report.session_ids
    raise AssertionError("no other command adds such a note")

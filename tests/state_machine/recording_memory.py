"""A memory provider that records every turn it receives."""

from collections.abc import Sequence

from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import Message
from holdfast.core.people.memory import MemoryHook, MemorySubject, SessionEnd


class RecordingMemory:
    """Owns the turns that were synced to it, over all gateway runs."""

    name = "recording"
    wants = frozenset({MemoryHook.SYNC_TURN})

    def __init__(self) -> None:
        self.synced_turns: list[tuple[SessionId, str]] = []

    async def initialise(self) -> None: ...
    async def prompt_block(self, subject: MemorySubject) -> str:
        return ""

    async def prefetch(self, subject: MemorySubject, query: str) -> str:
        return ""

    async def sync_turn(self, subject: MemorySubject, user: str, assistant: str) -> None:
        self.synced_turns.append((subject.session_id, user))

    async def on_session_end(self, subject: SessionEnd) -> None: ...
    async def on_pre_compact(self, subject: MemorySubject, messages: Sequence[Message]) -> None: ...
    async def shutdown(self) -> None: ...

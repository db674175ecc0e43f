"""The memory of the machine: it writes down every turn that it is told of."""

from collections.abc import Sequence

from holdfast.core.ids import SessionId
from holdfast.core.messages.message import Message
from holdfast.core.people.memory import Hook, Subject


class Diary:
    """A memory of turns that keeps what it was told, whoever lived when it was."""

    name = "diary"
    wants = frozenset({Hook.SYNC_TURN})

    def __init__(self) -> None:
        self.told: list[tuple[SessionId, str]] = []

    async def initialise(self) -> None: ...
    async def prompt_block(self, subject: Subject) -> str:
        return ""

    async def prefetch(self, subject: Subject, query: str) -> str:
        return ""

    async def sync_turn(self, subject: Subject, user: str, assistant: str) -> None:
        self.told.append((subject.session_id, user))

    async def on_session_end(self, subject: Subject) -> None: ...
    async def on_pre_compact(self, subject: Subject, messages: Sequence[Message]) -> None: ...
    async def shutdown(self) -> None: ...

"""A memory provider that records its calls and fails on request."""

import asyncio
from collections.abc import Sequence

from holdfast.core.messages.transcript import Message
from holdfast.core.people.memory import MemoryHook, MemorySubject

EVERY = frozenset(MemoryHook)


class Recorder:
    """A provider that writes down what it is asked, and fails as it is told to."""

    def __init__(self, name: str = "recorder", wants: frozenset[MemoryHook] = EVERY) -> None:
        self.name = name
        self.wants = wants
        self.calls: list[tuple[str, ...]] = []
        self.ill: dict[str, str] = {}  # hook, or "all" → "raise", "hang" or "cling"
        self.found = ""

    async def _called(self, hook: str, *what: str) -> None:
        self.calls.append((hook, *what))
        match self.ill.get(hook, self.ill.get("all", "")):
            case "raise":
                raise RuntimeError(f"{hook} is broken")
            case "hang":
                await asyncio.Event().wait()
            case "cling":
                await self._cling()

    async def _cling(self) -> None:
        """Hold on to a call that was cancelled, once: as a careless `except` does."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    def of(self, hook: str) -> list[tuple[str, ...]]:
        return [call[1:] for call in self.calls if call[0] == hook]

    async def initialise(self) -> None:
        await self._called("initialise")

    async def prompt_block(self, subject: MemorySubject) -> str:
        await self._called("prompt_block", subject.session_id, subject.owner)
        return f"block of {self.name}"

    async def prefetch(self, subject: MemorySubject, query: str) -> str:
        await self._called("prefetch", subject.session_id, query)
        return self.found

    async def sync_turn(self, subject: MemorySubject, user: str, assistant: str) -> None:
        await self._called("sync_turn", subject.session_id, user, assistant)

    async def on_session_end(self, subject: MemorySubject) -> None:
        await self._called("on_session_end", subject.session_id)

    async def on_pre_compact(self, subject: MemorySubject, messages: Sequence[Message]) -> None:
        await self._called("on_pre_compact", subject.session_id, str(len(messages)))

    async def shutdown(self) -> None:
        await self._called("shutdown")

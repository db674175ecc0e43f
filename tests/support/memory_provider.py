"""A memory provider that records its calls and fails on request."""

import asyncio
from collections.abc import Sequence

from holdfast.core.ids import SessionId
from holdfast.core.messages.transcript import Message
from holdfast.core.people.memory import MemoryHook, MemorySubject, SessionEnd

ALL_HOOKS = frozenset(MemoryHook)


class RecordingMemoryProvider:
    """A provider that records its calls and fails as a test requests."""

    def __init__(self, name: str = "recorder", wants: frozenset[MemoryHook] = ALL_HOOKS) -> None:
        self.name = name
        self.wants = wants
        self.calls: list[tuple[str, ...]] = []
        self.faults: dict[str, str] = {}  # hook, or "all" → "raise", "hang" or "ignore cancel"
        self.prefetched = ""
        self.slow: dict[str, float] = {}  # hook → seconds that it takes
        self.concurrent = self.most_concurrent = 0  # calls
        self.end_ids: list[str] = []  # of the sessions whose ends were reported
        self.ended: list[SessionId] = []  # the sessions whose end it has processed

    async def _called(self, hook: str, *what: str) -> None:
        self.calls.append((hook, *what))
        self.concurrent += 1
        self.most_concurrent = max(self.most_concurrent, self.concurrent)
        try:
            await self._work(hook)
        finally:
            self.concurrent -= 1

    async def _work(self, hook: str) -> None:
        if hook in self.slow:
            await asyncio.sleep(self.slow[hook])
        match self.faults.get(hook, self.faults.get("all", "")):
            case "raise":
                raise RuntimeError(f"{hook} is broken")
            case "hang":
                await asyncio.Event().wait()
            case "ignore cancel":
                await self._ignore_cancellation()

    async def _ignore_cancellation(self) -> None:
        """Ignore one cancellation, as a careless `except` does."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    def calls_to(self, hook: str) -> list[tuple[str, ...]]:
        return [call[1:] for call in self.calls if call[0] == hook]

    async def initialise(self) -> None:
        await self._called("initialise")

    async def prompt_block(self, subject: MemorySubject) -> str:
        await self._called("prompt_block", subject.session_id, subject.owner)
        return f"block of {self.name}"

    async def prefetch(self, subject: MemorySubject, query: str) -> str:
        await self._called("prefetch", subject.session_id, query)
        return self.prefetched

    async def sync_turn(self, subject: MemorySubject, user: str, assistant: str) -> None:
        await self._called("sync_turn", subject.session_id, user, assistant)

    async def on_session_end(self, subject: SessionEnd) -> None:
        self.end_ids.append(subject.end_id)
        await self._called("on_session_end", subject.session_id)
        self.ended.append(subject.session_id)

    async def on_pre_compact(self, subject: MemorySubject, messages: Sequence[Message]) -> None:
        await self._called("on_pre_compact", subject.session_id, str(len(messages)))

    async def shutdown(self) -> None:
        await self._called("shutdown")

"""A harness for races in a lane: its store has gates, and its model can be unavailable."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, TypeVar

from tests.support.approvals import RM, ApprovalHarness
from tests.support.controlled_store import Commit, ControlledStore, Intercepted
from tests.support.gateway_harness import Call

from holdfast.core.errors import HoldfastError, StoreError
from holdfast.core.messages.inbox import Accepted
from holdfast.core.people.approval import ApprovalRequest
from holdfast.core.ports.command import Command, Query
from holdfast.core.ports.store_queries import GetContext, GetTranscript
from holdfast.core.sessions.session import CommandEffect
from holdfast.core.text.translatable import Translatable
from holdfast.core.turns.model import FallbackUsed, ModelEvent, ModelRequest
from holdfast.core.turns.turn import BeginTurn, EndTurn
from holdfast.testing.scripted_model import ScriptedClient, ScriptedModel

R = TypeVar("R")


class Gate:
    """A point in the code where callers wait while it is closed."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    def close(self) -> None:
        self.reached.clear()
        self.go.clear()

    @property
    def is_reached(self) -> bool:
        return self.reached.is_set()

    async def wait(self) -> None:
        if not self.go.is_set():
            self.reached.set()
        await self.go.wait()


class GatedStore(ControlledStore):
    """A store with gates before it reads a transcript, applies a command, stores a question or
    suspends a session; it refuses the next `refusals` begins of turns."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read_gate, self.command_gate, self.suspend_gate = Gate(), Gate(), Gate()
        self.ask_gate = Gate()
        self.refusals = 0

    async def read(self, query: Query[R]) -> R:
        if isinstance(query, GetTranscript | GetContext):
            await self.read_gate.wait()
        return await super().read(query)

    def intercept(self, command: Command[Any], commit: Commit) -> Intercepted:
        if isinstance(command, CommandEffect):
            return _commit_behind(self.command_gate, commit)
        if isinstance(command, ApprovalRequest) and not self.ask_gate.go.is_set():
            return _commit_behind(self.ask_gate, commit)
        if isinstance(command, EndTurn) and command.suspend:
            return _commit_behind(self.suspend_gate, commit)
        if isinstance(command, BeginTurn) and self.refusals:
            self.refusals -= 1
            return StoreError("the disk is full")
        return None


async def _commit_behind(gate: Gate, commit: Commit) -> Any:
    await gate.wait()
    return await commit()


class FailoverModel(ScriptedModel):
    """A model that can be unavailable, and whose fallback can take over."""

    def __init__(self) -> None:
        super().__init__()
        self.unavailable = False
        self.failovers = 0

    def lease(self, override: str | None = None) -> "FailoverClient":  # type: ignore[override]  # it has what a client has
        if self.unavailable:
            raise HoldfastError("the model is away")
        client = super().lease(override)
        return FailoverClient(self, client)


class FailoverClient:
    """A client that reports a fallback before the events of the real one."""

    def __init__(self, model: FailoverModel, client: ScriptedClient) -> None:
        self.name = client.name
        self._model = model
        self._client = client

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        if self._model.failovers:
            self._model.failovers -= 1
            yield FallbackUsed(Translatable("The first is ill."), "second")
        async for event in self._client.stream(request):
            yield event

    def release(self) -> None:
        self._client.release()


class RaceHarness(ApprovalHarness):
    """An approval harness on a `GatedStore` and a `FailoverModel`."""

    store: GatedStore
    model: FailoverModel

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.open_store = GatedStore
        self.model = FailoverModel()

    async def start_waiting_turn(self, call: Call, text: str = "clean up", **more: Any) -> Accepted:
        """Accept a message and return it once its turn waits for an approval."""
        self.model.say([call("shell", RM)])
        accepted = await self.accept(text, **more)
        await self.pending_approvals()
        return accepted

"""A real gateway in the test's own process: real store, real lanes, a chat service with faults
and a scripted model."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.stores import implementation, open_store

from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.provider_guard import ProviderLimits
from holdfast.agent.memory.providers import NotesProvider
from holdfast.agent.memory.tool import MemoryTool
from holdfast.core.config.settings import PlatformSettings, Settings
from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.events import MessageEnded, TurnEvent
from holdfast.core.messages.inbox import Accepted, Inbound
from holdfast.core.messages.outbox import Outbound, Receipt
from holdfast.core.messages.source import ChatType, Source
from holdfast.core.messages.transcript import Message, ToolCall
from holdfast.core.ops.tracing import SpanExporter
from holdfast.core.people.approval import HARMLESS, CommandJudge, CommandVerdict
from holdfast.core.people.memory import MemoryProvider
from holdfast.core.ports.capabilities import Capabilities
from holdfast.core.ports.platform import Intake, Platform
from holdfast.core.ports.runtime import Lifecycle, Runtime, Tool
from holdfast.core.ports.sandbox import Sandbox
from holdfast.core.ports.store import HomeStore
from holdfast.core.ports.store_queries import (
    CountInbox,
    GetTranscript,
    ListSessions,
    ListUndelivered,
)
from holdfast.core.secrets import Secret
from holdfast.core.sessions.session import ProcessRow, RunnerRow
from holdfast.core.text.translatable import Translatable
from holdfast.core.turns.model import ModelChoice, ToolSchema
from holdfast.core.turns.tool import Arguments, Danger, ReplayClass, ToolContext, ToolOutput
from holdfast.gateway.accounts.connection import BackoffSettings, ConnectionPolicy
from holdfast.gateway.agents.factory import AgentConfig
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.app import FileStorage, Gateway, StoppableResources
from holdfast.gateway.redaction import Redaction
from holdfast.gateway.tracing import MessageTracer
from holdfast.testing.scripted_model import ScriptedModel
from holdfast.testing.simulated.events import BotMessage, SayRequest
from holdfast.testing.simulated.platform import SimulatedPlatform
from holdfast.testing.simulated.service import ChatService
from holdfast.tools.registry import ToolRegistry


class WallClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class ManualClock(WallClock):
    """A clock that a test moves by hand."""

    def __init__(self, at: float = 1_800_000_000.0) -> None:
        self.at = at

    def now(self) -> float:
        return self.at


class NoRunners:
    """Runners for a gateway whose tools need none; records which sessions were ended."""

    name = "runner"

    def __init__(self) -> None:
        self.ended: list[SessionId] = []
        self.all_ended = 0
        self.detached = 0
        self.running: dict[SessionId, list[ProcessRow]] = {}  # what `processes` returns

    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        return self.running.get(session_id, [])

    def sandbox(self, session_id: SessionId, *, shell: str = "") -> Sandbox:
        return None  # type: ignore[return-value]  # no tool of these tests touches it

    async def adopt(
        self, known: Sequence[RunnerRow], *, needed: Collection[SessionId]
    ) -> list[SessionId]:
        return []

    async def end_session(self, session_id: SessionId) -> None:
        self.ended.append(session_id)

    async def end_all(self) -> None:
        self.all_ended += 1

    async def detach(self) -> None:
        self.detached += 1


class HeldTool:
    """A tool that waits until it is released, and records its calls."""

    toolset = "test"
    danger = Danger.NONE

    def __init__(self, name: str, replay: ReplayClass) -> None:
        self.schema = ToolSchema(name=name, description="x", parameters={"type": "object"})
        self.replay = replay
        self.started: list[CallId] = []
        self.cancelled: list[CallId] = []
        self.attached: list[CallId] = []
        self.known: dict[CallId, str] = {}  # what `attach` finds
        self.go = asyncio.Event()
        self.go.set()
        self._changed = asyncio.Condition()

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        async with self._changed:
            self.started.append(context.call_id)
            self._changed.notify_all()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(context.call_id)
            raise
        return ToolOutput(text=f"pulled {self.schema.name} {len(self.started)}")

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        self.attached.append(context.call_id)
        text = self.known.get(context.call_id)
        return None if text is None else ToolOutput(text=text)

    async def wait_until_started(self, times: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.started) >= times)


class FetchedPlatform:
    """A platform whose replies are fetched, as the API's are; the test is its client."""

    name = "api"
    account = "default"
    capabilities = Capabilities(fetchable=True)

    def connect(self, intake: Intake) -> Any:
        return AsyncExitStack()

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("a fetched reply is never sent")


class AllowAllJudge:
    """Judges every command harmless."""

    def judge(self, command: str) -> CommandVerdict:
        return HARMLESS


class GatewayHarness:
    """One home with its gateway: started, stopped and started again on the same file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = Settings(platforms={"simulated": PlatformSettings(allow=("ann", "bob"))})
        self.service = ChatService()
        self.model = ScriptedModel()
        self.runners = NoRunners()
        self.browsers: StoppableResources | None = None
        self.held_tools = {replay: HeldTool(replay, replay) for replay in ReplayClass}
        self.open_store: Callable[[Path], HomeStore] = open_store
        self.extra_platforms: list[Platform] = []
        self.extra_tools: list[Tool] = []
        self.judge: CommandJudge = AllowAllJudge()
        self.lifecycle: Lifecycle | None = None  # the process, as the gateway sees it
        self.secrets: list[Secret] = []
        self.states: list[str] = []
        self.clock: WallClock = WallClock()
        self.with_notes = False  # with the built-in notes and their tool
        self.memory: list[MemoryProvider] = []  # besides them
        self.memory_limits = ProviderLimits()
        self.backoff = BackoffSettings()  # for accounts that do not connect
        self.files: FileStorage | None = None  # stores attachments, and reads files to send
        self.spans: SpanExporter | None = None  # collects traces
        self._ids = itertools.count(1)
        self._open = AsyncExitStack()
        self.gateway: Gateway
        self.agent_config: AgentConfig

    async def start(self) -> None:
        self.store = self.open_store(self.path)
        await self._open.enter_async_context(self.store)
        self.gateway = self.build_gateway()
        await self._open.enter_async_context(self.gateway)

    def build_gateway(self) -> Gateway:
        """A gateway on the open store, which is not started."""
        tools: list[Tool] = [*self.held_tools.values(), *self.extra_tools]
        notes, redact = self._notes(), Redaction(self.secrets)
        if self.with_notes:
            tools.append(MemoryTool(notes))
        self.agent_config = AgentConfig(
            settings=self.settings,
            lease=self.model.lease,
            model=ModelChoice(provider="local", name="scripted", why=Translatable("a test")),
            api_key=None,
            toolbox=ToolRegistry(tools).for_toolsets({tool.toolset for tool in tools}),
            secrets=self.secrets,
        )
        return Gateway(
            self.agent_config,
            store=self.store,
            platforms=[
                *self.extra_platforms,
                SimulatedPlatform(self.service),
                FetchedPlatform(),
            ],
            runtime=Runtime(self.clock, self.new_id),
            redact=redact,
            memory=MemoryManager(
                [*([NotesProvider(notes)] if self.with_notes else []), *self.memory],
                notes=notes,
                store=self.store,
                clock=self.clock,
                redact=redact,
                limits=self.memory_limits,
            ),
            runners=self.runners,
            browsers=self.browsers,
            judge=self.judge,
            files=self.files,
            connection_policy=ConnectionPolicy(backoff=self.backoff),
            tracer=self._tracer(redact),
            lifecycle=self.lifecycle,
            progress=self.states.append,
        )

    def _tracer(self, redact: Redaction) -> MessageTracer | None:
        if self.spans is None:
            return None
        return MessageTracer(
            self.spans,
            key="",
            ratio=self.settings.otel.sample,
            model=self.agent_config.model,
            clock=self.clock,
            new_id=self.new_id,
            redact=redact,
        )

    def _notes(self) -> Notes:
        limit = self.settings.memory.max_chars
        return Notes(self.store, clock=WallClock(), redact=Redaction(self.secrets), max_chars=limit)

    async def stop(self) -> None:
        await self._open.aclose()

    async def die(self) -> None:
        """Stop as `kill -9` does: the next start finds what is on disk right now."""
        image = self.path.parent / f"after-{next(self._ids)}" / self.path.name
        image.parent.mkdir()
        implementation().copy_durable(self.path, image)
        await self.stop()
        self.path = image

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids)}"

    def say(self, text: str, *, chat: str = "home", user: str = "ann", **more: Any) -> str:
        """A user writes into a chat of the simulated platform."""
        return self.service.say(SayRequest(chat=chat, user=user, text=text, **more))

    async def sent(self, number: int) -> list[BotMessage]:
        """What the platform got, once it has so many messages."""
        ledger = await self.service.wait_for_ledger(sent=number, wait=30)
        assert len(ledger.sent) >= number, f"only {len(ledger.sent)} of {number} were sent"
        return list(ledger.sent)

    async def texts(self, number: int) -> list[str]:
        return [sent.outgoing.text for sent in await self.sent(number)]

    async def all_delivered(self) -> bool:
        """Whether each delivery has its receipt; the next start resends those without one."""
        return not await self.store.read(ListUndelivered())

    async def accept(self, text: str, *, chat: str = "one", **more: Any) -> Accepted:
        """An API client sends a message."""
        number = next(self._ids)
        fields = {"event_id": f"e{number}", "message_id": f"m{number}", **more}
        source = Source(platform="api", chat_id=chat, user_id="owner", chat_type=ChatType.DM)
        return await self.gateway.intake.accept(Inbound(source=source, text=text, **fields))

    async def end_of(self, accepted: Accepted) -> MessageEnded:
        return (await self.events_of(accepted))[-1]  # type: ignore[return-value]

    async def events_of(self, accepted: Accepted) -> list[TurnEvent]:
        async with asyncio.timeout(30), self.gateway.intake.watch(accepted.row.id) as events:
            return [event async for event in events]

    async def transcript(self, session_id: SessionId) -> list[Message]:
        return [
            record.message for record in await self.store.read(GetTranscript(session_id=session_id))
        ]

    async def only_session(self) -> SessionId:
        (session,) = await self.store.read(ListSessions(limit=10))
        return session.id

    async def ledger(self) -> dict[str, int]:
        return {state.value: n for state, n in (await self.store.read(CountInbox())).items() if n}


Call = Callable[..., ToolCall]


@pytest.fixture
def call() -> Call:
    """Makes a tool call, as a model would write it."""
    numbers = itertools.count(1)

    def make(name: str, arguments: str = "{}") -> ToolCall:
        return ToolCall(id=CallId(f"theirs{next(numbers)}"), name=name, arguments=arguments)

    return make


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[GatewayHarness]:
    harness = GatewayHarness(tmp_path / "state.db")
    await harness.start()
    yield harness
    await harness.stop()


Until = Callable[[Callable[[], Awaitable[bool] | bool]], Awaitable[None]]


@pytest.fixture
def until() -> Until:
    """Waits until a condition holds for which there is no event."""

    async def wait(fact: Callable[[], Awaitable[bool] | bool]) -> None:
        async with asyncio.timeout(30):
            while True:
                found = fact()
                if found if isinstance(found, bool) else await found:
                    return
                await asyncio.sleep(0.01)

    return wait

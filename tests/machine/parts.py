"""What the gateway of the machine meets: a model that says what it is told to, tools that wait to
be let go, and a door that can be torn off its hinges."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import NamedTuple

from holdfast.core.bench import Bench
from holdfast.core.capabilities import Capabilities
from holdfast.core.ids import CallId, SessionId
from holdfast.core.judgement import HARMLESS, Judgement, Level
from holdfast.core.message import AssistantMessage, StopReason, ToolCall
from holdfast.core.model import (
    Completed,
    Fault,
    ModelEvent,
    ModelFailed,
    ModelRequest,
    TextDelta,
    ToolSchema,
)
from holdfast.core.outbox import Outbound, Receipt
from holdfast.core.ports import Intake
from holdfast.core.projection import problems
from holdfast.core.session import ProcessRow, RunnerRow
from holdfast.core.tool import Arguments, Danger, Replay, ToolContext, ToolOutput
from holdfast.core.turn import Usage
from holdfast.platforms.simulated.feed import Feed
from holdfast.platforms.simulated.in_process import SimulatedPlatform
from holdfast.platforms.simulated.service import ChatService
from holdfast.platforms.simulated.wire import Update

FAILS = "fails"
HELPER = "helper"  # the model of auxiliary calls
SHELL = "shell"
HARMLESS_WORD, DANGEROUS, STRANGE, HOPELESS = "harmless", "dangerous", "strange", "hopeless"
COMMANDS_RUN = (HARMLESS_WORD, DANGEROUS, DANGEROUS, DANGEROUS, STRANGE, HOPELESS)


class Wanted(NamedTuple):
    """A tool that the model calls."""

    name: str
    arguments: str = "{}"


Line = str | Sequence[Wanted]  # a text, or tools to call


class Ask:
    """A request that waits for its answer."""

    def __init__(self, request: ModelRequest, client: "VoiceClient") -> None:
        self.client = client
        self.messages = request.messages
        self.tools = request.tools
        self.line: asyncio.Future[Line] = asyncio.get_running_loop().create_future()


class Voice:
    """Owns the requests that wait, and what was wrong with any of them."""

    def __init__(self, complaints: list[str]) -> None:
        self.asks: list[Ask] = []
        self.leased = 0
        self.complaints = complaints

    def lease(self, override: str | None) -> "VoiceClient":
        self.leased += 1
        return VoiceClient(self, override or "scripted")

    @contextmanager
    def hear(self, ask: Ask) -> Iterator[None]:
        if wrong := problems(ask.messages):
            self.complaints.append(f"a request that no provider takes: {wrong}")
        if any(other.client is ask.client for other in self.asks):
            self.complaints.append("one client was asked twice at once")
        self.asks.append(ask)
        try:
            yield
        finally:
            self.asks.remove(ask)


class VoiceClient:
    def __init__(self, voice: Voice, name: str) -> None:
        self.name = name
        self.released = False
        self._voice = voice

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        ask = Ask(request, self)
        # As if each message took some of the window, so that a long talk is compacted.
        usage = Usage(input_tokens=25 * len(request.messages), output_tokens=5, cached_tokens=2)
        with self._voice.hear(ask):
            line = await ask.line
            if line == FAILS:
                raise ModelFailed("the model is ill", fault=Fault.SERVER)
            if isinstance(line, str):
                for word in line.split(" "):
                    yield TextDelta(f"{word} ")
                    await asyncio.sleep(0)
        if isinstance(line, str):
            yield Completed(AssistantMessage(text=line, model=self.name), usage)
        else:
            calls = tuple(
                ToolCall(id=CallId(f"call_{number}"), name=each.name, arguments=each.arguments)
                for number, each in enumerate(line)
            )
            reply = AssistantMessage(calls=calls, model=self.name, stop=StopReason.TOOL_CALLS)
            yield Completed(reply, usage)

    def release(self) -> None:
        if self.released:
            self._voice.complaints.append("a client was given back twice")
        self.released = True
        self._voice.leased -= 1


class Lever:
    """A tool that waits until it is let go. It outlives the gateway, as a runner does: `attach`
    finds what was pulled by an earlier life."""

    toolset = "test"
    danger = Danger.NONE

    def __init__(self, replay: Replay, name: str = "") -> None:
        parameters = {"type": "object"}
        self.schema = ToolSchema(name=name or replay, description="x", parameters=parameters)
        self.replay = replay
        self.pulled: Counter[CallId] = Counter()
        self.held: list[asyncio.Event] = []

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        self.pulled[context.call_id] += 1
        return await self._let_go(context)

    async def attach(self, context: ToolContext, arguments: Arguments) -> ToolOutput | None:
        if not self.pulled[context.call_id]:
            return None
        return await self._let_go(context)

    async def _let_go(self, context: ToolContext) -> ToolOutput:
        go = asyncio.Event()
        self.held.append(go)
        try:
            context.progress("it moves")
            await go.wait()
        finally:
            self.held.remove(go)
        return ToolOutput(text=f"{context.call_id} is pulled")


class Shell(Lever):
    """A lever that runs commands: it remembers what each call was to run."""

    def __init__(self) -> None:
        super().__init__(Replay.ATTACH, SHELL)
        self.ran: dict[CallId, str] = {}

    def command(self, arguments: Arguments) -> str | None:
        wanted = arguments.get("command")
        return wanted if isinstance(wanted, str) else None

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        self.ran[context.call_id] = self.command(arguments) or ""
        return await super().run(context, arguments)


class ByWord:
    """Judges by the word itself; `asked` is how often a person is to be asked."""

    def __init__(self) -> None:
        self.asked = 0

    def judge(self, command: str) -> Judgement:
        if command == HOPELESS:
            return Judgement(level=Level.HOPELESS, rule=HOPELESS, why="It helps nobody.")
        if command in (DANGEROUS, STRANGE):
            self.asked += 1
            rule = DANGEROUS if command == DANGEROUS else ""
            return Judgement(level=Level.DANGEROUS, rule=rule, why="It may do harm.")
        return HARMLESS


class Door(SimulatedPlatform):
    """The chat service's door. Torn off, nothing passes in either direction any more."""

    def __init__(self, service: ChatService) -> None:
        super().__init__(service)
        self.torn = False
        self._never = asyncio.Event()

    def connect(self, intake: Intake) -> AbstractAsyncContextManager[None]:
        return _Feeding(Feed(self, intake=intake))

    async def send(self, outbound: Outbound) -> Receipt:
        await self._pass()
        return await super().send(outbound)

    async def updates(self) -> Sequence[Update]:
        await self._pass()
        return await super().updates()

    async def ack(self, up_to: int) -> None:
        await self._pass()
        await super().ack(up_to)

    async def _pass(self) -> None:
        if self.torn:
            await self._never.wait()


class _Feeding(AbstractAsyncContextManager[None]):
    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def __aenter__(self) -> None:
        self._task = asyncio.create_task(self._feed.run(), name="feed")

    async def __aexit__(self, *exc: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


class Fetched:
    """A platform whose replies are fetched, as the API's are; the machine is its client."""

    name = "api"
    account = "default"
    capabilities = Capabilities(fetchable=True)

    def connect(self, intake: Intake) -> AbstractAsyncContextManager[None]:
        return _Nothing()

    async def send(self, outbound: Outbound) -> Receipt:
        raise AssertionError("a fetched reply is never sent")


class _Nothing(AbstractAsyncContextManager[None]):
    async def __aexit__(self, *exc: object) -> None:
        return None


class NoRunners:
    """The workbenches of a gateway whose tools need none."""

    name = "runner"

    def bench(self, session_id: SessionId, *, shell: str = "") -> Bench:
        return None  # type: ignore[return-value]  # no tool here touches it

    async def adopt(
        self, known: Sequence[RunnerRow], *, wanted: Collection[SessionId]
    ) -> list[SessionId]:
        return []

    async def end(self, session_id: SessionId) -> None: ...
    async def detach(self) -> None: ...
    async def end_all(self) -> None: ...
    async def processes(self, session_id: SessionId) -> list[ProcessRow]:
        return []

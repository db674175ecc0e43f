"""One run of a gateway: its process, and everything that ends with it."""

import asyncio
from contextlib import AsyncExitStack

from tests.state_machine.configs import RunConfig, settings_of
from tests.state_machine.environment import Environment
from tests.state_machine.model import SteppedModel
from tests.state_machine.platforms import DetachablePlatform, FetchedApiPlatform, NoSandboxes
from tests.state_machine.stepped_store import SteppedStore

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.provider_guard import DEFAULT_LIMITS
from holdfast.core.ports.runtime import Runtime, Tool
from holdfast.core.text.translatable import Translatable
from holdfast.core.turns.model import ModelChoice
from holdfast.core.turns.stop import StopOrder
from holdfast.gateway.agents.factory import AgentConfig
from holdfast.gateway.agents.memory import MemoryManager
from holdfast.gateway.app import Gateway
from holdfast.gateway.redaction import Redaction
from holdfast.tools.registry import ToolRegistry
from holdfast.tools.schedule import ScheduleTool


class GatewayRun:
    """Owns everything that ends with one gateway process: store connections, model, platform,
    tasks."""

    def __init__(self, environment: Environment, config: RunConfig) -> None:
        self._process_ends = environment.process_ends
        self.config = config
        self.store = SteppedStore(environment.path, environment.disk)
        self.model = SteppedModel(environment.request_problems, model=config.model)
        self.platform = DetachablePlatform(environment.service)
        self.ready = False
        self.killed = False
        self.stopping = asyncio.Event()
        self.urgent = asyncio.Event()
        self.order: StopOrder | None = None  # None: an unplanned signal
        self.stop_requested = False
        self.gateway = self._build(environment, config)
        self.task = environment.loop.create_task(self._run(), name="gateway run")

    def _build(self, environment: Environment, config: RunConfig) -> Gateway:
        settings = settings_of(config)
        tools: list[Tool] = [*environment.held_tools.values(), DelegateTool(settings.delegate)]
        if config.schedules:
            tools.append(ScheduleTool())
        clock, redact = environment.clock, Redaction([])
        notes = Notes(self.store, clock=clock, redact=redact, max_chars=settings.memory.max_chars)
        return Gateway(
            AgentConfig(
                settings=settings,
                lease=self.model.lease,
                model=ModelChoice(provider="local", name=config.model, why=Translatable("a test")),
                api_key=None,
                toolbox=ToolRegistry(tools).for_toolsets({tool.toolset for tool in tools}),
            ),
            store=self.store,
            platforms=[self.platform, FetchedApiPlatform()],
            runtime=Runtime(clock, environment.new_id),
            redact=redact,
            memory=MemoryManager(
                [environment.memory],
                notes=notes,
                store=self.store,
                clock=clock,
                redact=redact,
                limits=DEFAULT_LIMITS,
            ),
            runners=NoSandboxes(),
            judge=environment.judge,
            timer=clock,
            progress=self._progress,
        )

    def _progress(self, state: str) -> None:
        # For any stop, a failed start included. A killed process reports nothing.
        if state == "close intake" and not self.killed:
            self._process_ends.stop_begins(self.store, self.gateway.lanes, self.order)

    async def _run(self) -> None:
        """Run as `service.main` does; a killed run skips the stop phases."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.store)
                await stack.enter_async_context(self.gateway)
                self.ready = True
                await self.stopping.wait()
                await self.gateway.stop(self.order, urgent=self.urgent)
            except asyncio.CancelledError:
                if self.killed:
                    stack.pop_all()
                raise

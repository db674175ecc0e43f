"""One run of a gateway: its process, and everything that ends with it."""

import asyncio
from contextlib import AsyncExitStack

from tests.state_machine.configs import RunConfig, settings_of
from tests.state_machine.environment import Environment
from tests.state_machine.model import SteppedModel
from tests.state_machine.platforms import DetachablePlatform, FetchedApiPlatform, NoSandboxes
from tests.state_machine.stepped_store import SteppedStore

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.core.crash_points import no_crash
from holdfast.core.ports.runtime import Tool
from holdfast.core.turns.model import ModelChoice
from holdfast.core.turns.stop import StopOrder
from holdfast.gateway.app import Gateway, GatewayDependencies
from holdfast.gateway.lifespan import RunningGateway
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
        self.gateway = Gateway(self._dependencies(environment, config))
        self.running = RunningGateway(self.gateway)
        self.task = environment.loop.create_task(self._run(), name="gateway run")

    def _dependencies(self, environment: Environment, config: RunConfig) -> GatewayDependencies:
        settings = settings_of(config)
        tools: list[Tool] = [*environment.held_tools.values(), DelegateTool(settings.delegate)]
        if config.schedules:
            tools.append(ScheduleTool())
        return GatewayDependencies(
            settings=settings,
            store=self.store,
            platforms=[self.platform, FetchedApiPlatform()],
            runners=NoSandboxes(),
            toolbox=ToolRegistry(tools).for_toolsets({tool.toolset for tool in tools}),
            lease=self.model.lease,
            model=ModelChoice(provider="local", name=config.model, why="a test"),
            api_key=None,
            secrets=[],
            judge=environment.judge,
            clock=environment.clock,
            alarm=environment.clock,
            new_id=environment.new_id,
            crash=no_crash,
            progress=self._progress,
            memory_providers=[environment.memory],
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
                await stack.enter_async_context(self.running)
                self.ready = True
                await self.stopping.wait()
                await self.running.stop(self.order, urgent=self.urgent)
            except asyncio.CancelledError:
                if self.killed:
                    stack.pop_all()
                raise

"""One life of a gateway of the machine: its process, and what dies with it."""

import asyncio
from contextlib import AsyncExitStack

from tests.state_machine.configs import Config, settings_of
from tests.state_machine.environment import Ground
from tests.state_machine.model import Voice
from tests.state_machine.platforms import Door, Fetched, NoRunners
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


class Life:
    """One process: what dies with it."""

    def __init__(self, ground: Ground, config: Config) -> None:
        self._ends = ground.ends
        self.config = config
        self.store = SteppedStore(ground.path, ground.weather)
        self.voice = Voice(ground.complaints, model=config.model)
        self.door = Door(ground.service)
        self.ready = False
        self.dead = False
        self.stopping = asyncio.Event()
        self.hurried = asyncio.Event()
        self.order: StopOrder | None = None  # None: a signal that nobody planned
        self.leaving = False
        self.gateway = Gateway(self._parts(ground, config))
        self.running = RunningGateway(self.gateway)
        self.task = ground.loop.create_task(self._live(), name="life")

    def _parts(self, ground: Ground, config: Config) -> GatewayDependencies:
        settings = settings_of(config)
        tools: list[Tool] = [*ground.held_tools.values(), DelegateTool(settings.delegate)]
        if config.schedules:
            tools.append(ScheduleTool())
        return GatewayDependencies(
            settings=settings,
            store=self.store,
            platforms=[self.door, Fetched()],
            runners=NoRunners(),
            toolbox=ToolRegistry(tools).for_toolsets({tool.toolset for tool in tools}),
            lease=self.voice.lease,
            model=ModelChoice(provider="local", name=config.model, why="a test"),
            api_key=None,
            secrets=[],
            judge=ground.judge,
            clock=ground.clock,
            alarm=ground.clock,
            new_id=ground.new_id,
            crash=no_crash,
            progress=self._progress,
            memory_providers=[ground.diary],
        )

    def _progress(self, state: str) -> None:
        # However it came to stop: also because it could not start. The dead say nothing.
        if state == "close intake" and not self.dead:
            self._ends.begins(self.store, self.gateway.lanes, self.order)

    async def _live(self) -> None:
        """As main does it; only the dead say no goodbye."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.store)
                await stack.enter_async_context(self.running)
                self.ready = True
                await self.stopping.wait()
                await self.running.stop(self.order, hurried=self.hurried)
            except asyncio.CancelledError:
                if self.dead:
                    stack.pop_all()
                raise

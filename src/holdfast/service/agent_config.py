"""Builds the agent configuration from the settings: model, API keys and tools."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.providers import BUILT_IN_PROVIDER
from holdfast.agent.memory.tool import MemoryTool
from holdfast.config import Config
from holdfast.core.config.settings import BrowserSettings, ModelSettings, Settings
from holdfast.core.ids import SessionId
from holdfast.core.ports.platform import Platform
from holdfast.core.ports.runtime import Clock, Tool
from holdfast.core.ports.store import Store
from holdfast.core.secrets import Secret
from holdfast.gateway.agents.factory import AgentConfig
from holdfast.models.fallback import ModelLeases
from holdfast.models.pool import ModelPool
from holdfast.models.selection import SelectedModel, select_model
from holdfast.runner.workspace import Workspace
from holdfast.tools.browser.pool import BrowserPool
from holdfast.tools.browser.tool import BrowserTool, is_browser_available
from holdfast.tools.registry import RUNNER_TOOLSETS, Toolbox, ToolRegistry, default_tools
from holdfast.tools.schedule import ScheduleTool
from holdfast.tools.send import SendFileTool, SendMessageTool
from holdfast.tools.session_search import SessionSearchTool

if TYPE_CHECKING:
    from holdfast.system.egress import EgressPolicy

_FALLBACK_PREFIX = "model.fallbacks["
_ACTIONS_PER_CALL = 4.0  # a call of the browser may open it, go somewhere and look


class ToolsetBuilder:
    """Builds the tools that agents of this gateway get, and owns the browsers behind one of them. A
    tool that cannot work here is not offered to any agent."""

    def __init__(
        self,
        browser: BrowserSettings,
        *,
        home: Path,
        store: Store,
        notes: Notes,
        clock: Clock,
        egress: Callable[[], "EgressPolicy"],
        runs_commands: bool = True,
    ) -> None:
        """`runs_commands`: commands and file tools may run on this machine."""
        self._chromium = browser.chromium
        self._home = home
        self._store = store
        self._notes = notes
        self._clock = clock
        self._egress = egress
        self._runs_commands = runs_commands
        self.browsers = BrowserPool(home, browser, save_file=self._save_file, egress=egress)

    def build_toolbox(self, settings: Settings, *, sends: bool, sends_files: bool) -> Toolbox:
        """The tools that agents get by these settings. `sends`: a platform of this gateway can
        deliver messages without being asked; `sends_files`: one of them can deliver files."""
        tools: list[Tool] = [
            *default_tools(settings.runner, egress=self._egress, runs_commands=self._runs_commands),
            *([SendFileTool()] if sends_files else []),
            *([SendMessageTool()] if sends else []),
            SessionSearchTool(self._store, clock=self._clock),
            MemoryTool(self._notes),
            DelegateTool(settings.delegate),
            ScheduleTool(),
        ]
        if self._can_browse:
            limit = settings.browser.action_timeout * _ACTIONS_PER_CALL
            tools.append(BrowserTool(self.browsers, limit=limit))
        registry = ToolRegistry(tools)
        offered = [
            name
            for name in settings.agent.toolsets
            if self._is_offered(name, settings.memory.providers, sends=sends)
            and (self._runs_commands or name not in RUNNER_TOOLSETS or name in registry.toolsets)
        ]
        return registry.for_toolsets(offered)

    @property
    def _can_browse(self) -> bool:
        return is_browser_available(self._chromium)

    def _is_offered(self, toolset: str, providers: Sequence[str], *, sends: bool) -> bool:
        if toolset == MemoryTool.toolset:
            return BUILT_IN_PROVIDER in providers
        if toolset == SendMessageTool.toolset:
            return sends
        return toolset != BrowserTool.toolset or self._can_browse

    async def _save_file(self, session_id: SessionId, name: str, data: bytes) -> str:
        return await asyncio.to_thread(Workspace(self._home, session_id).save_upload, name, data)


class AgentConfigBuilder:
    """Owns the model in use. It is chosen again only when the settings of the model change:
    otherwise, a local server that is down for a moment would move every chat to another model."""

    def __init__(
        self,
        pool: ModelPool,
        toolsets: ToolsetBuilder,
        *,
        token: Secret,
        model: SelectedModel,
        model_settings: ModelSettings,
    ) -> None:
        self._pool = pool
        self._toolsets = toolsets
        self._token = token
        self._model = model
        self._model_settings = model_settings

    async def model_for(self, config: Config) -> SelectedModel:
        if config.settings.model == self._model_settings:
            return self._model
        return await select_configured_model(config)

    def activate(self, config: AgentConfig, *, model_settings: ModelSettings) -> None:
        """Keep the model of this configuration, which is used from now on."""
        self._model = SelectedModel(settings=config.settings.model, choice=config.model)
        self._model_settings = model_settings

    def build(
        self,
        config: Config,
        *,
        settings: Settings,
        model: SelectedModel,
        platforms: Iterable[Platform],
    ) -> AgentConfig:
        """`settings` have the values of the start for keys that need a restart. Raises
        `InvalidTarget` for a model that cannot be called."""
        platforms_list = list(platforms)
        settings = msgspec.structs.replace(settings, model=model.settings)
        leases = ModelLeases(model.settings, self._pool, secrets=config.secrets)
        return AgentConfig(
            settings=settings,
            lease=leases.lease,
            model=model.choice,
            api_key=config.secret("model.api_key"),
            fallback_keys=[
                each for key, each in config.secrets.items() if key.startswith(_FALLBACK_PREFIX)
            ],
            toolbox=self._toolsets.build_toolbox(
                settings,
                sends=any(not each.capabilities.fetchable for each in platforms_list),
                sends_files=any(each.capabilities.attachments_out for each in platforms_list),
            ),
            secrets=[*config.secrets.values(), self._token],
        )


async def select_configured_model(config: Config) -> SelectedModel:
    """The model that answers, chosen where the settings leave that open."""
    origin = config.origins.get("model.provider", "")
    return await select_model(config.settings.model, origin=origin)

"""Builds the tools that agents of this gateway get; owns the browsers behind one of them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.providers import BUILT_IN_PROVIDER
from holdfast.agent.memory.tool import MemoryTool
from holdfast.core.config.settings import BrowserSettings, Settings
from holdfast.core.ids import SessionId
from holdfast.core.ports.runtime import Clock, Tool
from holdfast.core.ports.store import Store
from holdfast.runner.workspace import Workspace
from holdfast.tools.browser.pool import BrowserPool
from holdfast.tools.browser.tool import BrowserTool, is_browser_available
from holdfast.tools.registry import Toolbox, ToolRegistry, default_tools
from holdfast.tools.schedule import ScheduleTool
from holdfast.tools.send import SendFileTool, SendMessageTool
from holdfast.tools.session_search import SessionSearchTool

_ACTIONS_PER_CALL = 4.0  # a call of the browser may open it, go somewhere and look


class ToolsetBuilder:
    """Owns the browsers. A tool that cannot work here is not offered to any agent."""

    def __init__(
        self,
        browser: BrowserSettings,
        *,
        home: Path,
        store: Store,
        notes: Notes,
        clock: Clock,
    ) -> None:
        self._chromium = browser.chromium
        self._home = home
        self._store = store
        self._notes = notes
        self._clock = clock
        self.browsers = BrowserPool(home, browser, save_file=self._save_file)

    def build_toolbox(self, settings: Settings, *, sends: bool, sends_files: bool) -> Toolbox:
        """The tools that agents get by these settings. `sends`: a platform of this gateway can
        deliver messages without being asked; `sends_files`: one of them can deliver files."""
        tools: list[Tool] = [
            *default_tools(settings.runner),
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
        offered = [
            name
            for name in settings.agent.toolsets
            if self._is_offered(name, settings.memory.providers, sends=sends)
        ]
        return ToolRegistry(tools).for_toolsets(offered)

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

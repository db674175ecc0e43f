"""The workshop: the tools that agents of this gateway get, and what those tools hold."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from holdfast.agent.delegate_tool import Delegate
from holdfast.agent.memory.notes import Notes
from holdfast.agent.memory.providers import BUILT_IN
from holdfast.agent.memory.tool import MemoryTool
from holdfast.core.config.settings import BrowserSettings, Settings
from holdfast.core.ids import SessionId
from holdfast.core.ports.protocols import Clock, Store, Tool
from holdfast.runner.workspace import Workspace
from holdfast.tools.browser.pool import Browsers
from holdfast.tools.browser.tool import BrowserTool, can_browse
from holdfast.tools.registry import Registry, Toolbox, default_tools
from holdfast.tools.schedule import Schedule
from holdfast.tools.send_file import SendFile
from holdfast.tools.send_message import SendMessage
from holdfast.tools.session_search import SessionSearch

_ACTS_OF_A_CALL = 4.0  # a call of the browser may open it, go somewhere and look


class Workshop:
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
        self.browsers = Browsers(home, browser, keep=self._keep)

    def toolbox_for(self, settings: Settings, *, sends: bool, sends_files: bool) -> Toolbox:
        """What agents get by these settings. `sends`: a platform of this gateway takes messages
        that nobody fetches; `sends_files`: and one of them files."""
        tools: list[Tool] = [
            *default_tools(settings.runner),
            *([SendFile()] if sends_files else []),
            *([SendMessage()] if sends else []),
            SessionSearch(self._store, clock=self._clock),
            MemoryTool(self._notes),
            Delegate(settings.delegate),
            Schedule(),
        ]
        if self._can_browse:
            limit = settings.browser.action_timeout * _ACTS_OF_A_CALL
            tools.append(BrowserTool(self.browsers, limit=limit))
        offered = [
            name
            for name in settings.agent.toolsets
            if self._offered(name, settings.memory.providers, sends=sends)
        ]
        return Registry(tools).for_toolsets(offered)

    @property
    def _can_browse(self) -> bool:
        return can_browse(self._chromium)

    def _offered(self, toolset: str, providers: Sequence[str], *, sends: bool) -> bool:
        if toolset == MemoryTool.toolset:
            return BUILT_IN in providers
        if toolset == SendMessage.toolset:
            return sends
        return toolset != BrowserTool.toolset or self._can_browse

    async def _keep(self, session_id: SessionId, name: str, data: bytes) -> str:
        return await asyncio.to_thread(Workspace(self._home, session_id).put, name, data)

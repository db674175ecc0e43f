"""A gateway with the real tools that external content could misuse, and a site with its pages."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from tests.support.approvals import ApprovalHarness
from tests.support.gateway_harness import NoRunners

from holdfast.core.config.settings import SendSettings
from holdfast.core.errors import RunnerError
from holdfast.core.ids import CallId, SessionId
from holdfast.core.messages.transcript import ToolCall
from holdfast.core.net import IpAddress
from holdfast.core.people.approval import Approval
from holdfast.core.ports.sandbox import FileText
from holdfast.core.ports.store_queries import ListApprovals
from holdfast.core.turns.tool import Arguments, ToolContext, ToolOutput
from holdfast.system.egress import EgressPolicy
from holdfast.tools.fetch import FetchTool
from holdfast.tools.schedule import ScheduleTool
from holdfast.tools.send import SendMessageTool
from holdfast.tools.shell import LazyNetworkAnalyser, LazyShellJudge
from holdfast.tools.terminal import TerminalTool


class RecordingTerminal(TerminalTool):
    """The terminal without a sandbox: it records the commands that would run."""

    def __init__(self) -> None:
        super().__init__(limit=10, network=LazyNetworkAnalyser())
        self.commands: list[str] = []

    async def run(self, context: ToolContext, arguments: Arguments) -> ToolOutput:
        self.commands.append(str(arguments["command"]))
        effect = self.effect(arguments)
        return ToolOutput(text="output", sources=("command output",) if effect else ())


class EmptyWorkspace:
    """A sandbox without files: the judge of commands finds no script in it."""

    async def read_file(self, path: str, *, offset: int = 1, limit: int = 2000) -> FileText:
        raise RunnerError("{path} does not exist", path=path)


class EmptyWorkspaces(NoRunners):
    def sandbox(self, session_id: SessionId, *, shell: str = "") -> Any:
        return EmptyWorkspace()


class Site:
    """A web server on loopback. It answers as two hosts: 127.0.0.1 and localhost."""

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        self.redirects: dict[str, str] = {}
        self.requests: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def other_url(self) -> str:
        """The same server under another name."""
        return f"http://localhost:{self.port}"

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append(str(request.url))
        if target := self.redirects.get(request.path):
            raise web.HTTPFound(target)
        return web.Response(text=self.pages.get(request.path, "a page"), content_type="text/html")


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    site = Site()
    server = web.Server(site.handle)
    runner = web.ServerRunner(server)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    site.port = runner.addresses[0][1]
    try:
        yield site
    finally:
        await runner.cleanup()


def _only_loopback(address: IpAddress) -> bool:
    return address.is_loopback


class InjectionHarness(ApprovalHarness):
    """Messages to other chats are allowed without asking, as far as the configuration decides."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.runners = EmptyWorkspaces()
        self.with_notes = True
        self.terminal = RecordingTerminal()
        self.extra_tools = [
            self.terminal,
            FetchTool(lambda: EgressPolicy(is_allowed=_only_loopback)),
            ScheduleTool(),
            SendMessageTool(),
        ]
        self.judge = LazyShellJudge(workspaces=("/workspace",))
        self.settings = msgspec.structs.replace(
            self.settings, send=SendSettings(allow=("simulated:*",))
        )
        self._calls = 0

    def call(self, name: str, **arguments: Any) -> ToolCall:
        self._calls += 1
        return ToolCall(id=CallId(f"call{self._calls}"), name=name, arguments=json.dumps(arguments))

    async def questions(self) -> list[Approval]:
        """All approvals so far, oldest first."""
        return (await self.store.read(ListApprovals(limit=500)))[::-1]

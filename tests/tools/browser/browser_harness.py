"""A home with real browsers for the tests of the browser tool, also used from a second process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from holdfast.core.config.settings import BrowserSettings
from holdfast.core.ids import CallId, PrincipalId, SessionId
from holdfast.core.turns.tool import ToolContext, ToolOutput
from holdfast.system.egress import EgressPolicy
from holdfast.tools.browser.pool import BrowserPool
from holdfast.tools.browser.tool import BrowserTool

ANN, BEN = SessionId("s-ann"), SessionId("s-ben")


class BrowserHarness:
    """Owns a home with browsers, and records the files that they save into workspaces."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.policy = EgressPolicy()
        self.files: dict[str, bytes] = {}
        self.owners: dict[str, SessionId] = {}

    async def save_file(self, session_id: SessionId, name: str, data: bytes) -> str:
        self.files[name] = data
        self.owners[name] = session_id
        return name

    @asynccontextmanager
    async def browsers(self, **settings: Any) -> AsyncIterator[BrowserPool]:
        browser_settings = BrowserSettings(**({"allow_private": True} | settings))
        browsers = BrowserPool(
            self.home, browser_settings, save_file=self.save_file, egress=lambda: self.policy
        )
        try:
            yield browsers
        finally:
            await browsers.end_all()


async def use(browsers: BrowserPool, session_id: SessionId = ANN, /, **arguments: object) -> str:
    """Call the browser tool; the text of its output."""
    return (await run(browsers, session_id, **arguments)).text


async def run(
    browsers: BrowserPool, session_id: SessionId = ANN, /, **arguments: object
) -> ToolOutput:
    """Call the browser tool once."""
    context = ToolContext(
        session_id=session_id,
        principal=PrincipalId("p"),
        call_id=CallId("c"),
        sandbox=None,  # type: ignore[arg-type]  # this tool does not use it
    )
    return await BrowserTool(browsers, limit=40).run(context, arguments)

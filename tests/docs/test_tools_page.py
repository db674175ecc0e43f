"""docs/tools.md: every tool, with the toolset, replay class and danger it declares."""

from tests.support.doc_pages import Pages

from holdfast.agent.delegate_tool import DelegateTool
from holdfast.agent.memory.tool import MemoryTool
from holdfast.core.config.settings import TOOLSETS, RunnerSettings
from holdfast.runner.bubblewrap import SPOOL, WORKSPACE
from holdfast.system import exit_codes
from holdfast.system.egress import EgressPolicy
from holdfast.tools.browser.tool import BrowserTool
from holdfast.tools.registry import default_tools
from holdfast.tools.schedule import ScheduleTool
from holdfast.tools.send import SendFileTool, SendMessageTool
from holdfast.tools.session_search import SessionSearchTool

HELD = (
    BrowserTool,
    DelegateTool,
    MemoryTool,
    ScheduleTool,
    SendFileTool,
    SendMessageTool,
    SessionSearchTool,
)


def test_the_page_has_every_tool_as_it_declares_itself(page: Pages) -> None:
    rows = page("docs/tools.md").named()
    declared = {
        tool.schema.name: [f"`{tool.toolset}`", f"`{tool.replay}`", f"`{tool.danger}`"]
        for tool in (*default_tools(RunnerSettings(), egress=EgressPolicy), *HELD)
    }
    assert {name: row[1:4] for name, row in rows.items() if name in declared} == declared
    assert {toolset for toolset, _, _ in declared.values()} == {f"`{name}`" for name in TOOLSETS}


def test_the_page_shows_the_sandbox_by_its_real_paths(page: Pages) -> None:
    rows = page("docs/tools.md").named()
    assert {WORKSPACE, SPOOL, "/usr", "/tmp"} <= set(rows)


def test_the_operating_page_has_every_exit_code(page: Pages) -> None:
    codes = {value for name, value in vars(exit_codes).items() if name.isupper()}
    rows = page("docs/operating.md").named()
    assert codes == {int(name) for name in rows if name.isdigit()}

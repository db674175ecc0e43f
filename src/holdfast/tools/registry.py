"""The tools that need nothing of the gateway, and the toolboxes that agents get."""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.config.settings import NetworkMode, RunnerSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.runtime import Tool
from holdfast.core.turns.model import ToolSchema
from holdfast.core.turns.tool import ToolFailed
from holdfast.tools.fetch import FetchTool
from holdfast.tools.files import EditTool, FileSearchTool, ReadTool, WriteTool
from holdfast.tools.shell import LazyNetworkAnalyser
from holdfast.tools.terminal import ProcessTool, TerminalTool
from holdfast.tools.todo import TodoTool

if TYPE_CHECKING:
    from holdfast.system.egress import EgressPolicy


class Toolbox(msgspec.Struct, frozen=True):
    """What one agent may use. The schemas are always in the same order: they are sent with
    every request, and the provider's cache wants them byte for byte the same."""

    schemas: tuple[ToolSchema, ...]
    by_name: Mapping[str, Tool]

    def find(self, name: str) -> Tool:
        """Raises `ToolFailed`, for the model, where there is no such tool."""
        if name in self.by_name:
            return self.by_name[name]
        known = ", ".join(self.by_name) or "none"
        raise ToolFailed(f"there is no tool {name!r}; the tools are: {known}")

    def restricted_to(self, toolsets: Iterable[str]) -> "Toolbox":
        """What of this is in these toolsets, in the same order."""
        toolset_names = frozenset(toolsets)
        return _make_toolbox(
            tool for tool in self.by_name.values() if tool.toolset in toolset_names
        )


class ToolRegistry:
    """Owns the tools, and the toolbox of each set of toolsets, built once."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = tuple(tools)
        self._toolboxes: dict[frozenset[str], Toolbox] = {}

    @property
    def toolsets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tool.toolset for tool in self._tools))

    def for_toolsets(self, names: Iterable[str]) -> Toolbox:
        """The toolbox of these toolsets, independent of their order."""
        toolset_names = frozenset(names)
        if toolset_names not in self._toolboxes:
            for name in sorted(toolset_names):
                self._check_toolset(name)
            self._toolboxes[toolset_names] = _make_toolbox(
                tool for tool in self._tools if tool.toolset in toolset_names
            )
        return self._toolboxes[toolset_names]

    def _check_toolset(self, name: str) -> None:
        if name in self.toolsets:
            return
        import difflib  # noqa: PLC0415 - for an error alone

        near = difflib.get_close_matches(name, self.toolsets, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(self.toolsets)
        raise HoldfastError(
            "there is no toolset {name!r}.{hint} There are: {known}",
            name=name,
            hint=hint,
            known=known,
        )


def _make_toolbox(tools: Iterable[Tool]) -> Toolbox:
    by_name = {tool.schema.name: tool for tool in tools}
    schemas = tuple(tool.schema for tool in by_name.values())
    return Toolbox(schemas, MappingProxyType(by_name))


RUNNER_TOOLSETS = frozenset({TerminalTool.toolset, ReadTool.toolset})


def default_tools(
    settings: RunnerSettings,
    *,
    egress: Callable[[], "EgressPolicy"],
    runs_commands: bool = True,
) -> tuple[Tool, ...]:
    """The tools of every gateway, in the order in which models see them. `ToolsetBuilder`
    (`service/agent_config.py`) adds those that need parts of the gateway. Without `runs_commands`,
    those that work through the session's runner are left out: commands, processes and files."""
    network = None if settings.network is NetworkMode.NONE else LazyNetworkAnalyser()
    runner_tools = (
        TerminalTool(limit=settings.command_timeout, network=network),
        ProcessTool(network=network),
        ReadTool(),
        WriteTool(),
        EditTool(),
        FileSearchTool(),
    )
    return (*(runner_tools if runs_commands else ()), TodoTool(), FetchTool(egress))

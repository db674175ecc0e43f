"""The registry: every tool there is, and the toolboxes that agents get of them."""

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.ports.protocols import Tool
from holdfast.core.turns.model import ToolSchema
from holdfast.core.turns.tool import ToolFailed
from holdfast.tools.fetch import Fetch
from holdfast.tools.files import Edit, Read, Search, Write
from holdfast.tools.process import Process
from holdfast.tools.terminal import Terminal
from holdfast.tools.todo import Todo


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

    def only(self, toolsets: Iterable[str]) -> "Toolbox":
        """What of this is in these toolsets, in the same order."""
        wanted = frozenset(toolsets)
        return _box(tool for tool in self.by_name.values() if tool.toolset in wanted)


class Registry:
    """Owns the tools, and the toolbox of each set of toolsets, built once."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = tuple(tools)
        self._boxes: dict[frozenset[str], Toolbox] = {}

    @property
    def toolsets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tool.toolset for tool in self._tools))

    def for_toolsets(self, names: Iterable[str]) -> Toolbox:
        """The toolbox of these toolsets, in whatever order they are named."""
        wanted = frozenset(names)
        if wanted not in self._boxes:
            for name in sorted(wanted):
                self._check(name)
            self._boxes[wanted] = _box(tool for tool in self._tools if tool.toolset in wanted)
        return self._boxes[wanted]

    def _check(self, name: str) -> None:
        if name in self.toolsets:
            return
        near = difflib.get_close_matches(name, self.toolsets, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(self.toolsets)
        raise HoldfastError(f"there is no toolset {name!r}.{hint} There are: {known}")


def _box(tools: Iterable[Tool]) -> Toolbox:
    by_name = {tool.schema.name: tool for tool in tools}
    schemas = tuple(tool.schema for tool in by_name.values())
    return Toolbox(schemas, MappingProxyType(by_name))


def default_tools(settings: RunnerSettings) -> tuple[Tool, ...]:
    """Those that every gateway has, in the order in which models see them; `workshop.py` adds what
    holds something of the gateway's."""
    return (
        Terminal(limit=settings.command_timeout),
        Process(),
        Read(),
        Write(),
        Edit(),
        Search(),
        Todo(),
        Fetch(),
    )

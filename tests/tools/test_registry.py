"""The tool registry: toolboxes by toolset, and small schemas."""

import msgspec
import pytest

from holdfast.core.config.settings import RunnerSettings
from holdfast.core.errors import HoldfastError
from holdfast.core.turns.tool import Danger, ReplayClass, ToolFailed
from holdfast.system.egress import EgressPolicy
from holdfast.tools.registry import ToolRegistry, default_tools


@pytest.fixture
def registry() -> ToolRegistry:
    return ToolRegistry(default_tools(RunnerSettings(), egress=EgressPolicy))


def test_a_toolbox_has_its_tools_in_a_fixed_order(registry: ToolRegistry) -> None:
    box = registry.for_toolsets(["web", "terminal"])
    assert [schema.name for schema in box.schemas] == ["terminal", "process", "fetch"]
    assert registry.for_toolsets(["terminal", "web"]) is box
    assert registry.for_toolsets([]).schemas == ()


def test_an_unknown_toolset_is_refused_with_the_nearest_name(registry: ToolRegistry) -> None:
    with pytest.raises(HoldfastError, match=r"no toolset 'file'. Did you mean 'files'\?"):
        registry.for_toolsets(["file"])


def test_an_unknown_tool_is_reported_to_the_model(registry: ToolRegistry) -> None:
    box = registry.for_toolsets(["todo"])
    assert box.find("todo") is box.by_name["todo"]
    with pytest.raises(ToolFailed, match="no tool 'bash'; the tools are: todo"):
        box.find("bash")


def test_every_schema_is_plain_and_all_of_them_are_small(registry: ToolRegistry) -> None:
    box = registry.for_toolsets(registry.toolsets)
    text = msgspec.json.encode(box.schemas)
    assert len(text) <= 3500
    assert b"$ref" not in text and b"$defs" not in text and b"anyOf" not in text
    for schema in box.schemas:
        assert schema.parameters["type"] == "object"
        assert schema.parameters["additionalProperties"] is False


def test_replay_and_danger_are_declared(registry: ToolRegistry) -> None:
    box = registry.for_toolsets(registry.toolsets)
    declared = {name: (tool.replay, tool.danger) for name, tool in box.by_name.items()}
    assert declared == {
        "terminal": (ReplayClass.ATTACH, Danger.CONFINED),
        "process": (ReplayClass.ATTACH, Danger.CONFINED),
        "read": (ReplayClass.SAFE, Danger.NONE),
        "write": (ReplayClass.ATTACH, Danger.NONE),
        "edit": (ReplayClass.ATTACH, Danger.NONE),
        "search": (ReplayClass.SAFE, Danger.NONE),
        "todo": (ReplayClass.SAFE, Danger.NONE),
        "fetch": (ReplayClass.SAFE, Danger.OUTSIDE),
    }

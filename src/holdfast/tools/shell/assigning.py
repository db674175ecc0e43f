"""Assigning: variables set for good or for one command, and those that are more than values."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.run import Hazard
from holdfast.tools.shell.shell import ShellState
from holdfast.tools.shell.words import WordExpander

if TYPE_CHECKING:
    from tree_sitter import Node

_MAX_VALUE = 100_000  # beyond it, a value that doubles itself would be all the memory
# fmt: off
_COMMAND_VARIABLES = frozenset((
    "GIT_SSH_COMMAND", "GIT_SSH", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "SSH_ASKPASS", "EDITOR", "VISUAL", "PAGER",
    "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "PROMPT_COMMAND", "RUSTC_WRAPPER", "RSYNC_RSH",
))
# fmt: on
_NAMEREF = re.compile(rb"(?:declare|typeset|local)\s+-[a-zA-Z]*n")
_PRELOAD_VARIABLES = frozenset(("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"))
_TRUSTED_LOCATIONS = frozenset((PathLocation.INSIDE, PathLocation.SYSTEM))


class AssignmentContext(Protocol):
    shell: ShellState
    words: WordExpander

    def walk_nested_script(self, script: str, *, part: str, inline: bool = False) -> str: ...
    def add_hazard(self, sight: Hazard, part: str) -> None: ...


class Assignments:
    def __init__(self, context: AssignmentContext) -> None:
        self._context = context

    def assign(self, node: "Node") -> None:
        """`x=…`, alone, many, or after `export`."""
        if node.type == "variable_assignment":
            self._assign_one(node)
            return
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign_one(child)
                if _NAMEREF.match(node.text or b""):
                    self._follow_nameref(_variable_name(child))
            elif child.child_count:
                self._context.words.text(child)

    @contextmanager
    def for_one_command(self, nodes: list["Node"]) -> Iterator[None]:
        """`x=… command`: within, they are set; afterwards all is as it was before."""
        variables = self._context.shell.variables
        before = {name: variables.get(name) for name in map(_variable_name, nodes)}
        for node in nodes:
            self._assign_one(node)
        yield
        for name, value in before.items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value

    def _assign_one(self, node: "Node") -> None:
        name, value = _variable_name(node), node.child_by_field_name("value")
        if not name:
            return
        text = "" if value is None else self._value(value)
        if b"+=" in (node.text or b"")[: len(name.encode()) + 2]:
            text = self._context.shell.variables.get(name, UNKNOWN) + text
        if len(text) > _MAX_VALUE:
            text = UNKNOWN
        self._context.shell.variables[name] = text
        self._check_special(name, text)

    def _follow_nameref(self, name: str) -> None:
        """What a reference names is known as it stands now, if at all."""
        variables = self._context.shell.variables
        value = self._context.shell.variable(variables.get(name, ""))
        variables[name] = UNKNOWN if value is None else value

    def _value(self, node: "Node") -> str:
        if node.type != "array":
            return self._context.words.text(node)
        return " ".join(
            word for child in node.named_children for word in self._context.words.fields(child)
        )

    def _check_special(self, name: str, value: str) -> None:
        """Some are commands that other programs run, or libraries that they load."""
        if name in _COMMAND_VARIABLES and value:
            outer, self._context.shell = self._context.shell, self._context.shell.copy()
            self._context.walk_nested_script(value, part=f"{name}={value}")
            self._context.shell = outer
        if name in _PRELOAD_VARIABLES and value:
            place = self._context.shell.paths
            if not {place.locate(path) for path in value.split(":") if path} <= _TRUSTED_LOCATIONS:
                self._context.add_hazard(Hazard.FOREIGN_LIBRARY, f"{name}={value}")


def _variable_name(node: "Node") -> str:
    name = node.child_by_field_name("name")
    return "" if name is None else (name.text or b"").decode(errors="replace")

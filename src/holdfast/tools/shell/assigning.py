"""Assigning: variables set for good or for one command, and those that are more than values."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.run import Sight
from holdfast.tools.shell.shell import Shell
from holdfast.tools.shell.words import Words

if TYPE_CHECKING:
    from tree_sitter import Node

_LONGEST_VALUE = 100_000  # beyond it, a value that doubles itself would be all the memory
# fmt: off
_COMMANDS = frozenset((
    "GIT_SSH_COMMAND", "GIT_SSH", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_ASKPASS",
    "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND", "SSH_ASKPASS", "EDITOR", "VISUAL", "PAGER",
    "MANPAGER", "BROWSER", "LESSOPEN", "LESSCLOSE", "PROMPT_COMMAND", "RUSTC_WRAPPER", "RSYNC_RSH",
))
# fmt: on
_REFERS = re.compile(rb"(?:declare|typeset|local)\s+-[a-zA-Z]*n")
_LIBRARIES = frozenset(("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"))
_TRUSTED = frozenset((Ground.INSIDE, Ground.SYSTEM))


class Reader(Protocol):
    shell: Shell
    words: Words

    def read_code(self, script: str, *, part: str, given: bool = False) -> str: ...
    def see(self, sight: Sight, part: str) -> None: ...


class Assignments:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def assign(self, node: "Node") -> None:
        """`x=…`, alone, many, or after `export`."""
        if node.type == "variable_assignment":
            self._assign_one(node)
            return
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign_one(child)
                if _REFERS.match(node.text or b""):
                    self._refer(_name(child))
            elif child.child_count:
                self._reader.words.text(child)

    @contextmanager
    def alone(self, nodes: list["Node"]) -> Iterator[None]:
        """`x=… command`: within, they are set; afterwards all is as it was before."""
        variables = self._reader.shell.variables
        before = {name: variables.get(name) for name in map(_name, nodes)}
        for node in nodes:
            self._assign_one(node)
        yield
        for name, value in before.items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value

    def _assign_one(self, node: "Node") -> None:
        name, value = _name(node), node.child_by_field_name("value")
        if not name:
            return
        text = "" if value is None else self._value(value)
        if b"+=" in (node.text or b"")[: len(name.encode()) + 2]:
            text = self._reader.shell.variables.get(name, UNKNOWN) + text
        if len(text) > _LONGEST_VALUE:
            text = UNKNOWN
        self._reader.shell.variables[name] = text
        self._notice(name, text)

    def _refer(self, name: str) -> None:
        """What a reference names is known as it stands now, if at all."""
        variables = self._reader.shell.variables
        value = self._reader.shell.variable(variables.get(name, ""))
        variables[name] = UNKNOWN if value is None else value

    def _value(self, node: "Node") -> str:
        if node.type != "array":
            return self._reader.words.text(node)
        return " ".join(
            word for child in node.named_children for word in self._reader.words.fields(child)
        )

    def _notice(self, name: str, value: str) -> None:
        """Some are commands that other programs run, or libraries that they load."""
        if name in _COMMANDS and value:
            outer, self._reader.shell = self._reader.shell, self._reader.shell.copy()
            self._reader.read_code(value, part=f"{name}={value}")
            self._reader.shell = outer
        if name in _LIBRARIES and value:
            place = self._reader.shell.place
            if not {place.ground(path) for path in value.split(":") if path} <= _TRUSTED:
                self._reader.see(Sight.FOREIGN_LIBRARY, f"{name}={value}")


def _name(node: "Node") -> str:
    name = node.child_by_field_name("name")
    return "" if name is None else (name.text or b"").decode(errors="replace")

"""What is known of the shell at the point that is analysed: variables, functions, aliases,
files, directory, and what runs in parallel."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.paths import PathResolver

if TYPE_CHECKING:
    from tree_sitter import Node


_MAX_ALTERNATIVES = 4


@dataclass
class ShellState:
    """One shell; a sub-shell is a `copy`. Files are of the machine, and shared."""

    paths: PathResolver
    variables: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Any] = field(default_factory=dict)  # bodies, as nodes of the grammar
    aliases: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)  # what they are known to hold
    arguments: tuple[str, ...] | None = None  # of the function that runs
    alternative_paths: tuple[PathResolver, ...] = ()  # where it may stand as well

    def copy(self) -> "ShellState":
        return ShellState(
            paths=self.paths,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
            files=self.files,
            arguments=self.arguments,
            alternative_paths=self.alternative_paths,
        )

    def variable(self, name: str) -> str | None:
        """Its value; None: nobody knows."""
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return self.paths.cwd
        if self.arguments is not None:
            return _positional_argument(self.arguments, name)
        return None

    @contextlib.contextmanager
    def uncertain(self, *, directory: bool = False) -> Iterator[None]:
        """What happens within may not happen: a variable that had a value and has another is
        unknown after it. `folder`: the folder from before is one where it may still stand."""
        before, place = dict(self.variables), self.paths
        yield
        for name, value in before.items():
            if self.variables.get(name) != value:
                self.variables[name] = UNKNOWN
        if directory and self.paths != place and place not in self.alternative_paths:
            self.alternative_paths = (*self.alternative_paths, place)[-_MAX_ALTERNATIVES:]


def _positional_argument(arguments: tuple[str, ...], name: str) -> str | None:
    if name in ("@", "*"):
        return " ".join(arguments)
    if name == "#":
        return str(len(arguments))
    if name.isdecimal() and name != "0":
        at = int(name) - 1
        return arguments[at] if at < len(arguments) else ""
    return None


def default_variables(home: str) -> dict[str, str]:
    return {
        "HOME": home,
        "IFS": " \t\n",
        "TMPDIR": "/tmp",
        "USER": "agent",
        "SHELL": "/bin/bash",
        "BASH": "/bin/bash",
        "UID": UNKNOWN,
    }


_ALWAYS_TRUE = frozenset(
    ("true", ":", "/bin/true", "[ 1 ]", "[[ 1 ]]", "((1))", "(( 1 ))", "! false")
)
_PAUSES = ("sleep", "wait", "read", "inotifywait", "break", "exit")
_MAX_DEPTH = 6


class ConcurrencyTracker:
    """Owns which functions run at the place that is being read, and what runs beside it."""

    def __init__(self) -> None:
        self._parallel = 0  # pipes and `&` around this place
        self._running: list[tuple[Node, int]] = []  # bodies, and what ran beside them then
        self._called: set[str] = set()

    @property
    def is_parallel(self) -> bool:
        return self._parallel > 0

    @contextmanager
    def in_parallel(self) -> Iterator[None]:
        """Within, more runs at the same time."""
        self._parallel += 1
        yield
        self._parallel -= 1

    def note_call(self, name: str) -> None:
        self._called.add(name)

    def was_called(self, name: str) -> bool:
        return name in self._called

    def is_running(self, body: "Node") -> bool:
        return any(known == body for known, _ in self._running)

    def recurses_in_parallel(self, body: "Node") -> bool:
        """Whether a function that runs and calls itself does so with more of it beside."""
        return any(known == body and self._parallel > before for known, before in self._running)

    @contextmanager
    def running(self, body: "Node") -> Iterator[None]:
        self._running.append((body, self._parallel))
        yield
        self._running.pop()


def spawns_forever(loop: "Node") -> bool:
    """Whether a loop has no end and starts something in each round without waiting for it."""
    condition, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
    if condition is None:
        forever = loop.type == "c_style_for_statement"
    else:
        forever = _node_text(condition) in _ALWAYS_TRUE
    return forever and body is not None and _spawns(body)


def _spawns(body: "Node") -> bool:
    text = _node_text(body)
    if any(pause in text for pause in _PAUSES):
        return False
    return any(child.type == "&" for child in _descendants(body, _MAX_DEPTH))


def _descendants(node: "Node", depth: int) -> Iterator["Node"]:
    for child in node.children:
        yield child
        if depth:
            yield from _descendants(child, depth - 1)


def _node_text(node: "Node") -> str:
    return (node.text or b"").decode(errors="replace")

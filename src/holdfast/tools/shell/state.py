"""What is known of the shell at the point that is analysed: variables, functions, aliases,
files, directory, and what runs in parallel."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.parser import node_text
from holdfast.tools.shell.paths import PathResolver

if TYPE_CHECKING:
    from tree_sitter import Node


_MAX_ALTERNATIVES = 4
_ALWAYS_TRUE = frozenset(
    ("true", ":", "/bin/true", "[ 1 ]", "[[ 1 ]]", "((1))", "(( 1 ))", "! false")
)
_PAUSES = ("sleep", "wait", "read", "inotifywait", "break", "exit")
_MAX_DEPTH = 6


@dataclass
class ShellState:
    """The state of one shell; a subshell is a `copy`. Files are shared by all of them."""

    paths: PathResolver
    variables: dict[str, str] = field(default_factory=dict)
    functions: dict[str, Any] = field(default_factory=dict)  # bodies, as syntax nodes
    aliases: dict[str, str] = field(default_factory=dict)
    files: "KnownFiles" = field(default_factory=lambda: KnownFiles())  # contents by path
    arguments: tuple[str, ...] | None = None  # of the function that runs
    alternative_paths: tuple[PathResolver, ...] = ()  # other possible directories

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
        """The value of a variable; None: unknown."""
        if name in self.variables:
            return self.variables[name]
        if name == "PWD":
            return self.paths.cwd
        if self.arguments is not None:
            return _positional_argument(self.arguments, name)
        return None

    @contextlib.contextmanager
    def uncertain(self, *, directory: bool = False) -> Iterator[None]:
        """For code that may not run: a variable that it changes is unknown afterwards. `directory`:
        the directory from before stays a possible one."""
        before, paths = dict(self.variables), self.paths
        yield
        for name, value in before.items():
            if self.variables.get(name) != value:
                self.variables[name] = UNKNOWN
        if directory and self.paths != paths and paths not in self.alternative_paths:
            self.alternative_paths = (*self.alternative_paths, paths)[-_MAX_ALTERNATIVES:]


class KnownFiles(dict[str, str]):
    """Owns the known contents of files by path, and which scripts were run that are not known."""

    def __init__(self) -> None:
        super().__init__()
        self.unknown_scripts: dict[str, None] = {}

    def script(self, path: str) -> str | None:
        """The contents of a file that is run."""
        if path not in self:
            self.unknown_scripts[path] = None
        return self.get(path)


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


class ConcurrencyTracker:
    """Owns which functions run at the analysed point, and how much runs in parallel to it."""

    def __init__(self) -> None:
        self._parallel = 0  # pipes and `&` around this point
        self._running: list[tuple[Node, int]] = []  # bodies, and `_parallel` at their call
        self._called: set[str] = set()

    @property
    def is_parallel(self) -> bool:
        return self._parallel > 0

    @contextmanager
    def in_parallel(self) -> Iterator[None]:
        """For code that runs in parallel to other code."""
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
        """Whether a running function calls itself in parallel to itself."""
        return any(known == body and self._parallel > before for known, before in self._running)

    @contextmanager
    def running(self, body: "Node") -> Iterator[None]:
        self._running.append((body, self._parallel))
        yield
        self._running.pop()


def spawns_forever(loop: "Node") -> bool:
    """Whether an endless loop starts a background process in each iteration without waiting."""
    condition, body = loop.child_by_field_name("condition"), loop.child_by_field_name("body")
    if condition is None:
        forever = loop.type == "c_style_for_statement"
    else:
        forever = node_text(condition) in _ALWAYS_TRUE
    return forever and body is not None and _spawns(body)


def _spawns(body: "Node") -> bool:
    text = node_text(body)
    if any(pause in text for pause in _PAUSES):
        return False
    return any(child.type == "&" for child in _descendants(body, _MAX_DEPTH))


def _descendants(node: "Node", depth: int) -> Iterator["Node"]:
    for child in node.children:
        yield child
        if depth:
            yield from _descendants(child, depth - 1)

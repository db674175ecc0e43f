"""The shell's state as far as it is known: variables, functions, aliases, files, folder."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.paths import PathResolver

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

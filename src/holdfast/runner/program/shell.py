"""The shell that runs a command, and the terminal state (directory, variables) that it leaves
for the next one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from . import spool
from .protocol import RunnerRefusal
from .spool import Spool

MAX_COMMAND = 100_000  # bytes; the kernel takes 128 KiB in one argument
MAX_STATE = 512 * 1024  # past this the next exec would fail: arguments share the room
RESERVED_PREFIX = "__holdfast"
VOLATILE_VARIABLES = frozenset({"_", "SHLVL", "PWD"})
STATE_END = b"\0\0END"

# The state is written once: after the command, or, when it says `exit` or `set -e` ends it,
# by the trap. `>|` because of `set -C`; everything in braces with stderr closed, so that
# `set -x` does not show it; `command` because the command may have defined functions.
STATE_WRAPPER = r"""
__holdfast=$1 __holdfast_file=$2 __holdfast_done=; shift 2
__holdfast_dump='{
  command pwd && command printf "\0" && /usr/bin/env -0 && command printf "\0END"
} >|"$__holdfast_file"'
trap '{
  __holdfast=$?
  if [ -z "$__holdfast_done" ]; then __holdfast_done=1; eval "$__holdfast_dump"; fi
  exit $__holdfast
} 2>/dev/null' EXIT
eval "$__holdfast"
{
  __holdfast=$?; __holdfast_done=1; eval "$__holdfast_dump"
  exit $__holdfast
} 2>/dev/null
"""


def shell_path() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def check_command(command: str) -> None:
    """Raise `RunnerRefusal` for what no shell can be given."""
    if len(command.encode()) > MAX_COMMAND:
        raise RunnerRefusal("the command is too long: write it to a file and run that file")
    if "\0" in command:
        raise RunnerRefusal("the command holds a NUL byte, which no shell can be given")


def shell_arguments(command: str, state_file: str | None = None) -> list[str]:
    """What to execute; with a `state_file`, the wrapper leaves cwd and variables there."""
    path = shell_path()
    name = os.path.basename(path)
    options = ["--noprofile", "--norc"] if name == "bash" else []
    if state_file is None:
        return [path, *options, "-c", command, name]
    return [path, *options, "-c", STATE_WRAPPER, name, command, state_file]


def parse_state(data: bytes) -> tuple[str, dict[str, str]] | None:
    """cwd and variables as the wrapper left them; None: unfinished, or too large to keep."""
    if not data.endswith(STATE_END) or len(data) > MAX_STATE:
        return None
    cwd, _, rest = data[: -len(STATE_END)].partition(b"\0")
    variables = {}
    for entry in rest.split(b"\0"):
        name, equals, value = os.fsdecode(entry).partition("=")
        if (
            equals
            and name
            and not name.startswith(RESERVED_PREFIX)
            and name not in VOLATILE_VARIABLES
        ):
            variables[name] = value
    return os.fsdecode(cwd[:-1]), variables


def _valid_variables(
    saved: Any, initial: dict[str, str], proxy_variables: Mapping[str, str]
) -> dict[str, str]:
    """The saved variables that can be given to a program: a command may have written them. The
    proxy may have come or gone since they were saved."""
    if not isinstance(saved, dict):
        return initial
    fine = {str(name): str(value) for name, value in saved.items()}
    fine = {k: v for k, v in fine.items() if k and "=" not in k and "\0" not in k + v}
    for name, value in proxy_variables.items():
        if name in initial:
            fine.setdefault(name, value)
        elif fine.get(name) == value:
            del fine[name]
    return fine


class ShellTerminal:
    """Owns cwd and exported variables; a successor of this runner finds them in the spool."""

    def __init__(
        self,
        *,
        path: str,
        home: str,
        environment: dict[str, str],
        proxy_variables: Mapping[str, str],
        cwd: str = "",
    ) -> None:
        self._path, self._home = path, home
        saved: dict[str, Any] = spool.read_record(path) or {}
        self.cwd: str = str(saved.get("cwd", cwd or home))
        self.environment = _valid_variables(saved.get("environment"), environment, proxy_variables)

    def working_folder(self) -> tuple[str, str]:
        """Where the next command runs, and what to say if that is not where the last one ended."""
        if os.path.isdir(self.cwd) and os.access(self.cwd, os.X_OK):
            return self.cwd, ""
        lost, self.cwd = self.cwd, self._home
        return self._home, f"[{lost} is gone; working in {self._home}]\n"

    def update_from(self, data: bytes) -> None:
        state = parse_state(data)
        if state is None or state == (self.cwd, self.environment):
            return
        self.cwd, self.environment = state
        spool.try_to_write_durably(self._path, {"cwd": self.cwd, "environment": self.environment})


class ShellTerminals:
    """Owns the session's own terminal, and those of the subagents that share its workspace."""

    def __init__(
        self,
        spool: Spool,
        *,
        home: str,
        environment: dict[str, str],
        proxy_variables: Mapping[str, str],
    ) -> None:
        """`proxy_variables` are those by which programs find the egress proxy; `environment` has
        them if there is one."""
        self._spool, self._home, self._proxy_variables = spool, home, proxy_variables
        self._own = ShellTerminal(
            path=spool.terminal,
            home=home,
            environment=environment,
            proxy_variables=proxy_variables,
        )
        self._named: dict[str, ShellTerminal] = {}

    def find(self, frame: Mapping[str, Any]) -> ShellTerminal:
        """The terminal that a request means. A new one begins where the session's own is."""
        name = str(frame.get("shell") or "")
        if not name:
            return self._own
        if name not in self._named:
            own = self._own
            self._named[name] = ShellTerminal(
                path=self._spool.shell(name),
                home=self._home,
                environment=dict(own.environment),
                proxy_variables=self._proxy_variables,
                cwd=own.cwd,
            )
        return self._named[name]

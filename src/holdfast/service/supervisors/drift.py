"""Drift: where an installed unit disagrees with the configuration that runs by it."""

import math
import os
import pwd
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.service.supervisors import unit_file
from holdfast.service.supervisors.unit import MEND, NAME, Scope, Unit
from holdfast.system import exits

_CUT = "It would be killed half-way: nothing is lost, but turns are cut."
_GONE = "The gateway does not come back after a boot or a crash."
_ANOTHER = "After a boot or a crash another one runs than the one you see now."


class Wrong(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that an installed unit does otherwise than it should."""

    what: str  # goes on after the name of the file
    why: str
    broken: bool = False  # a gateway cannot run by it


def wrong(text: str, *, unit: Unit) -> list[Wrong]:
    """What the text of a systemd unit does otherwise than the one that would be written today."""
    return [
        *_stop(unit_file.stop_seconds(text), unit),
        *_command(unit_file.command(text, specifiers={"h": _own_home()}), unit),
        *_statuses(text),
        *_kind(text),
    ]


def wrong_job(document: dict[str, object], *, unit: Unit) -> list[Wrong]:
    """The same for a property list of launchd's."""
    given = document.get("ExitTimeOut", 20)  # launchd's own, where a file does not say
    words = document.get("ProgramArguments")
    kept = document.get("KeepAlive") == {"SuccessfulExit": False}
    patience = (given or math.inf) if isinstance(given, int) else None
    return [
        *_stop(patience, unit),
        *_command([str(word) for word in words] if isinstance(words, list) else [], unit),
        *([] if kept else [Wrong(what="keeps it otherwise than after a failure", why=_GONE)]),
    ]


def drift(found: Sequence[Wrong], *, unit: Unit, file: Path) -> list[str]:
    """A sentence each, for a log or a status: what is wrong, and the command that mends it."""
    return [f"{file} {each.what}. {each.why} To mend it: `{mend(unit)}`." for each in found]


def mend(unit: Unit) -> str:
    """The command that writes the unit anew. It finds name and scope by itself, from the home."""
    usual = unit.name == NAME and unit.scope is Scope.USER
    return MEND if usual else f"{MEND} --home {shlex.quote(str(unit.home))}"


def _own_home() -> str:
    """What systemd puts for `%h`; a user without a name has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _stop(given: float | None, unit: Unit) -> Iterator[Wrong]:
    needed = unit.stop_seconds
    if given is None:
        yield Wrong(what="gives a stop no time that can be read", why=_CUT)
    elif given < needed:
        told = f"gives a stop {given:g} s, and this configuration may need {needed:g} s"
        yield Wrong(what=told, why=_CUT)


def _command(command: Sequence[str], unit: Unit) -> Iterator[Wrong]:
    program = command[0] if command else ""
    if not program or not os.access(program, os.X_OK):
        told = f"starts {program or 'nothing'}, which is no program here"
        yield Wrong(what=told, why=_GONE, broken=True)
    elif os.path.realpath(program) != os.path.realpath(unit.program[0]):
        told = f"starts another program, {program}; this one is {unit.program[0]}"
        yield Wrong(what=told, why=_ANOTHER)
    home = unit_file.home_in(command)
    if home is not None and home != unit.home:
        yield Wrong(what=f"is for another home, {home}", why=_ANOTHER)


def _statuses(text: str) -> Iterator[Wrong]:
    again, never = exits.GATEWAY_SERVICE_RESTART_EXIT_CODE, exits.CONFIG_EXIT
    if again not in unit_file.statuses(text, "RestartForceExitStatus"):
        told = f"does not name the exit code of a restart (RestartForceExitStatus={again})"
        yield Wrong(what=told, why="A restart may end without a successor.")
    if never not in unit_file.statuses(text, "RestartPreventExitStatus"):
        told = f"does not name that of a wrong configuration (RestartPreventExitStatus={never})"
        yield Wrong(what=told, why="It would be started for ever, to fail for ever.")


def _kind(text: str) -> Iterator[Wrong]:
    if unit_file.value(text, "Type") not in ("notify", "notify-reload"):
        why = "A start counts as done before it is, and a gateway that hangs is not noticed."
        yield Wrong(what="does not wait to be told that it is ready (Type=notify)", why=why)
    if unit_file.value(text, "KillMode") not in ("mixed", "process"):
        why = "systemd kills the commands of agents before the gateway can leave them in order."
        yield Wrong(what="ends every process at once (KillMode=mixed)", why=why)

"""Unit drift: where an installed unit disagrees with the configuration."""

import math
import os
import pwd
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.core.text.translatable import Translatable
from holdfast.core.text.translation import N_
from holdfast.service.supervisors import systemd_unit
from holdfast.service.supervisors.unit import REPAIR_COMMAND, UNIT_NAME, Unit, UnitScope
from holdfast.system import exit_codes

_WHY_KILLED = Translatable(N_("It would be killed half-way: nothing is lost, but turns are cut."))
_WHY_NOT_RESTARTED = Translatable(N_("The gateway does not come back after a boot or a crash."))
_WHY_OTHER_PROGRAM = Translatable(
    N_("After a boot or a crash another one runs than the one you see now.")
)


class UnitProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between an installed unit and the needed one."""

    what: Translatable  # a sentence that still lacks the value `file`
    why: Translatable
    broken: bool = False  # a gateway cannot run by it

    def sentence(self, file: Path) -> Translatable:
        """What differs in this file."""
        return Translatable(self.what.template, {**self.what.values, "file": str(file)})


def systemd_problems(text: str, *, unit: Unit) -> list[UnitProblem]:
    """The differences between the text of a systemd unit and the unit that would be written
    today."""
    return [
        *_check_stop_time(systemd_unit.parse_stop_seconds(text), unit),
        *_check_command(systemd_unit.parse_command(text, specifiers={"h": _user_home()}), unit),
        *_check_exit_statuses(text),
        *_check_type(text),
    ]


def launchd_problems(document: dict[str, object], *, unit: Unit) -> list[UnitProblem]:
    """The same for a property list of launchd."""
    given = document.get("ExitTimeOut", 20)  # launchd's own, where a file does not say
    words = document.get("ProgramArguments")
    restarts_after_failure = document.get("KeepAlive") == {"SuccessfulExit": False}
    stop_timeout = (given or math.inf) if isinstance(given, int) else None
    return [
        *_check_stop_time(stop_timeout, unit),
        *_check_command([str(word) for word in words] if isinstance(words, list) else [], unit),
        *(
            []
            if restarts_after_failure
            else [
                UnitProblem(
                    what=Translatable(N_("{file} does not restart it only after a failure.")),
                    why=_WHY_NOT_RESTARTED,
                )
            ]
        ),
    ]


def describe_drift(
    problems: Sequence[UnitProblem], *, unit: Unit, file: Path
) -> list[Translatable]:
    """One sentence per problem, for a log or a status: what is wrong, and the command that fixes
    it."""
    return [
        Translatable(
            N_("{what} {why} To fix it, run: `{command}`."),
            {"what": each.sentence(file), "why": each.why, "command": repair_command(unit)},
        )
        for each in problems
    ]


def repair_command(unit: Unit) -> str:
    """The command that writes the unit again. It derives name and scope from the home."""
    usual = unit.name == UNIT_NAME and unit.scope is UnitScope.USER
    return REPAIR_COMMAND if usual else f"{REPAIR_COMMAND} --home {shlex.quote(str(unit.home))}"


def _user_home() -> str:
    """What systemd inserts for `%h`; "" for a user without a name."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _check_stop_time(seconds: float | None, unit: Unit) -> Iterator[UnitProblem]:
    needed = unit.stop_seconds
    if seconds is None:
        yield UnitProblem(
            what=Translatable(N_("{file} has no readable time limit for a stop.")), why=_WHY_KILLED
        )
    elif seconds < needed:
        problem = Translatable(
            N_(
                "{file} allows {given:g} s for a stop, and this configuration may need "
                "{needed:g} s."
            ),
            {"given": seconds, "needed": needed},
        )
        yield UnitProblem(what=problem, why=_WHY_KILLED)


def _check_command(command: Sequence[str], unit: Unit) -> Iterator[UnitProblem]:
    program = command[0] if command else ""
    if not program or not os.access(program, os.X_OK):
        problem = Translatable(N_("{file} starts nothing."))
        if program:
            problem = Translatable(
                N_("{file} starts {program}, which is not a program on this machine."),
                {"program": program},
            )
        yield UnitProblem(what=problem, why=_WHY_NOT_RESTARTED, broken=True)
    elif os.path.realpath(program) != os.path.realpath(unit.program[0]):
        problem = Translatable(
            N_("{file} starts another program, {program}; this one is {own}."),
            {"program": program, "own": unit.program[0]},
        )
        yield UnitProblem(what=problem, why=_WHY_OTHER_PROGRAM)
    home = systemd_unit.home_from_command(command)
    if home is not None and home != unit.home:
        yield UnitProblem(
            what=Translatable(N_("{file} is for another home, {home}."), {"home": str(home)}),
            why=_WHY_OTHER_PROGRAM,
        )


def _check_exit_statuses(text: str) -> Iterator[UnitProblem]:
    again, never = exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE, exit_codes.CONFIG_EXIT
    if again not in systemd_unit.parse_exit_statuses(text, "RestartForceExitStatus"):
        problem = Translatable(
            N_("{file} does not name the exit code of a restart (RestartForceExitStatus={code})."),
            {"code": again},
        )
        why = Translatable(N_("A restart may end without a successor."))
        yield UnitProblem(what=problem, why=why)
    if never not in systemd_unit.parse_exit_statuses(text, "RestartPreventExitStatus"):
        problem = Translatable(
            N_(
                "{file} does not name the exit code of a wrong configuration "
                "(RestartPreventExitStatus={code})."
            ),
            {"code": never},
        )
        why = Translatable(N_("systemd would restart it forever, and it would fail each time."))
        yield UnitProblem(what=problem, why=why)


def _check_type(text: str) -> Iterator[UnitProblem]:
    if systemd_unit.get_value(text, "Type") not in ("notify", "notify-reload"):
        problem = Translatable(
            N_("{file} does not wait until the gateway reports that it is ready (Type=notify).")
        )
        why = Translatable(
            N_("A start counts as complete too early, and a hanging gateway is not noticed.")
        )
        yield UnitProblem(what=problem, why=why)
    if systemd_unit.get_value(text, "KillMode") not in ("mixed", "process"):
        problem = Translatable(N_("{file} ends every process at once (KillMode=mixed)."))
        why = Translatable(
            N_("systemd kills the commands of agents before the gateway can detach from them.")
        )
        yield UnitProblem(what=problem, why=why)

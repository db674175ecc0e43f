"""A unit as systemd wants it: the whole file, from what is known about a gateway."""

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.service.supervisors.systemd_words import quote
from holdfast.service.supervisors.unit import Unit, UnitScope, check_writable
from holdfast.system import exits

WRITTEN_BY = "# Written by `holdfast gateway install`"
WATCHDOG_SECONDS = 120
# Listening sockets are kept here over a restart, so that no connection is refused meanwhile.
STORED_DESCRIPTORS = 16
# The first that waits longer and longer between starts that fail.
BACKOFF_VERSION = 254
# systemd takes no program whose path has these; a shell that becomes it does.
EXEC_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@"')

_STATE_DIR = Path("/var/lib")
_READ_ONLY_DIRS = (Path("/usr"), Path("/boot"), Path("/efi"), Path("/etc"))
_NEEDS_SHELL = re.compile(r"""["'\\]""")
_SIMPLE = re.compile(r"[A-Za-z0-9_./-]+")


def unit_file_name(unit: Unit) -> str:
    return f"{unit.name}.service"


def render_unit(unit: Unit, *, version: int) -> str:
    """The file. `version` is systemd's own: what it does not know yet is left out."""
    check_writable(unit.home)
    sections = {
        "Unit": _unit_section(unit),
        "Service": _service_section(unit, version),
        "Install": [f"WantedBy={_target(unit)}"],
    }
    written = [f"[{name}]\n" + "\n".join(lines) + "\n" for name, lines in sections.items()]
    return (
        f"{WRITTEN_BY} from the configuration of {unit.home}.\n"
        f"# What is to differ goes into `systemctl edit`, which outlives `install --force`.\n\n"
    ) + "\n".join(written)


def _unit_section(unit: Unit) -> Iterator[str]:
    yield f"Description=Holdfast gateway ({str(unit.home).replace('%', '%%')})"
    if unit.scope is UnitScope.SYSTEM:
        yield "Wants=network-online.target"
        yield "After=network-online.target"
    # Starts that fail wait; they are never given up without a word.
    yield "StartLimitIntervalSec=0"


def _target(unit: Unit) -> str:
    return "multi-user.target" if unit.scope is UnitScope.SYSTEM else "default.target"


def _service_section(unit: Unit, version: int) -> Iterator[str]:
    yield "Type=notify"
    yield "NotifyAccess=main"
    yield f"ExecStart={command_line(unit.command)}"
    yield f"WorkingDirectory=-{str(unit.home).replace('%', '%%')}"
    for name, value in _environment(unit).items():
        yield f"Environment={quote(f'{name}={value}')}"
    yield from _identity(unit)
    yield from _restarts(unit, version)
    yield f"TimeoutStopSec={unit.whole_stop_seconds or 'infinity'}"
    yield "TimeoutStartSec=300"
    yield f"WatchdogSec={WATCHDOG_SECONDS}"
    # The watchdog's abort leaves where every thread stood, and no core with conversations in it.
    yield "LimitCORE=0"
    yield "KillMode=mixed"
    yield f"FileDescriptorStoreMax={STORED_DESCRIPTORS}"
    # A command that eats all memory ends alone, not the gateway with it.
    yield "OOMPolicy=continue"
    yield from _confinement(unit)


def command_line(command: tuple[str, ...]) -> str:
    program, *arguments = command
    if _NEEDS_SHELL.search(program):
        program, *arguments = *EXEC_SHELL, *command
    # In the program's own name `$` has no meaning; `%` has.
    words = [quote(program), *(quote(each, variables=True) for each in arguments)]
    return " ".join(words)


def _environment(unit: Unit) -> dict[str, str]:
    return {
        "HOLDFAST_UNIT": unit_file_name(unit),
        "HOLDFAST_SCOPE": unit.scope.value,
        "PYTHONFAULTHANDLER": "1",
    }


def _identity(unit: Unit) -> Iterator[str]:
    if unit.user:
        yield f"User={unit.user}"
    if unit.group:
        yield f"Group={unit.group}"
    if unit.user and unit.home.is_relative_to(_STATE_DIR) and unit.home != _STATE_DIR:
        place = str(unit.home.relative_to(_STATE_DIR))
        if _SIMPLE.fullmatch(place):
            yield f"StateDirectory={place}"
            yield "StateDirectoryMode=0700"


def _restarts(unit: Unit, version: int) -> Iterator[str]:
    yield "Restart=on-failure"
    yield f"RestartForceExitStatus={exits.GATEWAY_SERVICE_RESTART_EXIT_CODE}"
    yield f"RestartPreventExitStatus={exits.CONFIG_EXIT}"
    if unit.user:
        # It may not ask the machine's systemd for anything, so a planned restart is an exit code
        # too: waits that grow with each would grow with those.
        yield "RestartSec=2"
    elif version >= BACKOFF_VERSION:
        yield from ("RestartSec=1", "RestartSteps=8", "RestartMaxDelaySec=60")
    else:
        yield "RestartSec=5"


def _confinement(unit: Unit) -> Iterator[str]:
    """Only what bubblewrap can live with; docs/services.md says what is left out, and why."""
    yield "UMask=0077"
    if not unit.confined:
        return
    yield "NoNewPrivileges=yes"
    yield "LockPersonality=yes"
    yield "RestrictRealtime=yes"
    if unit.scope is UnitScope.SYSTEM and not any(map(unit.home.is_relative_to, _READ_ONLY_DIRS)):
        yield "ProtectSystem=full"

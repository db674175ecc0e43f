"""A property list as launchd wants it: the whole file, from what is known about a gateway."""

import plistlib
from pathlib import Path
from typing import Any

from holdfast.service.supervisors.unit import Unit, UnitScope, check_writable
from holdfast.service.supervisors.unit_file import home_from_command
from holdfast.system.paths import Paths

# launchd starts what ended not sooner than this after it was last started.
MIN_RESTART_SECONDS = 10
NO_TIMEOUT = 0  # as launchd has it
_PATH = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def plist_name(unit: Unit) -> str:
    return f"{unit.name}.plist"


def render_plist(unit: Unit) -> bytes:
    return plistlib.dumps(_document(unit), sort_keys=False)


def _document(unit: Unit) -> dict[str, Any]:
    home = check_writable(unit.home)
    printed = str(Paths(home).logs / "launchd.log")
    document: dict[str, Any] = {
        "Label": unit.name,
        "ProgramArguments": list(unit.command),
        "WorkingDirectory": str(home),
        "EnvironmentVariables": {
            "PATH": _PATH,
            "HOLDFAST_UNIT": unit.name,
            "HOLDFAST_SCOPE": unit.scope.value,
        },
        "RunAtLoad": True,
        # Whatever ends with 0 stays down. A wrong configuration does so too, as launchd knows no
        # exit code that it should leave alone: `launchd_exit` has that.
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": MIN_RESTART_SECONDS,
        "ExitTimeOut": unit.whole_stop_seconds or NO_TIMEOUT,
        "ProcessType": "Interactive",  # or macOS slows it down as a thing nobody waits for
        "Umask": 0o077,
        "StandardOutPath": printed,
        "StandardErrorPath": printed,
    }
    if unit.scope is UnitScope.SYSTEM:
        document |= {key: name for key, name in _user_and_group(unit) if name}
    return document


def _user_and_group(unit: Unit) -> list[tuple[str, str]]:
    return [("UserName", unit.user), ("GroupName", unit.group)]


def parse_plist(content: bytes) -> dict[str, Any]:
    """What a file says; {}: it is no property list, or no table."""
    try:
        document = plistlib.loads(content)
    except (plistlib.InvalidFileException, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def plist_home(document: dict[str, Any]) -> Path | None:
    return home_from_command([str(word) for word in document.get("ProgramArguments", [])])

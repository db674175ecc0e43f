"""systemd unit files: quoting, rendering, and reading an installed one as systemd reads it."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from holdfast.service.supervisors.unit import Unit, UnitScope, check_writable
from holdfast.system import exit_codes

WRITTEN_BY = "# Written by `holdfast gateway install`"  # also recognises our units: keep it
WATCHDOG_SECONDS = 120
# systemd keeps the listening sockets over a restart, so that no connection is refused meanwhile.
STORED_DESCRIPTORS = 16
# The first version with growing waits between failed starts.
BACKOFF_VERSION = 254
# systemd rejects program paths with these characters; a shell that execs the program does not.
EXEC_SHELL = ("/bin/sh", "-c", 'exec "$0" "$@"')

_STATE_DIR = Path("/var/lib")
_READ_ONLY_DIRS = (Path("/usr"), Path("/boot"), Path("/efi"), Path("/etc"))
_NEEDS_SHELL = re.compile(r"""["'\\]""")
_SIMPLE = re.compile(r"[A-Za-z0-9_./-]+")
_DEFAULT_STOP_SECONDS = 90.0  # systemd's default for units without a value
_TIME_UNITS = {
    "us": 1e-6,
    "ms": 1e-3,
    "": 1,
    "s": 1,
    "sec": 1,
    "m": 60,
    "min": 60,
    "h": 3600,
    "hr": 3600,
}
_TIME_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_NAMED_STATUSES = {"TEMPFAIL": 75, "CONFIG": 78}  # systemd's names of our exit codes

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
# systemd treats only these four characters as space.
_WORD_PART = re.compile(
    r"""
      "(?P<double>(?:[^"\\]|\\.)*)"
    | '(?P<single>(?:[^'\\]|\\.)*)'
    | (?P<bare>(?:[^ \t\n\r"'\\]|\\.)+)
    | (?P<space>[ \t\n\r]+)
    | (?P<open>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|[0-7]{3}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
# fmt: off
_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "s": " ",
}
# fmt: on


def quote(word: str, *, variables: bool = False) -> str:
    """Quote a word for a unit file. `variables`: also escape `$`, for command arguments."""
    text = word.replace("%", "%%")
    if variables:
        text = text.replace("$", "$$")
    if _PLAIN.fullmatch(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def split_words(value: str, *, specifiers: Mapping[str, str] | None = None) -> list[str]:
    """Split a value into words as systemd does. Raises `ValueError` for open quotes.

    `%%` is a `%`; a specifier without a given value stays as it is written.
    """
    return [_expand(word, specifiers or {}) for word in _iter_words(value)]


def unescape_variables(word: str) -> str:
    """An argument of a command: `$$` is a `$`."""
    return word.replace("$$", "$")


def _iter_words(value: str) -> Iterator[str]:
    word: str | None = None
    for found in _WORD_PART.finditer(value):
        kind = found.lastgroup or "open"
        if kind == "open":
            raise ValueError(f"a quote is left open: {value}")
        if kind != "space":
            word = (word or "") + _ESCAPE.sub(_unescape, found[kind])
        elif word is not None:
            yield word
            word = None
    if word is not None:
        yield word


def _unescape(found: re.Match[str]) -> str:
    escape = found[1]
    if escape in _ESCAPES:
        return _ESCAPES[escape]
    if len(escape) == 1:
        return escape
    if escape[0] in "xuU":
        return chr(int(escape[1:], 16))
    return chr(int(escape, 8))


def _expand(word: str, specifiers: Mapping[str, str]) -> str:
    known = {"%": "%", **specifiers}
    return re.sub(r"%(.)", lambda found: known.get(found[1], found[0]), word)


def unit_file_name(unit: Unit) -> str:
    return f"{unit.name}.service"


def render_unit(unit: Unit, *, version: int) -> str:
    """The unit file. `version` is systemd's: settings that it does not know are left out."""
    check_writable(unit.home)
    sections = {
        "Unit": _unit_section(unit),
        "Service": _service_section(unit, version),
        "Install": [f"WantedBy={_target(unit)}"],
    }
    written = [f"[{name}]\n" + "\n".join(lines) + "\n" for name, lines in sections.items()]
    return (
        f"{WRITTEN_BY} from the configuration of {unit.home}.\n"
        f"# Change it with `systemctl edit`, which survives `install --force`.\n\n"
    ) + "\n".join(written)


def _unit_section(unit: Unit) -> Iterator[str]:
    yield f"Description=Holdfast gateway ({str(unit.home).replace('%', '%%')})"
    if unit.scope is UnitScope.SYSTEM:
        yield "Wants=network-online.target"
        yield "After=network-online.target"
    # Failed starts are retried forever, with waits in between.
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
    # The watchdog's abort leaves a stack dump of every thread, but no core dump with conversations.
    yield "LimitCORE=0"
    yield "KillMode=mixed"
    yield f"FileDescriptorStoreMax={STORED_DESCRIPTORS}"
    # A command that uses up all memory is killed alone, without the gateway.
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
        folder = str(unit.home.relative_to(_STATE_DIR))
        if _SIMPLE.fullmatch(folder):
            yield f"StateDirectory={folder}"
            yield "StateDirectoryMode=0700"


def _restarts(unit: Unit, version: int) -> Iterator[str]:
    yield "Restart=on-failure"
    yield f"RestartForceExitStatus={exit_codes.GATEWAY_SERVICE_RESTART_EXIT_CODE}"
    yield f"RestartPreventExitStatus={exit_codes.CONFIG_EXIT}"
    if unit.user:
        # It may not call the system's systemd, so a planned restart is an exit code too, and
        # growing waits would grow with planned restarts.
        yield "RestartSec=2"
    elif version >= BACKOFF_VERSION:
        yield from ("RestartSec=1", "RestartSteps=8", "RestartMaxDelaySec=60")
    else:
        yield "RestartSec=5"


def _confinement(unit: Unit) -> Iterator[str]:
    """Only settings that bubblewrap works with; see docs/services.md for the others."""
    yield "UMask=0077"
    if not unit.confined:
        return
    yield "NoNewPrivileges=yes"
    yield "LockPersonality=yes"
    yield "RestrictRealtime=yes"
    if unit.scope is UnitScope.SYSTEM and not any(map(unit.home.is_relative_to, _READ_ONLY_DIRS)):
        yield "ProtectSystem=full"


def read_unit_text(file: Path) -> str:
    """The unit file followed by its drop-ins (`systemctl edit`), in order of precedence."""
    parts = sorted(file.with_name(f"{file.name}.d").glob("*.conf"))
    return "\n".join(part.read_text(encoding="utf-8", errors="replace") for part in [file, *parts])


def get_value(text: str, key: str) -> str | None:
    """The last value of a key; None: it has none."""
    return next(iter(reversed(_get_values(text, key))), None)


def parse_stop_seconds(text: str) -> float | None:
    """The unit's stop timeout; None: its value is invalid."""
    value = get_value(text, "TimeoutStopSec")
    return _DEFAULT_STOP_SECONDS if value is None else _parse_seconds(value)


def parse_command(text: str, *, specifiers: Mapping[str, str] | None = None) -> list[str]:
    """The program and arguments that the unit starts; []: none, or not readable."""
    try:
        words = split_words(get_value(text, "ExecStart") or "", specifiers=specifiers)
    except ValueError:
        return []
    if not words:
        return []
    program, *arguments = words
    found = [program.lstrip("@-:+!|"), *map(unescape_variables, arguments)]
    return found[len(EXEC_SHELL) :] if tuple(found[: len(EXEC_SHELL)]) == EXEC_SHELL else found


def parse_home(text: str) -> Path | None:
    """The home that the unit names, in its command or its environment; None: none."""
    found = parse_environment(text).get("HOLDFAST_HOME")
    return home_from_command(parse_command(text)) or (Path(found) if found else None)


def home_from_command(words: Sequence[str]) -> Path | None:
    """The home that a command line names."""
    homes = [after for word, after in pairwise(words) if word == "--home"]
    homes += [word.removeprefix("--home=") for word in words if word.startswith("--home=")]
    return Path(homes[-1]) if homes else None


def parse_environment(text: str) -> dict[str, str]:
    try:
        words = [word for line in _get_values(text, "Environment") for word in split_words(line)]
    except ValueError:
        return {}
    pairs = (word.partition("=") for word in words)
    return {name: value for name, _, value in pairs}


def parse_exit_statuses(text: str, key: str) -> set[int]:
    """The exit codes in a list; names of signals are left out."""
    words = " ".join(_get_values(text, key)).split()
    named = {_NAMED_STATUSES[word] for word in words if word in _NAMED_STATUSES}
    return named | {int(word) for word in words if word.isdigit()}


def _get_values(text: str, key: str) -> list[str]:
    """All values of a key; as in systemd, an empty one clears those before it."""
    found: list[str] = []
    for line in _logical_lines(text):
        name, equals, value = line.partition("=")
        value = value.strip(" \t\r")
        if equals and name.strip() == key:
            found = [*found, value] if value else []
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines joined with their continuations; comments are skipped, also between continuations."""
    pending = ""
    for line in text.split("\n"):
        if line.lstrip().startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _parse_seconds(value: str) -> float | None:
    """A span of time: "90", "1min 30s", "infinity"."""
    if value == "infinity":
        return math.inf
    parts = _TIME_PART.findall(value)
    if not parts or any(unit not in _TIME_UNITS for _, unit in parts):
        return None
    return sum(float(number) * _TIME_UNITS[unit] for number, unit in parts)

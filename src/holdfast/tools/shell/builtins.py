"""Builtins: what a command does to the shell that runs it."""

from collections.abc import Callable
from typing import Protocol

from holdfast.tools.shell.markers import UNKNOWN, bare
from holdfast.tools.shell.outputs import printed
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell


class Reader(Protocol):
    shell: Shell

    def move(self, folder: str) -> None: ...


def carry_out(run: Run, reader: Reader) -> None:
    """Change the shell as this builtin would; any other program leaves it as it is."""
    change = _BUILTINS.get(run.program)
    if change is not None:
        change(run, reader)


def _cd(run: Run, reader: Reader) -> None:
    reader.move(_folder(run))


def _popd(run: Run, reader: Reader) -> None:
    reader.move(UNKNOWN)


def _folder(run: Run) -> str:
    given = [word for word in run.args if not (word.startswith("-") and len(word) > 1)]
    if not given:
        return run.place.home
    return UNKNOWN if given[0] == "-" else run.place.resolve(given[0])


def _alias(run: Run, reader: Reader) -> None:
    for word in run.args:
        name, equals, text = word.partition("=")
        if equals:
            reader.shell.aliases[name] = text


def _read(run: Run, reader: Reader) -> None:
    names = [word for word in run.args if not word.startswith("-")] or ["REPLY"]
    known = run.stdin.strip("\n") if bare(run.stdin).strip() else UNKNOWN
    for name in names:
        reader.shell.variables[name] = known


def _printf(run: Run, reader: Reader) -> None:
    if run.args[:1] == ("-v",) and len(run.args) > 2:
        reader.shell.variables[run.args[1]] = printed(run.args[2:])


def _unset(run: Run, reader: Reader) -> None:
    for name in run.args:
        reader.shell.variables.pop(name, None)


def _set(run: Run, reader: Reader) -> None:
    if run.args[:1] == ("--",):
        reader.shell.arguments = run.args[1:]


def _assign(run: Run, reader: Reader) -> None:
    for word in run.args:
        name, equals, value = word.partition("=")
        if equals:
            reader.shell.variables[name] = value


_BUILTINS: dict[str, Callable[[Run, Reader], None]] = {
    "cd": _cd,
    "pushd": _cd,
    "chdir": _cd,
    "popd": _popd,
    "alias": _alias,
    "read": _read,
    "mapfile": _read,
    "readarray": _read,
    "printf": _printf,
    "unset": _unset,
    "unalias": _unset,
    "set": _set,
    "declare": _assign,
    "typeset": _assign,
    "local": _assign,
    "export": _assign,
    "readonly": _assign,
    "let": _assign,
}

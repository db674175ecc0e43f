"""Builtins: what a command does to the shell that runs it."""

from collections.abc import Callable
from typing import Protocol

from holdfast.tools.shell.markers import UNKNOWN, strip_markers
from holdfast.tools.shell.outputs import printf_output
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState


class BuiltinContext(Protocol):
    shell: ShellState

    def change_directory(self, folder: str) -> None: ...


def apply_builtin(run: ProgramCall, context: BuiltinContext) -> None:
    """Change the shell as this builtin would; any other program leaves it as it is."""
    change = _BUILTINS.get(run.program)
    if change is not None:
        change(run, context)


def _cd(run: ProgramCall, context: BuiltinContext) -> None:
    context.change_directory(_cd_target(run))


def _popd(run: ProgramCall, context: BuiltinContext) -> None:
    context.change_directory(UNKNOWN)


def _cd_target(run: ProgramCall) -> str:
    given = [word for word in run.args if not (word.startswith("-") and len(word) > 1)]
    if not given:
        return run.paths.home
    return UNKNOWN if given[0] == "-" else run.paths.resolve(given[0])


def _alias(run: ProgramCall, context: BuiltinContext) -> None:
    for word in run.args:
        name, equals, text = word.partition("=")
        if equals:
            context.shell.aliases[name] = text


def _read(run: ProgramCall, context: BuiltinContext) -> None:
    names = [word for word in run.args if not word.startswith("-")] or ["REPLY"]
    known = run.stdin.strip("\n") if strip_markers(run.stdin).strip() else UNKNOWN
    for name in names:
        context.shell.variables[name] = known


def _printf(run: ProgramCall, context: BuiltinContext) -> None:
    if run.args[:1] == ("-v",) and len(run.args) > 2:
        context.shell.variables[run.args[1]] = printf_output(run.args[2:])


def _unset(run: ProgramCall, context: BuiltinContext) -> None:
    for name in run.args:
        context.shell.variables.pop(name, None)


def _set(run: ProgramCall, context: BuiltinContext) -> None:
    if run.args[:1] == ("--",):
        context.shell.arguments = run.args[1:]


def _assign(run: ProgramCall, context: BuiltinContext) -> None:
    for word in run.args:
        name, equals, value = word.partition("=")
        if equals:
            context.shell.variables[name] = value


_BUILTINS: dict[str, Callable[[ProgramCall, BuiltinContext], None]] = {
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

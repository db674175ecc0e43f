"""Builtins: what a command does to the shell that runs it."""

from typing import Protocol

from holdfast.tools.judging.marks import UNKNOWN, bare
from holdfast.tools.judging.run import Run
from holdfast.tools.judging.shell import Shell


class Reader(Protocol):
    shell: Shell

    def move(self, folder: str) -> None: ...


def carry_out(run: Run, reader: Reader) -> None:
    match run.program:
        case "cd" | "pushd" | "chdir":
            reader.move(_folder(run))
        case "popd":
            reader.move(UNKNOWN)
        case "alias":
            for word in run.args:
                name, equals, text = word.partition("=")
                if equals:
                    reader.shell.aliases[name] = text
        case "read" | "mapfile" | "readarray":
            _read(run, reader.shell)
        case "printf" if run.args[:1] == ("-v",) and len(run.args) > 2:
            reader.shell.variables[run.args[1]] = " ".join(run.args[2:])
        case "unset" | "unalias":
            for name in run.args:
                reader.shell.variables.pop(name, None)
        case "set" if run.args[:1] == ("--",):
            reader.shell.arguments = run.args[1:]
        case "declare" | "typeset" | "local" | "export" | "readonly" | "let":
            _assign(run, reader.shell)


def _folder(run: Run) -> str:
    given = [word for word in run.args if not (word.startswith("-") and len(word) > 1)]
    if not given:
        return run.place.home
    return UNKNOWN if given[0] == "-" else run.place.resolve(given[0])


def _read(run: Run, shell: Shell) -> None:
    names = [word for word in run.args if not word.startswith("-")] or ["REPLY"]
    known = run.stdin.strip("\n") if bare(run.stdin).strip() else UNKNOWN
    for name in names:
        shell.variables[name] = known


def _assign(run: Run, shell: Shell) -> None:
    for word in run.args:
        name, equals, value = word.partition("=")
        if equals:
            shell.variables[name] = value

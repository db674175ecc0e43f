"""Vehicles: commands that carry another one, and what it is."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from holdfast.tools.shell.each import find, parallel, xargs
from holdfast.tools.shell.elsewhere import ansible, container_exec, ssh
from holdfast.tools.shell.hatches import SCRIPT_OPTIONS, awk, git, make, option_scripts, sed, sql
from holdfast.tools.shell.inner import Nested, NestedCommand, NestedScript
from holdfast.tools.shell.interpreters import (
    INTERPRETERS,
    SHELLS,
    STDIN_NAMES,
    interpreter_code,
    shell_script,
)
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState
from holdfast.tools.shell.wrappers import WRAPPERS, env, unwrap

# fmt: off
_OFTEN_NESTED = frozenset((
    "rm", "sh", "bash", "dash", "zsh", "dd", "shred", "sudo", "chmod", "chown", "find", "mkfs",
    "mv", "/bin/rm", "/bin/sh", "/bin/bash", "/usr/bin/rm",
))
# They take words for what they are.
_TEXT_ONLY = frozenset((
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "man", "tldr", "cheat", "info",
    "which", "whereis", "type", "whatis", "apropos", "help", "test", "[", "[[", "expr", "logger",
    "say", "cowsay", "figlet", "notify-send", "kill", "killall", "pkill", "pgrep", "holdfast",
))
# fmt: on


_OPTION = re.compile(r"-[-\w]")


def nested_in(run: ProgramCall, shell: ShellState) -> Iterable[Nested]:
    """The commands, scripts and code that this one runs, as far as it shows them."""
    if run.program in SHELLS:
        return shell_script(run, shell)
    if run.program in _HANDLERS:
        return _HANDLERS[run.program](run, shell)
    if run.program in WRAPPERS:
        return unwrap(run, WRAPPERS[run.program])
    if run.program in SCRIPT_OPTIONS:
        return option_scripts(run, *SCRIPT_OPTIONS[run.program])
    name = run.program.rstrip("0123456789.") or run.program
    if name in INTERPRETERS:
        return interpreter_code(run, shell, INTERPRETERS[name])
    return _unknown_program(run, shell)


def _eval(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    text = " ".join(run.args)
    yield NestedScript(
        text=text, part=run.excerpt, arguments=shell.arguments, same_shell=True, inline=True
    )


def _source(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    if run.args:
        piped = run.stdin if run.args[0] in STDIN_NAMES else None
        held = piped or shell.files.get(run.paths.resolve(run.args[0]))
        if held is not None:
            yield NestedScript(text=held, part=run.excerpt, same_shell=True)


def _trap(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    words = [word for word in run.args if word not in ("--", "-", "-p", "-l")]
    if words:
        yield NestedScript(text=words[0], part=run.excerpt)


def _alias(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for word in run.args:
        name, equals, text = word.partition("=")
        if equals and text.split()[:1] != [name]:
            yield NestedScript(text=text, part=run.excerpt)
        elif equals:
            yield NestedCommand(words=tuple(text.split()))


def _unknown_program(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """A file that this very command wrote or fetched, run by its path; or a program that may
    run the one which it names, since that one has options of its own."""
    if "/" in run.called_as:
        held = shell.files.get(run.paths.resolve(run.called_as))
        if held is not None:
            yield NestedScript(text=held, part=run.excerpt, arguments=run.args)
    if run.program not in _TEXT_ONLY and run.program not in _OFTEN_NESTED:
        for at, (word, after) in enumerate(pairwise(run.args)):
            if (
                word in _OFTEN_NESTED
                and _OPTION.match(after)
                and (word not in SHELLS or "c" in after)
            ):
                yield NestedCommand(words=run.args[at:])
                return


def _stdin_script(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    if run.stdin:
        yield NestedScript(text=run.stdin, part=run.excerpt)


def _tmux(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("SLfctsnxye", mixed=True)
    text = [word for word in options.operands if " " in word]
    words = options.operands[1:] if run.program == "tmux" else options.operands
    for script in text or [" ".join(words)]:
        yield NestedScript(text=script, part=run.excerpt)


def _watch(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("nwrmpPsSi", ("interval", "warmup", "runs", "prepare"), mixed=False)
    if run.program == "watch":
        yield NestedScript(text=" ".join(options.operands), part=run.excerpt)
        return
    for text in options.operands:
        yield NestedScript(text=text, part=run.excerpt)


_HANDLERS: dict[str, Callable[[ProgramCall, ShellState], Iterator[Nested]]] = {
    "env": env,
    "eval": _eval,
    "source": _source,
    ".": _source,
    "trap": _trap,
    "alias": _alias,
    "xargs": xargs,
    "parallel": parallel,
    "find": find,
    "ssh": ssh,
    "ansible": ansible,
    "make": make,
    "gmake": make,
    "sqlite3": sql,
    "psql": sql,
    "mysql": sql,
    "mariadb": sql,
    "docker": container_exec,
    "podman": container_exec,
    "nerdctl": container_exec,
    "docker-compose": container_exec,
    "kubectl": container_exec,
    "oc": container_exec,
    "at": _stdin_script,
    "batch": _stdin_script,
    "tmux": _tmux,
    "screen": _tmux,
    "git": git,
    "awk": awk,
    "gawk": awk,
    "mawk": awk,
    "nawk": awk,
    "sed": sed,
    "gsed": sed,
    "watch": _watch,
    "hyperfine": _watch,
    "concurrently": _watch,
}
NESTING_PROGRAMS = frozenset((*_HANDLERS, *WRAPPERS, *SCRIPT_OPTIONS, *SHELLS, *INTERPRETERS))

"""Vehicles: commands that carry another one, and what it is."""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from holdfast.tools.shell.each import find, parallel, xargs
from holdfast.tools.shell.elsewhere import ansible, container, ssh
from holdfast.tools.shell.hatches import SCRIPTS, awk, git, make, scripts, sed, sql
from holdfast.tools.shell.inner import Argv, Inner, Script
from holdfast.tools.shell.interpreters import INTERPRETERS, SHELLS, STDIN, code_of, script_of
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell
from holdfast.tools.shell.wrappers import WRAPPERS, env, unwrapped

# fmt: off
_CARRIED = frozenset((
    "rm", "sh", "bash", "dash", "zsh", "dd", "shred", "sudo", "chmod", "chown", "find", "mkfs",
    "mv", "/bin/rm", "/bin/sh", "/bin/bash", "/usr/bin/rm",
))
# They take words for what they are.
_TALKS = frozenset((
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "ack", "man", "tldr", "cheat", "info",
    "which", "whereis", "type", "whatis", "apropos", "help", "test", "[", "[[", "expr", "logger",
    "say", "cowsay", "figlet", "notify-send", "kill", "killall", "pkill", "pgrep", "holdfast",
))
# fmt: on


_OPTION = re.compile(r"-[-\w]")


def inside(run: Run, shell: Shell) -> Iterable[Inner]:
    """The commands, scripts and code that this one runs, as far as it shows them."""
    if run.program in SHELLS:
        return script_of(run, shell)
    if run.program in _OWN:
        return _OWN[run.program](run, shell)
    if run.program in WRAPPERS:
        return unwrapped(run, WRAPPERS[run.program])
    if run.program in SCRIPTS:
        return scripts(run, *SCRIPTS[run.program])
    name = run.program.rstrip("0123456789.") or run.program
    if name in INTERPRETERS:
        return code_of(run, shell, INTERPRETERS[name])
    return _strange(run, shell)


def _eval(run: Run, shell: Shell) -> Iterator[Inner]:
    text = " ".join(run.args)
    yield Script(text=text, part=run.said, arguments=shell.arguments, same_shell=True, given=True)


def _source(run: Run, shell: Shell) -> Iterator[Inner]:
    if run.args:
        piped = run.stdin if run.args[0] in STDIN else None
        held = piped or shell.files.get(run.place.resolve(run.args[0]))
        if held is not None:
            yield Script(text=held, part=run.said, same_shell=True)


def _trap(run: Run, shell: Shell) -> Iterator[Inner]:
    words = [word for word in run.args if word not in ("--", "-", "-p", "-l")]
    if words:
        yield Script(text=words[0], part=run.said)


def _alias(run: Run, shell: Shell) -> Iterator[Inner]:
    for word in run.args:
        name, equals, text = word.partition("=")
        if equals and text.split()[:1] != [name]:
            yield Script(text=text, part=run.said)
        elif equals:
            yield Argv(words=tuple(text.split()))


def _strange(run: Run, shell: Shell) -> Iterator[Inner]:
    """A file that this very command wrote or fetched, run by its path; or a program that may
    run the one which it names, since that one has options of its own."""
    if "/" in run.called:
        held = shell.files.get(run.place.resolve(run.called))
        if held is not None:
            yield Script(text=held, part=run.said, arguments=run.args)
    if run.program not in _TALKS and run.program not in _CARRIED:
        for at, (word, after) in enumerate(pairwise(run.args)):
            if word in _CARRIED and _OPTION.match(after) and (word not in SHELLS or "c" in after):
                yield Argv(words=run.args[at:])
                return


def _at(run: Run, shell: Shell) -> Iterator[Inner]:
    if run.stdin:
        yield Script(text=run.stdin, part=run.said)


def _tmux(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("SLfctsnxye", mixed=True)
    text = [word for word in options.operands if " " in word]
    words = options.operands[1:] if run.program == "tmux" else options.operands
    for script in text or [" ".join(words)]:
        yield Script(text=script, part=run.said)


def _joined(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("nwrmpPsSi", ("interval", "warmup", "runs", "prepare"), mixed=False)
    if run.program == "watch":
        yield Script(text=" ".join(options.operands), part=run.said)
        return
    for text in options.operands:
        yield Script(text=text, part=run.said)


_OWN: dict[str, Callable[[Run, Shell], Iterator[Inner]]] = {
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
    "docker": container,
    "podman": container,
    "nerdctl": container,
    "docker-compose": container,
    "kubectl": container,
    "oc": container,
    "at": _at,
    "batch": _at,
    "tmux": _tmux,
    "screen": _tmux,
    "git": git,
    "awk": awk,
    "gawk": awk,
    "mawk": awk,
    "nawk": awk,
    "sed": sed,
    "gsed": sed,
    "watch": _joined,
    "hyperfine": _joined,
    "concurrently": _joined,
}
PROGRAMS = frozenset((*_OWN, *WRAPPERS, *SCRIPTS, *SHELLS, *INTERPRETERS))

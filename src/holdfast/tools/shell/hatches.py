"""Hatches: programs for another purpose that run a command when an argument says so."""

import re
from collections.abc import Iterator
from itertools import pairwise

from holdfast.tools.shell.inner import Nested, NestedCode, NestedCommand, NestedScript
from holdfast.tools.shell.interpreters import STDIN_NAMES
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState

# fmt: off
SCRIPT_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "su": ("c", ("command", "session-command")), "runuser": ("c", ("command",)),
    "sg": ("c", ()), "newgrp": ("c", ()), "script": ("c", ("command",)),
    "nix-shell": ("", ("run", "command")), "nodemon": ("x", ("exec",)),
    "tar": ("I", ("to-command", "use-compress-program", "checkpoint-action")),
    "flock": ("c", ("command",)), "rsync": ("e", ("rsh",)), "vim": ("c", ()), "vi": ("c", ()),
    "nvim": ("c", ()), "ex": ("c", ()), "expect": ("c", ()),
}

# Whatever they run besides, they print what they are there to print.
ALSO_PRINTING = frozenset((
    "git", "tar", "rsync", "make", "gmake", "psql", "sqlite3", "mysql", "mariadb", "sed", "gsed",
))
_GIT_COMMAND_SETTINGS = frozenset((
    "core.sshcommand", "core.fsmonitor", "core.pager", "core.editor", "core.askpass",
    "diff.external", "sequence.editor", "gpg.program", "core.gitproxy",
))
# fmt: on
_GIT_COMMAND_OPTIONS = ("--upload-pack=", "--receive-pack=", "--exec=")
_GIT_TRANSPORT = "ext::"  # an address that is a command
_AWK_PIPES = re.compile(r"\|\s*&?\s*\"([^\"\n]+)\"|\"([^\"\n]+)\"\s*\|\s*&?\s*getline")
_AWK_RUNS_DATA = re.compile(r"\bsystem\(\s*[\w$][^\"'()\n]{0,60}\)")
_SED_ENDS = re.compile(r"[;\n{}]")
_SQL_RUNS = re.compile(
    r"(?:^|\n)\s*(?:\.(?:shell|system)|\\!|system)\s+([^\n]+)|\b(?:to|from)\s+program\s+'([^']+)'",
    re.IGNORECASE,
)


def option_scripts(run: ProgramCall, short: str, longs: tuple[str, ...]) -> Iterator[Nested]:
    options = run.options(short, longs)
    values = [value for name, value in options.values if name in short]
    values += [value for name, value in options.longs if name in longs]
    for text in values:
        yield NestedScript(text=text.removeprefix("exec=").lstrip(":!"), part=run.excerpt)


def git(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for option, value in pairwise(run.args):
        yield from _git_option(option, value, run)
    for word in run.args:
        if word.startswith(_GIT_COMMAND_OPTIONS):
            yield NestedScript(text=word.partition("=")[2], part=run.excerpt)
        if word.startswith(_GIT_TRANSPORT):
            yield NestedScript(text=word.removeprefix(_GIT_TRANSPORT), part=run.excerpt)
    if run.args[:2] == ("bisect", "run"):
        yield NestedCommand(words=run.args[2:])


def _git_option(option: str, value: str, run: ProgramCall) -> Iterator[Nested]:
    if option == "-c":
        yield from _git_setting(value, run)
    if option.startswith("alias.") and value.startswith("!"):
        yield NestedScript(text=value[1:], part=run.excerpt)
    if option in ("foreach", "--exec", "-x", "--tree-filter", "--index-filter"):
        yield NestedScript(text=value, part=run.excerpt)


def _git_setting(setting: str, run: ProgramCall) -> Iterator[Nested]:
    key, _, value = setting.partition("=")
    if key.lower() in _GIT_COMMAND_SETTINGS or value.startswith("!"):
        yield NestedScript(text=value.removeprefix("!"), part=run.excerpt)


def awk(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    operands = run.options("Ffv").operands
    if not operands:
        return
    text = operands[0]
    yield NestedCode(text=text, part=run.excerpt)
    for match in _AWK_PIPES.finditer(text):
        yield NestedScript(text=match[1] or match[2], part=run.excerpt)
    if _AWK_RUNS_DATA.search(text):
        yield NestedScript(text=UNKNOWN, part=run.excerpt)


def sed(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("efl", ("expression",))
    scripts = [value for name, value in options.values if name == "e"] or options.operands[:1]
    for text in scripts:
        for piece in _SED_ENDS.split(text):
            head = piece.lstrip(" 0123456789$,/!")
            if head.startswith("e "):
                yield NestedScript(text=head[2:], part=run.excerpt)
        if text.startswith("s") and len(text) > 2 and "e" in text.rpartition(text[1])[2]:
            parts = text.split(text[1])
            yield NestedScript(text=parts[2] if len(parts) > 2 else UNKNOWN, part=run.excerpt)


def make(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """The recipes of a makefile that this very command wrote or hands over."""
    options = run.options("fCjoWIl", ("file", "makefile", "directory"))
    name = options.value("f", "file", "makefile") or "Makefile"
    text = run.stdin if name in STDIN_NAMES else shell.files.get(run.paths.resolve(name), "")
    recipes = [line.strip().lstrip("@-+") for line in text.splitlines() if line[:1] == "\t"]
    if recipes:
        yield NestedScript(text="\n".join(recipes).replace("$$", "$"), part=run.excerpt)


def sql(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    """What the clients of databases run in a shell, and what servers do."""
    for text in (*run.args, run.stdin):
        for match in _SQL_RUNS.finditer(text):
            yield NestedScript(text=match[1] or match[2], part=run.excerpt)

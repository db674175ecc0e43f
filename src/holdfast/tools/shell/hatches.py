"""Hatches: programs for another purpose that run a command when an argument says so."""

import re
from collections.abc import Iterator
from itertools import pairwise

from holdfast.tools.shell.inner import Argv, Code, Inner, Script
from holdfast.tools.shell.interpreters import STDIN
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell

# fmt: off
SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "su": ("c", ("command", "session-command")), "runuser": ("c", ("command",)),
    "sg": ("c", ()), "newgrp": ("c", ()), "script": ("c", ("command",)),
    "nix-shell": ("", ("run", "command")), "nodemon": ("x", ("exec",)),
    "tar": ("I", ("to-command", "use-compress-program", "checkpoint-action")),
    "flock": ("c", ("command",)), "rsync": ("e", ("rsh",)), "vim": ("c", ()), "vi": ("c", ()),
    "nvim": ("c", ()), "ex": ("c", ()), "expect": ("c", ()),
}

# Whatever they run besides, they print what they are there to print.
HATCHED = frozenset((
    "git", "tar", "rsync", "make", "gmake", "psql", "sqlite3", "mysql", "mariadb", "sed", "gsed",
))
_GIT_COMMANDS = frozenset((
    "core.sshcommand", "core.fsmonitor", "core.pager", "core.editor", "core.askpass",
    "diff.external", "sequence.editor", "gpg.program", "core.gitproxy",
))
# fmt: on
_GIT_RUNS = ("--upload-pack=", "--receive-pack=", "--exec=")
_GIT_TRANSPORT = "ext::"  # an address that is a command
_AWK_PIPES = re.compile(r"\|\s*&?\s*\"([^\"\n]+)\"|\"([^\"\n]+)\"\s*\|\s*&?\s*getline")
_AWK_RUNS_DATA = re.compile(r"\bsystem\(\s*[\w$][^\"'()\n]{0,60}\)")
_SED_ENDS = re.compile(r"[;\n{}]")
_SQL_RUNS = re.compile(
    r"(?:^|\n)\s*(?:\.(?:shell|system)|\\!|system)\s+([^\n]+)|\b(?:to|from)\s+program\s+'([^']+)'",
    re.IGNORECASE,
)


def scripts(run: Run, short: str, longs: tuple[str, ...]) -> Iterator[Inner]:
    options = run.options(short, longs)
    values = [value for name, value in options.values if name in short]
    values += [value for name, value in options.longs if name in longs]
    for text in values:
        yield Script(text=text.removeprefix("exec=").lstrip(":!"), part=run.said)


def git(run: Run, shell: Shell) -> Iterator[Inner]:
    for option, value in pairwise(run.args):
        yield from _git_option(option, value, run)
    for word in run.args:
        if word.startswith(_GIT_RUNS):
            yield Script(text=word.partition("=")[2], part=run.said)
        if word.startswith(_GIT_TRANSPORT):
            yield Script(text=word.removeprefix(_GIT_TRANSPORT), part=run.said)
    if run.args[:2] == ("bisect", "run"):
        yield Argv(words=run.args[2:])


def _git_option(option: str, value: str, run: Run) -> Iterator[Inner]:
    if option == "-c":
        yield from _git_setting(value, run)
    if option.startswith("alias.") and value.startswith("!"):
        yield Script(text=value[1:], part=run.said)
    if option in ("foreach", "--exec", "-x", "--tree-filter", "--index-filter"):
        yield Script(text=value, part=run.said)


def _git_setting(setting: str, run: Run) -> Iterator[Inner]:
    key, _, value = setting.partition("=")
    if key.lower() in _GIT_COMMANDS or value.startswith("!"):
        yield Script(text=value.removeprefix("!"), part=run.said)


def awk(run: Run, shell: Shell) -> Iterator[Inner]:
    operands = run.options("Ffv").operands
    if not operands:
        return
    text = operands[0]
    yield Code(text=text, part=run.said)
    for match in _AWK_PIPES.finditer(text):
        yield Script(text=match[1] or match[2], part=run.said)
    if _AWK_RUNS_DATA.search(text):
        yield Script(text=UNKNOWN, part=run.said)


def sed(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("efl", ("expression",))
    scripts = [value for name, value in options.values if name == "e"] or options.operands[:1]
    for text in scripts:
        for piece in _SED_ENDS.split(text):
            head = piece.lstrip(" 0123456789$,/!")
            if head.startswith("e "):
                yield Script(text=head[2:], part=run.said)
        if text.startswith("s") and len(text) > 2 and "e" in text.rpartition(text[1])[2]:
            parts = text.split(text[1])
            yield Script(text=parts[2] if len(parts) > 2 else UNKNOWN, part=run.said)


def make(run: Run, shell: Shell) -> Iterator[Inner]:
    """The recipes of a makefile that this very command wrote or hands over."""
    options = run.options("fCjoWIl", ("file", "makefile", "directory"))
    name = options.value("f", "file", "makefile") or "Makefile"
    text = run.stdin if name in STDIN else shell.files.get(run.place.resolve(name), "")
    recipes = [line.strip().lstrip("@-+") for line in text.splitlines() if line[:1] == "\t"]
    if recipes:
        yield Script(text="\n".join(recipes).replace("$$", "$"), part=run.said)


def sql(run: Run, shell: Shell) -> Iterator[Inner]:
    """What the clients of databases run in a shell, and what servers do."""
    for text in (*run.args, run.stdin):
        for match in _SQL_RUNS.finditer(text):
            yield Script(text=match[1] or match[2], part=run.said)

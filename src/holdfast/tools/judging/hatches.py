"""Hatches: programs for another purpose that run a command when an argument says so."""

from collections.abc import Iterator
from itertools import pairwise

from holdfast.tools.judging.inner import Code, Inner, Script
from holdfast.tools.judging.marks import UNKNOWN
from holdfast.tools.judging.run import Run
from holdfast.tools.judging.shell import Shell

# fmt: off
SCRIPTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "su": ("c", ("command", "session-command")), "runuser": ("c", ("command",)),
    "sg": ("c", ()), "newgrp": ("c", ()), "script": ("c", ("command",)),
    "nix-shell": ("", ("run", "command")), "nodemon": ("x", ("exec",)),
    "tar": ("I", ("to-command", "use-compress-program", "checkpoint-action")),
    "flock": ("c", ("command",)), "rsync": ("e", ("rsh",)), "vim": ("c", ()), "vi": ("c", ()),
    "nvim": ("c", ()), "ex": ("c", ()), "sqlite3": ("", ()), "expect": ("c", ()),
}

# fmt: on


def scripts(run: Run, short: str, longs: tuple[str, ...]) -> Iterator[Inner]:
    options = run.options(short, longs)
    values = [value for name, value in options.values if name in short]
    values += [value for name, value in options.longs if name in longs]
    for text in values:
        yield Script(text=text.removeprefix("exec=").lstrip(":!"), part=run.said)


def git(run: Run, shell: Shell) -> Iterator[Inner]:
    for setting, value in pairwise(run.args):
        if setting == "-c" and "=!" in value:
            yield Script(text=value.partition("=!")[2], part=run.said)
        if setting.startswith("alias.") and value.startswith("!"):
            yield Script(text=value[1:], part=run.said)
        if setting in ("foreach", "--exec", "-x", "--tree-filter", "--index-filter", "run"):
            yield Script(text=value, part=run.said)


def awk(run: Run, shell: Shell) -> Iterator[Inner]:
    operands = run.options("Ffv").operands
    if operands:
        yield Code(text=operands[0], part=run.said)


def sed(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("efl", ("expression",))
    scripts = [value for name, value in options.values if name == "e"] or options.operands[:1]
    for text in scripts:
        head = text.lstrip("0123456789$,/")
        if head.startswith("e "):
            yield Script(text=head[2:], part=run.said)
        elif text.startswith("s") and len(text) > 2 and "e" in text.rpartition(text[1])[2]:
            parts = text.split(text[1])
            yield Script(text=parts[2] if len(parts) > 2 else UNKNOWN, part=run.said)

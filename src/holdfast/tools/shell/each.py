"""Each: commands that run another one for each of the things that they are given or find."""

from collections.abc import Iterator

from holdfast.tools.shell.finding import found_by
from holdfast.tools.shell.inner import Argv, Inner, Script
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.run import Run
from holdfast.tools.shell.shell import Shell

MOST_WORDS = 64  # that are followed


def xargs(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options(
        "ILnPsdEa", ("replace", "max-args", "max-procs", "delimiter"), mixed=False
    )
    words = options.operands or ("echo",)
    given = tuple(run.stdin.split()[:MOST_WORDS]) or (UNKNOWN,)
    place = options.value("I") or ("{}" if options.has("i", "replace") else None)
    if place:
        for one in given:
            yield Argv(words=tuple(word.replace(place, one) for word in words))
    else:
        yield Argv(words=(*words, *given))


def parallel(run: Run, shell: Shell) -> Iterator[Inner]:
    options = run.options("jNnS", ("jobs", "max-args"), mixed=False)
    words = list(options.operands)
    at = next((i for i, word in enumerate(words) if word.startswith(":::")), len(words))
    given = words[at + 1 :] or run.stdin.split()[:MOST_WORDS] or [UNKNOWN]
    text = " ".join(words[:at])
    for one in given:
        script = text.replace("{}", one) if "{}" in text else f"{text} {one}"
        yield Script(text=script, part=run.said)


def find(run: Run, shell: Shell) -> Iterator[Inner]:
    for at, word in enumerate(run.args):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            rest = run.args[at + 1 :]
            end = next((i for i, part in enumerate(rest) if part in (";", "+")), len(rest))
            for found in found_by(run.args):
                yield Argv(words=tuple(part.replace("{}", found) for part in rest[:end]))

"""Each: commands that run another one for each of the things that they are given or find."""

from collections.abc import Iterator

from holdfast.tools.shell.finding import find_results
from holdfast.tools.shell.inner import Nested, NestedCommand, NestedScript
from holdfast.tools.shell.markers import UNKNOWN
from holdfast.tools.shell.run import ProgramCall
from holdfast.tools.shell.shell import ShellState

MAX_ARGUMENTS = 64  # that are followed


def xargs(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options(
        "ILnPsdEa", ("replace", "max-args", "max-procs", "delimiter"), mixed=False
    )
    words = options.operands or ("echo",)
    given = tuple(run.stdin.split()[:MAX_ARGUMENTS]) or (UNKNOWN,)
    place = options.value("I") or ("{}" if options.has("i", "replace") else None)
    if place:
        for one in given:
            yield NestedCommand(words=tuple(word.replace(place, one) for word in words))
    else:
        yield NestedCommand(words=(*words, *given))


def parallel(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    options = run.options("jNnS", ("jobs", "max-args"), mixed=False)
    words = list(options.operands)
    at = next((i for i, word in enumerate(words) if word.startswith(":::")), len(words))
    given = words[at + 1 :] or run.stdin.split()[:MAX_ARGUMENTS] or [UNKNOWN]
    text = " ".join(words[:at])
    for one in given:
        script = text.replace("{}", one) if "{}" in text else f"{text} {one}"
        yield NestedScript(text=script, part=run.excerpt)


def find(run: ProgramCall, shell: ShellState) -> Iterator[Nested]:
    for at, word in enumerate(run.args):
        if word in ("-exec", "-execdir", "-ok", "-okdir"):
            rest = run.args[at + 1 :]
            end = next((i for i, part in enumerate(rest) if part in (";", "+")), len(rest))
            for found in find_results(run.args):
                yield NestedCommand(words=tuple(part.replace("{}", found) for part in rest[:end]))

"""Editing: which files programs write that are there to work on text."""

import re
from collections.abc import Callable

from holdfast.tools.shell.options import ParsedOptions
from holdfast.tools.shell.run import PathAction, PathActions, ProgramCall

# The `w` of sed, alone or behind `s/…/…/`, with a path that leads away from here.
_SED_WRITES = re.compile(
    r"(?:^|[;{}\d$gpIi])\s*[wW]\s*([/~]\w\S*)|/\s*[wW]\s+([/~]\S*)", re.MULTILINE
)
_SED_COPIES = re.compile(r"(?:^|[;{}/\d$gpIi])\s*[wW](\s|/dev/)", re.MULTILINE)
_IN_PLACE = re.compile(r"-[a-zA-Z0]*i(?!n)")


def _dd(run: ProgramCall) -> PathActions:
    for word in run.args:
        name, _, path = word.partition("=")
        if name == "of":
            yield PathAction.WRITE, path
        elif name == "if":
            yield PathAction.READ, path


def _sed(run: ProgramCall) -> PathActions:
    options = run.options("efl", ("expression", "file"))
    for match in _SED_WRITES.finditer(_sed_script(options)):
        yield PathAction.WRITE, match[1] or match[2]
    if not options.has("i", "in-place"):
        return
    scripted = any(name in "ef" for name, _ in options.values)
    for path in options.operands if scripted else options.operands[1:]:
        yield PathAction.WRITE, path


def _sed_script(options: ParsedOptions) -> str:
    given = [value for name, value in options.values if name == "e"]
    return "\n".join(given or options.operands[:1])


def _sort(run: ProgramCall) -> PathActions:
    to = run.options("okStTC", ("output", "key")).value("o", "output")
    if to:
        yield PathAction.WRITE, to


def _patch(run: ProgramCall) -> PathActions:
    for path in run.options("pidDFoBgrVYz", ("input", "strip", "directory")).operands[:1]:
        yield PathAction.WRITE, path


def _perl(run: ProgramCall) -> PathActions:
    """In place: `-i`, perhaps with other letters before it."""
    if any(_IN_PLACE.match(word) for word in run.args):
        for path in run.options("eEIMm").operands:
            yield PathAction.WRITE, path


def edits_in_place(run: ProgramCall) -> bool:
    """Whether what it reads goes back to where it was, and to nobody else."""
    if run.program not in ("sed", "gsed"):
        return False
    options = run.options("efl", ("expression", "file"))
    return options.has("i", "in-place") and not _SED_COPIES.search(_sed_script(options))


EDITORS: dict[str, Callable[[ProgramCall], PathActions]] = {
    "dd": _dd,
    "sed": _sed,
    "gsed": _sed,
    "sort": _sort,
    "patch": _patch,
    "perl": _perl,
    "ruby": _perl,
}

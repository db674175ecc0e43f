"""Permissions: of whole trees, and of programs that run as somebody else."""

import re

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.rule import PathRule, ProgramRule, word_set
from holdfast.tools.shell.run import PathAction, ProgramCall

_WITHIN_SESSION = (PathLocation.INSIDE, PathLocation.TEMP, PathLocation.CACHE, PathLocation.UNKNOWN)
_SETUID_MODE = re.compile(r"[ug+,]*\+[rwx]*s|0?[2467]\d{3}")

PERMISSION_RULES = (
    PathRule(
        name="permissions-of-the-system",
        level=CommandRisk.FORBIDDEN,
        why="It would change owner or permissions of all of {part}: much of it stops working.",
        actions=frozenset((PathAction.MAKE_WRITABLE, PathAction.CHANGE_OWNER_OR_MODE)),
        matches=lambda touch, ground: ground in (PathLocation.ROOT, PathLocation.SYSTEM_TREE),
    ),
    PathRule(
        name="open-to-everybody",
        level=CommandRisk.DANGEROUS,
        why="It would let everybody write to all of {part}.",
        actions=frozenset((PathAction.MAKE_WRITABLE,)),
        matches=lambda touch, ground: ground != PathLocation.TEMP,
    ),
    PathRule(
        name="permissions-of-a-tree",
        level=CommandRisk.DANGEROUS,
        why="It would change owner or permissions of all of {part}.",
        actions=frozenset((PathAction.CHANGE_OWNER_OR_MODE,)),
        matches=lambda touch, ground: ground not in (*_WITHIN_SESSION, PathLocation.WORKSPACE),
    ),
    ProgramRule(
        name="run-as-another",
        level=CommandRisk.DANGEROUS,
        why="It would make a program run with the rights of another user, whoever starts it.",
        programs=word_set("chmod install"),
        matches=lambda run: any(_is_setuid(word, run) for word in run.args),
    ),
    ProgramRule(
        name="capabilities",
        level=CommandRisk.DANGEROUS,
        why="It would give a program rights of the system.",
        programs=word_set("setcap capsh"),
    ),
)


def _is_setuid(word: str, run: ProgramCall) -> bool:
    mode = word.removeprefix("--mode=")
    return _SETUID_MODE.fullmatch(mode) is not None

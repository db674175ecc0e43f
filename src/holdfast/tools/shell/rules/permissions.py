"""Permissions: of whole trees, and of programs that run as somebody else."""

import re

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.rules.rule import PathRule, RunRule, names
from holdfast.tools.shell.run import Deed, Run

_WITHIN = (Ground.INSIDE, Ground.TEMP, Ground.CACHE, Ground.UNKNOWN)
_SET_USER = re.compile(r"[ug+,]*\+[rwx]*s|0?[2467]\d{3}")

RULES = (
    PathRule(
        name="permissions-of-the-system",
        level=Level.HOPELESS,
        why="It would change owner or permissions of all of {part}: much of it stops working.",
        deeds=frozenset((Deed.OPEN_UP, Deed.CHANGE)),
        sees=lambda touch, ground: ground in (Ground.ROOT, Ground.SYSTEM_TREE),
    ),
    PathRule(
        name="open-to-everybody",
        level=Level.DANGEROUS,
        why="It would let everybody write to all of {part}.",
        deeds=frozenset((Deed.OPEN_UP,)),
        sees=lambda touch, ground: ground != Ground.TEMP,
    ),
    PathRule(
        name="permissions-of-a-tree",
        level=Level.DANGEROUS,
        why="It would change owner or permissions of all of {part}.",
        deeds=frozenset((Deed.CHANGE,)),
        sees=lambda touch, ground: ground not in (*_WITHIN, Ground.WORKSPACE),
    ),
    RunRule(
        name="run-as-another",
        level=Level.DANGEROUS,
        why="It would make a program run with the rights of another user, whoever starts it.",
        programs=names("chmod install"),
        sees=lambda run: any(_sets_user(word, run) for word in run.args),
    ),
    RunRule(
        name="capabilities",
        level=Level.DANGEROUS,
        why="It would give a program rights of the system.",
        programs=names("setcap capsh"),
    ),
)


def _sets_user(word: str, run: Run) -> bool:
    mode = word.removeprefix("--mode=")
    return _SET_USER.fullmatch(mode) is not None

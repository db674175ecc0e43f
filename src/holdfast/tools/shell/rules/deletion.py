"""Deletion: of everything, of what others own, and of more than was surely meant."""

from holdfast.core.people.judgement import Level
from holdfast.tools.shell.paths import Ground
from holdfast.tools.shell.rules.rule import PathRule, RunRule, names
from holdfast.tools.shell.run import Deed, Run, Touch

_EVERYTHING = (Ground.ROOT, Ground.SYSTEM_TREE)
_OTHERS = (Ground.OUTSIDE, Ground.SYSTEM, Ground.TEMP_TREE, Ground.DEVICE, Ground.HOME)


def _is_history(touch: Touch, ground: Ground) -> bool:
    return touch.path.rstrip("/*").endswith(".git") and ground == Ground.INSIDE


def _is_theirs(touch: Touch, ground: Ground) -> bool:
    return ground in _OTHERS and not touch.place.is_mild_device(touch.path)


def _forces_root(run: Run) -> bool:
    return run.options().has("", "no-preserve-root") and run.options().has("rR", "recursive")


RULES = (
    PathRule(
        name="delete-the-system",
        level=Level.HOPELESS,
        why="It would delete the machine's own files ({part}) and leave nothing that works.",
        deeds=frozenset((Deed.DELETE,)),
        sees=lambda touch, ground: ground in _EVERYTHING,
    ),
    RunRule(
        name="delete-the-root",
        level=Level.HOPELESS,
        why="It takes away the last guard before deleting the root of the machine.",
        programs=names("rm"),
        sees=_forces_root,
    ),
    PathRule(
        name="delete-a-home",
        level=Level.HOPELESS,
        why="It would delete everything in a person's home ({part}).",
        deeds=frozenset((Deed.DELETE,)),
        sees=lambda touch, ground: ground == Ground.HOME,
    ),
    PathRule(
        name="delete-the-workspace",
        level=Level.DANGEROUS,
        why="It would delete everything in the workspace ({part}).",
        deeds=frozenset((Deed.DELETE,)),
        sees=lambda touch, ground: ground == Ground.WORKSPACE,
    ),
    PathRule(
        name="delete-a-history",
        level=Level.DANGEROUS,
        why="It would delete a repository's history ({part}).",
        deeds=frozenset((Deed.DELETE,)),
        sees=_is_history,
    ),
    PathRule(
        name="delete-outside",
        level=Level.DANGEROUS,
        why="It would delete {part}, which is not in the workspace.",
        deeds=frozenset((Deed.DELETE, Deed.REMOVE)),
        sees=_is_theirs,
    ),
    PathRule(
        name="delete-unknown",
        level=Level.DANGEROUS,
        why="It would delete a folder that only turns out when it runs ({part}).",
        deeds=frozenset((Deed.DELETE,)),
        sees=lambda touch, ground: ground == Ground.UNKNOWN,
    ),
)

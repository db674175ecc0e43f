"""Deletion: of everything, of what others own, and of more than was surely meant."""

from holdfast.core.people.judgement import CommandRisk
from holdfast.tools.shell.paths import PathLocation
from holdfast.tools.shell.rules.rule import PathRule, ProgramRule, word_set
from holdfast.tools.shell.run import PathAction, PathEffect, ProgramCall

_WHOLE_SYSTEM = (PathLocation.ROOT, PathLocation.SYSTEM_TREE)
_NOT_OURS = (
    PathLocation.OUTSIDE,
    PathLocation.SYSTEM,
    PathLocation.TEMP_TREE,
    PathLocation.DEVICE,
    PathLocation.HOME,
)


def _is_git_history(touch: PathEffect, ground: PathLocation) -> bool:
    return touch.path.rstrip("/*").endswith(".git") and ground == PathLocation.INSIDE


def _is_not_ours(touch: PathEffect, ground: PathLocation) -> bool:
    return ground in _NOT_OURS and not touch.paths.is_harmless_device(touch.path)


def _forces_root(run: ProgramCall) -> bool:
    return run.options().has("", "no-preserve-root") and run.options().has("rR", "recursive")


DELETION_RULES = (
    PathRule(
        name="delete-the-system",
        level=CommandRisk.FORBIDDEN,
        why="It would delete the machine's own files ({part}) and leave nothing that works.",
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda touch, ground: ground in _WHOLE_SYSTEM,
    ),
    ProgramRule(
        name="delete-the-root",
        level=CommandRisk.FORBIDDEN,
        why="It takes away the last guard before deleting the root of the machine.",
        programs=word_set("rm"),
        matches=_forces_root,
    ),
    PathRule(
        name="delete-a-home",
        level=CommandRisk.FORBIDDEN,
        why="It would delete everything in a person's home ({part}).",
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda touch, ground: ground == PathLocation.HOME,
    ),
    PathRule(
        name="delete-the-workspace",
        level=CommandRisk.DANGEROUS,
        why="It would delete everything in the workspace ({part}).",
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda touch, ground: ground == PathLocation.WORKSPACE,
    ),
    PathRule(
        name="delete-a-history",
        level=CommandRisk.DANGEROUS,
        why="It would delete a repository's history ({part}).",
        actions=frozenset((PathAction.DELETE,)),
        matches=_is_git_history,
    ),
    PathRule(
        name="delete-outside",
        level=CommandRisk.DANGEROUS,
        why="It would delete {part}, which is not in the workspace.",
        actions=frozenset((PathAction.DELETE, PathAction.REMOVE)),
        matches=_is_not_ours,
    ),
    PathRule(
        name="delete-unknown",
        level=CommandRisk.DANGEROUS,
        why="It would delete a folder that only turns out when it runs ({part}).",
        actions=frozenset((PathAction.DELETE,)),
        matches=lambda touch, ground: ground == PathLocation.UNKNOWN,
    ),
)

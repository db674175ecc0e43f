"""Finding: where `find` looks, and what the paths that it finds have in common."""

from itertools import pairwise

EVERYTHING = "**"  # at the end of a path: all that is below, at any depth
SOMETHING = "found"  # as a name: some of what is below, chosen by age, size or owner

_NAMES = frozenset(("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex"))
# fmt: off
_NARROWING = frozenset((
    "-mtime", "-mmin", "-newer", "-size", "-empty", "-user", "-perm", "-atime", "-ctime", "-amin",
    "-cmin", "-inum", "-samefile", "-newermt",
))
# fmt: on
_ANY = "*./?[]"


def roots_of_find(args: tuple[str, ...]) -> list[str]:
    roots: list[str] = []
    for word in args:
        if word[:1] in ("-", "(", "!"):
            if word in ("-H", "-L", "-P") and not roots:
                continue
            break
        roots.append(word)
    return roots or ["."]


def name_of_find(args: tuple[str, ...]) -> str:
    """The last part of what it finds: by name where it looks for one that says something."""
    for option, value in pairwise(args):
        if option in _NAMES and value.strip(_ANY):
            return value.lstrip("*/") or "*"
    return EVERYTHING if _NARROWING.isdisjoint(args) else SOMETHING


def found_by(args: tuple[str, ...]) -> list[str]:
    """The paths that it finds, one for each place where it looks."""
    name = name_of_find(args)
    return [f"{root.rstrip('/')}/{name}" for root in roots_of_find(args)]

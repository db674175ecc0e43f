"""Finding: where `find` looks, and what the paths that it finds have in common."""

from itertools import pairwise

ANY_DEPTH = "**"  # at the end of a path: all that is below, at any depth
SOME_FILE = "found"  # as a name: some of what is below, chosen by age, size or owner

_NAME_OPTIONS = frozenset(("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex"))
# fmt: off
_FILTER_OPTIONS = frozenset((
    "-mtime", "-mmin", "-newer", "-size", "-empty", "-user", "-perm", "-atime", "-ctime", "-amin",
    "-cmin", "-inum", "-samefile", "-newermt",
))
# fmt: on
_WILDCARDS = "*./?[]"


def find_roots(args: tuple[str, ...]) -> list[str]:
    roots: list[str] = []
    for word in args:
        if word[:1] in ("-", "(", "!"):
            if word in ("-H", "-L", "-P") and not roots:
                continue
            break
        roots.append(word)
    return roots or ["."]


def find_name(args: tuple[str, ...]) -> str:
    """The last part of what it finds: by name where it looks for one that says something."""
    for option, value in pairwise(args):
        if option in _NAME_OPTIONS and value.strip(_WILDCARDS):
            return value.lstrip("*/") or "*"
    return ANY_DEPTH if _FILTER_OPTIONS.isdisjoint(args) else SOME_FILE


def find_results(args: tuple[str, ...]) -> list[str]:
    """The paths that it finds, one for each place where it looks."""
    name = find_name(args)
    return [f"{root.rstrip('/')}/{name}" for root in find_roots(args)]

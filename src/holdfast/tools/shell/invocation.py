"""One program with its arguments as the shell would start it, its options, its effects on paths,
and the code nested in it."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec

from holdfast.tools.shell.markers import displayable
from holdfast.tools.shell.paths import PathResolver


class ParsedOptions(msgspec.Struct, frozen=True, kw_only=True):
    shorts: str
    longs: tuple[tuple[str, str], ...]
    operands: tuple[str, ...]
    values: tuple[tuple[str, str], ...] = ()  # of short options

    def has(self, shorts: str, *longs: str) -> bool:
        """Whether one of these options is given; a long one may be abbreviated."""
        return any(short in self.shorts for short in shorts) or any(
            len(given) > 1 and long.startswith(given) for given, _ in self.longs for long in longs
        )

    def value(self, short: str, *longs: str) -> str | None:
        for name, value in self.values:
            if name in short:
                return value
        for given, value in self.longs:
            if any(len(given) > 1 and long.startswith(given) for long in longs):
                return value
        return None


def parse_options(
    args: Sequence[str],
    *,
    valued: str = "",
    valued_longs: Iterable[str] = (),
    mixed: bool = True,
) -> ParsedOptions:
    """`valued`: short options that take a value. Not `mixed`: operands end the options, as with
    a command that runs another."""
    shorts, operands = "", list[str]()
    longs: list[tuple[str, str]] = []
    values: list[tuple[str, str]] = []
    takes = tuple(valued_longs)
    rest = deque(args)
    while rest:
        word = rest.popleft()
        if word == "--":
            operands += rest
            break
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name in takes and rest:
                value = rest.popleft()
            longs.append((name, value))
        elif len(word) > 1 and word[0] == "-":
            shorts += _parse_shorts(word[1:], rest, valued, values)
        elif mixed:
            operands.append(word)
        else:
            operands += [word, *rest]
            break
    return ParsedOptions(
        shorts=shorts, longs=tuple(longs), operands=tuple(operands), values=tuple(values)
    )


def _parse_shorts(
    cluster: str, rest: deque[str], valued: str, values: list[tuple[str, str]]
) -> str:
    for at, letter in enumerate(cluster):
        if letter in valued:
            value = cluster[at + 1 :] or (rest.popleft() if rest else "")
            values.append((letter, value))
            return cluster[: at + 1]
    return cluster


class ProgramCall(msgspec.Struct, frozen=True, kw_only=True):
    program: str  # its bare name
    args: tuple[str, ...]
    paths: PathResolver
    stdin: str = ""
    called_as: str = ""  # as it was written, with its folder

    @property
    def excerpt(self) -> str:
        return to_excerpt(" ".join((self.program, *self.args)))

    def options(
        self, valued: str = "", valued_longs: tuple[str, ...] = (), *, mixed: bool = True
    ) -> ParsedOptions:
        return parse_options(self.args, valued=valued, valued_longs=valued_longs, mixed=mixed)


class PathAction(StrEnum):
    DELETE = "delete"  # with all that is in it
    REMOVE = "remove"  # one file
    WRITE = "write"
    READ = "read"
    MAKE_WRITABLE = "open up"  # let all users write, recursively
    CHANGE_OWNER_OR_MODE = "change"  # owner or mode, with all that is in it


class PathEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A path, and the action on it."""

    action: PathAction
    path: str
    paths: PathResolver


PathActions = Iterator[tuple[PathAction, str]]


class Hazard(StrEnum):
    """A danger in how a command is written, independent of the programs that it runs."""

    FORK_BOMB = "fork-bomb"
    NETWORK_CODE = "code-from-the-network"
    HIDDEN_CODE = "hidden-code"
    UNKNOWN_CODE = "code-nobody-knows"
    HIDDEN_PROGRAM = "hidden-program"
    UNREADABLE = "unreadable"
    TOO_COMPLEX = "too-tangled"
    TOO_LONG = "too-long"
    REMOTE_SHELL = "remote-shell"
    FOREIGN_LIBRARY = "foreign-library"
    FOREIGN_PROGRAM = "foreign-program"
    FOREIGN_PACKAGES = "foreign-package-index"
    ESCAPED_SHELL = "shell-from-a-program"
    SENT_FILES = "code-that-sends-files"


class FoundHazard(msgspec.Struct, frozen=True, kw_only=True):
    hazard: Hazard
    part: str


def to_excerpt(text: str) -> str:
    """A part of a command as people may see it, in full."""
    return displayable(text)


class NestedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Words that another command runs unchanged."""

    words: tuple[str, ...]
    stdin: str = ""
    cwd: str = ""


class NestedScript(msgspec.Struct, frozen=True, kw_only=True):
    """Text that a shell reads."""

    text: str
    part: str  # the command that hands it to the shell
    arguments: tuple[str, ...] | None = None
    cwd: str = ""
    same_shell: bool = False  # what it sets, stays
    inline: bool = False  # among the words of the command, and not in a file


class NestedCode(msgspec.Struct, frozen=True, kw_only=True):
    """Text that another interpreter reads."""

    text: str
    part: str


Nested = NestedCommand | NestedScript | NestedCode

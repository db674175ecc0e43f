"""A run: one program with its arguments, as the shell would start it; and what else was seen."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from holdfast.tools.shell.markers import displayable
from holdfast.tools.shell.options import ParsedOptions, parse_options
from holdfast.tools.shell.paths import PathResolver

_MAX_EXCERPT = 200


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
    MAKE_WRITABLE = "open up"  # let everybody write, with all that is in it
    CHANGE_OWNER_OR_MODE = "change"  # owner or mode, with all that is in it


class PathEffect(msgspec.Struct, frozen=True, kw_only=True):
    """A path, and what is done to it."""

    action: PathAction
    path: str
    paths: PathResolver


PathActions = Iterator[tuple[PathAction, str]]


class Hazard(StrEnum):
    """What is seen in how a command is put together, rather than in one run."""

    FORK_BOMB = "fork-bomb"
    NETWORK_CODE = "code-from-the-network"
    HIDDEN_CODE = "hidden-code"
    UNKNOWN_CODE = "code-nobody-knows"
    HIDDEN_PROGRAM = "hidden-program"
    UNREADABLE = "unreadable"
    TOO_COMPLEX = "too-tangled"
    REMOTE_SHELL = "remote-shell"
    FOREIGN_LIBRARY = "foreign-library"


class FoundHazard(msgspec.Struct, frozen=True, kw_only=True):
    hazard: Hazard
    part: str


def to_excerpt(text: str) -> str:
    text = displayable(text)
    return text if len(text) <= _MAX_EXCERPT else text[: _MAX_EXCERPT - 1] + "…"

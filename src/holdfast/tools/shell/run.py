"""A run: one program with its arguments, as the shell would start it; and what else was seen."""

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from holdfast.tools.shell.markers import shown
from holdfast.tools.shell.options import Options, read_options
from holdfast.tools.shell.paths import Place

_LONGEST_PART = 200


class Run(msgspec.Struct, frozen=True, kw_only=True):
    program: str  # its bare name
    args: tuple[str, ...]
    place: Place
    stdin: str = ""
    called: str = ""  # as it was written, with its folder

    @property
    def said(self) -> str:
        return part_of(" ".join((self.program, *self.args)))

    def options(
        self, valued: str = "", valued_longs: tuple[str, ...] = (), *, mixed: bool = True
    ) -> Options:
        return read_options(self.args, valued=valued, valued_longs=valued_longs, mixed=mixed)


class Deed(StrEnum):
    DELETE = "delete"  # with all that is in it
    REMOVE = "remove"  # one file
    WRITE = "write"
    READ = "read"
    OPEN_UP = "open up"  # let everybody write, with all that is in it
    CHANGE = "change"  # owner or mode, with all that is in it


class Touch(msgspec.Struct, frozen=True, kw_only=True):
    """A path, and what is done to it."""

    deed: Deed
    path: str
    place: Place


Touched = Iterator[tuple[Deed, str]]


class Sight(StrEnum):
    """What is seen in how a command is put together, rather than in one run."""

    FORK_BOMB = "fork-bomb"
    NETWORK_CODE = "code-from-the-network"
    HIDDEN_CODE = "hidden-code"
    UNKNOWN_CODE = "code-nobody-knows"
    HIDDEN_PROGRAM = "hidden-program"
    UNREADABLE = "unreadable"
    TANGLED = "too-tangled"
    REMOTE_SHELL = "remote-shell"
    FOREIGN_LIBRARY = "foreign-library"


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    sight: Sight
    part: str


def part_of(text: str) -> str:
    text = shown(text)
    return text if len(text) <= _LONGEST_PART else text[: _LONGEST_PART - 1] + "…"

"""What a command carries inside: another command, a script, or code in another language."""

import msgspec


class NestedCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Words that are run as they are."""

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

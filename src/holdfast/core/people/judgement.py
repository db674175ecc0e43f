"""A judgement: what is thought of a command before it runs."""

from enum import StrEnum
from typing import Protocol

import msgspec


class CommandRisk(StrEnum):
    HARMLESS = "harmless"  # runs
    DANGEROUS = "dangerous"  # a person is asked first
    FORBIDDEN = "hopeless"  # refused: nobody could want it


class CommandVerdict(msgspec.Struct, frozen=True, kw_only=True):
    level: CommandRisk
    rule: str = ""  # the rule that decided, by name: what "always" is remembered by
    why: str = ""  # for people: what it would do
    part: str = ""  # the piece of the command that the rule saw


HARMLESS = CommandVerdict(level=CommandRisk.HARMLESS)


class CommandJudge(Protocol):
    def judge(self, command: str) -> CommandVerdict:
        """The worst thing that the command, as a shell would read it, may do. Never raises:
        what cannot be read is dangerous, and says so."""
        ...

"""A judgement: what is thought of a command before it runs."""

from enum import StrEnum
from typing import Protocol

import msgspec


class Level(StrEnum):
    HARMLESS = "harmless"  # runs
    DANGEROUS = "dangerous"  # a person is asked first
    HOPELESS = "hopeless"  # refused: nobody could want it


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    level: Level
    rule: str = ""  # the rule that decided, by name: what "always" is remembered by
    why: str = ""  # for people: what it would do
    part: str = ""  # the piece of the command that the rule saw


HARMLESS = Judgement(level=Level.HARMLESS)


class Judge(Protocol):
    def judge(self, command: str) -> Judgement:
        """The worst thing that the command, as a shell would read it, may do. Never raises:
        what cannot be read is dangerous, and says so."""
        ...

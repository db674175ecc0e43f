"""The commands: one table of names, arguments, help and permissions, read by every door."""

from enum import StrEnum

import msgspec


class Permission(StrEnum):
    """Who may give a command."""

    TALK = "talk"  # whoever may talk to the agent
    OPERATE = "operate"  # whoever runs the gateway


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    help: str  # one line, without the name
    arguments: str = ""  # as shown: "[NAME]" may be left out, "TEXT" may not
    aliases: tuple[str, ...] = ()
    permission: Permission = Permission.TALK
    outlives_restart: bool = True  # False: one typed before this start is dropped
    mid_turn: bool = True  # False: while a turn runs it says so and does nothing

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.arguments}".rstrip()


COMMANDS = (
    CommandSpec(name="help", help="show what the gateway itself can do"),
    CommandSpec(
        name="model",
        arguments="[NAME | default]",
        help="show the model, or use another one in this conversation",
    ),
    CommandSpec(
        name="new",
        aliases=("reset",),
        help="begin a new conversation; the old one is kept",
    ),
    CommandSpec(name="status", help="show what this session and the gateway are doing"),
    CommandSpec(
        name="stop",
        help="stop what the agent is doing, and drop what waits behind it",
        outlives_restart=False,  # what it was to stop died with the process it was typed to
    ),
)

BY_NAME = {name: spec for spec in COMMANDS for name in (spec.name, *spec.aliases)}

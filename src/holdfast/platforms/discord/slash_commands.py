"""Slash commands: what Discord offers to whoever types a slash."""

from typing import Any

from holdfast.core.people.commands import COMMANDS_BY_NAME, command_menu

_MAX_DESCRIPTION_LENGTH = 100
_TEXT_OPTION = 3  # the type of an option that is a text
_GUILD_CONTEXT, _DM_CONTEXT = 0, 1  # where a command is offered


def slash_commands() -> list[dict[str, Any]]:
    """https://discord.com/developers/docs/interactions/application-commands: those that everybody
    may give. Whatever follows a command is one text: what it means is for the command to say."""
    return [
        {
            "name": each.name,
            "description": each.help[:_MAX_DESCRIPTION_LENGTH],
            "contexts": [_GUILD_CONTEXT, _DM_CONTEXT],
            "options": _options(COMMANDS_BY_NAME[each.name].arguments),
        }
        for each in command_menu()
    ]


def _options(arguments: str) -> list[dict[str, Any]]:
    if not arguments:
        return []
    required = not arguments.startswith("[")
    description = arguments[:_MAX_DESCRIPTION_LENGTH]
    return [
        {"type": _TEXT_OPTION, "name": "text", "description": description, "required": required}
    ]

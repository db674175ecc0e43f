"""Slash commands: what Discord offers to whoever types a slash."""

from typing import Any

from holdfast.core.people.commands import BY_NAME, menu

_LONGEST_HELP = 100
_TEXT = 3  # the type of an option that is a text
_SERVERS, _DMS = 0, 1  # where a command is offered


def slash_commands() -> list[dict[str, Any]]:
    """https://discord.com/developers/docs/interactions/application-commands: those that everybody
    may give. Whatever follows a command is one text: what it means is for the command to say."""
    return [
        {
            "name": each.name,
            "description": each.help[:_LONGEST_HELP],
            "contexts": [_SERVERS, _DMS],
            "options": _options(BY_NAME[each.name].arguments),
        }
        for each in menu()
    ]


def _options(arguments: str) -> list[dict[str, Any]]:
    if not arguments:
        return []
    required = not arguments.startswith("[")
    description = arguments[:_LONGEST_HELP]
    return [{"type": _TEXT, "name": "text", "description": description, "required": required}]

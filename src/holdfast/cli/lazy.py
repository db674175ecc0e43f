"""A group of commands that imports each of them only when it is called."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class LazyCommand(NamedTuple):
    """A command to be: the module whose `command` it is, and its line in the help."""

    module: str
    summary: str


class LazyGroup(click.Group):
    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*args, **options)
        self._commands = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._commands:
            return None
        command = import_module(self._commands[cmd_name].module).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """One that there is not is told with the one that may have been meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib  # noqa: PLC0415 - for an error alone

            for near in difflib.get_close_matches(args[0], self._commands, n=1):
                told = f"{error.message} Did you mean {near!r}?"
                raise click.UsageError(told, ctx=error.ctx) from None
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of the commands, without importing any of them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=lazy.summary)
            for name, lazy in self._commands.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.summary) for name, lazy in self._commands.items()])

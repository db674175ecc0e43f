"""The root command: the list of all commands, loaded lazily, and the exit code of an error.

Import nothing heavier than click here: every command and every start of the gateway passes through
this file.
"""

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from holdfast import __version__
from holdfast.cli.common.language import translate_command
from holdfast.cli.common.options import home_option
from holdfast.cli.common.output import (
    find_undecodable,
    json_option,
    print_json,
    replace_unencodable,
)
from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import N_, _


class LazyCommand(NamedTuple):
    """Where a command is defined, and its help line. `module` is `package.module`, whose `command`
    it is, or `package.module:name`."""

    module: str
    summary: str


class LazyGroup(click.Group):
    """A group that imports each of its commands only when it is called, and translates its help."""

    def __init__(self, *args: Any, lazy: Mapping[str, LazyCommand], **options: Any) -> None:
        super().__init__(*args, **options)
        self._commands = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._commands:
            return None
        module, _colon, name = self._commands[cmd_name].module.partition(":")
        command = vars(import_module(module))[name or "command"]
        assert isinstance(command, click.Command)
        return translate_command(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """An unknown command is reported with the closest known one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib  # noqa: PLC0415 - only for an error

            for near in difflib.get_close_matches(args[0], self._commands, n=1):
                message = _("{error} Did you mean {name!r}?").format(error=error.message, name=near)
                raise click.UsageError(message, ctx=error.ctx) from None
            raise

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of the commands, without importing any of them."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=_(lazy.summary))
            for name, lazy in self._commands.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, _(lazy.summary)) for name, lazy in self._commands.items()])


COMMANDS = {
    "run": LazyCommand("holdfast.cli.gateway.run", N_("Start the gateway in the foreground.")),
    "gateway": LazyCommand(
        "holdfast.cli.gateway.command", N_("Start, stop, restart or install the gateway.")
    ),
    "chat": LazyCommand("holdfast.cli.chat.app", N_("Talk to the agent in this terminal.")),
    "ask": LazyCommand("holdfast.cli.ask", N_("Ask one thing and print the answer, for scripts.")),
    "send": LazyCommand("holdfast.cli.send", N_("Send a message or a file to a chat.")),
    "link": LazyCommand(
        "holdfast.cli.tokens:link_command", N_("Print a link that opens the page and logs you in.")
    ),
    "setup": LazyCommand("holdfast.cli.setup", N_("Choose a model, test it, and save the choice.")),
    "status": LazyCommand(
        "holdfast.cli.status.command", N_("Show the status of the running gateway.")
    ),
    "top": LazyCommand("holdfast.cli.top.command", N_("Watch the gateway live.")),
    "sessions": LazyCommand(
        "holdfast.cli.sessions", N_("List, read, follow, export or delete conversations.")
    ),
    "search": LazyCommand("holdfast.cli.search", N_("Search all conversations.")),
    "memory": LazyCommand(
        "holdfast.cli.memory", N_("Show or change notes about people and chats.")
    ),
    "jobs": LazyCommand("holdfast.cli.jobs", N_("Schedule tasks for agents, once or regularly.")),
    "platforms": LazyCommand(
        "holdfast.cli.platforms.command",
        N_("Add, show, check, pause or resume accounts of chat platforms."),
    ),
    "approvals": LazyCommand(
        "holdfast.cli.approvals", N_("List and answer dangerous commands that wait for approval.")
    ),
    "pairing": LazyCommand(
        "holdfast.cli.pairing", N_("Pair users who wrote to a bot, or revoke their access.")
    ),
    "logs": LazyCommand("holdfast.cli.logs", N_("Read the gateway's log.")),
    "audit": LazyCommand(
        "holdfast.cli.audit", N_("See who asked, who allowed it, and what was done.")
    ),
    "models": LazyCommand(
        "holdfast.cli.models", N_("List the models, or check whether they work.")
    ),
    "backup": LazyCommand("holdfast.cli.backup", N_("Create, list and verify backups.")),
    "restore": LazyCommand(
        "holdfast.cli.restore", N_("Restore a backup, or recover a damaged database.")
    ),
    "doctor": LazyCommand(
        "holdfast.cli.doctor.command", N_("Find problems, and fix what can be fixed.")
    ),
    "config": LazyCommand(
        "holdfast.cli.config.command", N_("Show, change or roll back the configuration.")
    ),
    "judge": LazyCommand(
        "holdfast.cli.judge", N_("Classify a shell command as the approval policy would.")
    ),
    "token": LazyCommand("holdfast.cli.tokens", N_("Print the API token; create read-only ones.")),
    "completion": LazyCommand(
        "holdfast.cli.root:completion_command", N_("Print a completion script for your shell.")
    ),
    "version": LazyCommand("holdfast.cli.root:version_command", N_("Print the version.")),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@home_option
@click.version_option(__version__, message="holdfast %(version)s")
def cli() -> None:
    """Holdfast: a durable gateway between chat platforms and AI agents.

    \b
    Start it, check it, talk to it:
      holdfast run
      holdfast status
      holdfast chat
      holdfast ask "How much disk is free?"

    Settings are in holdfast.toml in the home directory, or in HOLDFAST_… variables;
    `holdfast config show` lists them all.
    """
    if (word := find_undecodable(sys.argv[1:])) is not None:
        raise click.UsageError(
            _("'{word}' is not valid in the encoding of this shell: use UTF-8.").format(word=word)
        )


def run() -> None:
    """Runs the command line; a `HoldfastError` is printed and sets the exit code."""
    replace_unencodable()
    try:
        translate_command(cli).main(prog_name="holdfast")
    except HoldfastError as error:
        click.echo(f"{click.style(_('error:'), fg='red')} {error.for_person()}", err=True)
        from holdfast.config.home import process_environment  # noqa: PLC0415 - as in exit_code
        from holdfast.system.exit_codes import launchd_exit_code  # noqa: PLC0415 - as above

        sys.exit(launchd_exit_code(exit_code(error), process_environment()))


def exit_code(error: HoldfastError) -> int:
    # Imported here: what raised the error has loaded these already.
    from holdfast.config import ConfigError  # noqa: PLC0415 - not for --help
    from holdfast.server.local.control_client import GatewayDown, GatewayStoreUnavailable  # noqa: PLC0415 - as above
    from holdfast.system import exit_codes  # noqa: PLC0415 - as above
    from holdfast.system.lock import HomeInUse  # noqa: PLC0415 - as above

    match error:
        case ConfigError():
            return exit_codes.CONFIG_EXIT
        case GatewayStoreUnavailable():
            return exit_codes.FAILED
        case GatewayDown():
            return exit_codes.GATEWAY_DOWN
        case HomeInUse():
            return exit_codes.HOME_IN_USE
    return exit_codes.FAILED


@click.command("version")
@json_option
def version_command(as_json: bool) -> None:
    """Print the version."""
    if as_json:
        import platform  # noqa: PLC0415 - not needed for other commands

        print_json({"holdfast": __version__, "python": platform.python_version()})
    else:
        click.echo(_("holdfast {version}").format(version=__version__))


SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> None:
    """Print a completion script for your shell.

    \b
    bash, in ~/.bashrc:                      eval "$(holdfast completion bash)"
    zsh, in ~/.zshrc, after compinit:        eval "$(holdfast completion zsh)"
    fish, once:  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - not for --help

    kind = get_completion_class(shell)
    assert kind is not None, "click supports every shell in SHELLS"
    click.echo(kind(cli, {}, "holdfast", "_HOLDFAST_COMPLETE").source())

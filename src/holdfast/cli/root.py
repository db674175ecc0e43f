"""The root of the commands, and what the shell hears when one fails."""

import sys

import click

from holdfast import __version__
from holdfast.cli.common.home import home_option
from holdfast.cli.common.letters import find_undecodable, replace_unencodable
from holdfast.cli.lazy import LazyCommand, LazyGroup
from holdfast.core.errors import HoldfastError

COMMANDS = {
    "run": LazyCommand("holdfast.cli.gateway.run", "Start the gateway and stay in front of it."),
    "gateway": LazyCommand(
        "holdfast.cli.gateway.gateway_group", "Start, stop, restart or install the gateway."
    ),
    "chat": LazyCommand("holdfast.cli.chat.chat", "Talk to the agent in this terminal."),
    "ask": LazyCommand("holdfast.cli.ask", "Ask one thing and print the answer, for scripts."),
    "send": LazyCommand("holdfast.cli.send", "Send a message or a file to a chat."),
    "link": LazyCommand("holdfast.cli.link", "Print a link that opens the page, logged in."),
    "setup": LazyCommand("holdfast.cli.setup", "Set up a model, or an account of a chat platform."),
    "status": LazyCommand("holdfast.cli.status.status", "Ask the running gateway how it is."),
    "top": LazyCommand("holdfast.cli.top.command", "Watch the gateway at work, live."),
    "sessions": LazyCommand(
        "holdfast.cli.sessions", "List, read, follow, export or delete conversations."
    ),
    "search": LazyCommand("holdfast.cli.search", "Find words in all that was ever said."),
    "memory": LazyCommand("holdfast.cli.memory", "Show or change what is remembered about people."),
    "jobs": LazyCommand("holdfast.cli.jobs", "Have agents do something later, or regularly."),
    "platforms": LazyCommand(
        "holdfast.cli.platforms.platforms",
        "Show, check, pause or resume the accounts of chat platforms.",
    ),
    "approvals": LazyCommand(
        "holdfast.cli.approvals", "List dangerous commands that wait for approval; answer them."
    ),
    "pairing": LazyCommand(
        "holdfast.cli.pairing", "Let people in who wrote to a bot; send them away."
    ),
    "logs": LazyCommand("holdfast.cli.logs", "Read the gateway's log."),
    "audit": LazyCommand("holdfast.cli.audit", "See who asked, who allowed it, and what was done."),
    "models": LazyCommand("holdfast.cli.models", "List the models, or check whether they work."),
    "backup": LazyCommand(
        "holdfast.cli.backup", "Back up a home, running or not; list and verify."
    ),
    "restore": LazyCommand(
        "holdfast.cli.restore", "Put a backup back, or save a damaged database."
    ),
    "doctor": LazyCommand(
        "holdfast.cli.doctor.doctor", "Say what is wrong here, and mend what can be."
    ),
    "config": LazyCommand(
        "holdfast.cli.config.config", "Look at the configuration, change it, and go back."
    ),
    "judge": LazyCommand("holdfast.cli.judge", "Say what is thought of a shell command."),
    "token": LazyCommand(
        "holdfast.cli.token", "Print the API's token; make others that only look."
    ),
    "completion": LazyCommand(
        "holdfast.cli.completion", "Print a completion script for your shell."
    ),
    "version": LazyCommand("holdfast.cli.version", "Print the version."),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@home_option
@click.version_option(__version__, message="holdfast %(version)s")
def cli() -> None:
    """Holdfast: the gateway between chat platforms and agents that never lets go.

    \b
    Start it, look at it, talk to it:
      holdfast run
      holdfast status
      holdfast chat
      holdfast ask "How much disk is free?"

    Settings are in holdfast.toml in the home directory, or in HOLDFAST_… variables;
    `holdfast config show` lists them all.
    """
    if (word := find_undecodable(sys.argv[1:])) is not None:
        raise click.UsageError(f"'{word}' is not text in the encoding of this shell: write UTF-8.")


def run() -> None:
    """Run the command line; an error of ours becomes its text and its exit code."""
    replace_unencodable()
    try:
        cli.main(prog_name="holdfast")
    except HoldfastError as error:
        click.echo(f"{click.style('error:', fg='red')} {error}", err=True)
        from holdfast.config.surroundings import process_environment  # noqa: PLC0415 - as in exit_code
        from holdfast.system.launchd_exit import launchd_exit_code  # noqa: PLC0415 - as above

        sys.exit(launchd_exit_code(exit_code(error), process_environment()))


def exit_code(error: HoldfastError) -> int:
    # Imported here: by now whatever raised the error has loaded these.
    from holdfast.config import ConfigError  # noqa: PLC0415 - not on the way of --help
    from holdfast.server.local.client import GatewayDown, GatewayStoreUnavailable  # noqa: PLC0415 - as above
    from holdfast.system import exits  # noqa: PLC0415 - as above
    from holdfast.system.lock import HomeInUse  # noqa: PLC0415 - as above

    match error:
        case ConfigError():
            return exits.CONFIG_EXIT
        case GatewayStoreUnavailable():
            return exits.FAILED
        case GatewayDown():
            return exits.GATEWAY_DOWN
        case HomeInUse():
            return exits.HOME_IN_USE
    return exits.FAILED

"""The root of the commands, and what the shell hears when one fails."""

import sys

import click

from holdfast import __version__
from holdfast.cli.common.home import home_option
from holdfast.cli.common.letters import forgive, unreadable
from holdfast.cli.lazy import Lazy, LazyGroup
from holdfast.core.errors import HoldfastError

COMMANDS = {
    "run": Lazy("holdfast.cli.gateway.run", "Start the gateway and stay in front of it."),
    "gateway": Lazy(
        "holdfast.cli.gateway.gateway_group", "Start, stop, restart or install the gateway."
    ),
    "chat": Lazy("holdfast.cli.chat.chat", "Talk to the agent in this terminal."),
    "ask": Lazy("holdfast.cli.ask", "Ask one thing and print the answer, for scripts."),
    "send": Lazy("holdfast.cli.send", "Send a message or a file to a chat."),
    "link": Lazy("holdfast.cli.link", "Print a link that opens the page, logged in."),
    "setup": Lazy("holdfast.cli.setup", "Set up a model, or an account of a chat platform."),
    "status": Lazy("holdfast.cli.status.status", "Ask the running gateway how it is."),
    "top": Lazy("holdfast.cli.top.command", "Watch the gateway at work, live."),
    "sessions": Lazy(
        "holdfast.cli.sessions", "List, read, follow, export or delete conversations."
    ),
    "search": Lazy("holdfast.cli.search", "Find words in all that was ever said."),
    "memory": Lazy("holdfast.cli.memory", "Show or change what is remembered about people."),
    "jobs": Lazy("holdfast.cli.jobs", "Have agents do something later, or regularly."),
    "platforms": Lazy(
        "holdfast.cli.platforms.platforms",
        "Show, check, pause or resume the accounts of chat platforms.",
    ),
    "approvals": Lazy(
        "holdfast.cli.approvals", "List dangerous commands that wait for approval; answer them."
    ),
    "pairing": Lazy("holdfast.cli.pairing", "Let people in who wrote to a bot; send them away."),
    "logs": Lazy("holdfast.cli.logs", "Read the gateway's log."),
    "audit": Lazy("holdfast.cli.audit", "See who asked, who allowed it, and what was done."),
    "models": Lazy("holdfast.cli.models", "List the models, or check whether they work."),
    "backup": Lazy("holdfast.cli.backup", "Back up a home, running or not; list and verify."),
    "restore": Lazy("holdfast.cli.restore", "Put a backup back, or save a damaged database."),
    "doctor": Lazy("holdfast.cli.doctor.doctor", "Say what is wrong here, and mend what can be."),
    "config": Lazy(
        "holdfast.cli.config.config", "Look at the configuration, change it, and go back."
    ),
    "judge": Lazy("holdfast.cli.judge", "Say what is thought of a shell command."),
    "token": Lazy("holdfast.cli.token", "Print the API's token; make others that only look."),
    "completion": Lazy("holdfast.cli.completion", "Print a completion script for your shell."),
    "version": Lazy("holdfast.cli.version", "Print the version."),
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
    if (word := unreadable(sys.argv[1:])) is not None:
        raise click.UsageError(f"'{word}' is not text in the encoding of this shell: write UTF-8.")


def run() -> None:
    """Run the command line; an error of ours becomes its text and its exit code."""
    forgive()
    try:
        cli.main(prog_name="holdfast")
    except HoldfastError as error:
        click.echo(f"{click.style('error:', fg='red')} {error}", err=True)
        from holdfast.config.surroundings import surroundings  # noqa: PLC0415 - as in exit_code
        from holdfast.system.launchd_exit import exit_for  # noqa: PLC0415 - as above

        sys.exit(exit_for(exit_code(error), surroundings()))


def exit_code(error: HoldfastError) -> int:
    # Imported here: by now whatever raised the error has loaded these.
    from holdfast.config import ConfigError  # noqa: PLC0415 - not on the way of --help
    from holdfast.server.local.client import GatewayDown, GatewayUnable  # noqa: PLC0415 - as above
    from holdfast.system import exits  # noqa: PLC0415 - as above
    from holdfast.system.lock import HomeInUse  # noqa: PLC0415 - as above

    match error:
        case ConfigError():
            return exits.CONFIG_EXIT
        case GatewayUnable():
            return exits.FAILED
        case GatewayDown():
            return exits.GATEWAY_DOWN
        case HomeInUse():
            return exits.HOME_IN_USE
    return exits.FAILED

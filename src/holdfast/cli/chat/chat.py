"""`holdfast chat`: talk to the agent in a terminal."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import BUSY_MODES, complete_session, require_name

DEFAULT_SESSION = "terminal"
HISTORY_FILE = "chat_history"


@click.command("chat")
@home_option
@click.option(
    "--session",
    "name",
    metavar="NAME",
    default=DEFAULT_SESSION,
    show_default=True,
    callback=require_name,
    shell_complete=complete_session,
    help="Which conversation: a name of your own, or an id of `holdfast sessions list`.",
)
@click.option("--new", is_flag=True, help="Begin afresh under that name; the old one is kept.")
@click.option(
    "--mode", type=click.Choice(BUSY_MODES), help="What a message does to a running reply."
)
def command(name: str, new: bool, mode: str | None) -> None:
    """Talk to the agent; it goes on where you left it.

    \b
    Ctrl-C   stops the reply that is coming; at the prompt, clears the line
    Ctrl-D   leaves; what runs goes on, and `holdfast chat` comes back to it
    Tab      completes /commands; the arrow keys have what you said before
    \\        at the end of a line goes on in the next; \"\"\" begins and ends a block

    What you type while a reply comes is sent at once, and does what --mode says.

    \b
    Examples:
      holdfast chat
      holdfast chat --session ops
      holdfast chat --new
    """
    from holdfast.cli.chat.talking import run_chat  # noqa: PLC0415 - as above
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help

    home = chosen_home()
    run_chat(api_client_for(home), name=name, new=new, mode=mode, history=home / HISTORY_FILE)

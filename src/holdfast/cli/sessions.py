"""`holdfast sessions`: which conversations there are, what was said in one, and moving them."""

from typing import BinaryIO

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import complete_session
from holdfast.cli.common.output import json_option

_NAME_OR_ID = "NAME-OR-ID"


@click.group("sessions")
@home_option
def command() -> None:
    """List, read, follow, export, import or delete conversations.

    A session is named by its id, by the beginning of its id, or by the name it was given with
    --session. The running gateway is asked; with none running, `list` and `show` read its store
    under its lock.

    \b
    Examples:
      holdfast sessions list
      holdfast sessions show ops
      holdfast sessions follow s_0199a
      holdfast sessions export ops -o ops.jsonl
    """


@command.command("list")
@home_option
@json_option
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@click.option("--offset", type=click.IntRange(0), default=0, help="Leave out that many.")
@click.option("--children", is_flag=True, help="With those of child agents.")
def list_sessions(as_json: bool, limit: int, offset: int, children: bool) -> None:
    """The conversations, the most recently active first."""
    from holdfast.cli.sessions_read import print_sessions  # noqa: PLC0415 - not needed for --help

    print_sessions(chosen_home(), limit=limit, offset=offset, subagents=children, as_json=as_json)


@command.command("show")
@home_option
@json_option
@click.argument("name", metavar=_NAME_OR_ID, shell_complete=complete_session)
def show_session(as_json: bool, name: str) -> None:
    """One conversation: its transcript and its turns."""
    from holdfast.cli.sessions_read import print_session  # noqa: PLC0415 - not needed for --help

    print_session(chosen_home(), name, as_json=as_json)


@command.command("follow")
@home_option
@click.argument("name", metavar=_NAME_OR_ID, shell_complete=complete_session)
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event, as it comes.")
def follow_session(name: str, as_json: bool) -> None:
    """Watch a conversation live; Ctrl-C ends that, and touches nothing."""
    from holdfast.cli.chat.watching import follow  # noqa: PLC0415 - as above
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help

    follow(api_client_for(chosen_home()), name, as_json=as_json)


@command.command("export")
@home_option
@click.argument("name", metavar=_NAME_OR_ID, shell_complete=complete_session)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write it there (new, 0600).")
def export_session(name: str, output: str | None) -> None:
    """A conversation as JSON Lines: the session, then its records."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help
    from holdfast.cli.sessions_moved import export_transcript  # noqa: PLC0415 - as above

    export_transcript(api_client_for(chosen_home()), name, output=output)


@command.command("import", short_help="Take in what `export` wrote, as a session of its own.")
@home_option
@json_option
@click.argument("file", type=click.File("rb"), default="-")
def import_session(as_json: bool, file: BinaryIO) -> None:
    """Take in what `export` wrote, from a FILE or standard input, as a session of its own."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help
    from holdfast.cli.sessions_moved import import_transcript  # noqa: PLC0415 - as above

    import_transcript(api_client_for(chosen_home()), file.read(), as_json=as_json)


@command.command("delete")
@home_option
@click.argument(
    "names", metavar=f"{_NAME_OR_ID}...", nargs=-1, required=True, shell_complete=complete_session
)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def delete_sessions(names: tuple[str, ...], yes: bool) -> None:
    """Delete conversations for good, with their files and processes."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help
    from holdfast.cli.sessions_moved import delete_by_name  # noqa: PLC0415 - as above

    delete_by_name(api_client_for(chosen_home()), names, yes=yes)

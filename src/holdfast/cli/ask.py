"""`holdfast ask`: one question, one answer, for scripts."""

import sys

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import complete_session, require_name
from holdfast.cli.common.output import json_option


@click.command("ask")
@home_option
@json_option
@click.argument("text", nargs=-1)
@click.option(
    "--session",
    metavar="NAME",
    callback=require_name,
    shell_complete=complete_session,
    help="Go on in this conversation.  [default: a fresh one]",
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="Attach a file; it is put into the agent's workspace, under uploads/. May be repeated.",
)
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds to wait.")
@click.option(
    "--message-id",
    metavar="ID",
    help="A name for this question: asked again with it, it is the same question.",
)
def command(
    as_json: bool,
    text: tuple[str, ...],
    session: str | None,
    files: tuple[str, ...],
    timeout: float | None,
    message_id: str | None,
) -> None:
    """Ask one thing, wait, and print the answer alone.

    What comes on standard input is appended to the question. Progress goes to standard error, if
    that is a terminal. A gateway that restarts meanwhile is waited for, a minute at the most.

    \b
    Exits with 0 answered, 1 failed, refused or stopped, 2 wrong usage, 3 no gateway,
    124 no answer in time (the work goes on).

    \b
    Examples:
      holdfast ask "How much disk is free?"
      git diff | holdfast ask "Write a commit message for this."
      holdfast ask --session ops --json --timeout 60 "Is the backup done?"
      holdfast ask --file plan.pdf "What does it say about costs?"
    """
    from holdfast.cli.asking import AskRequest, ask, print_answer  # noqa: PLC0415 - not for --help
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - as above

    question = AskRequest(
        text=_read_question(text),
        session=session,
        files=files,
        timeout=timeout,
        message_id=message_id,
    )
    answer = ask(api_client_for(chosen_home()), question)
    sys.exit(print_answer(answer, as_json=as_json))


def _read_question(arguments: tuple[str, ...]) -> str:
    """What was written on the command line, then what comes on standard input."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.read().strip()
    text = "\n\n".join(part for part in (" ".join(arguments), piped) if part.strip())
    if not text:
        raise click.UsageError('Nothing was asked. Try: holdfast ask "What can you do?"')
    return text

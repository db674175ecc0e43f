"""`holdfast send`: a message or a file to a chat, out of a script or by hand."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option


@click.command("send")
@home_option
@json_option
@click.argument("to", metavar="PLATFORM:CHAT")
@click.argument("text", required=False)
@click.option(
    "--file",
    "path",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="Send this file; TEXT stands under it.",
)
@click.option("--account", default="", help="Which account of the platform sends it.")
@click.option("--thread", default="", help="The thread, or topic, of the chat.")
@click.option(
    "--wait",
    type=click.FloatRange(0, 600),
    is_flag=False,
    flag_value=60.0,
    metavar="[SECONDS]",
    help="Wait until the platform has it; exits with 1 if it never will.  [default: 60]",
)
@click.option("--key", default="", help="Sent once for each KEY, however often it is asked for.")
def command(as_json: bool, to: str, text: str | None, **given: object) -> None:
    """Send TEXT to a chat, as the agent would; - reads it from the standard input.

    \b
      holdfast send telegram:12345 "The backup is through."
      holdfast send slack:C0123ABCDEF --file report.pdf --wait
      df -h | holdfast send discord:1234567890 -

    The running gateway sends it, in order with all else that is said there, and tells the agent of
    that chat what was said. It is durable once this returns: the id that is printed names it.
    """
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not for --help
    from holdfast.cli.message_sent import send_message  # noqa: PLC0415 - as above

    send_message(api_client_for(chosen_home()), to, text, given, as_json=as_json)

"""`holdfast pairing`: who asks to be let in, letting them in by their code, and sending away."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option


@click.group("pairing")
@home_option
def command() -> None:
    """Let people in who wrote to a bot and are not in its allow list.

    They have got a code in their chat, and tell it to you: that is how you know who it is that
    you let in, whatever they call themselves. The running gateway is asked.

    \b
    Examples:
      holdfast pairing list
      holdfast pairing approve WX7K-2MPD
      holdfast pairing revoke telegram:default:12345
    """


@command.command("list")
@home_option
@json_option
def list_pairing(as_json: bool) -> None:
    """Who waits with a code, and who was let in."""
    from holdfast.cli.pairing_shown import print_pairing  # noqa: PLC0415 - not for --help
    from holdfast.server.local.client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    print_pairing(ControlClient(Paths(chosen_home())).get("/pairing"), as_json=as_json)


@command.command("approve")
@home_option
@json_option
@click.argument("code", nargs=-1, required=True)
def approve(as_json: bool, code: tuple[str, ...]) -> None:
    """Let in whoever has this code. They are told."""
    _decide("approve", {"code": " ".join(code)}, as_json=as_json)


@command.command("deny")
@home_option
@json_option
@click.argument("who")
def deny(as_json: bool, who: str) -> None:
    """Do not let somebody in. They hear nothing, and get no other code for an hour.

    WHO is platform:account:user, or the id of the person where that is enough.
    """
    _decide("deny", {"who": who}, as_json=as_json)


@command.command("revoke")
@home_option
@json_option
@click.argument("who")
def revoke(as_json: bool, who: str) -> None:
    """Send somebody away who was let in.

    WHO is platform:account:user, or the id of the person where that is enough.
    """
    _decide("revoke", {"who": who}, as_json=as_json)


def _decide(verb: str, body: dict[str, str], *, as_json: bool) -> None:
    from holdfast.cli.pairing_shown import print_decision  # noqa: PLC0415 - not for --help
    from holdfast.server.local.client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    told = ControlClient(Paths(chosen_home())).post(f"/pairing/{verb}", body)
    print_decision(told, as_json=as_json)

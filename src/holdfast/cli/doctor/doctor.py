"""`holdfast doctor`: what is wrong here, why it matters, and what to do."""

import sys

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option
from holdfast.system import exits


@click.command("doctor")
@home_option
@json_option
@click.option("--fix", is_flag=True, help="Mend what can be mended without asking.")
@click.option("--skip", multiple=True, metavar="CHECK", help="Leave a check out; may be repeated.")
def command(as_json: bool, fix: bool, skip: tuple[str, ...]) -> None:
    """Look at the home, its files, the configuration, the database, the sandbox and the model.

    Works with and without a running gateway, and changes nothing without --fix. The model is
    called, which a provider may charge for: `--skip model` leaves that out. Exits with 1 if
    something does not work.

    \b
    Examples:
      holdfast doctor
      holdfast doctor --skip model --fix
    """
    from holdfast.cli.doctor.examining import examine  # noqa: PLC0415 - imports every room

    healthy = examine(chosen_home(), fix=fix, skip=frozenset(skip), as_json=as_json)
    sys.exit(exits.OK if healthy else exits.FAILED)

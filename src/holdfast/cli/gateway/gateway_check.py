"""`holdfast gateway check`: would a gateway start here? Asked before each restart, too."""

import sys

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option, print_json
from holdfast.core.errors import HoldfastError


@click.command("check")
@home_option
@json_option
@click.option("--port", type=click.IntRange(0, 65535), help="As it would be given to `run`.")
@click.option("--schema", type=int, default=0, hidden=True)
def check_command(as_json: bool, port: int | None, schema: int) -> None:
    """Say whether a gateway could start here; nothing is started or changed.

    What is on disk is tried: the configuration, the code and all that it imports, the store's
    version, the model, memory providers, and the sandbox where one is required. Exits with 0 if
    it would start, 78 if the configuration is wrong, and 1 if anything else is.
    """
    try:
        _check_can_start(port, schema)
    except HoldfastError as error:
        if not as_json:
            raise
        from holdfast.cli.root import exit_code  # noqa: PLC0415 - as it is when it is raised

        print_json({"ok": False, "error": str(error)})
        sys.exit(exit_code(error))
    if as_json:
        print_json({"ok": True})
    else:
        click.echo(f"A gateway would start in {chosen_home()}.")


def _check_can_start(port: int | None, schema: int) -> None:
    overrides = {} if port is None else {"gateway.port": port}
    try:
        from holdfast.cli.gateway.fitness import check_can_start  # noqa: PLC0415 - what does not import is told
        from holdfast.config import load  # noqa: PLC0415 - as above

        check_can_start(load(chosen_home(), overrides=overrides), schema=schema)
    except HoldfastError:
        raise
    except Exception as error:  # the edge of the process: code on disk that does not even import
        raise HoldfastError(
            f"{type(error).__name__}: {error}. The installation is broken: install it again."
        ) from error

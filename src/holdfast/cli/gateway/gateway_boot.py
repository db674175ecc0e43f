"""`holdfast gateway boot`: the first process of a container."""

import sys

import click

from holdfast.cli.common.home import chosen_home, home_option


@click.command("boot")
@home_option
def boot_command() -> None:
    """Keep a gateway running, as the first process of a container.

    It starts one unless somebody stopped it, starts it again when it ends (after growing waits,
    where it fails), and passes signals on to it. Once it is stopped, or its configuration is
    wrong, this waits for `holdfast gateway start`. It ends with the container.
    """
    from holdfast.cli.gateway.booting import boot  # noqa: PLC0415 - not needed for --help

    sys.exit(boot(chosen_home()))

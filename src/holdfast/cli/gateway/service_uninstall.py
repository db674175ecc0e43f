"""`holdfast gateway uninstall`: the supervisor keeps this home's gateway no longer."""

import click

from holdfast.cli.common.home import chosen_home, home_option


@click.command("uninstall")
@home_option
@click.option("--dry-run", is_flag=True, help="Show what would be called and removed.")
def uninstall_command(dry_run: bool) -> None:
    """Stop the gateway and remove its unit; the home and all that is in it stay.

    Only a unit that `holdfast gateway install` wrote is removed.
    """
    from holdfast.cli.gateway.service_files import uninstall_service  # noqa: PLC0415 - not for --help

    uninstall_service(chosen_home(), dry_run=dry_run)

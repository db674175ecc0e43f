"""`holdfast gateway install`: have the gateway kept by this machine's supervisor."""

import click

from holdfast.cli.common.home import home_option


@click.command("install")
@home_option
@click.option("--user", "scope", flag_value="user", help="For you alone.  [default, but for root]")
@click.option("--system", "scope", flag_value="system", help="For the machine; needs root.")
@click.option("--run-as", metavar="USER", help="Whose rights a system unit's gateway has.")
@click.option("--name", default="", help="The unit's, beside another one: holdfast-NAME.")
@click.option("--force", is_flag=True, help="Write over a unit that is different.")
@click.option("--dry-run", is_flag=True, help="Show what would be written and called.")
def install_command(
    scope: str | None, run_as: str | None, name: str, force: bool, dry_run: bool
) -> None:
    """Write a unit for systemd or launchd, from the configuration, and have it started at boot.

    Nothing is started. A unit that is there and right is left alone; one that is different is
    shown, and written over with --force.

    \b
    Examples:
      holdfast gateway install
      sudo holdfast gateway install --system --run-as holdfast --home /var/lib/holdfast
      holdfast gateway install --home /srv/bot --name bot --dry-run
    """
    from holdfast.cli.gateway.service_files import install_service  # noqa: PLC0415 - not for --help
    from holdfast.cli.gateway.service_wish import InstallOptions  # noqa: PLC0415 - as above

    install_service(
        InstallOptions(scope=scope, run_as=run_as, name=name, force=force, dry_run=dry_run)
    )

"""`holdfast restore`: a backup takes the place of what is in a home."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option


@click.command("restore")
@home_option
@json_option
@click.argument("name", metavar="NAME|FILE", required=False)
@click.option("--salvage", is_flag=True, help="Instead, save what can be read of a damaged one.")
@click.option("--all", "everything", is_flag=True, help="Other files too where there are some.")
@click.option("-y", "--yes", "--force", "yes", is_flag=True, help="Do not ask.")
def command(as_json: bool, name: str | None, salvage: bool, everything: bool, yes: bool) -> None:
    """Put a backup back, by its NAME in `holdfast backup list`, `latest`, or a FILE.

    The gateway must not be running. The backup is verified first; then its database takes the
    place of the one that is there, in one step. What was there is set aside, never deleted
    (`state.db.before-restore-…`). Files that people sent, memory and the configuration are put
    back where they are missing; with --all also where they are not.

    \b
    Examples:
      holdfast gateway stop
      holdfast restore latest
      holdfast restore --salvage
    """
    from holdfast.cli import restoring  # noqa: PLC0415 - not needed for --help

    if salvage == (name is not None):
        raise click.UsageError("Name a backup (`latest` is the newest), or say --salvage.")
    home = chosen_home()
    if name is None:
        restoring.salvage_database(home, yes=yes, as_json=as_json)
    else:
        restoring.restore_backup(home, name, everything=everything, yes=yes, as_json=as_json)

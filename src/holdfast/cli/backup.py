"""`holdfast backup`: making backups of a home, looking at them, and removing old ones."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option


@click.group("backup")
@home_option
def command() -> None:
    """Back up conversations, memory, files that people sent, and the configuration.

    A running gateway is copied while it works; with none running, its home is locked for the
    while. `holdfast restore` puts a backup back. A gateway makes one a day by itself.

    \b
    Examples:
      holdfast backup create
      holdfast backup create --to /mnt/usb/ --keep 5
      holdfast backup verify --all
    """


@command.command("create")
@home_option
@json_option
@click.option("--to", metavar="DIR|FILE", help="Where to put it.  [default: backup.dir]")
@click.option("--include-workspaces", is_flag=True, help="With all files that agents made.")
@click.option("--include-secrets", is_flag=True, help="With .env and the folder secrets.")
@click.option("--keep", type=click.IntRange(1), help="Remove all but the newest so many there.")
@click.option("--gently", is_flag=True, hidden=True, help="At the lowest priority.")
def create_command(
    as_json: bool,
    to: str | None,
    include_workspaces: bool,
    include_secrets: bool,
    keep: int | None,
    gently: bool,
) -> None:
    """Make a backup, in one file, and verify it by opening it.

    Keys and tokens are left out unless you ask for them: they are not made by the gateway, and a
    backup may end up anywhere. The file is for its owner alone (mode 0600).
    """
    from holdfast.cli import backing_up  # noqa: PLC0415 - not needed for --help

    asked = backing_up.CreateBackupOptions(
        to=to,
        workspaces=include_workspaces,
        secrets=include_secrets,
        keep=keep,
        scheduled=gently,
    )
    backing_up.create_backup(chosen_home(), asked, gently=gently, as_json=as_json)


@command.command("list")
@home_option
@json_option
@click.option("--in", "folder", metavar="DIR", help="Look there.  [default: backup.dir]")
def list_backups(as_json: bool, folder: str | None) -> None:
    """The backups that are there, the newest first."""
    from holdfast.cli.backups_shown import print_backups  # noqa: PLC0415 - not needed for --help

    print_backups(chosen_home(), folder=folder, as_json=as_json)


@command.command("verify", short_help="Unpack backups, check their sums, open them.")
@home_option
@json_option
@click.argument("names", metavar="[NAME|FILE]...", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every one there is.")
def verify_command(as_json: bool, names: tuple[str, ...], every: bool) -> None:
    """Unpack backups, hold them against their sums and open their databases.

    Without a name, the newest. Exits with 1 if one of them is not good.
    """
    from holdfast.cli.backups_shown import verify_backups  # noqa: PLC0415 - not needed for --help

    verify_backups(chosen_home(), names, every=every, as_json=as_json)


@command.command("prune")
@home_option
@json_option
@click.option("--keep", type=click.IntRange(1), help="How many to keep.  [default: backup.keep]")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
def prune_command(as_json: bool, keep: int | None, dry_run: bool) -> None:
    """Remove all but the newest backups."""
    from holdfast.cli.backups_shown import prune_backups  # noqa: PLC0415 - not needed for --help

    prune_backups(chosen_home(), keep=keep, dry_run=dry_run, as_json=as_json)

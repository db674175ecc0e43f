"""A change of a file, shown to a person as the lines that go and come."""

from pathlib import Path

import click

from holdfast.config.difference import difference
from holdfast.core.address_passwords import without_passwords


def show_change(path: Path, before: str, after: str) -> bool:
    """False: nothing changes, and nothing was shown."""
    changes = difference(without_passwords(before), without_passwords(after))
    if changes:
        click.echo(f"\n{path}:")
        show_lines(changes)
    return bool(changes)


def show_lines(changes: list[str]) -> None:
    for line in changes:
        click.echo("  " + click.style(line, fg={"+": "green", "-": "red"}.get(line[0])))

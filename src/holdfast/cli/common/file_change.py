"""A change of a file, shown to a person as the lines that go and come."""

from pathlib import Path

import click

from holdfast.config.difference import diff_lines
from holdfast.core.address_passwords import mask_passwords


def print_file_diff(path: Path, before: str, after: str) -> bool:
    """False: nothing changes, and nothing was shown."""
    changes = diff_lines(mask_passwords(before), mask_passwords(after))
    if changes:
        click.echo(f"\n{path}:")
        print_diff_lines(changes)
    return bool(changes)


def print_diff_lines(changes: list[str]) -> None:
    for line in changes:
        click.echo("  " + click.style(line, fg={"+": "green", "-": "red"}.get(line[0])))

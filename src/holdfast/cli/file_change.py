"""A change of a file, shown to a person as the lines that go and come."""

import difflib
from pathlib import Path

import click


def show_change(path: Path, before: str, after: str) -> bool:
    """False: nothing changes, and nothing was shown."""
    changes = [*difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)][2:]
    if changes:
        click.echo(f"\n{path}:")
        for line in changes:
            click.echo("  " + click.style(line, fg={"+": "green", "-": "red"}.get(line[0])))
    return bool(changes)

"""Asking a person before what cannot be taken back, and refusing where nobody is there to ask."""

import sys

import click

from holdfast.core.errors import HoldfastError


def confirm(question: str) -> None:
    """Returns only where somebody said yes. A script that forgot to say so hears what to say."""
    try:
        click.confirm(question, abort=True, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        click.echo(err=True)  # the question stands there without its end
        raise HoldfastError("Nobody said yes, and nothing was done; --yes says so.") from None

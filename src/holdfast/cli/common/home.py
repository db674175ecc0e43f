"""`--home`: understood before and after the command's name, resolved when it is needed."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from holdfast.core.errors import HoldfastError

_HOME_KEY = "holdfast.home"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def home_option(command: _Command) -> _Command:
    option = click.option(
        "--home",
        metavar="DIR",
        expose_value=False,
        callback=_remember,
        help="Where the gateway keeps its data.  [default: $HOLDFAST_HOME or ~/.holdfast]",
    )
    return option(command)


def chosen_home() -> Path:
    """The home this invocation is about; it need not exist yet."""
    from holdfast.config import resolve_home  # noqa: PLC0415 - not needed for --help

    return resolve_home(click.get_current_context().meta.get(_HOME_KEY))


def home_flag(home: Path) -> str:
    """What a command that a person is told to type needs to be about this home; "": nothing."""
    from holdfast.config import resolve_home  # noqa: PLC0415 - not needed for --help

    try:
        usual = home == resolve_home()
    except HoldfastError:  # the environment names what can be nobody's home
        usual = False
    return "" if usual else f" --home {shlex.quote(str(home))}"


def _remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_HOME_KEY] = value

"""Options that several commands share (--home first of all), and their shell completion."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

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


BUSY_MODES = ("interrupt", "queue", "steer")
_COMPLETION_TIMEOUT = 1.0  # seconds that whoever presses Tab waits for a gateway


def require_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A name that is given is one: an empty variable of a script means no conversation."""
    if value is not None and not value.strip():
        raise click.BadParameter("a name is wanted, and this is empty.", ctx=ctx, param=param)
    return value


def complete_session(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names and ids of sessions; none where no gateway tells any."""
    from holdfast.cli.common.connection import fetch_session_names  # noqa: PLC0415 - only when Tab is pressed

    with ctx.scope():
        names = fetch_session_names()
    return [
        CompletionItem(name, help=title)
        for name, title in names.items()
        if name.startswith(incomplete)
    ]


def complete_viewer(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of viewers' tokens."""
    names = [str(each["name"]) for each in _ask_gateway(ctx, "/tokens").get("tokens", ())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_job(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Numbers of jobs, with what each is called."""
    from holdfast.cli.common.connection import fetch_job_names  # noqa: PLC0415 - only when Tab is pressed

    with ctx.scope():
        names = fetch_job_names()
    return [
        CompletionItem(number, help=name)
        for number, name in names.items()
        if number.startswith(incomplete)
    ]


def complete_config_version(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Numbers of the newest configurations, with what each of them changed."""
    kept = _ask_gateway(ctx, "/config/history?limit=20").get("versions", ())
    return [
        CompletionItem(str(each["number"]), help=", ".join(each["changed"]))
        for each in kept
        if str(each["number"]).startswith(incomplete)
    ]


def _ask_gateway(ctx: click.Context, path: str) -> Mapping[str, Any]:
    """What the gateway that runs answers; nothing where there is none."""
    from holdfast.server.local.control_client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    with ctx.scope():
        home = chosen_home()
    try:
        told: Mapping[str, Any] = ControlClient(Paths(home), timeout=_COMPLETION_TIMEOUT).get(path)
    except HoldfastError:
        return {}
    return told

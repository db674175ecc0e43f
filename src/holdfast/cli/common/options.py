"""Options that several commands share (--home first of all), and their shell completion."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from holdfast.core.errors import HoldfastError
from holdfast.core.text.translation import _

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
    """The home of this invocation; it need not exist yet."""
    from holdfast.config import resolve_home  # noqa: PLC0415 - not needed for --help

    return resolve_home(click.get_current_context().meta.get(_HOME_KEY))


def home_flag(home: Path) -> str:
    """The --home option that a suggested command needs; "": none."""
    from holdfast.config import resolve_home  # noqa: PLC0415 - not needed for --help

    try:
        is_default = home == resolve_home()
    except HoldfastError:  # HOLDFAST_HOME cannot be used
        is_default = False
    return "" if is_default else f" --home {shlex.quote(str(home))}"


def _remember(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_HOME_KEY] = value


BUSY_MODES = ("interrupt", "queue", "steer")
_COMPLETION_TIMEOUT = 1.0  # seconds


def require_name(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuses an empty name: an empty variable of a script is a mistake."""
    if value is not None and not value.strip():
        raise click.BadParameter(_("The name is empty."), ctx=ctx, param=param)
    return value


def complete_session(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names and ids of sessions; none without a running gateway."""
    from holdfast.cli.common.connection import fetch_session_names  # noqa: PLC0415 - only when Tab is pressed

    with ctx.scope():
        names = fetch_session_names()
    return [
        CompletionItem(name, help=title)
        for name, title in names.items()
        if name.startswith(incomplete)
    ]


def complete_token(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of created tokens."""
    names = [str(each["name"]) for each in _ask_gateway(ctx, "/tokens").get("tokens", ())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_job(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Numbers of jobs, with their names."""
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
    """Numbers of the newest configurations, with the keys that each changed."""
    versions = _ask_gateway(ctx, "/config/history?limit=20").get("versions", ())
    return [
        CompletionItem(str(each["number"]), help=", ".join(each["changed"]))
        for each in versions
        if str(each["number"]).startswith(incomplete)
    ]


def _ask_gateway(ctx: click.Context, path: str) -> Mapping[str, Any]:
    """The answer of the running gateway; empty without one."""
    from holdfast.server.local.control_client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    with ctx.scope():
        home = chosen_home()
    try:
        client = ControlClient(Paths(home), timeout=_COMPLETION_TIMEOUT)
        answer: Mapping[str, Any] = client.get(path)
    except HoldfastError:
        return {}
    return answer

"""Options that several commands share, and what the shell offers for them."""

from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

MODES = ("interrupt", "queue", "steer")
_PATIENCE = 1.0  # seconds that whoever presses Tab waits for a gateway


def named(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A name that is given is one: an empty variable of a script means no conversation."""
    if value is not None and not value.strip():
        raise click.BadParameter("a name is wanted, and this is empty.", ctx=ctx, param=param)
    return value


def session_named(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names and ids of sessions; none where no gateway tells any."""
    from holdfast.cli.common.names import session_names  # noqa: PLC0415 - only when Tab is pressed

    with ctx.scope():
        names = session_names()
    return [
        CompletionItem(name, help=title)
        for name, title in names.items()
        if name.startswith(incomplete)
    ]


def viewer_named(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of viewers' tokens."""
    names = [str(each["name"]) for each in _told(ctx, "/tokens").get("tokens", ())]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def job_numbered(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Numbers of jobs, with what each is called."""
    from holdfast.cli.common.job_numbers import job_names  # noqa: PLC0415 - only when Tab is pressed

    with ctx.scope():
        names = job_names()
    return [
        CompletionItem(number, help=name)
        for number, name in names.items()
        if number.startswith(incomplete)
    ]


def configuration_numbered(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Numbers of the newest configurations, with what each of them changed."""
    kept = _told(ctx, "/config/history?limit=20").get("configurations", ())
    return [
        CompletionItem(str(each["number"]), help=", ".join(each["changed"]))
        for each in kept
        if str(each["number"]).startswith(incomplete)
    ]


def _told(ctx: click.Context, path: str) -> Mapping[str, Any]:
    """What the gateway that runs answers; nothing where there is none."""
    from holdfast.cli.common.home import chosen_home  # noqa: PLC0415 - only when Tab is pressed
    from holdfast.core.errors import HoldfastError  # noqa: PLC0415 - as above
    from holdfast.server.local.client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    with ctx.scope():
        home = chosen_home()
    try:
        told: Mapping[str, Any] = ControlClient(Paths(home), timeout=_PATIENCE).get(path)
    except HoldfastError:
        return {}
    return told

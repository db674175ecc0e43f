"""Options that several commands share, and what the shell offers for them."""

from collections.abc import Mapping
from typing import Any

import click
from click.shell_completion import CompletionItem

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
    from holdfast.cli.common.names import fetch_session_names  # noqa: PLC0415 - only when Tab is pressed

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
    from holdfast.cli.common.job_numbers import fetch_job_names  # noqa: PLC0415 - only when Tab is pressed

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
    kept = _ask_gateway(ctx, "/config/history?limit=20").get("configurations", ())
    return [
        CompletionItem(str(each["number"]), help=", ".join(each["changed"]))
        for each in kept
        if str(each["number"]).startswith(incomplete)
    ]


def _ask_gateway(ctx: click.Context, path: str) -> Mapping[str, Any]:
    """What the gateway that runs answers; nothing where there is none."""
    from holdfast.cli.common.home import chosen_home  # noqa: PLC0415 - only when Tab is pressed
    from holdfast.core.errors import HoldfastError  # noqa: PLC0415 - as above
    from holdfast.server.local.client import ControlClient  # noqa: PLC0415 - as above
    from holdfast.system.paths import Paths  # noqa: PLC0415 - as above

    with ctx.scope():
        home = chosen_home()
    try:
        told: Mapping[str, Any] = ControlClient(Paths(home), timeout=_COMPLETION_TIMEOUT).get(path)
    except HoldfastError:
        return {}
    return told

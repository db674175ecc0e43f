"""Options that several commands share, and what the shell offers for them."""

import click
from click.shell_completion import CompletionItem

MODES = ("interrupt", "queue", "steer")


def session_named(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names and ids of sessions; none where no gateway tells any."""
    from holdfast.cli.names import session_names  # noqa: PLC0415 - only when Tab is pressed

    with ctx.scope():
        names = session_names()
    return [
        CompletionItem(name, help=title)
        for name, title in names.items()
        if name.startswith(incomplete)
    ]

"""`holdfast audit`: who asked, who allowed it, what ran, with what effect."""

import click
from click.shell_completion import CompletionItem

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.options import complete_session
from holdfast.cli.common.output import json_option

_FORMATS = ("jsonl", "csv")


def _complete_kind(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from holdfast.core.people.audit import audit_kinds  # noqa: PLC0415 - only when Tab is pressed

    return [CompletionItem(each) for each in audit_kinds() if each.startswith(incomplete)]


@click.group("audit", invoke_without_command=True)
@home_option
@json_option
@click.option("-f", "--follow", is_flag=True, help="Go on with what is added from now on.")
@click.option(
    "-n", "--lines", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many."
)
@click.option(
    "--kind",
    default="",
    metavar="KIND",
    shell_complete=_complete_kind,
    help="Only these: tool, approval.ended …",
)
@click.option("--actor", default="", metavar="WHO", help="Only whose name has this in it.")
@click.option(
    "--session",
    default="",
    metavar="ID",
    shell_complete=complete_session,
    help="Only what belongs to this session.",
)
@click.option("--text", default="", metavar="WORDS", help="Only what has this anywhere.")
@click.option("--since", default="", metavar="AGO", help="Only the last so long: 2h, 3 days.")
@click.pass_context
def command(
    context: click.Context,
    as_json: bool,
    follow: bool,
    lines: int,
    kind: str,
    actor: str,
    session: str,
    text: str,
    since: str,
) -> None:
    """Read the audit: who asked, who allowed it, what was done, and with what effect.

    The newest comes last. With no gateway running, the store is read under its lock.

    \b
    Examples:
      holdfast audit --kind tool --actor alice --since 2h
      holdfast audit --follow
      holdfast audit export --format csv -o audit.csv
      holdfast audit verify
    """
    if context.invoked_subcommand is not None:
        return
    from holdfast.cli import auditing  # noqa: PLC0415 - not needed for --help

    wanted = auditing.build_query(kind=kind, actor=actor, session=session, text=text, since=since)
    auditing.print_audit(chosen_home(), wanted, lines=lines, follow=follow, as_json=as_json)


@command.command("export")
@home_option
@click.option(
    "--format", "as_format", type=click.Choice(_FORMATS), default="jsonl", show_default=True
)
@click.option("-o", "--output", metavar="FILE", help="A new file, for its owner alone.")
def export(as_format: str, output: str | None) -> None:
    """Write out all of it, the oldest first. That it was taken along is a row of it.

    \b
      holdfast audit export > audit.jsonl
      holdfast audit export --format csv -o audit.csv
    """
    from holdfast.cli import audit_export  # noqa: PLC0415 - not needed for --help

    audit_export.export_audit(chosen_home(), as_format=as_format, output=output)


@command.command("verify")
@home_option
@json_option
def verify(as_json: bool) -> None:
    """Check that every row is as it was written.

    Exits with 1 where one was changed, taken out or put in, and names it.
    """
    from holdfast.cli import auditing  # noqa: PLC0415 - not needed for --help

    if not auditing.verify_audit(chosen_home(), as_json=as_json):
        raise SystemExit(1)

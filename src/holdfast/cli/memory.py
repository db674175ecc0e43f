"""`holdfast memory`: what is remembered about people, shown and changed."""

import click

from holdfast.cli.common.home import chosen_home, home_option
from holdfast.cli.common.output import json_option

_owner_option = click.option(
    "--owner",
    metavar="OWNER",
    help="Whose notes, as `show` names them; may be left out where only one has any.",
)


@click.group("memory")
@home_option
def command() -> None:
    """Show, add, edit or forget what is remembered.

    Notes belong to a person (person:PLATFORM:ACCOUNT:ID; whoever uses the page, the API or this
    command line is person:owner) or to a place that people share. The running gateway is asked;
    with none running, `show` reads its store under its lock.

    \b
    Examples:
      holdfast memory show
      holdfast memory add "Answers in German, please."
      holdfast memory forget 3
    """


@command.command("show")
@home_option
@json_option
@_owner_option
def show(as_json: bool, owner: str | None) -> None:
    """All notes, or those of one owner."""
    from holdfast.cli.notes import print_notebooks  # noqa: PLC0415 - not needed for --help

    print_notebooks(chosen_home(), owner=owner, as_json=as_json)


@command.command("add")
@home_option
@_owner_option
@click.option(
    "--about",
    type=click.Choice(["person", "world"]),
    default="person",
    show_default=True,
    help="What the note is about: whoever owns it, or anything else.",
)
@click.argument("text")
def add(owner: str | None, about: str, text: str) -> None:
    """Add a note."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help
    from holdfast.cli.notes import add_note  # noqa: PLC0415 - as above

    add_note(api_client_for(chosen_home()), owner=owner, text=text, about=about)


@command.command("edit", short_help="Change what a note says.")
@home_option
@_owner_option
@click.argument("number", type=click.IntRange(1))
@click.argument("text", required=False)
def edit(owner: str | None, number: int, text: str | None) -> None:
    """Say what note NUMBER is to say: TEXT, or, without it, what your editor is left with."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help
    from holdfast.cli.notes import edit_note  # noqa: PLC0415 - as above

    edit_note(api_client_for(chosen_home()), owner=owner, number=number, text=text)


@command.command("forget")
@home_option
@_owner_option
@click.argument("numbers", metavar="NUMBER...", type=click.IntRange(1), nargs=-1, required=True)
def forget(owner: str | None, numbers: tuple[int, ...]) -> None:
    """Forget notes, by number."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help
    from holdfast.cli.notes import forget_notes  # noqa: PLC0415 - as above

    forget_notes(api_client_for(chosen_home()), owner=owner, numbers=numbers)


@command.command("clear")
@home_option
@_owner_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
def clear(owner: str | None, yes: bool) -> None:
    """Forget all notes of an owner."""
    from holdfast.cli.common.gateway import api_client_for  # noqa: PLC0415 - not needed for --help
    from holdfast.cli.notes import forget_all_notes  # noqa: PLC0415 - as above

    forget_all_notes(api_client_for(chosen_home()), owner=owner, yes=yes)

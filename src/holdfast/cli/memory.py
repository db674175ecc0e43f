"""`holdfast memory`: shows, adds, edits and forgets notes."""

from pathlib import Path
from urllib.parse import urlencode

import click
import msgspec

from holdfast.cli.common.connection import api_client_for, query_api
from holdfast.cli.common.options import chosen_home, home_option
from holdfast.cli.common.output import confirm, json_option, print_json, print_table, sanitize
from holdfast.core.errors import HoldfastError
from holdfast.core.people.memory import NoteTopic
from holdfast.core.text.locale_format import format_time
from holdfast.core.text.translation import _, _n
from holdfast.server.api.client import ApiClient
from holdfast.server.api.views.memory import NewNote, NotebookList, NotebookView, NoteView

_owner_option = click.option(
    "--owner",
    metavar="OWNER",
    help="Owner of the notes, as in `show`; needed if several have notes.",
)


@click.group("memory")
@home_option
def command() -> None:
    """Show, add, edit or forget notes about people and chats.

    Notes belong to a user (person:PLATFORM:ACCOUNT:ID; the user of the page, the API or this
    command line is person:owner) or to a shared chat. `show` also works without a running gateway.

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
    """Show all notes, or those of one owner."""
    print_notebooks(chosen_home(), owner=owner, as_json=as_json)


@command.command("add")
@home_option
@_owner_option
@click.option(
    "--about",
    type=click.Choice(["person", "world"]),
    default="person",
    show_default=True,
    help="What the note is about: its owner, or anything else.",
)
@click.argument("text")
def add(owner: str | None, about: str, text: str) -> None:
    """Add a note."""
    add_note(api_client_for(chosen_home()), owner=owner, text=text, about=about)


@command.command("edit", short_help="Change what a note says.")
@home_option
@_owner_option
@click.argument("number", type=click.IntRange(1))
@click.argument("text", required=False)
def edit(owner: str | None, number: int, text: str | None) -> None:
    """Change note NUMBER to TEXT; without TEXT, in your editor."""
    edit_note(api_client_for(chosen_home()), owner=owner, number=number, text=text)


@command.command("forget")
@home_option
@_owner_option
@click.argument("numbers", metavar="NUMBER...", type=click.IntRange(1), nargs=-1, required=True)
def forget(owner: str | None, numbers: tuple[int, ...]) -> None:
    """Forget notes, by number."""
    forget_notes(api_client_for(chosen_home()), owner=owner, numbers=numbers)


@command.command("clear")
@home_option
@_owner_option
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def clear(owner: str | None, yes: bool) -> None:
    """Forget all notes of an owner."""
    forget_all_notes(api_client_for(chosen_home()), owner=owner, yes=yes)


_PAGE_SIZE = 1000
OPERATOR_NOTEBOOK = "person:owner"  # the holder of the token of the gateway, as this command line


def print_notebooks(home: Path, *, owner: str | None, as_json: bool) -> None:
    notebooks = query_api(home, _fetch_all_pages, purpose="holdfast memory")
    if owner is not None:
        notebooks = [notebook for notebook in notebooks if notebook.owner == owner]
    if as_json:
        print_json(msgspec.to_builtins(notebooks))
    elif not notebooks:
        click.echo(_("There are no notes."))
    for notebook in () if as_json else notebooks:
        _print_notebook(notebook)


def add_note(api: ApiClient, *, owner: str | None, text: str, about: str) -> None:
    note = NewNote(owner=owner or OPERATOR_NOTEBOOK, text=text, topic=NoteTopic(about))
    notebook = api.post("/memory", note, NotebookView)
    click.echo(_("The note is added; {usage}.").format(usage=_usage_text(notebook)))


def edit_note(api: ApiClient, *, owner: str | None, number: int, text: str | None) -> None:
    notebook = _find_notebook(api, owner)
    note = _find_note(notebook, number)
    new_text = click.edit(note.text) if text is None else text
    if new_text is None or not new_text.strip() or new_text.strip() == note.text:
        click.echo(_("Nothing was changed."))
        return
    changed = NewNote(owner=notebook.owner, id=number, text=new_text.strip(), topic=note.topic)
    notebook = api.post("/memory", changed, NotebookView)
    click.echo(
        _("Note {number} is changed; {usage}.").format(number=number, usage=_usage_text(notebook))
    )


def forget_notes(api: ApiClient, *, owner: str | None, numbers: tuple[int, ...]) -> None:
    notebook = _find_notebook(api, owner)
    for number in numbers:
        _find_note(notebook, number)  # raises before any note is forgotten
    for number in numbers:
        api.request("DELETE", f"/memory?{urlencode({'owner': notebook.owner, 'id': number})}")
        click.echo(_("Note {number} is forgotten.").format(number=number))


def forget_all_notes(api: ApiClient, *, owner: str | None, yes: bool) -> None:
    notebook = _find_notebook(api, owner)
    if not yes:
        n = len(notebook.notes)
        question = _n("Forget the only note of {owner}?", "Forget all {n} notes of {owner}?", n)
        confirm(question.format(n=n, owner=notebook.owner))
    api.request("DELETE", f"/memory?{urlencode({'owner': notebook.owner})}")
    click.echo(_("All notes of {owner} are forgotten.").format(owner=notebook.owner))


def _find_note(notebook: NotebookView, number: int) -> NoteView:
    for note in notebook.notes:
        if note.id == number:
            return note
    raise HoldfastError(
        "{owner} has no note {number}. `holdfast memory show` lists all notes.",
        owner=notebook.owner,
        number=number,
    )


def _find_notebook(api: ApiClient, owner: str | None) -> NotebookView:
    """The notebook of `owner`, or the only one; the owner is never guessed."""
    if owner is not None:
        return api.get("/memory", NotebookList, {"owner": owner}).notebooks[0]
    notebooks = api.get("/memory", NotebookList, {"limit": 2}).notebooks
    if len(notebooks) == 1:
        return notebooks[0]
    if not notebooks:
        raise HoldfastError("There are no notes to change.")
    raise HoldfastError(
        "Several owners have notes. Choose one with --owner; `holdfast memory show` lists them."
    )


def _fetch_all_pages(api: ApiClient) -> list[NotebookView]:
    found: list[NotebookView] = []
    more = True
    while more:
        query = {"limit": _PAGE_SIZE, "offset": len(found)}
        page = api.get("/memory", NotebookList, query)
        found, more = [*found, *page.notebooks], page.more
    return found


def _print_notebook(notebook: NotebookView) -> None:
    usage = _usage_text(notebook)
    if notebook.off:
        usage = _("{usage}, memory is off").format(usage=usage)
    click.echo(click.style(f"{sanitize(notebook.owner)} ({usage})", bold=True))
    if notebook.notes:
        print_table(
            (_("N"), _("ABOUT"), _("CHANGED"), _("NOTE")), [*map(_note_row, notebook.notes)]
        )


def _note_row(note: NoteView) -> tuple[str, ...]:
    return str(note.id), note.topic, format_time(note.changed_at), sanitize(note.text)


def _usage_text(notebook: NotebookView) -> str:
    return _("{used} of {max_chars} characters used").format(
        used=notebook.used, max_chars=notebook.max_chars
    )

"""/memory: see and change what is remembered about the person, or turn it off."""

from collections.abc import Callable, Sequence

from holdfast.agent.memory.notes import InvalidNote, Notes, edit_refusal, format_notes
from holdfast.core.commands import COMMANDS_BY_NAME, CommandRequest
from holdfast.core.people.memory import NoteEdit, NoteEditResult, OwnerId, memory_owner
from holdfast.core.ports.store_queries import GetSession
from holdfast.core.sessions.session import CommandOutcome, NoteEditsWithReply
from holdfast.core.text.locale_format import format_number
from holdfast.core.text.translation import N_, _, _n
from holdfast.gateway.commands.context import MemoryContext
from holdfast.gateway.commands.reply import in_this_language, send_effect_reply, send_reply

LATER_TEXT = N_("This applies to new conversations; open ones keep what they started with.")
_CONFIRM_CLEAR = "yes"


async def cmd_memory(context: MemoryContext, request: CommandRequest) -> None:
    """Show or change the notes. A change commits with the reply."""
    verb, _space, rest = request.argument.partition(" ")
    notes = context.memory.notes
    try:
        done = await _run_verb(context, await _owner(context, request), verb, rest.strip())
    except InvalidNote as error:
        done = error.for_person()
    if isinstance(done, str):
        await send_reply(context.replies, request.row, done)
        return

    def on_committed(outcome: CommandOutcome) -> None:
        for edited in outcome.note_edits:
            notes.on_changed(edited)

    await send_effect_reply(context.replies, request.row, notes=done, on_committed=on_committed)


async def _owner(context: MemoryContext, request: CommandRequest) -> OwnerId:
    """The owner of the notes of this conversation, by the route that opened it."""
    session = (
        await context.store.read(GetSession(session_id=request.session_id))
        if request.session_id
        else None
    )
    route = session.route if session else request.row.route
    return memory_owner(route, request.row.principal)


async def _run_verb(
    context: MemoryContext, owner: OwnerId, verb: str, rest: str
) -> str | NoteEditsWithReply:
    """The reply, or the change that words it."""
    notes = context.memory.notes
    match verb.lower():
        case "" | "show":
            return await _show(context, owner)
        case "clear":
            return await _clear(notes, owner, rest)
        case "add":
            return _add(notes, owner, rest)
        case "edit":
            return _edit(notes, owner, rest)
        case "forget":
            return _forget(notes, owner, rest)
        case "off":
            off = _("Memory is off: new conversations start without it, and nothing is added.")
            return _single_edit(notes.switch(owner, off=True), lambda _edited: off)
        case "on":
            on = _("Memory is on.")
            return _single_edit(notes.switch(owner, off=False), lambda _edited: on)
        case _:
            return COMMANDS_BY_NAME["memory"].unknown_argument(verb)


async def _show(context: MemoryContext, owner: OwnerId) -> str:
    notes = context.memory.notes
    notebook = await notes.notebook(owner)
    lines = [*format_notes(notebook)]
    if lines:
        used = _("{used} of {limit} characters used.")
        lines.append(
            used.format(used=format_number(notebook.used), limit=format_number(notes.max_chars))
        )
    elif owner.startswith("person:"):
        lines = [_("There are no notes about you.")]
    else:
        lines = [_("There are no notes about this chat.")]
    others = [name for name in context.memory.provider_names if name != "notes"]
    if others:
        lines.append(_("Other memory providers in use: {names}.").format(names=", ".join(others)))
    if notebook.off:
        lines.append(_("Memory is off: agents see none of this, and nothing is added."))
    return "\n".join(lines)


def _add(notes: Notes, owner: OwnerId, text: str) -> NoteEditsWithReply:
    def reply_text(edited: NoteEditResult) -> str:
        done = _("Saved as note {number}.").format(number=edited.note.id if edited.note else "?")
        return _edited_text(notes, edited, done)

    return _single_edit(notes.add(owner, text), reply_text)


def _edit(notes: Notes, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
    number, _space, text = rest.partition(" ")
    if not _is_number(number) or not text.strip():
        return _("Give the number and the new text of the note, for example: {command}").format(
            command="/memory edit 3 Speaks Danish"
        )
    return _single_edit(
        notes.replace(owner, int(number), text),
        lambda edited: _edited_text(
            notes, edited, _("Note {number} is changed.").format(number=number)
        ),
    )


def _forget(notes: Notes, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
    numbers = rest.replace(",", " ").split()
    if not numbers or not all(map(_is_number, numbers)):
        return _("Give the numbers of the notes, for example: {command}").format(
            command="/memory forget 3"
        )
    distinct = dict.fromkeys(map(int, numbers))
    edits = tuple(notes.remove(owner, number) for number in distinct)
    return NoteEditsWithReply(edits=edits, reply=in_this_language(_forgotten_text))


async def _clear(notes: Notes, owner: OwnerId, rest: str) -> str | NoteEditsWithReply:
    count = len((await notes.notebook(owner)).notes)
    if not count:
        return _("There are no notes.")
    if rest.lower() != _CONFIRM_CLEAR:
        return _n(
            "This deletes {n} note permanently. To confirm, send {command}",
            "This deletes all {n} notes permanently. To confirm, send {command}",
            count,
        ).format(n=count, command=f"/memory clear {_CONFIRM_CLEAR}")
    return _single_edit(notes.clear(owner), lambda _edited: _cleared_text(count))


def _cleared_text(count: int) -> str:
    done = _n("Deleted {n} note.", "Deleted all {n} notes.", count).format(n=count)
    return f"{done} {_(LATER_TEXT)}"


def _edited_text(notes: Notes, edited: NoteEditResult, done: str) -> str:
    return edit_refusal(edited, max_chars=notes.max_chars) or f"{done} {_(LATER_TEXT)}"


def _single_edit(edit: NoteEdit, reply_text: Callable[[NoteEditResult], str]) -> NoteEditsWithReply:
    def reply(edited: Sequence[NoteEditResult]) -> str:
        return reply_text(edited[0])

    return NoteEditsWithReply(edits=(edit,), reply=in_this_language(reply))


def _forgotten_text(edited: Sequence[NoteEditResult]) -> str:
    deleted = [str(each.note.id) for each in edited if each.note is not None]
    if not deleted:
        return _("There is no note with that number. /memory lists the notes.")
    done = _("Deleted: {numbers}.").format(numbers=", ".join(deleted))
    return f"{done} {_(LATER_TEXT)}"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 9
